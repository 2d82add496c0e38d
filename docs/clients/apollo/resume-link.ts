// Subscriptions of Apollo Client that resume after a lost connection: see docs/frontend.md.

import { ApolloLink, CombinedGraphQLErrors, Observable } from '@apollo/client';
import { print } from '@apollo/client/utilities';
import { isRefusal, isResumable, type Options, resume } from '../resume';

/** Why a link ended. GraphQLWsLink puts the code of a closed websocket into words, and a failed one among GraphQL errors. */
function reasonOf(error: unknown): unknown {
  const failed = CombinedGraphQLErrors.is(error) ? error.errors.find((error) => 'target' in error) : undefined;
  if (failed) return failed;
  const closed = error instanceof Error && /^Socket closed with event (\d+)/.exec(error.message);
  return closed ? { code: Number(closed[1]) } : error;
}

/**
 * Resumes the subscriptions that declare `$after`, and passes on all other operations. It belongs right before the link that
 * sends subscriptions.
 */
export class ResumeLink extends ApolloLink {
  constructor(private readonly options: Options = {}) {
    super();
  }

  override request(operation: ApolloLink.Operation, forward: ApolloLink.ForwardFunction): Observable<ApolloLink.Result> {
    const [query, { variables }] = [print(operation.query), operation];
    if (operation.operationType !== 'subscription' || !isResumable(query)) return forward(operation);
    const options = { isFinal: (error: unknown) => isRefusal(reasonOf(error)), ...this.options };
    return new Observable((observer) =>
      resume(
        (request, sink) => {
          operation.variables = request.variables;
          const subscription = forward(operation).subscribe(sink);
          return () => subscription.unsubscribe();
        },
        { query, variables },
        observer,
        options,
      ),
    );
  }
}
