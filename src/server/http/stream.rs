//! Responses over HTTP that go on as long as an operation yields results: what they have in common, whatever form the
//! results have.
//!
//! ```text
//!   operation ──► chunks, in a Form ──► pump, a task: silence ──► one chunk waits ──► the HTTP connection ──► client
//!                   └ no room for one: told so instead, and ended (held.rs)
//! ```
//!
//! A client that does not read is the connection's to end, as with any other answer; with it the body ends, and the pump.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::futures_util::stream::{self, BoxStream};
use async_graphql::futures_util::{Stream, StreamExt};
use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::response::{error, refuse_as_json};
use crate::api::code;
use crate::server::Server;
use crate::server::execution::payload::Payload;
use crate::server::limits::memory::MemoryBudget;
use crate::server::limits::slots::{NoSlot, Slot};
use crate::server::metrics::server_metrics::{Counted, ServerMetrics, Transport};

/// When one that finds no slot may try again, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// Keeps proxies from gathering chunks before they pass them on (nginx, and what follows it).
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How results are written on such a response.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) transport: Transport,
    pub(crate) content_type: &'static str,
    /// What comes at once.
    pub(crate) opening: &'static str,
    /// What a result becomes, which is JSON in one line.
    pub(crate) result: fn(&str) -> String,
    /// What tells a client that it is not forgotten.
    pub(crate) silence: &'static str,
    /// What says that there is no more.
    pub(crate) complete: &'static str,
}

/// The slot of one such response among the sockets of the server.
struct Connection {
    slot: Slot,
    shutdown: CancellationToken,
    /// After how long without a chunk the client is told that it is not forgotten.
    interval: Duration,
    told: Option<(Arc<ServerMetrics>, Transport, Counted)>,
}

/// Answers 200 with what a request yields, in this form; 503 if there are too many streams, 429 if this client has too many.
pub(crate) fn answer(
    server: &Server,
    caller: &Parts,
    form: Form,
    payloads: impl FnOnce() -> BoxStream<'static, Payload>,
) -> Response {
    let slot = match server.place_for(caller) {
        Ok(slot) => slot,
        Err(full) => return refuse(full),
    };
    let figures = server.metrics.figures();
    let told = Some((figures.clone(), form.transport, figures.socket(form.transport)));
    let (shutdown, interval) = (server.shutdown.clone(), server.limits.socket_ping_interval);
    let connection = Connection { slot, shutdown, interval, told };
    let body =
        connection.body(chunks(form, server.held.clone(), payloads()), Bytes::from_static(form.silence.as_bytes()));
    ([(CONTENT_TYPE, form.content_type), (CACHE_CONTROL, "no-cache"), (BUFFERING, "no")], body).into_response()
}

/// These payloads in this form, from its opening to its end. One for which there is no room is the last, told as an error:
/// that is small, and small ones are not counted.
pub(crate) fn chunks(
    form: Form,
    held: MemoryBudget,
    payloads: BoxStream<'static, Payload>,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let opening = Some(Bytes::from_static(form.opening.as_bytes())).filter(|opening| !opening.is_empty());
    let results = stream::unfold(Some(payloads), move |payloads| {
        let held = held.clone();
        async move {
            // none once it is over
            let mut payloads = payloads?;
            let Some(payload) = payloads.next().await else { return Some((form.complete.into(), None)) };
            match held.hold((form.result)(&payload.into_result()).into()) {
                Ok(chunk) => Some((chunk, Some(payloads))),
                Err(reason) => {
                    tracing::debug!("the byte budget has no space for an event of a stream, and the stream ends");
                    let last = Payload::failed(reason.into()).into_result();
                    Some((((form.result)(&last) + form.complete).into(), None))
                }
            }
        }
    });
    stream::iter(opening).chain(results)
}

/// The answer if there is no slot.
fn refuse(full: NoSlot) -> Response {
    let (status, message) = match full {
        NoSlot::All => (StatusCode::SERVICE_UNAVAILABLE, "the server has too many event streams: retry later"),
        NoSlot::Client => (StatusCode::TOO_MANY_REQUESTS, "this client has too many event streams: close one"),
    };
    let mut response = refuse_as_json(status, error(code::RESOURCE_EXHAUSTED, message));
    response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
    response
}

impl Connection {
    /// These chunks, and `silence` whenever there was none for a while, until they end, the client goes away, or
    /// the server stops. With that they are dropped, and so is the operation.
    fn body(self, chunks: impl Stream<Item = Bytes> + Send + 'static, silence: Bytes) -> Body {
        // a connection whose client does not read asks its body for nothing, and could not be ended by it
        let (sender, taken) = mpsc::channel(1);
        tokio::spawn(self.pump(chunks, silence, sender).in_current_span());
        Body::from_stream(ReceiverStream::new(taken).map(Ok::<_, Infallible>))
    }

    async fn pump(self, chunks: impl Stream<Item = Bytes>, silence: Bytes, client: mpsc::Sender<Bytes>) {
        let Self { slot: _place, shutdown, interval, told } = self;
        let mut chunks = pin!(chunks);
        let pumping = async {
            loop {
                let chunk = tokio::select! {
                    biased;
                    () = client.closed() => return,
                    chunk = chunks.next() => chunk,
                    () = sleep(interval) => Some(silence.clone()),
                };
                let Some(chunk) = chunk else { return };
                if let Some((figures, transport, _)) = &told {
                    figures.sent(*transport, chunk.len());
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
    use crate::server::http::{multipart, sse};
    use crate::server::limits::memory::SMALL;
    use crate::server::limits::slots::{SlotLimits, Slots};

    const LONG: Duration = Duration::from_secs(20);

    fn connection(slots: &Slots, interval: Duration) -> Connection {
        let Ok(slot) = slots.take(None) else { panic!("there is a slot") };
        Connection { slot, shutdown: CancellationToken::new(), interval, told: None }
    }

    fn one_place() -> Slots {
        Slots::new(SlotLimits { all: 1, each: 0 })
    }

    #[tokio::test]
    async fn a_client_that_takes_what_there_is_keeps_its_place_however_long_that_goes_on() {
        let slots = one_place();
        let silence = Bytes::from_static(b":");
        let body = connection(&slots, Duration::from_millis(5)).body(stream::pending(), silence);
        let mut chunks = body.into_data_stream();
        for _ in 0..30 {
            assert_eq!(chunks.next().await.unwrap().unwrap(), ":");
        }
        assert!(slots.take(None).is_err());
    }

    #[tokio::test]
    async fn a_client_that_goes_away_leaves_its_place_at_once_also_while_something_waits_for_it() {
        for chunks in [stream::pending().boxed(), stream::repeat(Bytes::from_static(b"x")).boxed()] {
            let slots = one_place();
            let body = connection(&slots, LONG).body(chunks, Bytes::new());
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
    async fn what_there_is_no_room_for_is_told_as_an_error_and_nothing_comes_after_it() {
        let payloads = || [10, SMALL + 1, 10].map(|bytes| Payload::Result("x".repeat(bytes).into()));
        for form in [sse::FORM, multipart::FORM] {
            let all =
                |held| chunks(form, MemoryBudget::new(held), stream::iter(payloads()).boxed()).collect::<Vec<_>>();
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
