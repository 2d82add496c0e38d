//! A list of steps around a handler.

use std::sync::Arc;

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::extract::{Request, State};
use axum::middleware;
use axum::response::Response;

/// What a request passes before it is answered, and its response after that.
pub(crate) trait Step: Send + Sync {
    /// Answers the request, by the rest of the steps or instead of them.
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> BoxFuture<'a, Response>;
}

/// Steps from the outermost to the innermost.
pub(crate) type Steps = Arc<[Box<dyn Step>]>;

/// The rest of a list of steps, and what they lead to.
pub(crate) struct Next<'a> {
    steps: &'a [Box<dyn Step>],
    handler: middleware::Next,
}

impl<'a> Next<'a> {
    pub(crate) fn run(self, request: Request) -> BoxFuture<'a, Response> {
        match self.steps.split_first() {
            Some((step, steps)) => step.handle(request, Next { steps, handler: self.handler }),
            None => self.handler.run(request).boxed(),
        }
    }
}

/// Runs all steps around a handler: the function of a layer of axum.
pub(crate) async fn run(State(steps): State<Steps>, request: Request, handler: middleware::Next) -> Response {
    Next { steps: &steps, handler }.run(request).await
}
