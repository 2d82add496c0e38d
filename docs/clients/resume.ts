// Subscriptions that resume after a lost connection: see docs/frontend.md. It has no dependencies, and works with any client
// that has a function `subscribe(request, sink)`, as those of graphql-ws and graphql-sse have.

/** What is sent to subscribe. Its document declares `$after`, and asks for the `cursor` of each event. */
export type Request = { query: string; variables?: Record<string, unknown> };

/** What the server sends: an event in `data`, or errors, or both. */
export type Result = { data?: unknown; errors?: readonly unknown[] };

export type Sink<R> = { next(result: R): void; error(reason: unknown): void; complete(): void };

/** Subscribes, and returns what ends the subscription. */
export type Subscribe<Q, R> = (request: Q, sink: Sink<R>) => () => void;

export type Options = {
  /**
   * How many milliseconds to wait before the next attempt, `undefined` to make none and pass the reason on. `attempt`
   * counts from 1 and begins anew with each event. By default up to half a second, twice as much each time and 30 seconds
   * at most, after what the server asks for, without end.
   */
  wait?: (attempt: number, reason: unknown) => number | undefined;
  /**
   * Called when the connection is lost. The next attempt continues behind the event with the cursor `after`. It is
   * undefined if none was given and no event has arrived: what happens until the next attempt is not sent then, so read
   * again whatever the events change.
   */
  dropped?: (reason: unknown, after: string | undefined) => void;
  /** Whether another attempt cannot help, `isRefusal` by default. */
  isFinal?: (reason: unknown) => boolean;
};

/** Codes of temporary errors. With all others the server refuses the request. */
const TEMPORARY = new Set(['NOT_READY', 'RESOURCE_EXHAUSTED', 'TIMEOUT']);

/** Codes of a websocket that closes because the network fails, the server stops or is busy, or graphql-ws drops it. */
const LOST = new Set([1000, 1001, 1005, 1006, 1011, 1012, 1013, 1014, 4004, 4005, 4408, 4499, 4504]);

type Fields = Record<string, any>;
const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? value : {});

/** The GraphQL errors in the reason for which a subscription ended: a list, or in an error of Apollo Client or urql. */
function errorsOf(reason: unknown): readonly unknown[] {
  if (Array.isArray(reason)) return reason;
  const { errors, graphQLErrors } = fieldsOf(reason);
  return [errors, graphQLErrors].find((list) => Array.isArray(list) && list.length > 0) ?? [];
}

const codeOf = (error: unknown): unknown => fieldsOf(fieldsOf(error).extensions).code;

/** Whether the server refuses the request, and would again: by errors, by closing the websocket, or by an HTTP status. */
export function isRefusal(reason: unknown): boolean {
  const errors = errorsOf(reason);
  if (errors.length > 0) return !errors.some((error) => TEMPORARY.has(codeOf(error) as string));
  const { code, response } = fieldsOf(reason);
  if (typeof code === 'number' && code >= 1000 && code < 5000) return !LOST.has(code);
  const { status } = fieldsOf(response);
  return typeof status === 'number' && status >= 400 && status < 500 && status !== 408 && status !== 429;
}

/** After how many seconds the server wants the next attempt, 0 if it does not say. */
function retryAfter(reason: unknown): number {
  const extensions = errorsOf(reason).map((error) => fieldsOf(fieldsOf(error).extensions).retryAfterSeconds);
  const header = fieldsOf(fieldsOf(reason).response).headers?.get?.('retry-after');
  return Math.max(0, ...[...extensions, header].map(Number).filter(Number.isFinite));
}

/** The longest first wait, and the longest of all, in milliseconds. */
const [FIRST_WAIT, LONGEST_WAIT] = [500, 30_000];

/** A random time below a bound that doubles, so that the clients of a server that was away do not all return at once. */
function backoff(attempt: number, reason: unknown): number {
  return retryAfter(reason) * 1_000 + Math.random() * Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1));
}

/** Whether a document has the variable that a subscription resumes by. */
export const isResumable = (query: string): boolean => /\$after\s*:/.test(query);

/** The only field of an event. */
const eventOf = ({ data }: Result): unknown => Object.values(fieldsOf(data))[0];

/**
 * Subscribes, and after each lost connection subscribes again behind the last event: each event arrives once and in
 * order, as on a connection that is never lost. Returns a function that ends the subscription.
 *
 * A refusal of the server ends it with `sink.error`, or with a result of errors and `sink.complete`, as the client reports
 * it: CURSOR_EXPIRED if the server does not remember what happened behind the cursor. An error that `sink.next` throws
 * ends it as well.
 *
 * If the client subscribes again by itself, it does so behind the last event too, because it sends the same request.
 */
export function resume<Q extends Request, R extends Result>(
  subscribe: Subscribe<Q, R>,
  request: Q,
  sink: Sink<R>,
  { wait = backoff, dropped, isFinal = isRefusal }: Options = {},
): () => void {
  if (!isResumable(request.query)) {
    throw new Error('the subscription cannot resume: declare the variable `$after: String` and give it to the field');
  }
  const variables: Record<string, unknown> = { ...request.variables };
  const resuming = { ...request, variables };
  let attempts = 0;
  // the attempt or the wait for the next one; whatever an earlier attempt reports is ignored
  let current: { stop(): void } | undefined;

  function attempt(): void {
    let unsubscribe: (() => void) | undefined;
    let isOver = false;
    const mine = {
      stop() {
        isOver = true;
        unsubscribe?.();
      },
    };
    /** Ends this attempt, unless it has ended. */
    const end = () => {
      if (current !== mine) return false;
      current = undefined;
      mine.stop();
      return true;
    };
    const fail = (reason: unknown) => end() && sink.error(reason);
    const lose = (reason: unknown, report: () => void) => {
      const milliseconds = isFinal(reason) ? undefined : wait(attempts + 1, reason);
      if (milliseconds === undefined) return report();
      attempts += 1;
      end();
      const timer = setTimeout(attempt, milliseconds);
      current = { stop: () => clearTimeout(timer) };
      dropped?.(reason, (variables.after as string | null | undefined) ?? undefined);
    };
    current = mine;
    try {
      unsubscribe = subscribe(resuming, {
        next(result) {
          if (current !== mine) return;
          const event = eventOf(result);
          if (event == null) {
            if (result.errors?.length) lose(result.errors, () => sink.next(result));
            else sink.next(result);
            return;
          }
          const { cursor } = fieldsOf(event);
          if (typeof cursor !== 'string') {
            return void fail(new Error('the subscription cannot resume: ask for `cursor` in every type of its events'));
          }
          try {
            sink.next(result);
          } catch (error) {
            // in the client it would end all that shares the connection
            if (end()) return sink.error(error);
            throw error;
          }
          variables.after = cursor;
          attempts = 0;
        },
        error(reason) {
          if (current === mine) lose(reason, () => fail(reason));
        },
        complete() {
          if (end()) sink.complete();
        },
      });
    } catch (error) {
      return void fail(error);
    }
    // it may have ended before it returned
    if (isOver) unsubscribe();
  }

  attempt();
  return () => {
    const last = current;
    current = undefined;
    last?.stop();
  };
}
