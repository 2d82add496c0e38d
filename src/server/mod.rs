//! The way in: HTTP and websockets, and what a request must hold before the schema executes it.
//!
//! ```text
//!   POST /graphql ──► http/ ──┬───────────────────┐
//!   GET  /graphql             ├► sse.rs       ────┤
//!                             ├► multipart.rs ────┼──► executor.rs ── guard.rs ──► api::Schema
//!                             └► websocket.rs ────┘    shared.rs: one execution for the same subscriptions
//!
//!   before that, for every request: access.rs (id, log) ── hosts.rs ── origins.rs ── rate.rs
//!   and with that: executions.rs, the threads on which requests are executed
//!   /health/live  /health/ready  /schema.graphql
//!   /playground ──► playground.rs: pages that ask all of this from a browser
//!
//!   admin.rs: the socket for commands on this machine, apart from all of this
//! ```
//!
//! Knows nothing of Bitcoin.

mod access;
pub mod admin;
mod clients;
mod documents;
mod executions;
mod executor;
pub mod guard;
mod health;
mod hosts;
mod http;
mod multipart;
mod origins;
mod payload;
mod playground;
mod rate;
mod shared;
mod sse;
mod streams;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use crate::api::{self, RequestLimits, Schema};
pub use clients::{NotAnAddress, Proxies};
pub use executions::ExecutionLimits;
use executor::Guarded;
use guard::GuardLimits;
pub use hosts::{Hosts, NotAHost};
use http::Persisted;
pub use origins::{NotAnOrigin, Origins};
use rate::Rate;

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
    /// Bytes of queries that are kept to be named by their hashes; 0 for none.
    pub persisted_query_bytes: usize,
    /// How many requests are executed, and for how long.
    pub executions: ExecutionLimits,
    /// Requests that one client may make a minute; 0 for any number.
    pub requests_per_minute: u32,
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
            persisted_query_bytes: told.persisted_query_bytes,
            executions: ExecutionLimits { at_once: told.executions, waiting: told.waiting, timeout: told.timeout },
            requests_per_minute: told.requests_per_minute,
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

/// What is served beside the schema, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How large requests may be, and how many.
    pub limits: Limits,
    /// How many websockets and streams of events there may be, and how long they may take.
    pub sockets: Sockets,
    /// Whether there is a playground.
    pub playground: bool,
    /// The web pages that may ask.
    pub origins: Origins,
    /// The names under which the server answers, beside those of this machine and the address it listens on.
    pub hosts: Hosts,
    /// The proxies before the server that tell which client asks.
    pub proxies: Proxies,
}

impl Default for Options {
    fn default() -> Self {
        let (origins, hosts, proxies) = (Origins::default(), Hosts::default(), Proxies::default());
        let (limits, sockets) = (Limits::default(), Sockets::default());
        Self { limits, sockets, playground: true, origins, hosts, proxies }
    }
}

/// How many websockets and streams of events there may be, and how long they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// How many at once. One more is closed with 1013.
    pub most: usize,
    /// How long the client of a websocket may take to introduce itself.
    pub init_timeout: Duration,
    /// How often a client is pinged. One of which nothing came from one ping to the next is gone.
    pub ping_interval: Duration,
    /// How long a write may make no progress before the client is taken for stuck.
    pub write_timeout: Duration,
}

impl Default for Sockets {
    fn default() -> Self {
        Self {
            most: RequestLimits::default().sockets,
            init_timeout: Duration::from_secs(3),
            ping_interval: Duration::from_secs(12),
            write_timeout: Duration::from_secs(10),
        }
    }
}

/// What every handler has.
#[derive(Clone)]
struct Server {
    executor: Guarded,
    persisted: Arc<Persisted>,
    schema: Schema,
    limits: Limits,
    origins: Arc<Origins>,
    hosts: Arc<Hosts>,
    proxies: Arc<Proxies>,
    rate: Option<Arc<Rate>>,
    /// Where it listens.
    listen: SocketAddr,
    sockets: Sockets,
    /// Of which each websocket and each stream of events holds one.
    places: Arc<Semaphore>,
    shutdown: CancellationToken,
    open: Open,
}

/// Held by whoever still answers. The last to drop it lets [`serve`] return.
type Open = mpsc::Sender<()>;

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
    let Options { limits, sockets, playground, origins, hosts, proxies } = options;
    let (open, mut all_closed) = mpsc::channel(1);
    let server = Server {
        executor: Guarded::new(schema.clone(), &limits)?,
        persisted: Arc::new(Persisted::new(limits.persisted_query_bytes)),
        schema,
        limits,
        origins: Arc::new(origins),
        hosts: Arc::new(hosts),
        proxies: Arc::new(proxies),
        rate: Rate::new(limits.requests_per_minute).map(Arc::new),
        listen: listener.local_addr()?,
        sockets,
        places: Arc::new(Semaphore::new(sockets.most.min(Semaphore::MAX_PERMITS))),
        shutdown: shutdown.clone(),
        open,
    };
    // a small frame is not to wait until the client has acknowledged the one before it (RFC 896), which takes clients up
    // to 40 ms
    let listener = listener.tap_io(|stream| {
        // what cannot be set is only slower
        let _ = stream.set_nodelay(true);
    });
    let router = router(server, playground).into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
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

/// The least bytes of an answer that are compressed on their way.
const COMPRESSED_ABOVE: u16 = 1024;

/// What is where, and what every request goes through before it, from the last line up.
fn router(server: Server, playground: bool) -> Router {
    let routes = Router::new()
        .route("/graphql", get(http::get).post(http::post))
        .route_layer(from_fn_with_state(server.clone(), rate::limit))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/schema.graphql", get(async || ([(CONTENT_TYPE, "text/plain; charset=utf-8")], api::sdl())));
    let routes = if playground { routes.merge(playground::routes()) } else { routes };
    // a stream is sent as it comes, which compression would hold up
    let compressed = SizeAbove::new(COMPRESSED_ABOVE)
        .and(NotForContentType::SSE)
        .and(NotForContentType::const_new("multipart/"))
        .and(NotForContentType::IMAGES);
    routes
        .layer(from_fn_with_state(server.clone(), origins::give_leave))
        .layer(from_fn_with_state(server.clone(), hosts::check))
        .layer(from_fn_with_state(server.clone(), access::tell))
        .layer(CompressionLayer::new().compress_when(compressed))
        .with_state(server)
}
