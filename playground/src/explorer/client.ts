// How the explorer asks its server: queries by POST, subscriptions over one websocket that resumes.

import { ApolloClient, ApolloLink, HttpLink, InMemoryCache } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { OperationTypeNode } from 'graphql';
import { cacheConfig, typePolicies } from './clients/apollo/cache';
import { ResumeLink } from './clients/apollo/resume-link';
import { createSocket } from './clients/socket';
import { store } from './store';

/** Where the token is for as long as the tab is open, if the server wants one. */
const TOKEN = 'btcgraph:token';

function token(): string | null {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

/** Begins anew with this token. */
export function signIn(text: string) {
  sessionStorage.setItem(TOKEN, text);
  location.reload();
}

const authorization = () => {
  const text = token();
  return text ? { authorization: `Bearer ${text}` } : undefined;
};

/** Whether events arrive: `idle` until a page subscribes. */
export type Connection = 'idle' | 'open' | 'lost';

export const connection = store<Connection>('idle');

const endpoint = new URL('/graphql', location.href);
const websocket = new URL(endpoint);
websocket.protocol = endpoint.protocol === 'https:' ? 'wss:' : 'ws:';

const socket = createSocket({
  url: websocket.href,
  connectionParams: authorization,
  // pages change their subscriptions one after another
  lazyCloseTimeout: 3_000,
  on: {
    connected: () => connection.set('open'),
    closed: (event) => connection.set((event as CloseEvent).wasClean && (event as CloseEvent).code === 1000 ? 'idle' : 'lost'),
  },
});

const live = ApolloLink.from([new ResumeLink(), new GraphQLWsLink(socket)]);
const http = new HttpLink({
  uri: endpoint.href,
  fetch: (uri, options) => fetch(uri, { ...options, headers: { ...(options?.headers as Record<string, string>), ...authorization() } }),
});

const { Mempool } = typePolicies;
const cache = new InMemoryCache({
  ...cacheConfig,
  typePolicies: {
    ...typePolicies,
    // its range moves with the clock: each reading replaces the one before
    Mempool: { ...Mempool, fields: { ...Mempool?.fields, history: { keyArgs: ['stepSeconds'], merge: false } } },
  },
});

/** A page that stays open sees new transactions all the time; those that no query has any more are dropped. */
setInterval(() => cache.gc(), 60_000);

export const client = new ApolloClient({
  cache,
  link: ApolloLink.split(({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION, live, http),
});
