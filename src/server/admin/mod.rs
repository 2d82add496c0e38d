//! The admin socket: requests of commands on this machine to a running server.
//!
//! ```text
//!   POST /notify/HASH   the node has a new block: 202; 400 if that is not a block hash, 404 if the node has no such block
//!   POST /verify        starts the check that its body describes, and streams its progress as lines of JSON: 200;
//!                       400 if it cannot be read; 409 while another check is running
//!   POST /backup        copies the live tables of the index in its body, and streams the progress as lines of JSON: 200;
//!                       400 if another index is open; 409 while a check or a backup is running
//!   POST /log           logs what the filter in its body says, or that of the settings if it is empty: 200 with the filter;
//!                       400 if it is none
//!   POST /cut           the frozen blocks of the index in its body, as JSON for `publish`: 200; 409 with the reason if there are none
//!   POST /drain         shows the server as not ready: 200; /drain/undo ends that
//!   GET  /metrics       the metrics of the process, for Prometheus; POST does the same
//! ```
//!
//! What the requests do is up to the [`Admin`]. A loopback port is open to every page of every browser on this machine, so
//! requests with an `Origin` are refused, and on a port those for another host: a page whose name resolves to this machine (DNS
//! rebinding) sends a GET without an `Origin`.

mod socket;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use async_graphql::futures_util::future::BoxFuture;
use async_graphql::futures_util::stream;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, ORIGIN};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::execution::memory::MemoryBudget;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::server::connection::min_rate::MinRate;
use crate::server::draining::Draining;
use crate::server::http::body::{BodyError, receive};
use crate::server::metrics_page;
use crate::server::middleware::host::{is_loopback, named};
use crate::server::shutdown::within_deadline;
use socket::Listening;
pub use socket::{AdminSocket, SocketError};

/// The most bytes of a body.
const BODY: usize = 64 * 1024;

/// How many lines wait for a client that reads slowly.
const LINES: usize = 16;

/// Requests the newest block of the node after a notice that it has one of this hash.
pub type Notify = dyn Fn(&str) -> BoxFuture<'static, Result<(), NotNotified>> + Send + Sync;

/// Why a hash is not that of a new block, for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNotified {
    /// It is no hash.
    #[error("{0:?} is not a block hash: give 64 hexadecimal digits")]
    NotAHash(String),
    /// The node has no block of this hash. Its newest block is requested all the same.
    #[error("the node has no block {0}; the server still requests the newest block")]
    UnknownBlock(String),
}

/// Starts the check or the copy that these bytes describe, and returns at once. Errors: why they describe none.
pub type Verify = dyn Fn(&[u8], Job) -> Result<(), String> + Send + Sync;

/// Logs what this filter says, or that of the settings if it is empty, and returns the filter in force. Errors: why it cannot.
pub type SetLog = dyn Fn(&str) -> Result<String, String> + Send + Sync;

/// Describes the frozen blocks of the index that these bytes name. Errors: why it cannot.
pub type DescribeCut = dyn Fn(&[u8]) -> Result<String, String> + Send + Sync;

/// What the requests do.
pub struct Admin {
    /// On `/notify`.
    pub notify: Box<Notify>,
    /// On `/verify`.
    pub verify: Box<Verify>,
    /// On `/backup`.
    pub backup: Box<Verify>,
    /// On `/log`.
    pub set_log: Box<SetLog>,
    /// On `/cut`.
    pub cut: Box<DescribeCut>,
    /// On `/drain`.
    pub draining: Draining,
    /// On `/metrics`; `None` if there are none.
    pub metrics: Option<Metrics>,
}

/// A requested check or backup, owned by the thread that runs it. No other starts until it is finished or dropped.
pub struct Job {
    lines: mpsc::Sender<String>,
    stop: CancellationToken,
    permit: OwnedSemaphorePermit,
}

impl Job {
    /// Cancelled when the server stops, and when the client disconnects.
    #[must_use]
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Sends the client a line, unless it has many unread.
    pub fn tell(&self, line: String) {
        // an error means that it has, or is gone
        let _ = self.lines.try_send(line + "\n");
    }

    /// Sends the last line, and blocks until the client has space for it or is gone.
    pub fn finish(self, line: String) {
        drop(self.permit);
        // an error means that it is gone
        let _ = self.lines.blocking_send(line + "\n");
    }
}

/// The state of the handlers.
#[derive(Clone)]
struct AdminState {
    admin: Arc<Admin>,
    /// One permit: a check or a backup reads all of the index.
    permit: Arc<Semaphore>,
    shutdown: CancellationToken,
}

/// Serves the socket until `shutdown` is cancelled; then checks are broken off and answers finished, for at most five
/// seconds, and the socket's file is removed.
///
/// Errors: what the operating system says of the socket.
pub async fn serve(socket: AdminSocket, admin: Admin, shutdown: CancellationToken) -> io::Result<()> {
    let shared = AdminState { admin: Arc::new(admin), permit: Arc::new(Semaphore::new(1)), shutdown: shutdown.clone() };
    let router = router(shared);
    let (listening, _file) = socket.into_parts();
    let stopped = shutdown.clone().cancelled_owned();
    match listening {
        Listening::Tcp(listener) => {
            // no page reaches a Unix socket
            let router = router.layer(from_fn(refuse_other_hosts));
            let serving = axum::serve(listener, router).with_graceful_shutdown(stopped);
            within_deadline(serving.into_future(), &shutdown).await
        }
        #[cfg(unix)]
        Listening::Unix(listener) => {
            let serving = axum::serve(listener, router).with_graceful_shutdown(stopped);
            within_deadline(serving.into_future(), &shutdown).await
        }
    }
}

fn router(shared: AdminState) -> Router {
    Router::new()
        .route("/notify/{hash}", post(notify))
        .route("/verify", post(verify))
        .route("/backup", post(backup))
        .route("/log", post(log))
        .route("/cut", post(cut))
        .route("/drain", post(async |State(shared): State<AdminState>| drain(&shared, true)))
        .route("/drain/undo", post(async |State(shared): State<AdminState>| drain(&shared, false)))
        .route("/metrics", get(metrics).post(metrics))
        .layer(from_fn(refuse_browsers))
        .with_state(shared)
}

async fn refuse_browsers(request: Request, next: Next) -> Response {
    if request.headers().contains_key(ORIGIN) {
        return (StatusCode::FORBIDDEN, "web pages may not send commands to the server").into_response();
    }
    next.run(request).await
}

async fn refuse_other_hosts(request: Request, next: Next) -> Response {
    match named(&request) {
        Ok(host) if host.as_ref().is_none_or(|host| is_loopback(host.host())) => next.run(request).await,
        _ => (StatusCode::MISDIRECTED_REQUEST, "the admin socket answers under the names of this machine alone")
            .into_response(),
    }
}

async fn metrics(State(shared): State<AdminState>) -> Response {
    shared.admin.metrics.as_ref().map_or_else(|| StatusCode::NOT_FOUND.into_response(), metrics_page::response)
}

async fn notify(State(shared): State<AdminState>, Path(hash): Path<String>) -> Response {
    let Err(reason) = (shared.admin.notify)(&hash).await else { return StatusCode::ACCEPTED.into_response() };
    let status = match reason {
        NotNotified::NotAHash(_) => StatusCode::BAD_REQUEST,
        NotNotified::UnknownBlock(_) => StatusCode::NOT_FOUND,
    };
    (status, reason.to_string()).into_response()
}

async fn log(State(shared): State<AdminState>, request: Request) -> Response {
    let filter = match body_of(request).await {
        Ok(filter) => filter,
        Err(refused) => return refused,
    };
    let changed = match std::str::from_utf8(&filter) {
        Ok(filter) => (shared.admin.set_log)(filter),
        Err(_) => Err("the filter is not UTF-8".to_owned()),
    };
    match changed {
        Ok(filter) => {
            info!(%filter, "the filter of the log changed");
            filter.into_response()
        }
        Err(reason) => (StatusCode::BAD_REQUEST, reason).into_response(),
    }
}

async fn cut(State(shared): State<AdminState>, request: Request) -> Response {
    let index = match body_of(request).await {
        Ok(index) => index,
        Err(refused) => return refused,
    };
    match (shared.admin.cut)(&index) {
        Ok(cut) => ([(CONTENT_TYPE, "application/json")], cut).into_response(),
        Err(reason) => (StatusCode::CONFLICT, reason).into_response(),
    }
}

fn drain(shared: &AdminState, is_draining: bool) -> StatusCode {
    shared.admin.draining.set(is_draining);
    info!(is_draining, "the server shows itself to load balancers as the admin socket says");
    StatusCode::OK
}

/// The body of a request. Errors: the response that refuses it.
async fn body_of(request: Request) -> Result<Bytes, Response> {
    let (parts, body) = request.into_parts();
    let (min_rate, memory) = (MinRate::of_bodies(&Limits::default()), MemoryBudget::of_unread_responses(BODY));
    let received = receive(&parts.headers, body, BODY, min_rate, &memory).await;
    received.map(|body| Bytes::copy_from_slice(body.as_ref())).map_err(|error| {
        let (status, reason) = match error {
            BodyError::TooLarge(_) | BodyError::NoMemory(_) => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
            BodyError::Late => (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
            BodyError::Malformed => (StatusCode::BAD_REQUEST, "the body is malformed or incomplete"),
        };
        (status, reason).into_response()
    })
}

async fn verify(State(shared): State<AdminState>, request: Request) -> Response {
    let admin = Arc::clone(&shared.admin);
    start_job(shared, request, &admin.verify).await
}

async fn backup(State(shared): State<AdminState>, request: Request) -> Response {
    let admin = Arc::clone(&shared.admin);
    start_job(shared, request, &admin.backup).await
}

/// Starts a job, and streams its lines.
async fn start_job(shared: AdminState, request: Request, start: &Verify) -> Response {
    let question = match body_of(request).await {
        Ok(question) => question,
        Err(refused) => return refused,
    };
    let Ok(permit) = shared.permit.try_acquire_owned() else {
        let reason = "another check or backup of the index is running: wait until it ends, or stop it";
        return (StatusCode::CONFLICT, reason).into_response();
    };
    let (lines, receiver) = mpsc::channel(LINES);
    let stop = shared.shutdown.child_token();
    // dropped with the body: when it has been sent, and when the client has gone
    let guard = stop.clone().drop_guard();
    if let Err(reason) = start(question.as_ref(), Job { lines, stop, permit }) {
        return (StatusCode::BAD_REQUEST, reason).into_response();
    }
    let lines = stream::unfold((receiver, guard), |(mut receiver, guard)| async {
        Some((Ok::<_, Infallible>(receiver.recv().await?), (receiver, guard)))
    });
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}
