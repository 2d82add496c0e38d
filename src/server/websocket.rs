//! GraphQL over a websocket: queries, mutations and subscriptions.
//!
//! ```text
//!   GET /graphql ─► upgrade ─► socket.rs (frames, times, what waits in outgoing.rs)
//!                                 │ Dialogue
//!                    ┌────────────┴─────────────┐
//!            transport.rs                  legacy.rs     the older subprotocol, by async-graphql
//!       protocol.rs, message.rs (pure)
//!       turns.rs (operations)
//!                    └────────────┬─────────────┘
//!                             executor.rs
//! ```

mod legacy;
mod message;
mod outgoing;
mod protocol;
mod socket;
mod transport;
mod turns;

use axum::extract::State;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use tokio::sync::OwnedSemaphorePermit;

use super::Server;
use legacy::Legacy;
use protocol::close;
use socket::Socket;
use transport::Transport;

/// The subprotocols that are spoken here, the better one first.
const TRANSPORT: &str = "graphql-transport-ws";
const LEGACY: &str = "graphql-ws";

/// How much is read from a socket at once, in bytes. The buffer is zeroed whenever a socket is looked at, which is at every
/// event of its subscriptions too: the 128 KiB that it would be took a third of all time.
const READ_AT_ONCE: usize = 4 << 10;

/// How much is gathered before it is written, in bytes. The buffer is as large as what was in it.
const WRITE_AT_ONCE: usize = 16 << 10;

/// Up to so many times the limit of a message the rest of one that is too large is read, so that its sender is still
/// there to be told. Of what is larger nothing is read.
const READ_ON: usize = 4;

/// Makes the connection a websocket, for a page that may have one. Whatever is wrong is told by closing it, since pages
/// are not told why a connection does not become a websocket.
pub(super) async fn upgrade(State(server): State<Server>, upgrade: WebSocketUpgrade) -> Response {
    let most = server.limits.message_bytes.saturating_mul(READ_ON);
    let upgrade = upgrade.protocols([TRANSPORT, LEGACY]).max_message_size(most).max_frame_size(most);
    let upgrade = upgrade.read_buffer_size(READ_AT_ONCE).write_buffer_size(WRITE_AT_ONCE);
    let place = server.places.clone().try_acquire_owned().ok();
    let (executor, limit) = (server.executor.for_socket(), server.limits.operations_per_socket);
    match upgrade.selected_protocol().and_then(|name| name.to_str().ok()) {
        Some(LEGACY) => upgrade.on_upgrade(move |stream| serve(stream, Legacy::new(executor, limit), server, place)),
        Some(_) => upgrade.on_upgrade(move |stream| serve(stream, Transport::new(executor, limit), server, place)),
        None => upgrade.on_upgrade(move |stream| {
            let mut socket = serve(stream, Transport::new(executor, limit), server, place);
            socket.close(close::SUBPROTOCOL_NOT_ACCEPTABLE, "Subprotocol not acceptable");
            socket
        }),
    }
}

fn serve<D: socket::Dialogue>(
    stream: WebSocket,
    dialogue: D,
    server: Server,
    place: Option<OwnedSemaphorePermit>,
) -> Socket<D> {
    let has_place = place.is_some();
    let Server { sockets, limits, shutdown, open, .. } = server;
    let mut socket = Socket::new(stream, dialogue, sockets, limits.message_bytes, shutdown, place, open);
    if !has_place {
        socket.close(close::TRY_AGAIN_LATER, "there are too many websockets");
    }
    socket
}
