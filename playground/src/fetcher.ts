// How GraphiQL asks this server: queries by POST, subscriptions over a websocket, both at /graphql.

import { createGraphiQLFetcher, type Fetcher } from '@graphiql/toolkit';
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

/**
 * What GraphiQL knows of a query lags behind its editor. Whoever runs a tab as soon as it is chosen would ask for the
 * operation of the tab before: so the query itself says which operation it is, and of which kind.
 */
export const fetcher: Fetcher = (params, options) => {
  const documentAST = parsed(params.query);
  const isThere = documentAST && getOperationAST(documentAST, params.operationName);
  const only = documentAST && getOperationAST(documentAST);
  const operationName = isThere ? params.operationName : only?.name?.value;
  return ask({ ...params, operationName }, { ...options, documentAST });
};
