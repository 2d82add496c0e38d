// The clients of docs/clients and docs/frontend.md on connections that are cut at random, in the middle of messages, or
// that fall silent: each receives each event once and in order, as one whose connection holds. And after the server is
// started anew they go on, or learn that they cannot.
//
//   usage: node drops.js ORIGIN SEQUENCE SCRIPTS
//
// SEQUENCE is the number of the last event of the mempool, SCRIPTS are scripts to watch, in hex with commas. It asks in
// lines of JSON, and reads one line for each:
//
//   { live: STEPS }   something happens: { sequence, tip }
//   "end"             two blocks, of which the second has a coinbase only: { sequence, tip, coinbase }
//   "restart"         the server stops, and another run of it begins: { origin }
//   { seen: … }       last of all how many events there were, and of each client how many connections were lost; to this
//                     there is no answer

import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import net from 'node:net';
import { ApolloClient, ApolloLink, gql, InMemoryCache } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { createClient } from 'graphql-ws';
import { pipe, subscribe } from 'wonka';
import WebSocket from 'ws';
import { documents, load } from './clients.js';

// as in browsers, and in Node.js from version 22
globalThis.WebSocket ??= WebSocket;

const [origin, sequence, scripts] = process.argv.slice(2);
const watch = { scripts: scripts.split(',') };

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function ask(question) {
  say(question);
  return JSON.parse((await lines.next()).value);
}

const BLOCK = 'seq cursor block { hash previousBlock { hash } }';
const STREAMS = {
  mempool: { query: documents[0], variables: {} },
  chain: {
    query: `subscription ($after: String) { chainEvents(after: $after) { ... on BlockConnected { ${BLOCK} } ... on BlockDisconnected { ${BLOCK} } __typename } }`,
    variables: {},
  },
  ledger: {
    query: `subscription ($after: String, $watch: LedgerInput!) {
      ledgerEvents(after: $after, watch: $watch, depths: [1, 2, 4]) { seq cursor kind depth reason replacedByTxid entry { net transaction { txid } } }
    }`,
    variables: { watch },
  },
};

async function until(what, holds) {
  for (let waited = 0; !(await holds()); waited += 5) {
    assert.ok(waited < 60_000, `${what} in time`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Numbers that a seed leads to, from 0 to below 1 (mulberry32). */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** A way to the server on which connections are lost, each after as many bytes from the server as chance says. */
class Proxy {
  drops = 0;
  isLossy = true;
  #target = new URL(origin);
  #server = net.createServer({ allowHalfOpen: true }, (client) => this.#pass(client));
  #connections = new Set();

  /** `ways` are those in which connections are lost: reset, end, silence. */
  static async start(seed, ways) {
    const proxy = new Proxy();
    Object.assign(proxy, { chance: random(seed), ways });
    await new Promise((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get origin() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  #pass(client) {
    const server = net.connect(this.#target.port, this.#target.hostname);
    const close = () => {
      this.#connections.delete(close);
      client.destroy();
      server.destroy();
    };
    this.#connections.add(close);
    // the opening of a websocket takes some 200 bytes, and an event as many
    let left = 100 + Math.floor(this.chance() * 10_000);
    const way = this.ways[Math.floor(this.chance() * this.ways.length)];
    let isLost = false;
    const lose = (rest) => {
      isLost = true;
      this.drops += 1;
      if (way === 'reset') client.resetAndDestroy();
      if (way === 'end') client.end(rest);
      // one that is silent is ended by the client
      if (way !== 'silence') close();
    };
    client.on('data', (chunk) => !isLost && server.write(chunk));
    server.on('data', (chunk) => {
      if (isLost) return;
      if (!this.isLossy || chunk.length <= left) {
        client.write(chunk);
        left -= chunk.length;
      } else if (way === 'end') {
        lose(chunk.subarray(0, left));
      } else {
        client.write(chunk.subarray(0, left), () => lose());
        isLost = true;
      }
    });
    for (const socket of [client, server]) socket.on('error', close).on('close', close).on('end', () => !isLost && close());
  }

  /** Loses no more connections, and those that are silent now. */
  hold(target) {
    this.isLossy = false;
    if (target) this.#target = new URL(target);
    for (const close of [...this.#connections]) close();
  }
}

/** The times that the examples wait, and shorter ones for this test. */
const SHORTER = [
  ['[500, 30_000]', '[20, 200]'],
  ['keepAlive: 10_000', 'keepAlive: 100'],
  ['answerWithin = 5_000', 'answerWithin = 1_000'],
];
/** What no example contained so far, which is what `quick` did not change. */
const notFound = new Set(['127.0.0.1:8080', ...SHORTER.map(([usual]) => usual)]);

/** Points an example at this server, and shortens its waits. */
function quick(to) {
  return (text) => {
    for (const usual of [...notFound]) if (text.includes(usual)) notFound.delete(usual);
    const pointed = text.replaceAll('127.0.0.1:8080', new URL(to).host);
    return SHORTER.reduce((text, [usual, shorter]) => text.replace(usual, shorter), pointed);
  };
}

/** A client of graphql-ws that comes back by itself. */
const persistent = (proxy) =>
  createClient({
    url: `${proxy.origin.replace('http', 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    retryAttempts: Infinity,
    retryWait: () => new Promise((resolve) => setTimeout(resolve, 10)),
    shouldRetry: () => true,
  });

/** What each client subscribes with: (request, sink) => how it ends. */
const overApollo = (client) => ({ query, variables }, sink) => {
  const events = client.subscribe({ query: gql(query), variables, fetchPolicy: 'no-cache' });
  const subscription = events.subscribe({
    next: ({ data, error }) => (error ? sink.error(error.errors ?? error) : sink.next({ data })),
    error: sink.error,
    complete: sink.complete,
  });
  return () => subscription.unsubscribe();
};

const ALL_WAYS = ['reset', 'end', 'silence'];
// neither graphql-sse nor a client without signs of life notices silence
const LOUD_WAYS = ['reset', 'end'];

const CLIENTS = {
  'Apollo Client': {
    ways: ALL_WAYS,
    connect: async (proxy) => overApollo((await load('apollo/client.ts', quick(proxy.origin))).client),
  },
  'Apollo Client, on a socket that comes back by itself': {
    ways: LOUD_WAYS,
    async connect(proxy) {
      const { ResumeLink } = await load('apollo/resume-link.ts', quick(proxy.origin));
      const link = ApolloLink.from([new ResumeLink(), new GraphQLWsLink(persistent(proxy))]);
      return overApollo(new ApolloClient({ cache: new InMemoryCache(), link }));
    },
  },
  urql: {
    ways: ALL_WAYS,
    async connect(proxy) {
      const { client } = await load('urql/client.ts', quick(proxy.origin));
      return ({ query, variables }, sink) => {
        const receive = ({ data, error }) => (error ? sink.error(error.networkError ?? error.graphQLErrors) : sink.next({ data }));
        return pipe(client.subscription(query, variables), subscribe(receive)).unsubscribe;
      };
    },
  },
  'graphql-ws': {
    ways: ALL_WAYS,
    connect: async (proxy) => (await load('graphql-ws.ts', quick(proxy.origin))).follow,
  },
  'graphql-ws, which comes back by itself': {
    ways: LOUD_WAYS,
    async connect(proxy) {
      const { resume } = await load('resume.ts', quick(proxy.origin));
      const client = persistent(proxy);
      return (request, sink) => resume((request, sink) => client.subscribe(request, sink), request, sink);
    },
  },
  'graphql-sse': {
    ways: LOUD_WAYS,
    connect: async (proxy) => (await load('graphql-sse.ts', quick(proxy.origin))).follow,
  },
};

/** A reader of all streams, and what it received. */
function read(follow, firsts = {}) {
  const reader = { mempool: [], chain: [], ledger: [], errors: [] };
  const fail = (name, errors) => {
    for (const error of [errors].flat()) reader.errors.push([name, error.extensions?.code ?? `${error.code} ${error.reason ?? error.message}`]);
  };
  for (const [name, { query, variables }] of Object.entries(STREAMS)) {
    const request = { query, variables: { ...variables, ...(firsts[name] && { after: firsts[name].cursor }) } };
    follow(request, {
      next({ data, errors }) {
        if (data) reader[name].push(Object.values(data)[0]);
        else fail(name, errors);
      },
      error: (error) => fail(name, error),
      complete: () => {},
    });
  }
  return reader;
}

/** The blocks of the main chain after these events, each of which must fit what came before. */
function applied(events, blocks = []) {
  const chain = [...blocks];
  for (const { __typename: what, block } of events) {
    if (what === 'BlockConnected') {
      if (chain.length > 0) assert.equal(block.previousBlock.hash, chain.at(-1), 'a block joins the newest');
      chain.push(block.hash);
    } else {
      assert.equal(chain.pop() ?? block.hash, block.hash, 'the newest block leaves');
    }
  }
  return chain;
}

const isLast = (coinbase) => ({ kind, entry }) => kind === 'CONFIRMED' && entry?.transaction.txid === coinbase;
/** Events without what some clients add, and without some of what they ask for. */
const reported = (events, ...without) =>
  JSON.parse(JSON.stringify(events, (field, value) => (['__typename', ...without].includes(field) ? undefined : value)));

// one whose connection holds
const direct = createClient({ url: `${origin.replace('http', 'ws')}/graphql`, webSocketImpl: WebSocket, retryAttempts: 0 });
const reference = read((request, sink) => direct.subscribe(request, sink));
const listening = async () => {
  const body = JSON.stringify({ query: '{ server { subscriptionCount } }' });
  const response = await fetch(`${origin}/graphql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return (await response.json()).data.server.subscriptionCount;
};
await until('the reference listens', async () => (await listening()) === 3);

// one that comes back by itself and does not resume, to see that events are lost on the way
const forgetful = { proxy: await Proxy.start(7, LOUD_WAYS), reported: [] };
const plain = new ApolloClient({ cache: new InMemoryCache(), link: new GraphQLWsLink(persistent(forgetful.proxy)) });
overApollo(plain)(STREAMS.mempool, { next: ({ data }) => forgetful.reported.push(data.mempoolEvents), error: assert.fail, complete: () => {} });

await until('the first events', async () => {
  await ask({ live: 1 });
  return ['mempool', 'chain', 'ledger'].every((stream) => reference[stream].length > 0);
});
const firsts = Object.fromEntries(Object.keys(STREAMS).map((stream) => [stream, reference[stream][0]]));

const readers = [];
for (const [name, { ways, connect }] of Object.entries(CLIENTS)) {
  const proxy = await Proxy.start(readers.length, ways);
  readers.push({ name, proxy, ...read(await connect(proxy), firsts) });
}

/** How many connections each loses at least, of how many events, and by how many it may be behind. */
const [DROPS, EVENTS, LAG] = [20, 250, 40];
for (let steps = 0; reference.mempool.length < EVENTS || readers.some(({ proxy }) => proxy.drops < DROPS); steps += 1) {
  assert.ok(steps < 2_000, `connections are lost: ${readers.map(({ name, proxy }) => `${name} ${proxy.drops}`)}`);
  await ask({ live: 1 + (steps % 4) });
  for (const { name, errors } of readers) assert.deepEqual(errors, [], name);
  await until('the slowest client', () => readers.every(({ mempool }) => mempool.length + LAG > reference.mempool.length));
}
for (const { proxy } of readers) proxy.hold();
forgetful.proxy.hold();
const end = await ask('end');

const count = end.sequence - Number(sequence);
const isAll = ({ mempool, chain, ledger }, first) =>
  mempool.length === count - first && chain.at(-1)?.block.hash === end.tip && ledger.some(isLast(end.coinbase));
await until('the reference has all events', () => isAll(reference, 0));
const upToEnd = (events) => events.slice(0, events.findIndex(isLast(end.coinbase)) + 1);
for (const reader of readers) {
  const { name, errors } = reader;
  try {
    await until(`${name} has all events`, () => errors.length > 0 || isAll(reader, 1));
    assert.deepEqual(errors, []);
    assert.deepEqual(reported(reader.mempool), reported(reference.mempool.slice(1)));
    assert.deepEqual(reported(upToEnd(reader.ledger), 'cursor'), reported(upToEnd(reference.ledger).slice(1), 'cursor'));
    assert.equal(applied([firsts.chain, ...reader.chain]).at(-1), end.tip);
    for (const stream of Object.keys(STREAMS)) {
      const numbers = reader[stream].map(({ seq }) => seq);
      assert.deepEqual(numbers, numbers.map((_, index) => firsts[stream].seq + 1 + index), `numbers of the stream ${stream}`);
    }
  } catch (error) {
    throw new Error(`${name}, after ${reader.proxy.drops} drops`, { cause: error });
  }
}
assert.ok(forgetful.proxy.drops > 0 && forgetful.reported.length < count, 'without resuming events are lost');

assert.deepEqual([...notFound], [], 'the examples contain what is changed for this test');

// another run of the server does not have the mempool's events of the one before
const before = readers.map(({ chain, ledger }) => [chain.length, ledger.length]);
await direct.dispose();
const { origin: next } = await ask('restart');
for (const { proxy } of readers) proxy.hold(next);
for (const { name, errors } of readers) {
  await until(`${name} is reported that its cursor has expired`, () => errors.length > 0);
  assert.deepEqual(errors, [['mempool', 'CURSOR_EXPIRED']], name);
}
const last = await ask('end');
for (const [index, { name, chain, ledger, errors }] of readers.entries()) {
  // the gap comes behind the blocks if the client was back after them
  const kinds = () => ledger.slice(before[index][1]).map(({ kind }) => kind);
  const isWhole = () => ledger.some(isLast(last.coinbase)) && kinds().includes('GAP_END');
  await until(`${name} goes on`, () => chain.at(-1).block.hash === last.tip && isWhole());
  assert.equal(applied(chain.slice(before[index][0]), [end.tip]).at(-1), last.tip, name);
  assert.ok(kinds().includes('GAP') && kinds().indexOf('GAP') < kinds().indexOf('GAP_END'), `${name}: ${kinds()}`);
  assert.equal(errors.length, 1, name);
}

const drops = Object.fromEntries(readers.map(({ name, proxy }) => [name, proxy.drops]));
say({ seen: { events: count, drops } });
process.exit(0);
