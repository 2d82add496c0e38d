// The clients that applications commonly have for subscriptions, each on its own protocol against one server.
//
//   usage: node subscribers.js ORIGIN
//
// It says, in lines of JSON:
//
//   "mine"         it needs a block, and reads the hash of that block from a line of stdin
//   { seen: … }    last of all what each client received:
//     query      the data of { tip { height } }
//     refusals   the codes of the errors of what is refused: a query for a field that does not exist, and a subscription
//                whose argument is out of range
//     reported       hashes of blocks, the first while it listened and, where the client comes back by itself, the second
//                after its connection was cut
//     missed     the hash of a block of a time without a connection, asked for with the cursor of the event before (graphql-ws)
//     pongs      whether its pings were answered (graphql-ws)
//     left       how many subscriptions the server still has when the client is done

import { createInterface } from 'node:readline';
import { createClient as createEvents } from 'graphql-sse';
import { createClient as createSocket } from 'graphql-ws';
import legacy from 'subscriptions-transport-ws';
import WebSocket from 'ws';

const [origin] = process.argv.slice(2);
const url = `${origin}/graphql`;
const socketUrl = url.replace('http', 'ws');

const TIP = '{ tip { height } }';
const REFUSED = ['{ nothing }', 'subscription { newBlock(confirmations: 0) { hash } }'];
const BLOCKS = 'subscription { newBlock { hash } }';
const EVENTS =
  'subscription($after: String) { chainEvents(after: $after) { ... on BlockConnected { cursor block { hash } } } }';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function mine() {
  say('mine');
  return (await lines.next()).value;
}

/** How many subscriptions the server has. */
async function subscriptions() {
  const body = JSON.stringify({ query: '{ server { subscriptionCount } }' });
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return (await response.json()).data.server.subscriptionCount;
}

/** Waits until something holds. */
async function until(holds) {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}

const listening = (count) => until(async () => (await subscriptions()) === count);

async function first(results) {
  for await (const result of results) return result;
  throw new Error('there is no result');
}

const codeOf = ([error]) => error?.extensions?.code ?? 'none';

/** The codes of what is refused, by a function that asks and gives the errors. */
async function refused(ask) {
  const codes = [];
  for (const query of REFUSED) codes.push(codeOf(await ask(query)));
  return codes;
}

async function left() {
  await listening(0);
  return subscriptions();
}

async function graphqlWs() {
  let [sockets, pongs] = [0, 0];
  const client = createSocket({
    url: socketUrl,
    webSocketImpl: WebSocket,
    lazy: false,
    keepAlive: 50,
    retryAttempts: 3,
    retryWait: () => Promise.resolve(),
    shouldRetry: () => true,
    on: { connected: () => (sockets += 1), pong: (received) => (pongs += received ? 1 : 0) },
  });
  const query = (await first(client.iterate({ query: TIP }))).data;
  const refusals = await refused((query) => first(client.iterate({ query })).then(() => [], (errors) => errors));

  const blocks = client.iterate({ query: BLOCKS });
  const hash = (result) => result.value.data.newBlock.hash;
  const reported = [];
  let next = blocks.next();
  await listening(1);
  await mine();
  reported.push(hash(await next));
  next = blocks.next();
  client.terminate();
  await until(() => sockets === 2);
  await listening(1);
  await mine();
  reported.push(hash(await next));
  await until(() => pongs > 1);
  await blocks.return();
  await client.dispose();

  // what a client that keeps cursors does about a connection that was cut
  const connect = () => createSocket({ url: socketUrl, webSocketImpl: WebSocket, retryAttempts: 0 });
  await listening(0);
  const before = connect();
  const events = before.iterate({ query: EVENTS });
  next = events.next();
  await listening(1);
  await mine();
  const after = (await next).value.data.chainEvents.cursor;
  next = events.next().catch(() => 'cut');
  before.terminate();
  if ((await next) !== 'cut') throw new Error('the connection was cut, and the client did not notice');
  await mine();
  const behind = connect();
  const missed = (await first(behind.iterate({ query: EVENTS, variables: { after } }))).data.chainEvents.block.hash;
  await behind.dispose();
  return { query, refusals, reported, missed, pongs: pongs > 1, left: await left() };
}

async function subscriptionsTransportWs() {
  const client = new legacy.SubscriptionClient(socketUrl, {}, WebSocket);
  const next = (query) =>
    new Promise((resolve, reject) => {
      const subscription = client.request({ query }).subscribe({
        next(result) {
          resolve(result);
          subscription?.unsubscribe();
        },
        error: reject,
      });
    });
  const query = (await next(TIP)).data;
  const refusals = await refused((query) => next(query).then(() => [], (error) => [error]));
  const block = next(BLOCKS);
  await listening(1);
  await mine();
  const reported = [(await block).data.newBlock.hash];
  client.close();
  return { query, refusals, reported, left: await left() };
}

async function graphqlSse() {
  const client = createEvents({ url, fetchFn: fetch, retryAttempts: 0 });
  const query = (await first(client.iterate({ query: TIP }))).data;
  const refusals = await refused(async (query) => {
    const results = [];
    for await (const result of client.iterate({ query })) results.push(result);
    return results.length === 1 && !('data' in results[0]) ? results[0].errors : [];
  });
  const blocks = client.iterate({ query: BLOCKS });
  const next = blocks.next();
  await listening(1);
  await mine();
  const reported = [(await next).value.data.newBlock.hash];
  await blocks.return();
  client.dispose();
  return { query, refusals, reported, left: await left() };
}

const seen = {
  'graphql-ws': await graphqlWs(),
  'subscriptions-transport-ws': await subscriptionsTransportWs(),
  'graphql-sse': await graphqlSse(),
};
say({ seen });
process.exit(0);
