//! The engine behind its guard. All transports execute through this and nothing else.
//!
//! ```text
//!   http/ ─────────────────────► admit ──► run_and ──────────────┐
//!   websocket/ ┐                                                 ├──► executions.rs ──► api::Schema
//!   sse.rs     ├──► subscribe ─► admit ──► query or mutation ────┘                          ▲
//!   multipart  ┘                      └──► subscription ── where its stream is polled ──────┘
//! ```

use std::io;
use std::sync::Arc;

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, OperationType};
use async_graphql::{Data, Executor, Request, Response, ServerError};
use tokio::sync::Semaphore;
use tracing::Instrument;

use super::Limits;
use super::documents::Documents;
use super::executions::{Executions, Running};
use super::guard::Refusal;
use super::payload::{Payload, Refused};
use super::shared::{Key, SharedStreams};
use crate::api::{self, Schema};

/// Executes what the guard admits, and answers the rest with its refusal.
#[derive(Clone)]
pub(super) struct Guarded {
    schema: Schema,
    documents: Arc<Documents>,
    executions: Arc<Executions>,
    /// Those of one socket, if it is for one.
    turns: Option<Arc<Semaphore>>,
    shared: SharedStreams,
}

/// How many queries and mutations of one socket are executed at once, or wait in line for that. What else it asks waits
/// for these, and leaves the line to others. So many answers, too, wait for a client that does not read.
const AT_ONCE_PER_SOCKET: usize = 4;

impl Guarded {
    /// Errors: what the operating system says of threads to execute on.
    pub(super) fn new(schema: Schema, limits: &Limits) -> io::Result<Self> {
        let documents = Arc::new(Documents::new(limits.guard, limits.document_cache_bytes));
        let executions = Arc::new(Executions::start(limits.executions)?);
        let shared = SharedStreams::new(schema.open_subscriptions().clone());
        Ok(Self { schema, documents, executions, turns: None, shared })
    }

    /// The same for one socket, whose operations take turns.
    pub(super) fn for_socket(&self) -> Self {
        Self { turns: Some(Arc::new(Semaphore::new(AT_ONCE_PER_SOCKET))), ..self.clone() }
    }

    /// The request with its document parsed.
    pub(super) fn admit(&self, mut request: Request) -> Result<Admitted, Refusal> {
        let document = self.documents.admit(&request.query)?;
        let kind = kind_of(&document, request.operation_name.as_deref());
        request.set_parsed_query(document);
        Ok(Admitted { request, kind })
    }

    /// The answer to a query or a mutation that was admitted.
    pub(super) async fn run(&self, admitted: Admitted) -> Response {
        self.run_and(admitted, |response| response).await
    }

    /// The same, and what `then` makes of it where it was executed: to write a large answer takes a while, too.
    pub(super) async fn run_and<T: Send + 'static>(
        &self,
        admitted: Admitted,
        then: impl Fn(Response) -> T + Clone + Send + 'static,
    ) -> T {
        let mut request = admitted.request;
        // before it takes a place: who waits for a block keeps nobody else from asking
        if let Err(error) = self.schema.wait_for_tip(&mut request).await {
            return then(Response::from_errors(vec![error]));
        }
        let (schema, write) = (self.schema.clone(), then.clone());
        let execution = async move {
            let response = schema.execute(request).await;
            write(response)
        };
        let execution = execution.in_current_span();
        match self.executions.run(execution).await {
            Ok(answer) => answer,
            Err(reason) => then(Response::from_errors(vec![reason.into()])),
        }
    }

    /// The same for a connection that is looked after only while its client reads: that must not be what a place waits for,
    /// or a turn in line for one.
    async fn run_apart<T: Send + 'static>(
        &self,
        admitted: Admitted,
        then: impl Fn(Response) -> T + Clone + Send + 'static,
    ) -> T {
        let _turn = match &self.turns {
            Some(turns) => turns.acquire().await.ok(),
            None => None,
        };
        let (executor, write) = (self.clone(), then.clone());
        let running = async move { executor.run_and(admitted, write).await };
        let answer = Running::new(tokio::spawn(running.in_current_span())).end().await;
        answer.unwrap_or_else(|reason| then(Response::from_errors(vec![reason.into()])))
    }

    /// What an operation of any kind yields, as it goes to clients: one payload from a query or a mutation, which is
    /// executed as those are that come otherwise, and one an event from a subscription. Dropping it ends the operation.
    ///
    /// Errors: what the guard refuses. What validation refuses is known later, and is the first and only payload.
    pub(super) fn subscribe(
        &self,
        request: Request,
        session: Option<Arc<Data>>,
    ) -> Result<BoxStream<'static, Payload>, Refused> {
        let mut admitted = self.admit(request)?;
        if admitted.kind != Some(OperationType::Subscription) {
            let executor = self.clone();
            // written where it is executed, too
            let write = |response: Response| Payload::new(&response, true);
            return Ok(stream::once(async move { executor.run_apart(admitted, write).await }).boxed());
        }
        let request = &mut admitted.request;
        // what belongs to one client cannot be another's
        let is_common = session.is_none() && request.data.is_empty() && request.uploads.is_empty();
        if is_common
            && let Some(sharing) = api::sharing(request)
            && let Some(key) = Key::of(request)
        {
            return Ok(self.shared.join(key, sharing, self.again(request)));
        }
        Ok(payloads(self.schema.execute_stream(admitted.request, session)))
    }

    /// Executes a request that was admitted, each time anew, without its extensions.
    fn again(&self, request: &Request) -> impl Fn() -> BoxStream<'static, Payload> + Send + Sync + use<> {
        let (schema, documents) = (self.schema.clone(), self.documents.clone());
        let (query, variables) = (request.query.clone(), request.variables.clone());
        let operation = request.operation_name.clone();
        move || {
            let mut request = Request::new(query.clone()).variables(variables.clone());
            request.operation_name.clone_from(&operation);
            match documents.admit(&query) {
                Ok(document) => request.set_parsed_query(document),
                Err(refusal) => return stream::iter([Payload::Refused(refusal.into())]).boxed(),
            }
            payloads(schema.execute_stream(request, None))
        }
    }
}

fn payloads(responses: BoxStream<'static, Response>) -> BoxStream<'static, Payload> {
    responses.enumerate().map(|(number, response)| Payload::new(&response, number == 0)).boxed()
}

/// A request that the guard let through.
pub(super) struct Admitted {
    request: Request,
    kind: Option<OperationType>,
}

impl Admitted {
    /// What it asks for; `None` if it does not say which of its operations is meant, or names one that it does not have.
    /// That is for the engine to refuse.
    pub(super) fn kind(&self) -> Option<OperationType> {
        self.kind
    }

    /// The request as it came, for a transport that streams its results.
    pub(super) fn into_request(self) -> Request {
        self.request
    }
}

fn kind_of(document: &ExecutableDocument, name: Option<&str>) -> Option<OperationType> {
    let operation = match (&document.operations, name) {
        (DocumentOperations::Single(operation), _) => operation,
        (DocumentOperations::Multiple(operations), Some(name)) => operations.get(name)?,
        (DocumentOperations::Multiple(operations), None) if operations.len() == 1 => operations.values().next()?,
        (DocumentOperations::Multiple(_), None) => return None,
    };
    Some(operation.node.ty)
}

fn refused(refusal: Refusal) -> Response {
    tracing::debug!(%refusal, "a query was refused");
    Response::from_errors(vec![ServerError::from(refusal)])
}

impl Executor for Guarded {
    async fn execute(&self, request: Request) -> Response {
        match self.admit(request) {
            Ok(admitted) => self.run(admitted).await,
            Err(refusal) => refused(refusal),
        }
    }

    fn execute_stream(&self, request: Request, session_data: Option<Arc<Data>>) -> BoxStream<'static, Response> {
        match self.admit(request) {
            Ok(admitted) if admitted.kind == Some(OperationType::Subscription) => {
                self.schema.execute_stream(admitted.request, session_data)
            }
            Ok(admitted) => {
                let executor = self.clone();
                stream::once(async move { executor.run_apart(admitted, |response| response).await }).boxed()
            }
            Err(refusal) => stream::iter([refused(refusal)]).boxed(),
        }
    }
}
