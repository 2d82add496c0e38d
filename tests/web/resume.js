// What docs/clients/resume.ts makes of all that a client of subscriptions can report, by itself, in Apollo Client and in
// urql, on a client that reports what it is asked to. Real clients lose real connections in drops.js.
//
//   usage: node resume.js
//
// Prints how many checks there were, or the first fault, and ends with exit code 1 if there is one.

import assert from 'node:assert/strict';
import { ApolloClient, ApolloLink, gql, InMemoryCache } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { Client, subscriptionExchange } from '@urql/core';
import { pipe, subscribe as receive } from 'wonka';
import WebSocket from 'ws';
import { load } from './clients.js';

// as in browsers, and in Node.js from version 22
globalThis.WebSocket ??= WebSocket;

const { isRefusal, resume } = await load('resume.ts');
const { ResumeLink } = await load('apollo/resume-link.ts');
const { resumeExchange } = await load('urql/resume-exchange.ts');

const QUERY = 'subscription ($after: String) { mempoolEvents(after: $after) { ... on TransactionAdded { cursor } } }';
const event = (cursor) => ({ data: { mempoolEvents: { cursor } } });
const refused = (code, extensions) => [{ message: code, extensions: { code, ...extensions } }];

/** A subscription, the attempts that it makes, and what reaches its reader. */
function start({ query = QUERY, variables, subscribe = () => {}, next = () => {}, ...options } = {}) {
  const [attempts, seen, drops, waits] = [[], [], [], []];
  const client = (request, sink) => {
    const attempt = { request, after: request.variables.after, sink, ended: 0 };
    attempts.push(attempt);
    subscribe(attempt);
    return () => (attempt.ended += 1);
  };
  const sink = {
    next(result) {
      next(result);
      seen.push(result);
    },
    error: (reason) => seen.push({ error: reason }),
    complete: () => seen.push('complete'),
  };
  const wait = (attempt) => {
    waits.push(attempt);
    return 0;
  };
  const dropped = (reason, after) => drops.push(after);
  const stop = resume(client, { query, variables }, sink, { wait, dropped, ...options });
  return { attempts, seen, drops, waits, stop };
}

/** Waits until there were so many attempts. */
async function made(attempts, count) {
  for (let turns = 0; attempts.length < count; turns += 1) {
    assert.ok(turns < 1_000, `attempt ${count} is made`);
    await new Promise((resolve) => setTimeout(resolve));
  }
  assert.equal(attempts.length, count);
}

/** Waits until all that is due has been done. */
const due = () => new Promise((resolve) => setTimeout(resolve, 5));

const LOST = { code: 1006, reason: '' };

const CHECKS = {
  async 'goes on behind the last event'() {
    const { attempts, seen, drops, waits } = start({ variables: { after: 'a', watch: 1 } });
    attempts[0].sink.next(event('b'));
    attempts[0].sink.next(event('c'));
    attempts[0].sink.error(LOST);
    await made(attempts, 2);
    attempts[1].sink.error(LOST);
    await made(attempts, 3);
    attempts[2].sink.next(event('d'));
    attempts[2].sink.error(LOST);
    await made(attempts, 4);
    assert.deepEqual(attempts.map(({ after }) => after), ['a', 'c', 'c', 'd']);
    assert.deepEqual(attempts.map(({ request }) => request.variables.watch), [1, 1, 1, 1]);
    assert.deepEqual(attempts.map(({ ended }) => ended), [1, 1, 1, 0]);
    assert.deepEqual(seen, ['b', 'c', 'd'].map(event));
    assert.deepEqual([drops, waits], [['c', 'c', 'd'], [1, 2, 1]]);
  },

  async 'changes nothing that it was given'() {
    const variables = Object.freeze({ watch: 1 });
    const { attempts } = start({ variables });
    attempts[0].sink.next(event('b'));
    assert.deepEqual([variables, attempts[0].request.variables], [{ watch: 1 }, { watch: 1, after: 'b' }]);
  },

  async 'writes the cursor into the request that the client sends again by itself'() {
    const { attempts } = start();
    const { request } = attempts[0];
    const { variables } = request;
    attempts[0].sink.next(event('b'));
    assert.ok(request.variables === variables && variables.after === 'b');
  },

  async 'reports that no event had come'() {
    const { attempts, drops } = start();
    attempts[0].sink.error(LOST);
    await made(attempts, 2);
    assert.deepEqual([drops, attempts[1].after], [[undefined], undefined]);
  },

  async 'reports the cursor that it was given'() {
    const { attempts, drops } = start({ variables: { after: 'a' } });
    attempts[0].sink.error(LOST);
    await made(attempts, 2);
    assert.deepEqual([drops, attempts[1].after], [['a'], 'a']);
  },

  async 'takes nothing from an attempt that has ended'() {
    const { attempts, seen, stop } = start();
    attempts[0].sink.error(LOST);
    for (const late of [() => attempts[0].sink.next(event('x')), () => attempts[0].sink.error(LOST), () => attempts[0].sink.complete()]) late();
    await made(attempts, 2);
    attempts[0].sink.next(event('x'));
    attempts[1].sink.next(event('b'));
    stop();
    attempts[1].sink.next(event('c'));
    attempts[1].sink.complete();
    await due();
    assert.deepEqual([seen, attempts.length, attempts[1].ended], [[event('b')], 2, 1]);
  },

  async 'makes no attempt once it was stopped'() {
    const { attempts, stop } = start();
    attempts[0].sink.error(LOST);
    stop();
    await due();
    assert.equal(attempts.length, 1);
  },

  async 'ends with the subscription'() {
    const { attempts, seen } = start();
    attempts[0].sink.complete();
    await due();
    assert.deepEqual([seen, attempts.length, attempts[0].ended], [['complete'], 1, 1]);
  },

  async 'passes on what the server refuses'() {
    for (const reason of [refused('CURSOR_EXPIRED'), { code: 4403, reason: 'Forbidden' }]) {
      const { attempts, seen, drops } = start();
      attempts[0].sink.error(reason);
      await due();
      assert.deepEqual([seen, drops, attempts.length, attempts[0].ended], [[{ error: reason }], [], 1, 1]);
    }
    const { attempts, seen } = start();
    const result = { data: null, errors: refused('CURSOR_EXPIRED') };
    attempts[0].sink.next(result);
    attempts[0].sink.complete();
    await due();
    assert.deepEqual([seen, attempts.length], [[result, 'complete'], 1]);
  },

  async 'tries again what was refused for the moment'() {
    for (const code of ['NOT_READY', 'RESOURCE_EXHAUSTED', 'TIMEOUT']) {
      const { attempts, seen } = start();
      attempts[0].sink.next(event('b'));
      attempts[0].sink.next({ data: null, errors: refused(code) });
      attempts[0].sink.complete();
      await made(attempts, 2);
      attempts[1].sink.error(refused(code));
      await made(attempts, 3);
      assert.deepEqual([seen, attempts[2].after], [[event('b')], 'b']);
    }
  },

  async 'an event of which only a part failed is an event'() {
    const { attempts, seen } = start();
    const result = { ...event('b'), errors: refused('NODE_UNAVAILABLE') };
    attempts[0].sink.next(result);
    attempts[0].sink.error(LOST);
    await made(attempts, 2);
    assert.deepEqual([seen, attempts[1].after], [[result], 'b']);
  },

  async 'gives up on request'() {
    const { attempts, seen } = start({ wait: (attempt) => (attempt < 3 ? 0 : undefined) });
    attempts[0].sink.error(LOST);
    await made(attempts, 2);
    attempts[1].sink.error(LOST);
    await made(attempts, 3);
    attempts[2].sink.error(LOST);
    await due();
    assert.deepEqual([seen, attempts.length], [[{ error: LOST }], 3]);
  },

  async 'ends with the error of its reader'() {
    const failure = new Error('the disk is full');
    const { attempts, seen } = start({
      next: ({ data }) => {
        if (data.mempoolEvents.cursor === 'c') throw failure;
      },
    });
    for (const cursor of ['b', 'c', 'e']) attempts[0].sink.next(event(cursor));
    attempts[0].sink.error(LOST);
    await due();
    assert.deepEqual([seen, attempts.length, attempts[0].ended], [[event('b'), { error: failure }], 1, 1]);
  },

  async 'passes on the error of a reader that has stopped it'() {
    const failure = new Error('the disk is full');
    const { attempts, seen, stop } = start({
      next() {
        stop();
        throw failure;
      },
    });
    assert.throws(() => attempts[0].sink.next(event('b')), failure);
    await due();
    assert.deepEqual([seen, attempts.length], [[], 1]);
  },

  async 'refuses what cannot resume'() {
    assert.throws(() => start({ query: 'subscription { mempoolEvents { cursor } }' }), /\$after: String/);
    const { attempts, seen } = start();
    attempts[0].sink.next({ data: { mempoolEvents: { txid: 'x' } } });
    await due();
    assert.match(seen[0].error.message, /ask for `cursor`/);
    assert.deepEqual([seen.length, attempts.length, attempts[0].ended], [1, 1, 1]);
  },

  async 'ends what ended before it began'() {
    const { attempts, seen } = start({ subscribe: ({ after, sink }) => after === undefined && sink.complete() });
    assert.deepEqual([seen, attempts[0].ended], [['complete'], 1]);
  },

  async 'a client that throws is not asked again'() {
    const failure = new Error('not configured');
    const { attempts, seen } = start({
      subscribe() {
        throw failure;
      },
    });
    await due();
    assert.deepEqual([seen, attempts.length], [[{ error: failure }], 1]);
  },

  async 'knows what is a refusal'() {
    const response = (status) => ({ response: { status } });
    const refusals = [
      ...[1002, 1003, 1007, 1008, 1009, 4400, 4401, 4403, 4406, 4409, 4429, 4500].map((code) => ({ code })),
      ...['CURSOR_EXPIRED', 'BAD_USER_INPUT', 'FORBIDDEN', 'GRAPHQL_VALIDATION_FAILED'].map((code) => refused(code)),
      { errors: refused('FORBIDDEN') },
      { graphQLErrors: refused('FORBIDDEN') },
      ...[400, 401, 403, 404, 421].map(response),
    ];
    const losses = [
      ...[1000, 1001, 1005, 1006, 1011, 1012, 1013, 1014, 4004, 4005, 4408, 4499, 4504].map((code) => ({ code })),
      refused('RESOURCE_EXHAUSTED'),
      { errors: refused('NOT_READY') },
      { graphQLErrors: [], networkError: new Error('fetch failed') },
      ...[408, 429, 500, 502, 503].map(response),
      ...[new Error('fetch failed'), Object.assign(new Error(), { code: 'ECONNREFUSED' }), new DOMException('', 'AbortError'), undefined, null, 'x'],
    ];
    for (const reason of refusals) assert.equal(isRefusal(reason), true, JSON.stringify(reason));
    for (const reason of losses) assert.equal(isRefusal(reason), false, JSON.stringify(reason));
  },

  async 'waits longer each time, and as long as the server asks for'() {
    const { setTimeout: timer, Math: { random } } = globalThis;
    const waits = [];
    globalThis.setTimeout = (run, milliseconds) => {
      waits.push(milliseconds);
      return timer(run, 0);
    };
    Math.random = () => 1;
    const headers = new Map([['retry-after', '10']]);
    const reasons = [...Array(8).fill(LOST), refused('RESOURCE_EXHAUSTED', { retryAfterSeconds: 7 }), { response: { status: 429, headers } }];
    const attempts = [];
    const sink = { next() {}, error: assert.fail, complete: assert.fail };
    const stop = resume((_, sink) => attempts.push(sink) && (() => {}), { query: QUERY }, sink);
    for (const [index, reason] of reasons.entries()) {
      while (attempts.length <= index) await new Promise((resolve) => timer(resolve));
      attempts[index].error(reason);
    }
    stop();
    globalThis.setTimeout = timer;
    Math.random = random;
    assert.deepEqual(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 37_000, 40_000]);
  },
};

/** How applications subscribe with a client like that of graphql-ws: (client, query, sink) => how it ends. */
const WAYS = {
  resume: (client, query, { next, error, complete }) => {
    const results = ({ data, errors }) => (data ? next(data) : error(errors));
    return resume((request, sink) => client.subscribe(request, sink), { query }, { next: results, error, complete }, { wait: () => 0 });
  },
  'Apollo Client': (client, query, { next, error, complete }) => {
    const link = ApolloLink.from([new ResumeLink({ wait: () => 0 }), new GraphQLWsLink(client)]);
    const apollo = new ApolloClient({ cache: new InMemoryCache(), link });
    const results = ({ data, error: failure }) => (failure ? error(failure.errors ?? failure) : next(data));
    const subscription = apollo.subscribe({ query: gql(query), fetchPolicy: 'no-cache' }).subscribe({ next: results, error, complete });
    return () => subscription.unsubscribe();
  },
  urql: (client, query, { next, error }) => {
    const subscriptions = subscriptionExchange({
      forwardSubscription: ({ query, variables }) => ({
        subscribe: (sink) => ({ unsubscribe: client.subscribe({ query, variables }, sink) }),
      }),
    });
    const urql = new Client({ url: 'http://127.0.0.1', exchanges: [resumeExchange({ wait: () => 0 }), subscriptions] });
    const results = ({ data, error: failure }) => (failure ? error(failure.networkError ?? failure.graphQLErrors) : next(data));
    return pipe(urql.subscription(query, {}), receive(results)).unsubscribe;
  },
};

/** What is reported after two events, and how the subscription goes on: again, or with this error. */
const REPORTS = {
  'a connection that is cut': [({ error }) => error(new CloseEvent(1006)), 'again'],
  'a server that stops': [({ error }) => error(new CloseEvent(1012, 'the server stops')), 'again'],
  'a socket that fails': [({ error }) => error(new FailureEvent()), 'again'],
  'a token that is not known': [({ error }) => error(new CloseEvent(4403, 'Forbidden')), /4403|Forbidden/],
  'a refusal': [({ error }) => error(refused('BAD_USER_INPUT')), 'BAD_USER_INPUT'],
  'a refusal for the moment': [({ error }) => error(refused('RESOURCE_EXHAUSTED')), 'again'],
  'a cursor that has expired': [ended('CURSOR_EXPIRED'), 'CURSOR_EXPIRED'],
  'an event that took too long': [ended('TIMEOUT'), 'again'],
};

/** An error in the place of an event, and the end, as the server tells it. */
function ended(code) {
  return ({ next, complete }) => {
    next({ data: null, errors: refused(code) });
    complete();
  };
}

class CloseEvent {
  constructor(code, reason = '') {
    Object.assign(this, { code, reason });
  }
}

/** That of ws, whose properties are those of its class. */
class FailureEvent {
  message = 'connect ECONNREFUSED';
  get target() {
    return { readyState: WebSocket.CLOSING };
  }
}

for (const [way, begin] of Object.entries(WAYS)) {
  for (const [name, [report, result]] of Object.entries(REPORTS)) {
    CHECKS[`${way}: ${name}`] = async () => {
      const [attempts, seen, errors] = [[], [], []];
      const client = {
        subscribe(request, sink) {
          const attempt = { after: request.variables?.after, sink, ended: 0 };
          attempts.push(attempt);
          return () => (attempt.ended += 1);
        },
      };
      const cursorOf = (data) => data.mempoolEvents.cursor;
      const end = begin(client, QUERY, { next: (data) => seen.push(cursorOf(data)), error: (error) => errors.push(error), complete() {} });
      await made(attempts, 1);
      for (const cursor of ['a', 'b']) attempts[0].sink.next(event(cursor));
      report(attempts[0].sink);
      if (result === 'again') {
        await made(attempts, 2);
        attempts[1].sink.next(event('c'));
        await due();
        assert.deepEqual([seen, errors, attempts.map(({ after }) => after)], [['a', 'b', 'c'], [], [undefined, 'b']]);
      } else {
        await due();
        const said = errors.map((error) => (Array.isArray(error) ? error[0].extensions.code : `${error.code} ${error.message}`));
        assert.deepEqual([seen, attempts.length, said.length], [['a', 'b'], 1, 1]);
        assert.match(said[0], new RegExp(result));
      }
      end();
      await due();
      // a client that reports a refusal has ended by itself
      if (result === 'again') assert.ok(attempts.every(({ ended }) => ended > 0));
    };
  }

  CHECKS[`${way}: what does not take a cursor is passed on`] = async () => {
    if (way === 'resume') return;
    const attempts = [];
    const client = { subscribe: (request, sink) => attempts.push(sink) && (() => {}) };
    const [seen, errors] = [[], []];
    const sink = { next: (data) => seen.push(data.newBlock.height), error: (error) => errors.push(error), complete() {} };
    begin(client, 'subscription { newBlock { height } }', sink);
    await made(attempts, 1);
    attempts[0].next({ data: { newBlock: { height: 1 } } });
    attempts[0].error(new CloseEvent(1006));
    await due();
    assert.deepEqual([seen, errors.length, attempts.length], [[1], 1, 1]);
  };
}

for (const [name, check] of Object.entries(CHECKS)) {
  try {
    await check();
  } catch (error) {
    throw new Error(name, { cause: error });
  }
}
console.log(`${Object.keys(CHECKS).length} checks`);
