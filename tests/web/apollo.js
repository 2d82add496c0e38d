// Apollo Client on a running server, with the cache that is shipped (docs/clients/apollo/cache.ts) and with Apollo's own
// alone.
//
//   usage: node apollo.js ORIGIN ADDRESS
//
// ADDRESS is one with more than twenty transactions. It says, in lines of JSON:
//
//   "mine"         it needs a block, and reads the hash of that block from a line of stdin
//   { seen: … }    last of all the names of the checks that it made; one that fails ends it

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import { ApolloClient, ApolloLink, CombinedGraphQLErrors, gql, HttpLink, InMemoryCache } from '@apollo/client';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { OperationTypeNode } from 'graphql';
import { createClient } from 'graphql-ws';
import WebSocket from 'ws';
import { load } from './clients.js';

const [origin, address] = process.argv.slice(2);
const uri = `${origin}/graphql`;

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function mine() {
  say('mine');
  return (await lines.next()).value;
}

// GraphQLWsLink looks for it where browsers have it, and Node.js 20 does not
globalThis.WebSocket ??= WebSocket;

const { createCache } = await load('apollo/cache.ts');

/** A client, and what it sent over HTTP. */
function connect(cache, before = []) {
  const requests = [];
  const fetching = (url, options) => {
    requests.push({ method: options.method, url: new URL(url), body: options.body && JSON.parse(options.body) });
    return fetch(url, options);
  };
  const socket = createClient({ url: uri.replace('http', 'ws'), webSocketImpl: WebSocket });
  const link = ApolloLink.split(
    ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
    new GraphQLWsLink(socket),
    ApolloLink.from([...before, new HttpLink({ uri, fetch: fetching })]),
  );
  return { client: new ApolloClient({ cache, link }), requests, close: () => socket.dispose() };
}

const caches = { shipped: createCache, default: () => new InMemoryCache() };
const made = [];

/** Makes a check with a client of its own. */
async function check(name, cache, holds, before) {
  const connection = connect(caches[cache](), before);
  try {
    await holds(connection);
  } catch (error) {
    throw new Error(`${name}, with the ${cache} cache`, { cause: error });
  } finally {
    connection.client.stop();
    await connection.close();
  }
  made.push(`${cache}: ${name}`);
}

async function both(name, holds) {
  for (const cache of Object.keys(caches)) await check(name, cache, (connection) => holds(connection, cache));
}

async function until(holds) {
  for (let waited = 0; !holds(); waited += 10) {
    assert.ok(waited < 10_000, `${holds} holds in time`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** How many subscriptions the server has. */
async function listening(count) {
  const query = gql`{ server { id subscriptionCount } }`;
  const { client, close } = connect(new InMemoryCache());
  for (;;) {
    const { data } = await client.query({ query, fetchPolicy: 'no-cache' });
    if (data.server.subscriptionCount === count) break;
  }
  await close();
}

/** The error with which a query ends. */
async function refused(client, query, variables) {
  const result = await client.query({ query, variables, errorPolicy: 'all', fetchPolicy: 'network-only' });
  assert.ok(CombinedGraphQLErrors.is(result.error), `${result.error}`);
  return result;
}
const codes = ({ error }) => error.errors.map(({ extensions }) => extensions.code);

const TIP = gql`{ tip { id hash height } }`;
const BLOCK = gql`query ($hash: BlockHash!) { block(hash: $hash) { id txCount confirmations } }`;

await both('an object that is reached on several paths is one', async ({ client }) => {
  const { hash, height } = (await client.query({ query: TIP })).data.tip;
  await client.query({ query: BLOCK, variables: { hash } });
  const node = gql`query ($id: ID!) { node(id: $id) { id ... on Block { size transactions(first: 1) { nodes { id block { id weight } } } } } }`;
  await client.query({ query: node, variables: { id: `Block:${hash}` } });
  const objects = client.cache.extract();
  const blocks = Object.keys(objects).filter((key) => key.startsWith('Block:'));
  assert.deepEqual(blocks, [`Block:{"id":"Block:${hash}"}`, `Block:Block:${hash}`].filter((key) => key in objects));
  const { [blocks[0]]: block } = objects;
  assert.deepEqual([block.hash, block.height, block.txCount], [hash, height, 1]);
  assert.ok(block.size > 0 && block.weight > 0);
});

const SIZE = gql`{ chain { id summary { blockCount totals { size } } } }`;
const SUPPLY = gql`{ chain { id summary { totals { outputCount } difficulty } } }`;
const LEDGER = gql`query ($id: ID!) { node(id: $id) { id ... on Ledger { balance { confirmed } } } }`;

for (const [cache, keeps] of [['shipped', true], ['default', false]]) {
  await check('a value object has the fields of all queries', cache, async ({ client }) => {
    for (const query of [SIZE, SUPPLY]) await client.query({ query });
    assert.notEqual(client.readQuery({ query: SUPPLY }), null);
    assert.equal(client.readQuery({ query: SIZE }) !== null, keeps);
  });
  await check('a fragment on an interface matches', cache, async ({ client }) => {
    const { data } = await client.query({ query: LEDGER, variables: { id: `Address:${address}` } });
    assert.equal('balance' in data.node, keeps);
  });
  await check('sums without a bound are read as BigInt, and other figures as JSON has them', cache, async ({ client }) => {
    const query = gql`query ($address: String!) { address(address: $address) { id stats { received firstSeenBlock { id time } } balance { confirmed } } }`;
    for (const _ of ['from the server', 'from the cache']) {
      const { stats, balance } = (await client.query({ query, variables: { address } })).data.address;
      assert.equal(typeof stats.received, keeps ? 'bigint' : 'string');
      assert.ok(BigInt(stats.received) >= BigInt(balance.confirmed) && balance.confirmed > 0);
      assert.equal(typeof balance.confirmed, 'number');
      assert.ok(Date.parse(stats.firstSeenBlock.time) > 0);
    }
  });
}

const HISTORY = `transactions(first: $first, after: $after, last: $last, before: $before, order: ASC)`;
const paged = (of, selection) => gql`
  query ($address: String!, $first: Int, $after: String, $last: Int, $before: String) {
    address(address: $address) { id ${of} { ${selection} pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }
  }`;
const EDGES = paged(HISTORY, 'edges { cursor node { transaction { id txid } } }');
const NODES = paged(HISTORY, 'nodes { transaction { id txid } }');

/** What this address was in, in order, asked for at once. */
async function whole(client) {
  const { data } = await client.query({ query: NODES, variables: { address, first: 100 }, fetchPolicy: 'no-cache' });
  const txids = data.address.transactions.nodes.map(({ transaction }) => transaction.txid);
  assert.ok(txids.length > 20 && new Set(txids).size === txids.length);
  return txids;
}

const txidsOf = ({ edges, nodes }) => (nodes ?? edges.map(({ node }) => node)).map(({ transaction }) => transaction.txid);

/** Turns pages until there are no more, while blocks come, and says what a watcher has then. */
async function turn({ client }, query, forwards, updateQuery) {
  const pages = client.watchQuery({ query, variables: { address, [forwards ? 'first' : 'last']: 4 } });
  const watching = pages.subscribe(() => {});
  await until(() => pages.getCurrentResult().data?.address !== undefined);
  for (let turned = 0; ; turned += 1) {
    const { transactions } = pages.getCurrentResult().data.address;
    const { hasNextPage, hasPreviousPage, startCursor, endCursor } = transactions.pageInfo;
    if (!(forwards ? hasNextPage : hasPreviousPage)) {
      watching.unsubscribe();
      assert.ok(turned > 4);
      return txidsOf(transactions);
    }
    if (turned % 3 === 1) await mine();
    const variables = forwards ? { after: endCursor } : { before: startCursor };
    await pages.fetchMore({ variables, updateQuery });
    // a watcher is notified a moment later
    await until(() => pages.getCurrentResult().data.address.transactions.pageInfo !== transactions.pageInfo);
  }
}

for (const [list, query] of [['edges', EDGES], ['nodes', NODES]]) {
  for (const forwards of [true, false]) {
    const way = forwards ? 'forwards' : 'backwards';
    await check(`pages of ${list} are put together ${way} without holes and repetitions`, 'shipped', async (connection) => {
      assert.deepEqual(await turn(connection, query, forwards), await whole(connection.client));
    });
  }
  await check(`pages of ${list} are put together by updateQuery`, 'default', async (connection) => {
    const append = (previous, { fetchMoreResult }) => {
      const { [list]: more, pageInfo } = fetchMoreResult.address.transactions;
      const { address } = previous;
      const transactions = { ...address.transactions, pageInfo, [list]: [...address.transactions[list], ...more] };
      return { address: { ...address, transactions } };
    };
    assert.deepEqual(await turn(connection, query, true, append), await whole(connection.client));
  });
}

for (const [list, query] of [['edges', EDGES], ['nodes', NODES]]) {
  for (const [way, size, cursor, end] of [['forwards', 'first', 'after', 'endCursor'], ['backwards', 'last', 'before', 'startCursor']]) {
    await check(`${way}, a page of ${list} that comes again changes nothing`, 'shipped', async ({ client }) => {
      const ask = (variables) => client.query({ query, variables: { address, ...variables }, fetchPolicy: 'network-only' });
      const seen = () => client.readQuery({ query, variables: { address } }).address.transactions;
      const pages = [{ [size]: 4 }];
      for (let page = 0; page < 3; page += 1) {
        await ask(pages[page]);
        pages.push({ [size]: 4, [cursor]: seen().pageInfo[end] });
      }
      const three = seen();
      const all = await whole(client);
      assert.deepEqual(txidsOf(three), size === 'first' ? all.slice(0, 12) : all.slice(-12));
      for (const page of pages.slice(0, 3)) {
        await ask(page);
        assert.deepEqual(seen(), three);
      }
    });
  }
}

const BLOCKS = (selection) => gql`query ($first: Int, $after: String) { blocks(first: $first, after: $after) { ${selection} pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`;

for (const [list, refetchWritePolicy, kept] of [['edges', 'merge', 13], ['nodes', 'merge', 4], ['edges', 'overwrite', 4]]) {
  const what = `a list of ${list} that is asked for anew with ${refetchWritePolicy} after a block has ${kept} rows of 12`;
  await check(what, 'shipped', async ({ client }) => {
    const query = BLOCKS(list === 'edges' ? 'edges { cursor node { id height } }' : 'nodes { id height }');
    const pages = client.watchQuery({ query, variables: { first: 4 }, refetchWritePolicy });
    const watching = pages.subscribe(() => {});
    const blocks = () => pages.getCurrentResult().data?.blocks;
    await until(() => blocks() !== undefined);
    for (const length of [8, 12]) {
      await pages.fetchMore({ variables: { after: blocks().pageInfo.endCursor } });
      await until(() => blocks()[list].length === length);
    }
    const mined = await mine();
    await client.refetchQueries({ include: 'active' });
    await until(() => (blocks()[list][0].node ?? blocks()[list][0]).id === `Block:${mined}`);
    const heights = blocks()[list].map((row) => (row.node ?? row).height);
    assert.deepEqual(heights, Array.from({ length: kept }, (_, index) => heights[0] - index));
    watching.unsubscribe();
  });
}

const coins = (selection, filter = '') => gql`
  query ($address: String!) { address(address: $address) { id utxos(first: 100 ${filter}) { ${selection} } } }`;

await check('what was not asked for of a connection is missing, not empty', 'shipped', async ({ client, requests }) => {
  const ask = async (query) => (await client.query({ query, variables: { address } })).data.address.utxos;
  const { totalCount } = await ask(coins('totalCount'));
  const all = coins('edges { cursor node { outpoint { text } } } nodes { outpoint { text } } pageInfo { hasNextPage }');
  const { edges, nodes, pageInfo } = await ask(all);
  assert.deepEqual([edges.length, nodes.length, requests.length], [totalCount, totalCount, 2]);
  assert.equal(pageInfo.hasNextPage, false);
  // an argument that is not of paging makes another connection
  assert.deepEqual((await ask(coins('edges { cursor node { outpoint { text } } }', ', filter: { minValue: 99999999999 }'))).edges, []);
  assert.deepEqual([(await ask(all)).edges.length, requests.length], [totalCount, 3]);
});

await check('pages of txids, which are no objects, are kept', 'shipped', async ({ client }) => {
  const query = gql`{ mempool { id txids(first: 2) { edges { cursor node } nodes } } }`;
  const [a, b] = ['aa', 'bb'].map((byte) => byte.repeat(32));
  const edge = (node) => ({ __typename: 'TxidEdge', cursor: node.slice(0, 8), node });
  const txids = { __typename: 'TxidConnection', edges: [a, b].map(edge), nodes: [a, b] };
  const data = { mempool: { __typename: 'Mempool', id: 'Mempool:main', txids } };
  client.writeQuery({ query, data });
  assert.deepEqual(client.readQuery({ query }), data);
});

const NEW = gql`subscription { newBlock { id hash height confirmations previousBlock { id confirmations nextBlock { id hash } } } }`;

await both('what a subscription tells of an object is seen by those who watch it', async ({ client, requests }) => {
  const { hash } = (await client.query({ query: TIP })).data.tip;
  const query = gql`query ($hash: BlockHash!) { block(hash: $hash) { id confirmations nextBlock { id hash } } }`;
  const watched = client.watchQuery({ query, variables: { hash } });
  const watching = watched.subscribe(() => {});
  await until(() => watched.getCurrentResult().data?.block !== undefined);
  assert.deepEqual([watched.getCurrentResult().data.block.confirmations, requests.length], [1, 2]);
  const reported = [];
  const blocks = client.subscribe({ query: NEW }).subscribe(({ data }) => reported.push(data.newBlock));
  await listening(1);
  const mined = await mine();
  await until(() => watched.getCurrentResult().data.block.confirmations === 2);
  assert.equal(watched.getCurrentResult().data.block.nextBlock.hash, mined);
  assert.deepEqual([reported.map((block) => block.hash), requests.length], [[mined], 2]);
  blocks.unsubscribe();
  watching.unsubscribe();
  await listening(0);
});

await both('codes of errors reach who asks', async ({ client }) => {
  const { data, error } = await refused(client, gql`{ tip { id } block(height: -1) { id } }`);
  assert.deepEqual([codes({ error }), error.errors[0].path], [['BAD_USER_INPUT'], ['block']]);
  assert.ok(data.tip.id.startsWith('Block:') && data.block === null);
  assert.deepEqual(codes(await refused(client, gql`{ nothing }`)), ['GRAPHQL_VALIDATION_FAILED']);
  const aliases = Array.from({ length: 101 }, (_, number) => `a${number}: hash`).join(' ');
  assert.deepEqual(codes(await refused(client, gql(`{ tip { id ${aliases} } }`))), ['QUERY_LIMIT_EXCEEDED']);
  const failed = await client.query({ query: gql`{ block(height: -2) { id } }` }).catch((error) => error);
  assert.deepEqual(codes({ error: failed }), ['BAD_USER_INPUT']);
  const query = gql`subscription { newBlock(confirmations: -1) { id } }`;
  const reported = await new Promise((resolve) => client.subscribe({ query }).subscribe({ next: resolve, error: (error) => resolve({ error }) }));
  assert.deepEqual(codes(reported), ['BAD_USER_INPUT']);
});

const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const persisted = new PersistedQueryLink({ sha256, useGETForHashedQueries: true });

await check('a query is sent once, and named by its hash from then on', 'default', async ({ client, requests }) => {
  const query = gql`query Persisted { tip { id height } }`;
  for (const _ of ['unknown', 'known']) await client.query({ query, fetchPolicy: 'network-only' });
  const seen = requests.map(({ method, url, body }) => [method, url.searchParams.has('query') || body?.query !== undefined]);
  assert.deepEqual(seen, [['GET', false], ['POST', true], ['GET', false]]);
  const hash = ({ url, body }) => (body?.extensions ?? JSON.parse(url.searchParams.get('extensions'))).persistedQuery.sha256Hash;
  assert.equal(new Set(requests.map(hash)).size, 1);
}, [persisted]);

say({ seen: made });
process.exit(0);
