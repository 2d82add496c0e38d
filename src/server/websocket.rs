//! GraphQL over a websocket: queries and subscriptions.
//!
//! The protocol (`graphql-transport-ws`, and the older `graphql-ws`) is async-graphql's; here are its limits, and how a
//! socket is closed when the server stops.

use std::time::Duration;

use async_graphql::Data;
use async_graphql::futures_util::{SinkExt, StreamExt, future};
use async_graphql::http::{ALL_WEBSOCKET_PROTOCOLS, WebSocket as Protocol, WebSocketProtocols, WsMessage};
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Server;
use super::executor::PerSocket;

/// The server stops, and may come back (RFC 6455, IANA registry of close codes).
const SERVICE_RESTART: u16 = 1012;

/// The client did not send `connection_init` in time (graphql-transport-ws).
const INIT_TIMED_OUT: u16 = 4408;

/// How long it may take to.
const INIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest reason that fits a close frame, in bytes (RFC 6455, section 5.5).
const LONGEST_REASON: usize = 123;

/// How much is read from a socket at once, in bytes. The buffer is zeroed whenever a socket is looked at, which is at every
/// event of its subscriptions too: the 128 KiB that it would be took a third of all time.
const READ_AT_ONCE: usize = 4 << 10;

/// How long a message may take to leave before the client is taken for stuck.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes the connection a websocket. 400 unless the client offers a protocol that is spoken here.
pub(super) async fn upgrade(State(server): State<Server>, upgrade: WebSocketUpgrade) -> Response {
    let limit = server.limits.message_bytes;
    let upgrade = upgrade.protocols(ALL_WEBSOCKET_PROTOCOLS).max_message_size(limit).max_frame_size(limit);
    let upgrade = upgrade.read_buffer_size(READ_AT_ONCE);
    let protocol = upgrade.selected_protocol().and_then(|name| name.to_str().ok()?.parse::<WebSocketProtocols>().ok());
    match protocol {
        Some(protocol) => upgrade.on_upgrade(move |socket| serve(socket, protocol, server)),
        None => (StatusCode::BAD_REQUEST, "offer the websocket subprotocol graphql-transport-ws").into_response(),
    }
}

async fn serve(socket: WebSocket, protocol: WebSocketProtocols, server: Server) {
    let (mut outgoing, incoming) = socket.split();
    let messages = incoming.take_while(|message| future::ready(message.is_ok())).filter_map(|message| {
        future::ready(match message {
            Ok(Message::Text(text)) => Some(text.to_string().into_bytes()),
            Ok(Message::Binary(bytes)) => Some(bytes.to_vec()),
            _ => None,
        })
    });
    let executor = PerSocket::new(server.executor.clone(), server.limits.operations_per_socket);
    let (initialised, was_initialised) = oneshot::channel();
    let protocol = Protocol::new(executor, messages, protocol).on_connection_init(move |_| {
        // an error only says that the socket is closing
        let _ = initialised.send(());
        future::ok(Data::default())
    });
    let mut answers = Box::pin(protocol);
    let mut too_late = Box::pin(async {
        if timeout(INIT_TIMEOUT, was_initialised).await.is_ok() {
            future::pending::<()>().await;
        }
    });
    loop {
        let message = tokio::select! {
            biased;
            () = server.shutdown.cancelled() => close(SERVICE_RESTART, "the server stops"),
            () = &mut too_late => close(INIT_TIMED_OUT, "Connection initialisation timeout"),
            answer = answers.next() => match answer {
                Some(WsMessage::Text(text)) => Message::Text(text.into()),
                Some(WsMessage::Close(code, reason)) => close(code, &reason),
                None => return,
            },
        };
        let last = matches!(message, Message::Close(_));
        let sent = timeout(WRITE_TIMEOUT, outgoing.send(message)).await;
        if last || !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

fn close(code: u16, reason: &str) -> Message {
    let end = reason.floor_char_boundary(LONGEST_REASON);
    Message::Close(Some(CloseFrame { code, reason: reason[..end].into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_to_what_a_close_frame_holds() {
        let Message::Close(Some(frame)) = close(4400, &"é".repeat(100)) else { panic!() };
        assert_eq!((frame.code, frame.reason.len()), (4400, 122));
    }
}
