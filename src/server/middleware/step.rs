//! A list of steps around a handler.

use std::sync::Arc;

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::extract::{Request, State};
use axum::middleware;
use axum::response::Response;

/// What a request passes before it is answered, and its response after that.
pub(crate) trait RequestStep: Send + Sync {
    /// Answers the request, by the rest of the steps or instead of them.
    fn handle<'a>(&'a self, request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response>;
}

/// Steps from the outermost to the innermost.
pub(crate) type Steps = Arc<[Box<dyn RequestStep>]>;

/// The rest of a list of steps, and what they lead to.
pub(crate) struct NextStep<'a> {
    steps: &'a [Box<dyn RequestStep>],
    handler: middleware::Next,
}

impl<'a> NextStep<'a> {
    pub(crate) fn run(self, request: Request) -> BoxFuture<'a, Response> {
        match self.steps.split_first() {
            Some((step, steps)) => step.handle(request, NextStep { steps, handler: self.handler }),
            None => self.handler.run(request).boxed(),
        }
    }
}

/// Runs all steps around a handler: the function of a layer of axum.
pub(crate) async fn run(State(steps): State<Steps>, request: Request, handler: middleware::Next) -> Response {
    NextStep { steps: &steps, handler }.run(request).await
}
