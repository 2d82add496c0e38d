// A page is one query, read again when a subscription says that something changed.

import type { OperationVariables, TypedDocumentNode } from '@apollo/client';
import { CombinedGraphQLErrors, ServerError } from '@apollo/client';
import { useApolloClient, useQuery } from '@apollo/client/react';
import { useCallback, useEffect, useRef } from 'react';
import { type Connection, connection } from './client';
import { textOf } from './document';
import { store } from './store';

/** What the page in sight asks, for the button that shows it. */
export const shown = store<{ query: string; variables: unknown } | undefined>(undefined);

/** Shortest time between two readings of a page, in milliseconds. */
const PAUSE = 1_000;

/** How long an unreachable server is left alone, in milliseconds: first, and at most. */
const [FIRST_RETRY, LAST_RETRY] = [1_000, 10_000];

/** Calls a function at most once in `pause`, and not while the page is out of sight. */
function useThrottled(run: () => void, pause: number) {
  const state = useRef({ run, last: 0, timer: 0, isDue: false });
  state.current.run = run;
  useEffect(() => {
    const { current } = state;
    const look = () => {
      if (!document.hidden && current.isDue) {
        current.isDue = false;
        current.last = Date.now();
        current.run();
      }
    };
    document.addEventListener('visibilitychange', look);
    return () => {
      document.removeEventListener('visibilitychange', look);
      clearTimeout(current.timer);
      current.timer = 0;
    };
  }, []);
  return useCallback(() => {
    const { current } = state;
    current.isDue = true;
    if (document.hidden || current.timer) return;
    const wait = Math.max(0, current.last + pause - Date.now());
    current.timer = window.setTimeout(() => {
      current.timer = 0;
      if (document.hidden || !current.isDue) return;
      current.isDue = false;
      current.last = Date.now();
      current.run();
    }, wait);
  }, [pause]);
}

/** Whether the server refuses a whole request, for want of a token or of leave for its operation. */
export const isForbidden = (error: unknown) =>
  (ServerError.is(error) && error.statusCode === 401) ||
  (CombinedGraphQLErrors.is(error) && error.errors.some(({ extensions, path }) => extensions?.code === 'FORBIDDEN' && !path));

/** Whether the server was not reached, as opposed to reached and unwilling. */
export const isUnreachable = (error: unknown) => error !== undefined && !CombinedGraphQLErrors.is(error) && !isForbidden(error);

/** Codes of errors that pass by themselves. */
const TEMPORARY = new Set<unknown>(['NOT_READY', 'RESOURCE_EXHAUSTED', 'TIMEOUT']);

/** Whether another attempt can help. */
const isTemporary = (error: unknown) =>
  isUnreachable(error) || (CombinedGraphQLErrors.is(error) && error.errors.some(({ extensions }) => TEMPORARY.has(extensions?.code)));

/**
 * Reads a page. `data` stays that of the last successful reading while it is read again or the server is away;
 * `reread` asks for the newest state, at most once a second, and keeps the further pages of its lists.
 */
export function usePage<Data, Variables extends OperationVariables>(
  operation: TypedDocumentNode<Data, Variables>,
  variables: NoInfer<Variables>,
  { pause = PAUSE, skip = false } = {},
) {
  const { data, previousData, error, loading, refetch, fetchMore } = useQuery(operation, {
    variables,
    skip,
    fetchPolicy: 'cache-and-network',
    nextFetchPolicy: 'cache-first',
    errorPolicy: 'all',
    refetchWritePolicy: 'merge',
    notifyOnNetworkStatusChange: true,
  } as any) as unknown as {
    data: Data | undefined;
    previousData: Data | undefined;
    error: Error | undefined;
    loading: boolean;
    refetch: () => Promise<unknown>;
    fetchMore: (options: { variables: Partial<Variables> }) => Promise<unknown>;
  };
  const reread = useThrottled(() => void refetch().catch(() => undefined), pause);

  const serialised = JSON.stringify(variables);
  useEffect(() => {
    shown.set({ query: textOf(operation), variables: JSON.parse(serialised) });
    return () => shown.set(undefined);
  }, [operation, serialised]);

  const failures = useRef(0);
  const isPassing = isTemporary(error);
  useEffect(() => {
    if (!isPassing) {
      // while it is read again there is no error either
      if (!error && !loading) failures.current = 0;
      return;
    }
    const wait = Math.min(LAST_RETRY, FIRST_RETRY * 2 ** failures.current);
    failures.current += 1;
    const timer = setTimeout(() => void refetch().catch(() => undefined), wait);
    return () => clearTimeout(timer);
  }, [isPassing, error, refetch, loading]);
  // what happened while nothing arrived
  useEffect(() => {
    let before: Connection = connection.get();
    return connection.subscribe(() => {
      const now = connection.get();
      if (before === 'lost' && now === 'open') reread();
      before = now;
    });
  }, [reread]);

  const current = data ?? previousData;
  return { data: current, isStale: data === undefined && previousData !== undefined, error, loading, reread, fetchMore };
}

/**
 * Follows a subscription while the component is there. One that declares `$after` continues after a lost connection, by the
 * link of the client. Any other, and one whose cursor has expired, begins anew, and `missed` says that events may be missing.
 */
export function useLive<Data, Variables extends OperationVariables>(
  operation: TypedDocumentNode<Data, Variables>,
  variables: NoInfer<Variables> | undefined,
  event: (data: Data) => void,
  missed: () => void,
) {
  const client = useApolloClient();
  const latest = useRef({ event, missed });
  latest.current = { event, missed };
  const key = variables && JSON.stringify(variables);
  useEffect(() => {
    if (key === undefined) return;
    let stopped = false;
    let timer = 0;
    let attempts = 0;
    let subscription: { unsubscribe(): void } | undefined;
    const begin = (variables: Variables) => {
      // a failure is reported as an event with an error, and then as the end
      let isOver = false;
      const again = () => {
        if (stopped || isOver) return;
        isOver = true;
        // an event with an error does not end it
        subscription?.unsubscribe();
        attempts += 1;
        timer = window.setTimeout(() => {
          latest.current.missed();
          begin({ ...variables, after: undefined });
        }, Math.random() * 500 + Math.min(LAST_RETRY, FIRST_RETRY * 2 ** (attempts - 1)) - 500);
      };
      subscription = client.subscribe({ query: operation, variables, fetchPolicy: 'no-cache' } as any).subscribe({
        next({ data, error }) {
          if (error) return again();
          attempts = 0;
          if (data) latest.current.event(data as Data);
        },
        error: again,
        complete: again,
      });
    };
    begin(JSON.parse(key));
    return () => {
      stopped = true;
      clearTimeout(timer);
      subscription?.unsubscribe();
    };
  }, [client, operation, key]);
}
