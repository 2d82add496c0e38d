//! The HTTP server: HTTP and websocket protocols, authentication, limits of requests and connections, health and the playground
//! around the execution of documents.
//!
//! ```text
//!   connection/   a connection: how many, how long, how fast
//!       │
//!   router.rs     the paths, and the list of steps: middleware/ (auth/, limits/)
//!       │
//!       ├─► /graphql ──► http/ ──────┐
//!       │                websocket/ ─┴──► crate::execution ──► crate::api::Schema
//!       ├─► /health/live  /health/ready  /schema.graphql  /metrics
//!       └─► /playground
//!
//!   admin/        a socket for commands on this machine, apart from all of this
//! ```
//!
//! `config.rs` has the options, `state.rs` builds the parts, and no file imports this one. Does not know Bitcoin.

pub mod admin;
mod auth;
mod config;
mod connection;
mod draining;
mod health;
mod http;
mod limits;
mod list;
mod metrics_page;
mod middleware;
mod playground;
mod router;
mod shutdown;
mod state;
mod websocket;

use std::io;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::api::Schema;
use crate::metrics::Metrics;
pub use auth::authenticator::TokenPolicy;
pub use auth::tokens::{InvalidTokenLine, Token, Tokens};
pub use config::Options;
use connection::listener;
pub use draining::Draining;
pub use limits::client_ip::{InvalidProxy, TrustedProxies};
pub use middleware::cors::{InvalidOrigin, Origins};
pub use middleware::host::{Hosts, InvalidHost};
use router::router;
use shutdown::within_deadline;
use state::ServerState;
#[cfg(fuzzing)]
pub use websocket::fuzzing;

/// Serves the schema until `shutdown` is cancelled. Then no connection is accepted, websockets are closed with 1012, and
/// requests that are executing are finished, for at most five seconds.
///
/// Errors: the operating system refuses the listener or threads.
pub async fn serve(
    listener: TcpListener,
    schema: Schema,
    options: Options,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let metrics = Metrics::new().map_err(io::Error::other)?;
    serve_with_metrics(listener, schema, options, metrics, shutdown).await
}

/// [`serve`] with metrics that others add to.
pub async fn serve_with_metrics(
    listener: TcpListener,
    schema: Schema,
    options: Options,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (open, mut all_closed) = mpsc::channel(1);
    let listen = listener.local_addr()?.ip();
    let limits = options.limits;
    let state = ServerState::new(schema, options, metrics, listen, &shutdown, &open)?;
    let (router, exemptions) = (router(&state), state.exemptions.clone());
    // from here on the parts belong to the router, and with it to the connections
    drop(state);
    let finished = async {
        listener::serve(listener, router, &limits, exemptions, shutdown.clone(), open).await;
        // connections that still send a response, and websockets
        all_closed.recv().await;
        Ok(())
    };
    within_deadline(finished, &shutdown).await
}
