//! Accepts connections and serves a router on each.
//!
//! ```text
//!   listener ──► a slot? slots.rs ──► timed_stream.rs ──► HTTP/1.1 (hyper) ──► router ──► websockets keep it
//!                  │                        ├─ min_rate.rs: does the client read fast enough
//!                  │                        └─ framing.rs: does a request state its length twice
//!                  └ no: 503 or 429, and closed
//! ```
//!
//! One connection costs a file of the process ([`file_limit`]) and some kilobytes. Clients that keep one without reading or
//! sending, or that send a byte at a time, are disconnected.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::file_limit;
use super::framing::{AmbiguousLength, BUFFER};
use super::timed_stream::{Answering, TimedStream, Timeouts};
use crate::limits::Limits;
use crate::server::limits::client_ip::Exemptions;
use crate::server::limits::slots::{NoSlot, Slot, SlotLimits, Slots};
use crate::server::shutdown::Open;

/// The most unsent bytes that the operating system buffers. With more it would buffer megabytes for a slow client, and not
/// report for minutes that the client reads at all. It reports when half of this is sent, which at the minimum rate must
/// take less than the write timeout.
const UNSENT: u32 = 16 << 10;

/// The pause after an error that the next attempt would meet again, as when there is no file left.
const PAUSE: Duration = Duration::from_millis(200);

/// How many clients without a slot are refused at once; of more the connections are closed.
const REFUSALS: usize = 64;

/// How long a refused client has to read that.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves this router until the server stops. Then nothing is accepted, and connections end with the request that is being
/// answered. Each keeps `open` until then.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: &Limits,
    exemptions: Arc<Exemptions>,
    shutdown: CancellationToken,
    open: Open,
) {
    let slots = Slots::new(
        SlotLimits { all: file_limit::fit(limits.connections), each: limits.connections_per_client },
        exemptions,
    );
    let timeouts = Timeouts::of(limits);
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections for now");
                sleep(PAUSE).await;
                continue;
            }
        };
        bound_unsent(&stream);
        match slots.take(Some(peer.ip())) {
            Ok(slot) => {
                let connection = serve_one((stream, peer), slot, router.clone(), timeouts, shutdown.clone());
                tokio::spawn(with_guard(open.clone(), connection));
            }
            Err(full) => {
                tracing::debug!(%peer, ?full, "a connection is refused: too many are open");
                if let Ok(turn) = refusals.clone().try_acquire_owned() {
                    tokio::spawn(with_guard(turn, refuse(stream, full)));
                }
            }
        }
    }
}

/// Keeps a guard until the work is done.
async fn with_guard<T>(guard: T, work: impl Future<Output = ()>) {
    work.await;
    drop(guard);
}

/// Set on each connection, because those that arrive before the server starts inherit nothing of its listener.
fn bound_unsent(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let bounded = socket.set_tcp_notsent_lowat(UNSENT);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let bounded = socket.set_send_buffer_size(UNSENT as usize);
    if let Err(error) = bounded {
        tracing::debug!(%error, "cannot set the send buffer of a connection");
    }
}

/// The client went away before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn serve_one(
    (stream, peer): (TcpStream, SocketAddr),
    slot: Slot,
    router: Router,
    timeouts: Timeouts,
    shutdown: CancellationToken,
) {
    // a small frame is not to wait until the client has acknowledged the one before it (RFC 896), which takes clients up
    // to 40 ms; what cannot be set is only slower
    let _ = stream.set_nodelay(true);
    let answering = Answering::default();
    let stream = TimedStream::new(stream, timeouts, answering.clone(), Some(slot));
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        if answering.begin() {
            request.extensions_mut().insert(AmbiguousLength);
        }
        request.extensions_mut().insert(ConnectInfo(peer));
        let (response, answering) = (router.call(request), answering.clone());
        async move {
            let response = response.await?;
            // another protocol, with timeouts of its own
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                answering.upgrade();
                return Ok(response);
            }
            Ok::<_, std::convert::Infallible>(response.map(|body: Body| answering.until_end_of(body)))
        }
    });
    let mut http = http1::Builder::new();
    // TimedStream has it, and distinguishes an unfinished request from none
    let http = http.header_read_timeout(None).max_buf_size(BUFFER);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, %peer, "a connection ended early");
    }
}

/// Sends why there is no slot, and reads what the client sends: it may never read why if its connection is closed with
/// something unread in it.
async fn refuse(mut stream: TcpStream, full: NoSlot) {
    let status = match full {
        NoSlot::All => StatusCode::SERVICE_UNAVAILABLE,
        NoSlot::Client => StatusCode::TOO_MANY_REQUESTS,
    };
    let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\nretry-after: 10\r\ncontent-length: 0\r\n\r\n");
    let answering = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // whether it reads that is up to it
    let _ = timeout(REFUSAL_TIMEOUT, answering).await;
}
