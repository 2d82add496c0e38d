//! The engine behind its guard. Both transports execute through this and nothing else.

use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::{Data, Executor, Request, Response, ServerError};

use super::guard::{self, GuardLimits, Refusal};
use crate::api::Schema;

/// Executes what the guard admits, and answers the rest with its refusal.
#[derive(Clone)]
pub(super) struct Guarded {
    schema: Schema,
    limits: GuardLimits,
}

impl Guarded {
    pub(super) fn new(schema: Schema, limits: GuardLimits) -> Self {
        Self { schema, limits }
    }

    /// The request with its document parsed.
    fn admit(&self, mut request: Request) -> Result<Request, Refusal> {
        let document = guard::admit(&request.query, &self.limits)?;
        request.set_parsed_query(document);
        Ok(request)
    }
}

fn refused(refusal: Refusal) -> Response {
    tracing::debug!(%refusal, "a query was refused");
    Response::from_errors(vec![ServerError::from(refusal)])
}

impl Executor for Guarded {
    async fn execute(&self, request: Request) -> Response {
        match self.admit(request) {
            Ok(request) => self.schema.execute(request).await,
            Err(refusal) => refused(refusal),
        }
    }

    fn execute_stream(&self, request: Request, session_data: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        match self.admit(request) {
            Ok(request) => self.schema.execute_stream(request, session_data),
            Err(refusal) => stream::iter([refused(refusal)]).boxed(),
        }
    }
}
