//! Responses over HTTP that go on as long as an operation yields results: what they have in common, whatever form the
//! results have.
//!
//! ```text
//!   operation ──► chunks ──► pump, a task: silence ──► one chunk waits ──► the HTTP connection ──► client
//! ```
//!
//! A client that does not read is the connection's to end, as with any other answer; with it the body ends, and the pump.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::futures_util::{Stream, StreamExt};
use axum::body::{Body, Bytes};
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Server;
use super::held::Held;
use super::http::{error, refuse_as_json};
use super::metrics::{Counted, Figures, Transport};
use super::places::{Full, Place};
use crate::api::code;

/// When one that finds no place may try again, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// The place of one such response among the sockets of the server.
pub(super) struct Connection {
    place: Place,
    shutdown: CancellationToken,
    held: Held,
    /// After how long without a chunk the client is told that it is not forgotten.
    interval: Duration,
    told: Option<(Arc<Figures>, Transport, Counted)>,
}

impl Connection {
    /// For this client. Errors: why there is no place.
    pub(super) fn open(server: &Server, caller: &Parts) -> Result<Self, Full> {
        let place = server.place_for(caller)?;
        let (shutdown, held) = (server.shutdown.clone(), server.held.clone());
        Ok(Self { place, shutdown, held, interval: server.sockets.ping_interval, told: None })
    }

    /// The same, with what goes over it counted.
    pub(super) fn counted(self, server: &Server, transport: Transport) -> Self {
        let figures = server.metrics.figures();
        Self { told: Some((figures.clone(), transport, figures.socket(transport))), ..self }
    }

    /// The answer if there is no place.
    pub(super) fn refuse(full: Full) -> Response {
        let (status, message) = match full {
            Full::All => (StatusCode::SERVICE_UNAVAILABLE, "there are too many streams of events"),
            Full::Client => (StatusCode::TOO_MANY_REQUESTS, "this client has too many streams of events"),
        };
        let mut response = refuse_as_json(status, error(code::RESOURCE_EXHAUSTED, message));
        response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
        response
    }

    /// These chunks, and `silence` whenever there was none for a while, until they end, the client goes away, or
    /// the server stops. With that they are dropped, and so is the operation.
    pub(super) fn body(self, chunks: impl Stream<Item = Bytes> + Send + 'static, silence: Bytes) -> Body {
        // a connection whose client does not read asks its body for nothing, and could not be ended by it
        let (sender, taken) = mpsc::channel(1);
        tokio::spawn(self.pump(chunks, silence, sender).in_current_span());
        Body::from_stream(ReceiverStream::new(taken).map(Ok::<_, Infallible>))
    }

    async fn pump(self, chunks: impl Stream<Item = Bytes>, silence: Bytes, client: mpsc::Sender<Bytes>) {
        let Self { place: _place, shutdown, held, interval, told } = self;
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
                let Ok(chunk) = held.hold(chunk) else {
                    tracing::debug!("there is no room for what a stream of events has to tell, and it is ended");
                    return;
                };
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
    use async_graphql::futures_util::stream;

    use super::super::places::{Most, Places};
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn connection(places: &Places, interval: Duration) -> Connection {
        let Ok(place) = places.take(None) else { panic!("there is a place") };
        Connection { place, shutdown: CancellationToken::new(), held: Held::new(0), interval, told: None }
    }

    fn one_place() -> Places {
        Places::new(Most { all: 1, each: 0 })
    }

    #[tokio::test]
    async fn a_client_that_takes_what_there_is_keeps_its_place_however_long_that_goes_on() {
        let places = one_place();
        let silence = Bytes::from_static(b":");
        let body = connection(&places, Duration::from_millis(5)).body(stream::pending(), silence);
        let mut chunks = body.into_data_stream();
        for _ in 0..30 {
            assert_eq!(chunks.next().await.unwrap().unwrap(), ":");
        }
        assert!(places.take(None).is_err());
    }

    #[tokio::test]
    async fn a_client_that_goes_away_leaves_its_place_at_once_also_while_something_waits_for_it() {
        for chunks in [stream::pending().boxed(), stream::repeat(Bytes::from_static(b"x")).boxed()] {
            let places = one_place();
            let body = connection(&places, LONG).body(chunks, Bytes::new());
            sleep(Duration::from_millis(50)).await;
            assert!(places.take(None).is_err());
            drop(body);
            let free = async {
                while places.take(None).is_err() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(LONG, free).await.unwrap();
        }
    }
}
