//! Responses that continue while an operation yields results, in any form of results.
//!
//! ```text
//!   operation ──► chunks, in a Form ──► Pump, a task: keep-alive ──► one chunk waits ──► the HTTP connection ──► client
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
use crate::execution::payload::ClientPayload;
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
        payloads: impl FnOnce() -> BoxStream<'static, ClientPayload>,
    ) -> Response {
        let slot = match self.slots.take(client) {
            Ok(slot) => slot,
            Err(reason) => return refuse(reason),
        };
        let metrics = Some((self.metrics.clone(), form.transport, self.metrics.socket(form.transport)));
        let pump = Pump { slot, shutdown: self.shutdown.clone(), interval: self.interval, metrics };
        let chunks = chunks(form, payloads());
        let body = pump.body(chunks, Bytes::from_static(form.keep_alive.as_bytes()));
        ([(CONTENT_TYPE, form.content_type), (CACHE_CONTROL, "no-cache"), (BUFFERING, "no")], body).into_response()
    }
}

/// The payloads in this form, from its opening to its end.
pub(crate) fn chunks(
    form: Form,
    payloads: BoxStream<'static, ClientPayload>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let opening = Some(Bytes::from_static(form.opening.as_bytes())).filter(|opening| !opening.is_empty());
    let chunk = move |ClientPayload { payload, reservation }| {
        let cursor = payload.cursor().map(str::to_owned);
        let chunk = Bytes::from((form.result)(&payload.into_result(), cursor.as_deref()));
        match reservation {
            Some(reservation) => reservation.with(chunk),
            None => chunk,
        }
    };
    stream::iter(opening).chain(payloads.map(chunk)).chain(stream::iter([form.complete.into()]))
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
    use crate::server::limits::slots::SlotLimits;

    const LONG: Duration = Duration::from_secs(20);

    fn pump(slots: &Slots, interval: Duration) -> Pump {
        let Ok(slot) = slots.take(None) else { panic!("there is a slot") };
        Pump { slot, shutdown: CancellationToken::new(), interval, metrics: None }
    }

    fn one_slot() -> Slots {
        Slots::new(SlotLimits { all: 1, each: 0 }, Arc::default())
    }

    #[tokio::test(start_paused = true)]
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

    #[tokio::test(start_paused = true)]
    async fn a_client_that_disconnects_frees_its_slot_at_once() {
        for chunks in [stream::pending().boxed(), stream::repeat(Bytes::from_static(b"x")).boxed()] {
            let slots = one_slot();
            let body = pump(&slots, LONG).body(chunks, Bytes::new());
            sleep(Duration::from_millis(50)).await;
            assert!(slots.take(None).is_err());
            drop(body);
            sleep(Duration::from_millis(1)).await;
            assert!(slots.take(None).is_ok());
        }
    }
}
