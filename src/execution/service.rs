//! Executes admitted requests, for all transports: queries and mutations, and subscriptions.
//!
//! ```text
//!   server/http/       ──► execute ──────────────────────────────┐
//!                                                                ├──► pool.rs ──► api::Schema
//!   server/websocket/  ──► subscribe ──► query or mutation ──────┤
//!   server/http/stream             └──► subscription.rs ─────────┘
//!                                        ├ fanout/      one execution for all clients with the same subscription
//!                                        └ metering.rs  counts and charges each event
//! ```

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_graphql::futures_util::StreamExt;
use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::parser::types::OperationType;
use async_graphql::{Executor as _, Request, Response, ServerError};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::error::{outcome, outcome_of};
use super::fanout::Fanout;
use super::fanout::stream::StartedStream;
use super::metering::{ABANDONED, ExecutionRecord, Meter};
use super::operation_queue::OperationQueue;
use super::payload::{ClientPayload, Payload, Refused, SubscriptionPayload, Utf8Bytes};
use super::pool::{AbortOnDrop, ExecutionPool};
use super::subscription::{self, SubscriptionEvent, SubscriptionStart};
use crate::api::{self, Account, ResumePoint, Schema};
use crate::execution::document::admission::{Admission, Admitted};
use crate::execution::document::introspection::{CachedAnswer, IntrospectionCache};
use crate::execution::document::request_key::RequestKey;
use crate::execution::memory::{MemoryBudget, Reservation};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::metrics::collector::{MetricKind, MetricsError, number};
use crate::metrics::server_metrics::{OK, ServerMetrics, Transport};

/// The schema behind bounded executions. A clone is the same service.
#[derive(Clone)]
pub(crate) struct GraphqlService(Arc<ServiceParts>);

struct ServiceParts {
    schema: Schema,
    admission: Arc<Admission>,
    pool: Arc<ExecutionPool>,
    fanout: Fanout,
    introspection: IntrospectionCache,
    /// Of the payloads that clients have not read.
    memory: MemoryBudget,
    subscription_memory: MemoryBudget,
    metrics: Arc<ServerMetrics>,
}

/// The answer to a query or a mutation.
pub(crate) enum QueryAnswer {
    /// It is executed, or refused.
    Response(Box<Response>),
    /// It is about the schema, and was given before: an execution result without errors, as JSON.
    Cached(Utf8Bytes),
}

/// An answer in the form of its transport.
pub(crate) struct Encoded<T> {
    pub(crate) answer: T,
    /// The code of the first error that the client receives, or [`OK`].
    pub(crate) outcome: &'static str,
}

/// An executed operation: its answer in the form of its transport, its outcome as in [`Encoded`], and its cost.
pub(crate) struct Executed<T> {
    pub(crate) answer: T,
    pub(crate) outcome: &'static str,
    pub(crate) cost: u64,
}

impl GraphqlService {
    /// Errors: the operating system refuses the threads of the pool.
    pub(crate) fn new(
        schema: Schema,
        admission: Arc<Admission>,
        limits: &Limits,
        memory: MemoryBudget,
        metrics: Arc<ServerMetrics>,
        reads_wait: bool,
    ) -> io::Result<Self> {
        let pool = Arc::new(ExecutionPool::start(limits, reads_wait)?);
        let fanout = Fanout::new(schema.open_subscriptions().clone());
        let subscription_memory = MemoryBudget::of_subscriptions(limits.subscription_bytes);
        let introspection = IntrospectionCache::new();
        Ok(Self(Arc::new(ServiceParts {
            schema,
            admission,
            pool,
            fanout,
            introspection,
            memory,
            subscription_memory,
            metrics,
        })))
    }

    /// Registers the metrics that are read when they are requested.
    pub(crate) fn register(&self, metrics: &Metrics) -> Result<(), MetricsError> {
        let count = |count: usize| number(u64::try_from(count).unwrap_or(u64::MAX));
        let pool = self.0.pool.clone();
        let help = "Queries, mutations and starts of subscriptions that are executing or queued.";
        metrics.add(MetricKind::Gauge, "btcgraph_server_executions", help, Some("state"), move || {
            let (running, waiting) = pool.load();
            vec![(Some("running"), count(running)), (Some("waiting"), count(waiting))]
        })?;
        let fanout = self.0.fanout.clone();
        let help = "Subscriptions that are executed once for all clients with the same operation and variables.";
        metrics.add_one(MetricKind::Gauge, "btcgraph_server_shared_streams", help, move || count(fanout.count()))
    }

    /// Executes a query or a mutation. `encode` makes the answer of the transport, on the thread of the execution: a large
    /// answer takes a while to encode.
    pub(crate) async fn execute<T: Send + 'static>(
        &self,
        admitted: Admitted,
        encode: impl Fn(QueryAnswer) -> Encoded<T> + Clone + Send + 'static,
    ) -> Executed<T> {
        if let Some((json, cost)) = self.cached(&admitted, Ok) {
            let Encoded { answer, outcome } = encode(QueryAnswer::Cached(json));
            return Executed { answer, outcome, cost };
        }
        let (account, record) = (admitted.account.clone(), self.record(&admitted));
        // some kilobytes, which several futures would contain
        let (Encoded { answer, outcome }, _) = Box::pin(self.execute_now(admitted, record, None, encode)).await;
        Executed { answer, outcome, cost: account.cost() }
    }

    /// Counts a request that is refused neither by admission nor by its execution, which count themselves.
    pub(crate) fn count_refused(&self, transport: Transport, reason: &ServerError) {
        self.0.metrics.operation(transport, outcome_of(reason));
    }

    /// Executes an operation of any kind: a query or a mutation yields one payload, a subscription one for each event.
    /// Dropping the stream ends the operation. On a websocket `queue` orders its operations.
    ///
    /// Errors: RESOURCE_EXHAUSTED, if a subscription would take too much memory. What validation refuses is the first and
    /// only payload.
    pub(crate) fn subscribe(
        &self,
        admitted: Admitted,
        queue: Option<&Arc<OperationQueue>>,
    ) -> Result<BoxStream<'static, ClientPayload>, Refused> {
        if admitted.kind != Some(OperationType::Subscription) {
            let reserve = |json| ClientPayload::reserve(Payload::Result(json), &self.0.memory);
            return Ok(match self.cached(&admitted, reserve) {
                Some((payload, _)) => stream::iter([payload]).boxed(),
                None => self.execute_as_stream(admitted, queue.cloned()),
            });
        }
        let Admitted { mut request, sender, .. } = admitted;
        let open = self.0.metrics.subscription(api::subscribed_field(&mut request).as_deref());
        // data and uploads belong to one client
        let is_common = request.data.is_empty() && request.uploads.is_empty();
        let StartedStream { payloads, begun } = if is_common
            && let Some(sharing) = api::sharing(&mut request)
            && let Some(key) = RequestKey::of(&request)
        {
            self.0.fanout.join(key, sharing, self.restart(&request))
        } else {
            let begun = CancellationToken::new();
            let request = request.data(sender.client.stream_budget());
            let payloads = self
                .start(request, SubscriptionStart::New, begun.clone(), queue.cloned())
                .inspect_err(|reason| self.count_refused(sender.transport, reason))?;
            StartedStream { payloads, begun }
        };
        if let Some(queue) = queue {
            queue.add(begun);
        }
        let (metrics, memory) = (self.0.metrics.clone(), self.0.memory.clone());
        Ok(Meter { metrics, memory, sender, _open: open }.meter(payloads))
    }

    /// The answer of a query about the schema, and its cost, if it was given before, there is space for it, and the client can
    /// pay for it.
    fn cached<T>(
        &self,
        admitted: &Admitted,
        reserve: impl FnOnce(Utf8Bytes) -> Result<T, ServerError>,
    ) -> Option<(T, u64)> {
        let CachedAnswer { json, cost } = self.0.introspection.get(admitted.schema_key.as_ref()?)?;
        let answer = reserve(json).ok()?;
        admitted.sender.client.pay(cost).ok()?;
        self.0.metrics.introspection_hits.inc();
        self.0.metrics.operation(admitted.sender.transport, OK);
        self.0.metrics.executed(Duration::ZERO, cost);
        Some((answer, cost))
    }

    fn record(&self, admitted: &Admitted) -> ExecutionRecord {
        ExecutionRecord {
            metrics: self.0.metrics.clone(),
            transport: admitted.sender.transport,
            account: admitted.account.clone(),
            started: Instant::now(),
            outcome: ABANDONED,
        }
    }

    /// Executes an admitted query or mutation. The answer carries the permit of its socket.
    async fn execute_now<T: Send + 'static>(
        &self,
        admitted: Admitted,
        mut record: ExecutionRecord,
        queue: Option<Arc<OperationQueue>>,
        encode: impl Fn(QueryAnswer) -> Encoded<T> + Clone + Send + 'static,
    ) -> (Encoded<T>, Option<OwnedSemaphorePermit>) {
        let executed = self.try_execute(admitted, queue, encode.clone()).await;
        let (answer, permit) = executed.unwrap_or_else(|error| {
            (encode(QueryAnswer::Response(Box::new(Response::from_errors(vec![error])))), None)
        });
        record.outcome = answer.outcome;
        (answer, permit)
    }

    /// Errors: why it is not executed to its end.
    async fn try_execute<T: Send + 'static>(
        &self,
        admitted: Admitted,
        queue: Option<Arc<OperationQueue>>,
        encode: impl Fn(QueryAnswer) -> Encoded<T> + Send + 'static,
    ) -> Result<(Encoded<T>, Option<OwnedSemaphorePermit>), ServerError> {
        let Admitted { request, account, schema_key, .. } = admitted;
        let mut request = request.data(account.clone());
        let permit = wait_for_turn(&self.0.schema, &mut request, queue.as_deref()).await?;
        let engine = self.0.clone();
        let execution = async move {
            let response = engine.schema.execute(request).await;
            if let Some(key) = schema_key
                && response.errors.is_empty()
                && let Payload::Result(json) = Payload::new(&response)
            {
                engine.introspection.insert(key, json, account.cost().max(1));
            }
            encode(QueryAnswer::Response(Box::new(response)))
        };
        let answer = self.0.pool.run(Box::pin(execution.in_current_span())).await?;
        Ok((answer, permit))
    }

    /// Executes a query or a mutation as a task, for a connection that is polled only while its client reads: an execution
    /// must not depend on that while it has a slot or a place in the queue. Its answer is counted among the bytes that clients
    /// have not read from when it is there, and keeps the permit of its socket until it is taken.
    fn execute_as_stream(
        &self,
        admitted: Admitted,
        queue: Option<Arc<OperationQueue>>,
    ) -> BoxStream<'static, ClientPayload> {
        let before = queue.as_ref().map_or_else(Vec::new, |queue| queue.starting());
        let (service, memory, record) = (self.clone(), self.0.memory.clone(), self.record(&admitted));
        let answer = async move {
            for begun in before {
                begun.cancelled().await;
            }
            let encode = move |answer: QueryAnswer| {
                let (response, outcome) = match answer {
                    QueryAnswer::Response(response) => (Payload::new(&response), outcome(&response)),
                    QueryAnswer::Cached(json) => (Payload::Result(json), OK),
                };
                match ClientPayload::reserve(response, &memory) {
                    Ok(answer) => Encoded { answer, outcome },
                    Err(reason) => Encoded { outcome: outcome_of(&reason), answer: ClientPayload::refused(reason) },
                }
            };
            let running = async move { service.execute_now(admitted, record, queue, encode).await };
            let executed = AbortOnDrop::new(tokio::spawn(running.in_current_span())).join().await;
            executed.map_or_else(|reason| ClientPayload::refused(reason.into()), |(Encoded { answer, .. }, _)| answer)
        };
        stream::once(answer).boxed()
    }

    /// Starts a subscription, which cancels `begun` when it has begun, or never will.
    ///
    /// Errors: RESOURCE_EXHAUSTED, if it would take too much memory.
    fn start(
        &self,
        request: Request,
        kind: SubscriptionStart,
        begun: CancellationToken,
        queue: Option<Arc<OperationQueue>>,
    ) -> Result<BoxStream<'static, SubscriptionPayload>, ServerError> {
        // also if it is dropped before
        let begun = begun.drop_guard();
        let reservation = self.0.subscription_memory.reserve(self.0.admission.documents.bytes_of(&request)?)?;
        let (schema, account) = (self.0.schema.clone(), Arc::<Account>::default());
        let mut request = request.data(account.clone());
        let encode = move |event: &SubscriptionEvent| SubscriptionPayload {
            payload: Payload::event(&event.response, event.may_refuse).at(event.cursor.as_ref()),
            cost: account.cost(),
            resume_point: event.resume_point,
            start: event.start,
        };
        let start = async move {
            let permit = wait_for_turn(&schema, &mut request, queue.as_deref()).await?;
            Ok((schema.subscribe(request, None), (permit, begun)))
        };
        Ok(keep_with(subscription::run(&self.0.pool, kind, start, encode).boxed(), reservation))
    }

    /// Starts a subscription for all its clients, from now on or from behind a point, without the extensions of the first.
    fn restart(&self, request: &Request) -> impl Fn(Option<ResumePoint>) -> StartedStream + Send + Sync + use<> {
        let service = self.clone();
        let (query, variables) = (request.query.clone(), request.variables.clone());
        let operation = request.operation_name.clone();
        move |behind| {
            let begun = CancellationToken::new();
            let mut request = Request::new(query.clone()).variables(variables.clone());
            request.operation_name.clone_from(&operation);
            let kind = if behind.is_some() { SubscriptionStart::Resumed } else { SubscriptionStart::New };
            if let Some(point) = behind {
                request.data.insert(point);
            }
            let payloads = service.0.admission.documents.get(&query).map_err(ServerError::from).and_then(|document| {
                request.set_parsed_query(document);
                // no socket's queue: this is for all
                service.start(request, kind, begun.clone(), None)
            });
            let payloads = payloads.unwrap_or_else(|error| {
                begun.cancel();
                stream::iter([Payload::Refused(error.into()).into()]).boxed()
            });
            StartedStream { payloads, begun }
        }
    }
}

/// Waits for the block that a request names, and then, on a websocket, for a permit to execute: a request that waits for a block
/// has none, and keeps no other from executing.
async fn wait_for_turn(
    schema: &Schema,
    request: &mut Request,
    queue: Option<&OperationQueue>,
) -> Result<Option<OwnedSemaphorePermit>, ServerError> {
    let Some(queue) = queue else { return schema.wait_for_tip(request).await.map(|()| None) };
    if schema.names_tip(request) {
        let _waiting = queue.waiting_permit().await;
        schema.wait_for_tip(request).await?;
    }
    Ok(queue.permit().await)
}

/// The events, with a reservation until they are dropped.
fn keep_with<T: Send + 'static>(events: BoxStream<'static, T>, reservation: Reservation) -> BoxStream<'static, T> {
    let next = |(mut events, reservation): (BoxStream<'static, T>, _)| async {
        Some((events.next().await?, (events, reservation)))
    };
    stream::unfold((events, reservation), next).boxed()
}
