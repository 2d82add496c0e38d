//! The engine behind its guard. Both transports execute through this and nothing else.

use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::{Data, Executor, Request, Response, ServerError};

use tokio::sync::Semaphore;

use super::documents::Documents;
use super::guard::{GuardLimits, Refusal};
use crate::api::Schema;

/// Executes what the guard admits, and answers the rest with its refusal.
#[derive(Clone)]
pub(super) struct Guarded {
    schema: Schema,
    documents: Arc<Documents>,
}

impl Guarded {
    pub(super) fn new(schema: Schema, limits: GuardLimits, document_cache_bytes: usize) -> Self {
        Self { schema, documents: Arc::new(Documents::new(limits, document_cache_bytes)) }
    }

    /// The request with its document parsed.
    fn admit(&self, mut request: Request) -> Result<Request, Refusal> {
        let document = self.documents.admit(&request.query)?;
        request.set_parsed_query(document);
        Ok(request)
    }
}

fn refused(refusal: Refusal) -> Response {
    tracing::debug!(%refusal, "a query was refused");
    Response::from_errors(vec![ServerError::from(refusal)])
}

/// The same for one websocket, which runs a bounded number of operations at once.
#[derive(Clone)]
pub(super) struct PerSocket {
    executor: Guarded,
    limit: usize,
    free: Arc<Semaphore>,
}

impl PerSocket {
    pub(super) fn new(executor: Guarded, limit: usize) -> Self {
        Self { executor, limit, free: Arc::new(Semaphore::new(limit)) }
    }
}

impl Executor for PerSocket {
    async fn execute(&self, request: Request) -> Response {
        self.executor.execute(request).await
    }

    fn execute_stream(&self, request: Request, session_data: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        let Ok(place) = self.free.clone().try_acquire_owned() else {
            let limit = self.limit;
            let too_many =
                Refusal::TooLarge { which: "operations on its websocket", limit, actual: limit.saturating_add(1) };
            return stream::iter([refused(too_many)]).boxed();
        };
        let answers = self.executor.execute_stream(request, session_data);
        // the place is free again once the stream is dropped: at its end, and when the client stops it
        stream::unfold((answers, place), |(mut answers, place)| async {
            Some((answers.next().await?, (answers, place)))
        })
        .boxed()
    }
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
