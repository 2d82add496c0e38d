//! The way in: HTTP and websockets, and what a request must hold before the schema executes it.
//!
//! ```text
//!   POST /graphql ──► http/ ──┬───────────────────┐
//!   GET  /graphql             ├► sse.rs       ────┤
//!                             ├► multipart.rs ────┼──► executor.rs ── guard.rs ──► api::Schema
//!                             └► websocket.rs ────┘    shared.rs: one execution for the same subscriptions
//!
//!   before that, for every connection: connections/
//!   before that, for every request: access.rs (id, log) ── hosts.rs ── origins.rs ── rate.rs ── callers.rs (tokens)
//!   and with that: executions.rs, the threads on which requests are executed
//!   told.rs, budget.rs: what is executed and told is counted, and paid for
//!   /health/live  /health/ready  /schema.graphql  /metrics
//!   after that, for every response: compression.rs, in the encoding that negotiation.rs finds
//!   /playground ──► playground.rs: pages that ask all of this from a browser
//!
//!   admin.rs: the socket for commands on this machine, apart from all of this
//! ```
//!
//! Knows nothing of Bitcoin.

pub mod admin;
mod auth;
mod connection;
mod document;
mod execution;
mod health;
mod http;
mod limits;
pub mod metrics;
mod middleware;
mod playground;
mod websocket;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::api::{self, Schema, code};
use crate::limits::Limits;
pub use auth::callers::TokenPolicy;
use auth::callers::{self, Authenticator};
pub use auth::tokens::{InvalidTokenLine, Token, Tokens};
use connection::listener::{self, AmbiguousLength, Connections};
pub use document::guard;
use document::persisted::Persisted;
use execution::service::GraphqlService;
use http::endpoint;
use http::response::{error, refuse_as_json};
pub use limits::client_ip::{InvalidProxy, TrustedProxies};
use limits::memory::MemoryBudget;
use limits::slots::{NoSlot, Slot, SlotLimits, Slots};
use metrics::Metrics;
pub use middleware::cors::{InvalidOrigin, Origins};
pub use middleware::host::{Hosts, InvalidHost};
use middleware::rate_limit::{self, RateLimiter};
use middleware::{compression, cors, host, request_log};
#[cfg(fuzzing)]
pub use websocket::fuzzing;

/// How long open connections have to end once the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// What is served beside the schema, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What clients may ask for, how often and how long.
    pub limits: Limits,
    /// Whether the limits of one client apply to clients on this machine, too.
    pub limit_loopback: bool,
    /// Whether there is a playground.
    pub playground: bool,
    /// The web pages that may ask.
    pub origins: Origins,
    /// The names under which the server answers, beside those of this machine and the address it listens on.
    pub hosts: Hosts,
    /// The proxies before the server that tell which client asks.
    pub proxies: TrustedProxies,
    /// Who may ask, and for how much.
    pub token_policy: TokenPolicy,
    /// How many blocks it may be behind the node and still count as ready.
    pub ready_blocks: u32,
    /// Whether everyone may read the metrics.
    pub public_metrics: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (origins, hosts, proxies) = (Origins::default(), Hosts::default(), TrustedProxies::default());
        Self {
            limits: Limits::default(),
            limit_loopback: false,
            playground: true,
            origins,
            hosts,
            proxies,
            token_policy: TokenPolicy::default(),
            ready_blocks: 1,
            public_metrics: false,
        }
    }
}

/// What every handler has.
struct Server {
    executor: GraphqlService,
    persisted: Arc<Persisted>,
    schema: Schema,
    limits: Limits,
    origins: Arc<Origins>,
    hosts: Arc<Hosts>,
    proxies: Arc<TrustedProxies>,
    rate: Option<Arc<RateLimiter>>,
    callers: Arc<Authenticator>,
    metrics: Metrics,
    ready_blocks: u32,
    playground: bool,
    /// Where it listens.
    listen: SocketAddr,
    connections: Connections,
    /// Of which each websocket and each stream of events holds one.
    slots: Slots,
    held: MemoryBudget,
    shutdown: CancellationToken,
    /// Whoever answers holds the server, the task of a websocket to its end.
    _open: Open,
}

impl Server {
    /// Which client asks, `None` if nothing is known of its connection.
    fn client_of(&self, caller: &Parts) -> Option<IpAddr> {
        self.proxies.client_of(&caller.extensions, &caller.headers)
    }

    /// A slot for a websocket or a stream of events of this client.
    fn place_for(&self, caller: &Parts) -> Result<Slot, NoSlot> {
        let payer = self.client_of(caller).and_then(|client| self.connections.payer(client, &self.proxies));
        self.slots.take(payer)
    }
}

/// MemoryBudget by whoever still answers. The last to drop it lets [`serve`] return.
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
    let metrics = Metrics::new().map_err(io::Error::other)?;
    serve_with_metrics(listener, schema, options, metrics, shutdown).await
}

/// The same, and counts there.
pub async fn serve_with_metrics(
    listener: TcpListener,
    schema: Schema,
    options: Options,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let Options { limits, limit_loopback, playground, origins, hosts, proxies, .. } = options;
    let Options { token_policy, ready_blocks, public_metrics, .. } = options;
    let connections = Connections { limits, limit_loopback };
    let callers = Arc::new(Authenticator::new(token_policy));
    let executor = GraphqlService::new(schema.clone(), &limits, metrics.figures().clone(), callers.anyone_at(None))?;
    executor.tell_in(&metrics).map_err(io::Error::other)?;
    let (open, mut all_closed) = mpsc::channel(1);
    let server = Arc::new(Server {
        executor,
        persisted: Arc::new(Persisted::new(limits.persisted_query_bytes)),
        schema,
        limits,
        origins: Arc::new(origins),
        hosts: Arc::new(hosts),
        proxies: Arc::new(proxies),
        rate: RateLimiter::new(limits.requests_per_minute).map(Arc::new),
        callers,
        metrics,
        ready_blocks,
        playground,
        listen: listener.local_addr()?,
        connections,
        slots: Slots::new(SlotLimits { all: limits.sockets, each: limits.sockets_per_client }),
        held: MemoryBudget::new(limits.buffered_bytes),
        shutdown: shutdown.clone(),
        _open: open.clone(),
    });
    let proxies = server.proxies.clone();
    let router = router(server, public_metrics);
    let finished = async {
        listener::serve(listener, router, &connections, proxies, shutdown.clone(), open).await;
        // those that still answer, websockets among them
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
            tracing::warn!("connections are still open, and are closed");
            Ok(())
        }
    }
}

/// What every request goes through. Each step is a function around the next, not a layer of the router: that copies all layers
/// below one for each request.
async fn enter(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    request_log::tell(&server, request, async |request| {
        if request.extensions().get::<AmbiguousLength>().is_some() {
            let message = "Content-Length and Transfer-Encoding exclude each other: send one of them";
            return refuse_as_json(StatusCode::BAD_REQUEST, error(code::BAD_USER_INPUT, message));
        }
        host::check(&server, request, async |request| {
            cors::apply(&server, request, async |request| next.run(request).await).await
        })
        .await
    })
    .await
}

/// What a GraphQL request goes through after that.
async fn ask(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    if server.playground && endpoint::is_visit(&request) {
        return playground::instead();
    }
    rate_limit::limit(&server, request, async |request| {
        callers::admit(&server, request, async |request| next.run(request).await).await
    })
    .await
}

/// What is where.
fn router(server: Arc<Server>, public_metrics: bool) -> Router {
    let routes = Router::new()
        .route("/graphql", get(endpoint::get).post(endpoint::post))
        .route_layer(from_fn_with_state(server.clone(), ask))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/schema.graphql", get(async || ([(CONTENT_TYPE, "text/plain; charset=utf-8")], api::sdl())))
        .route("/favicon.ico", get(playground::icon));
    let metrics = get(async |State(server): State<Arc<Server>>| server.metrics.answer());
    let routes = if public_metrics { routes.route("/metrics", metrics) } else { routes };
    let routes = if server.playground { routes.merge(playground::routes()) } else { routes };
    compression::apply(routes.layer(from_fn_with_state(server.clone(), enter)).with_state(server))
}
