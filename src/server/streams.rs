//! Responses over HTTP that go on as long as an operation yields results: what they have in common, whatever form the
//! results have.
//!
//! ```text
//!   operation ──► chunks ──► pump, a task: silence, write timeout ──► one chunk waits ──► the HTTP connection ──► client
//! ```

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use async_graphql::futures_util::{Stream, StreamExt};
use axum::body::{Body, Bytes};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Server;
use super::http::{error, refuse_as_json};
use crate::api::code;

/// When one that finds no place may try again, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("10");

/// The place of one such response among the sockets of the server.
pub(super) struct Connection {
    place: OwnedSemaphorePermit,
    shutdown: CancellationToken,
    /// After how long without a chunk the client is told that it is not forgotten.
    interval: Duration,
    write_timeout: Duration,
}

impl Connection {
    /// `None` if there is no place.
    pub(super) fn open(server: &Server) -> Option<Self> {
        let place = server.places.clone().try_acquire_owned().ok()?;
        let (interval, write_timeout) = (server.sockets.ping_interval, server.sockets.write_timeout);
        Some(Self { place, shutdown: server.shutdown.clone(), interval, write_timeout })
    }

    /// The answer if there is no place.
    pub(super) fn refuse() -> Response {
        let error = error(code::RESOURCE_EXHAUSTED, "there are too many streams of events");
        let mut response = refuse_as_json(StatusCode::SERVICE_UNAVAILABLE, error);
        response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
        response
    }

    /// These chunks, and `silence` whenever there was none for a while, until they end, the client goes away or takes
    /// nothing for too long, or the server stops. With that they are dropped, and so is the operation.
    pub(super) fn body(self, chunks: impl Stream<Item = Bytes> + Send + 'static, silence: Bytes) -> Body {
        // a connection whose client does not read asks its body for nothing, and could not be ended by it
        let (sender, taken) = mpsc::channel(1);
        tokio::spawn(self.pump(chunks, silence, sender).in_current_span());
        Body::from_stream(ReceiverStream::new(taken).map(Ok::<_, Infallible>))
    }

    async fn pump(self, chunks: impl Stream<Item = Bytes>, silence: Bytes, client: mpsc::Sender<Bytes>) {
        let Self { place: _place, shutdown, interval, write_timeout } = self;
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
                match timeout(write_timeout, client.send(chunk)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return,
                    Err(_) => {
                        tracing::debug!("a client does not read its stream of events, and is given up");
                        return;
                    }
                }
            }
        };
        shutdown.run_until_cancelled(pumping).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_graphql::futures_util::stream;
    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(20);

    fn connection(places: &Arc<Semaphore>, interval: Duration, write_timeout: Duration) -> Connection {
        let place = places.clone().try_acquire_owned().unwrap();
        Connection { place, shutdown: CancellationToken::new(), interval, write_timeout }
    }

    async fn until_free(places: &Semaphore) {
        timeout(LONG, places.acquire()).await.unwrap().unwrap().forget();
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_loses_its_place_after_the_write_timeout() {
        let places = Arc::new(Semaphore::new(1));
        let started = Instant::now();
        let chunks = stream::repeat(Bytes::from_static(b"x"));
        let body = connection(&places, LONG, SHORT).body(chunks, Bytes::new());
        until_free(&places).await;
        assert!(started.elapsed() >= SHORT);
        // the one that waited is still there, and then nothing
        let rest: Vec<_> = body.into_data_stream().collect().await;
        assert_eq!(rest.len(), 1);
    }

    #[tokio::test]
    async fn a_client_that_takes_what_there_is_keeps_its_place_however_long_that_goes_on() {
        let places = Arc::new(Semaphore::new(1));
        let body =
            connection(&places, Duration::from_millis(5), SHORT).body(stream::pending(), Bytes::from_static(b":"));
        let taken: Vec<_> = body.into_data_stream().take(30).collect().await;
        assert!(taken.into_iter().all(|chunk| chunk.unwrap() == ":"));
    }

    #[tokio::test]
    async fn a_client_that_goes_away_leaves_its_place_at_once() {
        let places = Arc::new(Semaphore::new(1));
        drop(connection(&places, LONG, LONG).body(stream::pending(), Bytes::new()));
        until_free(&places).await;
    }
}
