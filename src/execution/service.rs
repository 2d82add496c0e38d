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
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::error::outcome;
use super::fanout::Fanout;
use super::fanout::stream::StartedStream;
use super::metering::Meter;
use super::operation_queue::OperationQueue;
use super::payload::{Payload, Refused, SubscriptionPayload, Utf8Bytes};
use super::pool::{AbortOnDrop, ExecutionPool};
use super::subscription::{self, SubscriptionEvent};
use crate::api::{self, Account, ResumePoint, Schema};
use crate::execution::document::admission::{Admission, Admitted};
use crate::execution::document::introspection::{CachedAnswer, IntrospectionCache};
use crate::execution::document::request_key::RequestKey;
use crate::execution::memory::{MemoryBudget, Reservation};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::metrics::collector::{MetricKind, MetricsError, number};
use crate::metrics::server_metrics::{OK, ServerMetrics};

/// The schema behind bounded executions. A clone is the same service.
#[derive(Clone)]
pub(crate) struct GraphqlService(Arc<ServiceParts>);

struct ServiceParts {
    schema: Schema,
    admission: Arc<Admission>,
    pool: Arc<ExecutionPool>,
    fanout: Fanout,
    introspection: IntrospectionCache,
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

/// An answer in the form of its transport, and the cost of the operation.
pub(crate) struct Executed<T> {
    pub(crate) answer: T,
    pub(crate) cost: u64,
}

impl GraphqlService {
    /// Errors: the operating system refuses the threads of the pool.
    pub(crate) fn new(
        schema: Schema,
        admission: Arc<Admission>,
        limits: &Limits,
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
            subscription_memory,
            metrics,
        })))
    }

    /// Registers the metrics that are read when they are requested.
    pub(crate) fn register(&self, metrics: &Metrics) -> Result<(), MetricsError> {
        let count = |count: usize| number(u64::try_from(count).unwrap_or(u64::MAX));
        let pool = self.0.pool.clone();
        let help = "Queries and mutations that are executing or queued.";
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
        encode: impl Fn(QueryAnswer) -> T + Clone + Send + 'static,
    ) -> Executed<T> {
        if let Some(CachedAnswer { json, cost }) = self.cached(&admitted) {
            return Executed { answer: encode(QueryAnswer::Cached(json)), cost };
        }
        let account = admitted.account.clone();
        // some kilobytes, which several futures would contain
        let answer = Box::pin(self.execute_now(admitted, encode)).await;
        Executed { answer, cost: account.cost() }
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
    ) -> Result<BoxStream<'static, Payload>, Refused> {
        if admitted.kind != Some(OperationType::Subscription) {
            return Ok(match self.cached(&admitted) {
                Some(CachedAnswer { json, .. }) => stream::iter([Payload::Result(json)]).boxed(),
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
            StartedStream { payloads: self.start(request, begun.clone(), queue.cloned())?, begun }
        };
        if let Some(queue) = queue {
            queue.add(begun);
        }
        Ok(Meter { metrics: self.0.metrics.clone(), sender, _open: open }.meter(payloads))
    }

    /// The answer of a query about the schema, if it was given before and the client can pay for it.
    fn cached(&self, admitted: &Admitted) -> Option<CachedAnswer> {
        let cached = self.0.introspection.get(admitted.schema_key.as_ref()?)?;
        admitted.sender.client.pay(cached.cost).ok()?;
        self.0.metrics.introspection_hits.inc();
        self.0.metrics.operation(admitted.sender.transport, OK);
        self.0.metrics.executed(Duration::ZERO, cached.cost);
        Some(cached)
    }

    async fn execute_now<T: Send + 'static>(
        &self,
        admitted: Admitted,
        encode: impl Fn(QueryAnswer) -> T + Clone + Send + 'static,
    ) -> T {
        let Admitted { request, sender, account, schema_key, .. } = admitted;
        let mut request = request.data(account.clone());
        let (engine, started) = (self.0.clone(), Instant::now());
        let finish = move |response: Response| {
            engine.metrics.operation(sender.transport, outcome(&response));
            engine.metrics.executed(started.elapsed(), account.cost());
            if let Some(key) = &schema_key
                && response.errors.is_empty()
                && let Payload::Result(json) = Payload::new(&response)
            {
                engine.introspection.insert(key.clone(), json, account.cost().max(1));
            }
            encode(QueryAnswer::Response(Box::new(response)))
        };
        // outside of a slot: a request that waits for a block keeps no other from executing
        if let Err(error) = self.0.schema.wait_for_tip(&mut request).await {
            return finish(Response::from_errors(vec![error]));
        }
        let (engine, encode) = (self.0.clone(), finish.clone());
        let execution = async move {
            let response = engine.schema.execute(request).await;
            encode(response)
        };
        match self.0.pool.run(Box::pin(execution.in_current_span())).await {
            Ok(answer) => answer,
            Err(reason) => finish(Response::from_errors(vec![reason.into()])),
        }
    }

    /// Executes a query or a mutation as a task, for a connection that is polled only while its client reads: an execution
    /// must not depend on that while it has a slot or a place in the queue.
    fn execute_as_stream(&self, admitted: Admitted, queue: Option<Arc<OperationQueue>>) -> BoxStream<'static, Payload> {
        let before = queue.as_ref().map_or_else(Vec::new, |queue| queue.starting());
        let service = self.clone();
        let answer = async move {
            for begun in before {
                begun.cancelled().await;
            }
            let _permit = match &queue {
                Some(queue) => queue.permit().await,
                None => None,
            };
            let encode = |answer: QueryAnswer| match answer {
                QueryAnswer::Response(response) => Payload::new(&response),
                QueryAnswer::Cached(json) => Payload::Result(json),
            };
            let running = async move { service.execute_now(admitted, encode).await };
            let answer = AbortOnDrop::new(tokio::spawn(running.in_current_span())).join().await;
            answer.unwrap_or_else(|reason| Payload::new(&Response::from_errors(vec![reason.into()])))
        };
        stream::once(answer).boxed()
    }

    /// Starts a subscription, which cancels `begun` when it has begun, or never will.
    ///
    /// Errors: RESOURCE_EXHAUSTED, if it would take too much memory.
    fn start(
        &self,
        request: Request,
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
            schema.wait_for_tip(&mut request).await?;
            let permit = match queue {
                Some(queue) => queue.permit().await,
                None => None,
            };
            Ok((schema.subscribe(request, None), (permit, begun)))
        };
        Ok(keep_with(subscription::run(&self.0.pool, start, encode).boxed(), reservation))
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
            if let Some(point) = behind {
                request.data.insert(point);
            }
            let payloads = service.0.admission.documents.get(&query).map_err(ServerError::from).and_then(|document| {
                request.set_parsed_query(document);
                // no socket's queue: this is for all
                service.start(request, begun.clone(), None)
            });
            let payloads = payloads.unwrap_or_else(|error| {
                begun.cancel();
                stream::iter([Payload::Refused(error.into()).into()]).boxed()
            });
            StartedStream { payloads, begun }
        }
    }
}

/// The events, with a reservation until they are dropped.
fn keep_with<T: Send + 'static>(events: BoxStream<'static, T>, reservation: Reservation) -> BoxStream<'static, T> {
    let next = |(mut events, reservation): (BoxStream<'static, T>, _)| async {
        Some((events.next().await?, (events, reservation)))
    };
    stream::unfold((events, reservation), next).boxed()
}
