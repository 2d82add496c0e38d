// Subscriptions of urql that resume after a lost connection: see docs/frontend.md.

import { type Exchange, makeErrorResult, makeOperation, type Operation, type OperationResult, stringifyDocument } from '@urql/core';
import { filter, make, makeSubject, merge, mergeMap, pipe, share, subscribe, takeUntil } from 'wonka';
import { isResumable, type Options, resume, type Result, type Sink } from '../resume';

/** A result as the server sends it, and as urql passes it on. */
type Received = Result & { result: OperationResult };

const isOurs = ({ kind, query }: Operation) => kind === 'subscription' && isResumable(stringifyDocument(query));

/**
 * Resumes the subscriptions that declare `$after`, and passes on all other operations. It belongs behind the caches and
 * before the exchange that sends subscriptions.
 */
export const resumeExchange =
  (options?: Options): Exchange =>
  ({ forward }) =>
  (incoming) => {
    const operations = share(incoming);
    const attempts = makeSubject<Operation>();
    const others = pipe(operations, filter((operation) => !isOurs(operation)));
    const results = share(forward(merge([others, attempts.source])));

    const resumed = (operation: Operation) =>
      make<OperationResult>(({ next, complete }) =>
        resume(
          ({ variables }, sink: Sink<Received>) => {
            let last: unknown;
            const receive = (result: OperationResult) => {
              const { error, hasNext } = result;
              // urql repeats the previous event's data in a result without data, and in the one that ends the subscription
              const data = result.data === last ? null : result.data;
              last = result.data;
              if (error?.networkError) sink.error(error.networkError);
              else if (hasNext) sink.next({ data, errors: error?.graphQLErrors, result: { ...result, data, operation } });
              else sink.complete();
            };
            const ours = pipe(results, filter((result) => result.operation.key === operation.key));
            const { unsubscribe } = pipe(ours, subscribe(receive));
            attempts.next(makeOperation('subscription', { ...operation, variables }));
            return () => {
              unsubscribe();
              attempts.next(makeOperation('teardown', operation));
            };
          },
          { query: stringifyDocument(operation.query), variables: { ...operation.variables } },
          {
            next: ({ result }) => next(result),
            error: (reason) => next(makeErrorResult(operation, reason as Error)),
            complete,
          },
          options,
        ),
      );

    const isEndOf = ({ key }: Operation) => (other: Operation) => other.kind === 'teardown' && other.key === key;
    const ours = pipe(
      operations,
      filter(isOurs),
      mergeMap((operation) => pipe(resumed(operation), takeUntil(pipe(operations, filter(isEndOf(operation)))))),
    );
    return merge([pipe(results, filter(({ operation }) => !isOurs(operation))), ours]);
  };
