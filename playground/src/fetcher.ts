// How GraphiQL asks this server: queries by POST, subscriptions over a websocket, both at /graphql.

import { createGraphiQLFetcher, type Fetcher, type FetcherReturnType } from '@graphiql/toolkit';
import { type DocumentNode, getOperationAST, parse } from 'graphql';
import { createClient } from 'graphql-ws';

const endpoint = new URL('/graphql', location.href);
const socket = new URL(endpoint);
socket.protocol = endpoint.protocol === 'https:' ? 'wss:' : 'ws:';

const ask = createGraphiQLFetcher({
  url: endpoint.href,
  wsClient: createClient({ url: socket.href }),
});

/** `undefined` for what is no document: the server says why. */
function parsed(query: string): DocumentNode | undefined {
  try {
    return parse(query, { noLocation: true });
  } catch {
    return undefined;
  }
}

/** Events that the log keeps. */
const LOG_LENGTH = 50;

/** A log of the events of a subscription, the newest first, of which GraphiQL would show the last alone. */
async function* logged(events: AsyncIterable<any>) {
  let count = 0;
  const log: unknown[] = [];
  for await (const event of events) {
    count += 1;
    log.unshift({ event: count, at: new Date().toISOString(), ...event });
    log.length = Math.min(log.length, LOG_LENGTH);
    yield { events: count, log: [...log] } as any;
  }
}

const isStream = (answer: unknown): answer is AsyncIterable<unknown> =>
  typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer;

/**
 * What GraphiQL knows of a query lags behind its editor. Whoever runs a tab as soon as it is chosen would ask for the
 * operation of the tab before: so the query itself says which operation it is, and of which kind.
 */
export const fetcher: Fetcher = (params, options) => {
  const documentAST = parsed(params.query);
  const isThere = documentAST && getOperationAST(documentAST, params.operationName);
  const only = documentAST && getOperationAST(documentAST);
  const operationName = isThere ? params.operationName : only?.name?.value;
  const answer = ask({ ...params, operationName }, { ...options, documentAST });
  const operation = documentAST && getOperationAST(documentAST, operationName);
  if (operation?.operation !== 'subscription') return answer;
  return Promise.resolve(answer).then((stream) => (isStream(stream) ? logged(stream) : stream)) as FetcherReturnType;
};
