//! GraphQL over a websocket: queries, mutations and subscriptions.
//!
//! ```text
//!   GET /graphql ─► upgrade ─► frames.rs ─► socket.rs (messages, times, what waits in outbox.rs)
//!                                 │ Dialogue
//!                            transport.rs ◄─► protocol.rs, message.rs, subprotocol.rs (pure)
//!                                 │           └ turns.rs (operations)
//!                            executor.rs
//! ```

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::SEC_WEBSOCKET_PROTOCOL;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::auth::SocketAuth;
use super::frames::Framed;
use super::protocol::{Protocol, close};
use super::session::Session;
use super::socket::Socket;
use super::socket_log::SocketLog;
use super::subprotocol::Subprotocol;
use crate::api::{Include, code};
use crate::server::Server;
use crate::server::auth::callers::Client;
use crate::server::http::response::{error, refuse_as_json};
use crate::server::limits::slots::{NoSlot, Slot};
use crate::server::metrics::server_metrics::Transport;
use crate::server::middleware::rate_limit::OperationMeter;

/// The websockets of clients.
pub(crate) type WebSocket = WebSocketStream<Framed<TokioIo<Upgraded>>>;

/// How much is read from a socket at once, in bytes. The buffer is zeroed whenever a socket is looked at, which is at every
/// event of its subscriptions too: the 128 KiB that it would be took a third of all time.
const READ_AT_ONCE: usize = 4 << 10;

/// How much is gathered before it is written, in bytes. The buffer is as large as what was in it.
const WRITE_AT_ONCE: usize = 16 << 10;

/// Up to so many times the limit of a message the rest of one that is too large is read, so that its sender is still
/// there to be told. Of what is larger nothing is read.
const READ_ON: usize = 4;

/// Makes the connection a websocket, for a page that may have one. Whatever is wrong is told by closing it, since pages
/// are not told why a connection does not become a websocket; but for what no page sends.
pub(crate) fn upgrade(server: Arc<Server>, mut request: Request) -> Response {
    let mut response = match create_response_with_body(&request, Body::empty) {
        Ok(response) => response,
        Err(reason) => return refuse_as_json(StatusCode::BAD_REQUEST, error(code::BAD_USER_INPUT, reason.to_string())),
    };
    let subprotocol =
        Subprotocol::ALL.into_iter().find(|subprotocol| is_offered(request.headers(), subprotocol.name()));
    if let Some(subprotocol) = subprotocol {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol.name()));
    }
    let upgraded = hyper::upgrade::on(&mut request);
    let (caller, _) = request.into_parts();
    let slot = server.place_for(&caller);
    let meter = OperationMeter::new(server.rate.clone(), server.client_of(&caller));
    let asks = caller.extensions.get::<Arc<Client>>().cloned().unwrap_or_else(|| server.callers.anyone_at(None));
    let (figures, token, span) = (server.metrics.figures().clone(), asks.name.clone(), tracing::Span::current());
    tokio::spawn(async move {
        // otherwise the client went away
        let Ok(upgraded) = upgraded.await else { return };
        let most = server.limits.message_bytes.saturating_mul(READ_ON);
        let config = WebSocketConfig::default().max_message_size(Some(most)).max_frame_size(Some(most));
        let config = config.read_buffer_size(READ_AT_ONCE).write_buffer_size(WRITE_AT_ONCE);
        let stream = Framed::new(TokioIo::new(upgraded));
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let executor = server.executor.for_socket(server.persisted.clone());
        let executor = executor.on_behalf(asks.clone(), Transport::Websocket, Include::default());
        let (door, held) = (SocketAuth::new(server.callers.clone(), asks), server.held.clone());
        let protocol =
            Protocol::new(subprotocol.unwrap_or(Subprotocol::Transport), server.limits.operations_per_socket);
        let log =
            subprotocol.map(|subprotocol| SocketLog::open(figures, subprotocol.name(), door.guest(), token, span));
        let mut socket = serve(stream, Session::new(protocol, executor, meter, held, door), &server, slot);
        if let Some(log) = log {
            return socket.counted(log).await;
        }
        socket.close(close::SUBPROTOCOL_NOT_ACCEPTABLE, "Subprotocol not acceptable");
        socket.await;
    });
    response
}

fn is_offered(headers: &HeaderMap, protocol: &str) -> bool {
    let lists = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|offered| offered.trim() == protocol)
}

fn serve(stream: WebSocket, dialogue: Session, server: &Server, slot: Result<Slot, NoSlot>) -> Socket<Session> {
    let shutdown = server.shutdown.clone();
    let (slot, full) = match slot {
        Ok(slot) => (Some(slot), None),
        Err(full) => (None, Some(full)),
    };
    let mut socket = Socket::new(stream, dialogue, &server.limits, shutdown, slot);
    match full {
        None => {}
        Some(NoSlot::All) => socket.close(close::TRY_AGAIN_LATER, "the server has too many websockets: retry later"),
        Some(NoSlot::Client) => socket.close(close::TRY_AGAIN_LATER, "this client has too many websockets: close one"),
    }
    socket
}
