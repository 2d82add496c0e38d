//! The engine behind its guard. All transports execute through this and nothing else.
//!
//! ```text
//!   http/ ─────────────────────► admit ──► run_and ──────────────┐
//!   websocket/ ┐                                                 ├──► executions.rs ──► api::Schema
//!   sse.rs     ├──► subscribe ─► admit ──► query or mutation ────┤
//!   multipart  ┘                      └──► subscription ── shared.rs, if others may have the same
//! ```
//!
//! What a socket asks after a subscription is answered from no older state than that from which the subscription tells
//! what happens: a client that subscribes and then asks how things are misses nothing in between.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::parser::types::OperationType;
use async_graphql::{Executor as _, Request, Response, ServerError, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::fanout::{Fanout, Key, StartedStream};
use super::metering::Subscription;
use super::payload::{Payload, Refused, SharedPayload};
use super::pool::{AbortOnDrop, ExecutionPool};
use super::subscription::ResumePoints;
use crate::api::{self, Account, Include, ReadSet, ResumePoint, Schema};
use crate::limits::Limits;
use crate::server::auth::callers::Client;
use crate::server::document::cache;
use crate::server::document::cache::{Documents, Holding};
use crate::server::document::guard::Refusal;
use crate::server::document::introspection;
use crate::server::document::introspection::{Introspection, Known};
use crate::server::document::persisted::Persisted;
use crate::server::metrics::server_metrics::{Counted, ServerMetrics, Transport, code_of};
use crate::server::metrics::{Kind, Metrics, MetricsError, number};

/// Executes what the guard admits, and answers the rest with its refusal.
#[derive(Clone)]
pub(crate) struct GraphqlService {
    engine: Arc<Engine>,
    /// Of one socket, if it is for one.
    socket: Option<Arc<OneSocket>>,
    transport: Transport,
    caller: Arc<Client>,
    include: Include,
}

/// What is the same for all who ask.
struct Engine {
    schema: Schema,
    documents: Documents,
    executions: Arc<ExecutionPool>,
    shared: Fanout,
    introspection: Introspection,
    figures: Arc<ServerMetrics>,
}

/// The request extension that names what a response is to tell beside its data, as the header `X-Btcgraph-Include` does: for
/// transports without headers.
const INCLUDE: &str = "include";

/// How many queries and mutations of one socket are executed at once, or wait in line for that. What else it asks waits
/// for these, and leaves the line to others. So many answers, too, wait for a client that does not read.
const AT_ONCE_PER_SOCKET: usize = 4;

/// What the operations of one socket have in common.
struct OneSocket {
    /// The queries that clients may name by their hashes.
    persisted: Arc<Persisted>,
    turns: Arc<Semaphore>,
    /// The subscriptions that have not begun, each cancelled when it has.
    beginning: Mutex<Vec<CancellationToken>>,
}

impl OneSocket {
    fn new(persisted: Arc<Persisted>) -> Self {
        Self { persisted, turns: Arc::new(Semaphore::new(AT_ONCE_PER_SOCKET)), beginning: Mutex::default() }
    }

    /// Those that have not begun now.
    fn beginning(&self) -> Vec<CancellationToken> {
        let mut beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        beginning.retain(|begun| !begun.is_cancelled());
        beginning.clone()
    }

    /// One more, which is cancelled when it has begun.
    fn begin(&self, begun: CancellationToken) {
        let mut beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        beginning.retain(|begun| !begun.is_cancelled());
        beginning.push(begun);
    }
}

impl GraphqlService {
    /// Errors: what the operating system says of threads to execute on.
    pub(crate) fn new(
        schema: Schema,
        limits: &Limits,
        figures: Arc<ServerMetrics>,
        caller: Arc<Client>,
    ) -> io::Result<Self> {
        let documents = Documents::new(limits);
        let documents = documents.counted_in(figures.clone());
        let executions = Arc::new(ExecutionPool::start(limits)?);
        let shared = Fanout::new(schema.open_subscriptions().clone());
        let engine =
            Arc::new(Engine { schema, documents, executions, shared, introspection: Introspection::new(), figures });
        Ok(Self { engine, socket: None, transport: Transport::default(), caller, include: Include::default() })
    }

    /// Tells what it does now whenever somebody asks for the metrics.
    pub(crate) fn tell_in(&self, metrics: &Metrics) -> Result<(), MetricsError> {
        let count = |count: usize| number(u64::try_from(count).unwrap_or(u64::MAX));
        let executions = self.engine.executions.clone();
        let help = "Queries and mutations that are executing or queued.";
        metrics.add(Kind::Gauge, "btcgraph_server_executions", help, Some("state"), move || {
            let (running, waiting) = executions.now();
            vec![(Some("running"), count(running)), (Some("waiting"), count(waiting))]
        })?;
        let shared = self.engine.shared.clone();
        let help = "Subscriptions that are executed once for all clients with the same operation and variables.";
        metrics.add_one(Kind::Gauge, "btcgraph_server_shared_streams", help, move || count(shared.count()))
    }

    /// The same for what comes this way from somebody.
    pub(crate) fn on_behalf(&self, caller: Arc<Client>, transport: Transport, include: Include) -> Self {
        Self { transport, caller, include, ..self.clone() }
    }

    /// The same for what goes another way.
    pub(crate) fn through(&self, transport: Transport) -> Self {
        Self { transport, ..self.clone() }
    }

    /// The same for one socket, whose operations take turns.
    pub(crate) fn for_socket(&self, persisted: Arc<Persisted>) -> Self {
        Self { socket: Some(Arc::new(OneSocket::new(persisted))), ..self.clone() }
    }

    /// The request with its document parsed.
    pub(crate) fn admit(&self, mut request: Request) -> Result<Admitted, Refusal> {
        let refused = |refusal: &Refusal| self.engine.figures.operation(self.transport, refusal.code());
        self.engine.documents.admit_values(&request).inspect_err(refused)?;
        let document = self.engine.documents.admit(&request.query).inspect_err(refused)?;
        let kind = cache::operation(&document, request.operation_name.as_deref()).map(|operation| operation.ty);
        let asked = match request.extensions.get(INCLUDE) {
            Some(Value::String(list)) => Include::of(list),
            _ => Include::default(),
        };
        let include = self.include.or(asked);
        let introspects = if include == Include::default() { introspection::key_of(&request, &document) } else { None };
        request.set_parsed_query(document);
        Ok(Admitted { request, kind, account: Arc::new(self.caller.account(include)), introspects })
    }

    /// The answer to a question about the schema, if it was given before and the client can pay for it.
    pub(crate) fn recall(&self, admitted: &Admitted) -> Option<Known> {
        let known = self.engine.introspection.get(admitted.introspects.as_ref()?)?;
        self.caller.pay(known.cost).ok()?;
        self.engine.figures.introspection_hits.inc();
        self.engine.figures.operation(self.transport, code_of(&Response::default()));
        self.engine.figures.executed(Duration::ZERO, known.cost);
        Some(known)
    }

    /// What `then` makes of the answer to a query or a mutation that was admitted, where that was executed: to write a large
    /// answer takes a while, too.
    pub(crate) async fn run_and<T: Send + 'static>(
        &self,
        admitted: Admitted,
        then: impl Fn(Response) -> T + Clone + Send + 'static,
    ) -> T {
        let Admitted { request, account, introspects, .. } = admitted;
        let mut request = request.data(account.clone());
        let (engine, transport, began) = (self.engine.clone(), self.transport, Instant::now());
        let then = move |response: Response| {
            engine.figures.operation(transport, code_of(&response));
            engine.figures.executed(began.elapsed(), account.cost());
            if let Some(key) = &introspects
                && response.errors.is_empty()
            {
                engine.introspection.keep(key.clone(), Payload::new(&response), account.cost());
            }
            then(response)
        };
        // before it takes a place: who waits for a block keeps nobody else from asking
        if let Err(error) = self.engine.schema.wait_for_tip(&mut request).await {
            return then(Response::from_errors(vec![error]));
        }
        let (engine, write) = (self.engine.clone(), then.clone());
        let execution = async move {
            let response = engine.schema.execute(request).await;
            write(response)
        };
        // some kilobytes, which go through several hands
        let execution = Box::pin(execution.in_current_span());
        match self.engine.executions.run(execution).await {
            Ok(answer) => answer,
            Err(reason) => then(Response::from_errors(vec![reason.into()])),
        }
    }

    /// The same as a stream of one, for a connection that is looked after only while its client reads: that must not be
    /// what a place waits for, or a turn in line for one.
    fn run_apart(&self, admitted: Admitted) -> BoxStream<'static, Payload> {
        let before = self.socket.as_ref().map_or_else(Vec::new, |socket| socket.beginning());
        let executor = self.clone();
        let answer = async move {
            for begun in before {
                begun.cancelled().await;
            }
            let _turn = match &executor.socket {
                Some(socket) => socket.turns.acquire().await.ok(),
                None => None,
            };
            let executor = executor.clone();
            // written where it is executed, too
            let running = async move { executor.run_and(admitted, |response| Payload::new(&response)).await };
            let answer = AbortOnDrop::new(tokio::spawn(running.in_current_span())).end().await;
            answer.unwrap_or_else(|reason| Payload::new(&Response::from_errors(vec![reason.into()])))
        };
        stream::once(answer).boxed()
    }

    /// What a subscription that was admitted yields. `begun` is cancelled once it has, or if it never will.
    ///
    /// Errors: RESOURCE_EXHAUSTED, if it would hold too much.
    fn follow<T: Send + 'static>(
        &self,
        mut request: Request,
        begun: CancellationToken,
        write: impl Fn(Response, bool, ResumePoints) -> T + Send + 'static,
    ) -> Result<BoxStream<'static, T>, ServerError> {
        // also if it is dropped before
        let begun = begun.drop_guard();
        let holding = self.engine.documents.hold(&request)?;
        let (schema, socket) = (self.engine.schema.clone(), self.socket.clone());
        let beginning = async move {
            schema.wait_for_tip(&mut request).await?;
            let turn = match socket {
                Some(socket) => socket.turns.clone().acquire_owned().await.ok(),
                None => None,
            };
            Ok((schema.subscribe(request, None), (turn, begun)))
        };
        Ok(held(self.engine.executions.follow(beginning, write).boxed(), holding))
    }

    /// What an operation of any kind yields, as it goes to clients: one payload from a query or a mutation, which is
    /// executed as those are that come otherwise, and one an event from a subscription. Dropping it ends the operation.
    ///
    /// Errors: what the guard refuses. What validation refuses is known later, and is the first and only payload.
    pub(crate) fn subscribe(&self, request: Request) -> Result<BoxStream<'static, Payload>, Refused> {
        // over HTTP that is done before
        let Some(socket) = &self.socket else { return self.payloads(request) };
        let (request, named) = socket.persisted.resolve(request)?;
        let payloads = self.payloads(request)?;
        Ok(socket.persisted.keeping(named, payloads, Payload::is_result))
    }

    fn payloads(&self, request: Request) -> Result<BoxStream<'static, Payload>, Refused> {
        let mut admitted = self.admit(request)?;
        if admitted.kind != Some(OperationType::Subscription) {
            if let Some(Known { payload, .. }) = self.recall(&admitted) {
                return Ok(stream::iter([payload]).boxed());
            }
            return Ok(self.run_apart(admitted));
        }
        let request = &mut admitted.request;
        let open = self.engine.figures.subscription(api::subscribed_field(request).as_deref());
        // what belongs to one client cannot be another's
        let is_common = request.data.is_empty() && request.uploads.is_empty();
        if is_common
            && let Some(sharing) = api::sharing(request)
            && let Some(key) = Key::of(request)
        {
            let (payloads, begun, account) = self.engine.shared.join(key, sharing, self.again(request)).into_parts();
            self.begins(begun);
            return Ok(self.told(account, open).tell(payloads));
        }
        let begun = CancellationToken::new();
        self.begins(begun.clone());
        let account = Arc::new(Account::default());
        let request = admitted.request.data(account.clone());
        let write = |response: Response, may_refuse, _| Payload::event(&response, may_refuse);
        let payloads = self.follow(request, begun, write)?;
        Ok(self.told(account, open).tell(payloads))
    }

    fn told(&self, account: Arc<Account>, open: Option<Counted>) -> Subscription {
        let (figures, caller) = (self.engine.figures.clone(), self.caller.clone());
        Subscription { figures, transport: self.transport, caller, account, _open: open }
    }

    fn begins(&self, begun: CancellationToken) {
        if let Some(socket) = &self.socket {
            socket.begin(begun);
        }
    }

    /// Executes a request that was admitted, each time anew, without its extensions, from now on or from behind a place.
    fn again(&self, request: &Request) -> impl Fn(Option<ResumePoint>) -> StartedStream + Send + Sync + use<> {
        // what is executed for all takes nobody's turn
        let executor = Self { socket: None, ..self.clone() };
        let (query, variables) = (request.query.clone(), request.variables.clone());
        let operation = request.operation_name.clone();
        move |behind| {
            let account = Arc::new(Account::default());
            let mut request = Request::new(query.clone()).variables(variables.clone()).data(account.clone());
            request.operation_name.clone_from(&operation);
            if let Some(place) = behind {
                request.data.insert(place);
            }
            let told = |response: Response, may_refuse, ResumePoints { start, place }| SharedPayload {
                payload: Payload::event(&response, may_refuse),
                place,
                start,
            };
            let begun = CancellationToken::new();
            let admitted = executor.admit(request).map_err(ServerError::from);
            let payloads = admitted.and_then(|admitted| executor.follow(admitted.request, begun.clone(), told));
            let refused = |error: ServerError| {
                begun.cancel();
                stream::iter([Payload::Refused(error.into()).into()]).boxed()
            };
            StartedStream::new(payloads.unwrap_or_else(refused), begun.clone()).costing(account)
        }
    }
}

/// These events, holding this as long as they are there.
fn held<T: Send + 'static>(events: BoxStream<'static, T>, holding: Holding) -> BoxStream<'static, T> {
    stream::unfold((events, holding), |(mut events, holding)| async { Some((events.next().await?, (events, holding))) })
        .boxed()
}

/// A request that the guard let through.
pub(crate) struct Admitted {
    request: Request,
    kind: Option<OperationType>,
    account: Arc<Account>,
    /// What its answer is kept under, if it is one about the schema.
    introspects: Option<Key>,
}

impl Admitted {
    /// What it asks for; `None` if it does not say which of its operations is meant, or names one that it does not have.
    /// That is for the engine to refuse.
    pub(crate) fn kind(&self) -> Option<OperationType> {
        self.kind
    }

    /// What it costs, and who pays.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Whether it asks for the schema and nothing else, so that its answer is the same while the server runs.
    pub(crate) fn is_about_schema(&self) -> bool {
        self.introspects.is_some()
    }

    /// The same, noting what its answer is made from.
    pub(crate) fn noting(self, reads: ReadSet) -> Self {
        Self { request: self.request.data(reads), ..self }
    }

    /// Whether it has extensions other than this one. By those it may ask for what it would else not get.
    pub(crate) fn asks_beside(&self, extension: &str) -> bool {
        self.request.extensions.keys().any(|name| name != extension)
    }

    /// The request as it came, for a transport that streams its results.
    pub(crate) fn into_request(self) -> Request {
        self.request
    }
}
