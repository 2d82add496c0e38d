//! The way in: HTTP and websockets, and what a request must hold before the schema executes it.
//!
//! ```text
//!   POST /graphql ──► http.rs ──────┐
//!                                   ├──► executor.rs ── guard.rs ──► api::Schema
//!   GET  /graphql ──► websocket.rs ─┘
//!   /health/live  /health/ready  /schema.graphql
//!   /playground ──► playground.rs: pages that ask all of this from a browser
//!
//!   admin.rs: the socket for commands on this machine, apart from all of this
//! ```
//!
//! Knows nothing of Bitcoin.

pub mod admin;
mod documents;
mod executor;
pub mod guard;
mod health;
mod http;
mod playground;
mod websocket;

use std::io;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::api::{self, RequestLimits, Schema};
use executor::Guarded;
use guard::GuardLimits;

/// How long open connections have to end once the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// How large a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the body of a POST.
    pub body_bytes: usize,
    /// Bytes of a websocket message.
    pub message_bytes: usize,
    /// Queries and subscriptions that one websocket may have open at once.
    pub operations_per_socket: usize,
    /// Bytes, about, of parsed documents that are kept to be executed again.
    pub document_cache_bytes: usize,
    /// What the document must hold.
    pub guard: GuardLimits,
}

impl Default for Limits {
    fn default() -> Self {
        RequestLimits::default().into()
    }
}

/// What clients are told is what holds.
impl From<RequestLimits> for Limits {
    fn from(told: RequestLimits) -> Self {
        Self {
            body_bytes: told.body_bytes,
            message_bytes: told.message_bytes,
            operations_per_socket: told.operations_per_socket,
            document_cache_bytes: told.document_cache_bytes,
            guard: GuardLimits {
                query_bytes: told.query_bytes,
                tokens: told.tokens,
                nesting: told.nesting,
                selections: told.selections,
                aliases: told.aliases,
                root_fields: told.root_fields,
                directives: told.directives,
                introspection: told.introspection,
            },
        }
    }
}

/// What is served beside the schema, and how large requests may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How large they may be.
    pub limits: Limits,
    /// Whether there is a playground.
    pub playground: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), playground: true }
    }
}

/// What every handler has.
#[derive(Clone)]
struct Server {
    executor: Guarded,
    schema: Schema,
    limits: Limits,
    shutdown: CancellationToken,
    /// Held by whoever still answers. The last to drop it lets [`serve`] return.
    _open: mpsc::Sender<()>,
}

/// Serves the schema until `shutdown` is cancelled. Then no connection is accepted, websockets are closed with 1012,
/// and requests that are being answered are finished, for at most five seconds.
///
/// Errors: what the operating system says of the listener.
pub async fn serve(
    listener: TcpListener,
    schema: Schema,
    options: Options,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let Options { limits, playground } = options;
    let (open, mut all_closed) = mpsc::channel(1);
    let executor = Guarded::new(schema.clone(), limits.guard, limits.document_cache_bytes);
    let server = Server { executor, schema, limits, shutdown: shutdown.clone(), _open: open };
    // a small frame is not to wait until the client has acknowledged the one before it (RFC 896), which takes clients up
    // to 40 ms
    let listener = listener.tap_io(|stream| {
        // what cannot be set is only slower
        let _ = stream.set_nodelay(true);
    });
    let serving =
        axum::serve(listener, router(server, playground)).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let finished = async {
        serving.await?;
        // websockets are not connections of the HTTP server any more
        all_closed.recv().await;
        Ok(())
    };
    within_deadline(finished, &shutdown).await
}

/// Lets a server finish, but not for longer than [`SHUTDOWN_TIMEOUT`] from when it was told to stop.
async fn within_deadline(
    finished: impl Future<Output = io::Result<()>>,
    shutdown: &CancellationToken,
) -> io::Result<()> {
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
    };
    tokio::select! {
        result = finished => result,
        () = deadline => {
            tracing::warn!("connections are still open, and are cut off");
            Ok(())
        }
    }
}

fn router(server: Server, playground: bool) -> Router {
    let routes = Router::new()
        .route("/graphql", get(websocket::upgrade).post(http::post))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/schema.graphql", get(async || ([(CONTENT_TYPE, "text/plain; charset=utf-8")], api::sdl())));
    let routes = if playground { routes.merge(playground::routes()) } else { routes };
    routes.with_state(server)
}
