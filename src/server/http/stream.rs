//! Responses that continue while an operation yields results, in any form of results.
//!
//! ```text
//!   operation ──► chunks, in a Form ──► Pump, a task: keep-alive ──► one chunk waits ──► the HTTP connection ──► client
//!                   └ over the memory budget: an error instead, and the end
//! ```
//!
//! A client that does not read is disconnected by its connection, as with any other response; with that the body ends, and
//! the pump.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::futures_util::{Stream, StreamExt};
use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::response::refuse_as_json;
use crate::api::code;
use crate::execution::error::error;
use crate::execution::memory::MemoryBudget;
use crate::execution::payload::Payload;
use crate::metrics::server_metrics::{GaugeGuard, ServerMetrics, Transport};
use crate::server::limits::slots::{NoSlot, Slot, Slots};

/// When a client without a slot may retry, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// Keeps proxies from buffering chunks (nginx and its descendants).
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The form of results in such a response.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) transport: Transport,
    pub(crate) content_type: &'static str,
    /// The first bytes, sent at once.
    pub(crate) opening: &'static str,
    /// A result, which is JSON in one line, and the cursor of the event if it has one.
    pub(crate) result: fn(&str, Option<&str>) -> String,
    /// Sent when there was nothing else for a while.
    pub(crate) keep_alive: &'static str,
    /// The end of a stream that is complete.
    pub(crate) complete: &'static str,
}

/// Opens such responses.
pub(crate) struct EventStreams {
    pub(crate) slots: Slots,
    pub(crate) memory: MemoryBudget,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) shutdown: CancellationToken,
    /// The time without a chunk after which the client gets a keep-alive.
    pub(crate) interval: Duration,
}

/// The slot and the task of one response.
struct Pump {
    slot: Slot,
    shutdown: CancellationToken,
    interval: Duration,
    metrics: Option<(Arc<ServerMetrics>, Transport, GaugeGuard)>,
}

impl EventStreams {
    /// Answers 200 with what an operation yields, in this form; 503 if there are too many streams, 429 if this client has
    /// too many. Then `payloads` is not called.
    pub(crate) fn open(
        &self,
        client: Option<IpAddr>,
        form: Form,
        payloads: impl FnOnce() -> BoxStream<'static, Payload>,
    ) -> Response {
        let slot = match self.slots.take(client) {
            Ok(slot) => slot,
            Err(reason) => return refuse(reason),
        };
        let metrics = Some((self.metrics.clone(), form.transport, self.metrics.socket(form.transport)));
        let pump = Pump { slot, shutdown: self.shutdown.clone(), interval: self.interval, metrics };
        let chunks = chunks(form, self.memory.clone(), payloads());
        let body = pump.body(chunks, Bytes::from_static(form.keep_alive.as_bytes()));
        ([(CONTENT_TYPE, form.content_type), (CACHE_CONTROL, "no-cache"), (BUFFERING, "no")], body).into_response()
    }
}

/// The payloads in this form, from its opening to its end. One that exceeds the memory budget is replaced by an error, and
/// is the last: the error is small, and small chunks are not counted.
pub(crate) fn chunks(
    form: Form,
    memory: MemoryBudget,
    payloads: BoxStream<'static, Payload>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let opening = Some(Bytes::from_static(form.opening.as_bytes())).filter(|opening| !opening.is_empty());
    let results = stream::unfold(Some(payloads), move |payloads| {
        let memory = memory.clone();
        async move {
            // none once it is over
            let mut payloads = payloads?;
            let Some(payload) = payloads.next().await else { return Some((form.complete.into(), None)) };
            let cursor = payload.cursor().map(str::to_owned);
            match memory.keep((form.result)(&payload.into_result(), cursor.as_deref()).into()) {
                Ok(chunk) => Some((chunk, Some(payloads))),
                Err(reason) => {
                    tracing::debug!("the byte budget has no space for an event of a stream, and the stream ends");
                    let last = Payload::failed(reason).into_result();
                    Some((((form.result)(&last, None) + form.complete).into(), None))
                }
            }
        }
    });
    stream::iter(opening).chain(results)
}

/// The response if there is no slot.
fn refuse(reason: NoSlot) -> Response {
    let (status, message) = match reason {
        NoSlot::All => (StatusCode::SERVICE_UNAVAILABLE, "the server has too many event streams: retry later"),
        NoSlot::Client => (StatusCode::TOO_MANY_REQUESTS, "this client has too many event streams: close one"),
    };
    let mut response = refuse_as_json(status, error(code::RESOURCE_EXHAUSTED, message));
    response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
    response
}

impl Pump {
    /// The chunks, and `keep_alive` whenever there was none for a while, until they end, the client disconnects, or the
    /// server stops. With that they are dropped, and so is the operation.
    fn body(self, chunks: impl Stream<Item = Bytes> + Send + 'static, keep_alive: Bytes) -> Body {
        // a connection whose client does not read does not poll its body, and could not be ended by it
        let (sender, taken) = mpsc::channel(1);
        tokio::spawn(self.run(chunks, keep_alive, sender).in_current_span());
        Body::from_stream(ReceiverStream::new(taken).map(Ok::<_, Infallible>))
    }

    async fn run(self, chunks: impl Stream<Item = Bytes>, keep_alive: Bytes, client: mpsc::Sender<Bytes>) {
        let Self { slot: _slot, shutdown, interval, metrics } = self;
        let mut chunks = pin!(chunks);
        let pumping = async {
            loop {
                let chunk = tokio::select! {
                    biased;
                    () = client.closed() => return,
                    chunk = chunks.next() => chunk,
                    () = sleep(interval) => Some(keep_alive.clone()),
                };
                let Some(chunk) = chunk else { return };
                if let Some((metrics, transport, _)) = &metrics {
                    metrics.sent(*transport, chunk.len());
                }
                if client.send(chunk).await.is_err() {
                    return;
                }
            }
        };
        shutdown.run_until_cancelled(pumping).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::memory::SMALL;
    use crate::server::http::{multipart, sse};
    use crate::server::limits::slots::SlotLimits;

    const LONG: Duration = Duration::from_secs(20);

    fn pump(slots: &Slots, interval: Duration) -> Pump {
        let Ok(slot) = slots.take(None) else { panic!("there is a slot") };
        Pump { slot, shutdown: CancellationToken::new(), interval, metrics: None }
    }

    fn one_slot() -> Slots {
        Slots::new(SlotLimits { all: 1, each: 0 }, Arc::default())
    }

    #[tokio::test]
    async fn a_client_that_reads_keeps_its_slot() {
        let slots = one_slot();
        let keep_alive = Bytes::from_static(b":");
        let body = pump(&slots, Duration::from_millis(5)).body(stream::pending(), keep_alive);
        let mut chunks = body.into_data_stream();
        for _ in 0..30 {
            assert_eq!(chunks.next().await.unwrap().unwrap(), ":");
        }
        assert!(slots.take(None).is_err());
    }

    #[tokio::test]
    async fn a_client_that_disconnects_frees_its_slot_at_once() {
        for chunks in [stream::pending().boxed(), stream::repeat(Bytes::from_static(b"x")).boxed()] {
            let slots = one_slot();
            let body = pump(&slots, LONG).body(chunks, Bytes::new());
            sleep(Duration::from_millis(50)).await;
            assert!(slots.take(None).is_err());
            drop(body);
            let free = async {
                while slots.take(None).is_err() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(LONG, free).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_payload_over_the_budget_is_an_error_and_the_end() {
        let payloads = || [10, SMALL + 1, 10].map(|bytes| Payload::Result("x".repeat(bytes).into()));
        for form in [sse::FORM, multipart::FORM] {
            let all = |limit| {
                chunks(form, MemoryBudget::of_unread_responses(limit), stream::iter(payloads()).boxed())
                    .collect::<Vec<_>>()
            };
            let (enough, too_little) = (all(1 << 20).await.concat(), all(0).await.concat());
            assert!(enough.len() > SMALL && enough.ends_with(form.complete.as_bytes()));
            let text = String::from_utf8(too_little).unwrap();
            assert!(text.ends_with(form.complete) && text.len() < 1_000, "{text}");
            assert_eq!(
                (text.matches("xxxxxxxxxx").count(), text.matches("RESOURCE_EXHAUSTED").count()),
                (1, 1),
                "{text}"
            );
        }
    }
}
