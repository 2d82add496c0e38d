//! A subscription of a scenario, over a websocket as clients have it (`graphql-transport-ws`).

use std::net::TcpStream;
use std::time::Duration;

use async_graphql::Value;
use serde_json::json;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::support::bitcoind::wait_for;
use crate::support::test_process::TestProcess;

/// An event is sent as soon as the block can be read, which it can be already.
const PATIENCE: Duration = Duration::from_secs(20);

/// A subscription under way.
pub(super) struct Subscription {
    socket: WebSocket<TcpStream>,
    /// The first event, if it came before the subscription was seen to be under way: it reports the current
    /// state, or the events since the resume point.
    first: Option<Value>,
}

impl Subscription {
    /// Returns when the server has it under way: it reports every event from then on. Errors: what the server says.
    pub(super) fn open(served: &TestProcess, document: &str) -> Result<Self, String> {
        let mut request = format!("ws://{}/graphql", served.address).into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
        let stream = TcpStream::connect(&served.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = client(request, stream).map_err(|error| error.to_string())?;
        let mut subscription = Self { socket, first: None };
        let open = count(served);
        subscription.send(&json!({ "type": "connection_init" }));
        subscription.next("connection_ack")?;
        subscription.send(&json!({ "type": "subscribe", "id": "1", "payload": { "query": document } }));
        // what is refused is never counted
        subscription.socket.get_ref().set_nonblocking(true).unwrap();
        let first = wait_for("the subscription to begin", PATIENCE, || match subscription.socket.read() {
            Ok(Message::Text(text)) => Some(Some(text)),
            Ok(_) => None,
            Err(_) => (count(served) > open).then_some(None),
        });
        subscription.socket.get_ref().set_nonblocking(false).unwrap();
        if let Some(text) = first {
            let message: Value = serde_json::from_str(&text).unwrap();
            let Value::Object(fields) = &message else { return Err(format!("no message: {message}")) };
            if fields.get("type") != Some(&Value::from("next")) {
                return Err(format!("instead of a subscription: {message}"));
            }
            subscription.first = Some(message);
        }
        Ok(subscription)
    }

    /// The next event. Errors: none came, or the server ended the subscription.
    pub(super) fn event(&mut self) -> Result<Value, String> {
        let mut message = self.first.take().map_or_else(|| self.next("next"), Ok)?;
        let Value::Object(fields) = &mut message else { return Err(format!("no message: {message}")) };
        Ok(fields.swap_remove("payload").unwrap_or_default())
    }

    /// The server is about to stop and must have no further events. Errors: the unexpected event.
    pub(super) fn end(mut self) -> Result<(), String> {
        if let Some(first) = self.first {
            return Err(format!("unexpected event: {first}"));
        }
        match self.socket.read() {
            Ok(Message::Close(Some(CloseFrame { code: CloseCode::Restart, .. }))) => Ok(()),
            Ok(message) => Err(format!("unexpected message: {message}")),
            Err(error) => Err(format!("the server closed without a word: {error}")),
        }
    }

    fn send(&mut self, message: &serde_json::Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    fn next(&mut self, kind: &str) -> Result<Value, String> {
        loop {
            let message = match self.socket.read().map_err(|error| format!("nothing came: {error}"))? {
                Message::Text(text) => text,
                Message::Ping(_) | Message::Pong(_) => continue,
                other => return Err(format!("instead of an event: {other}")),
            };
            let message: Value = serde_json::from_str(&message).unwrap();
            let Value::Object(fields) = &message else { return Err(format!("no message: {message}")) };
            match fields.get("type") {
                Some(Value::String(found)) if found == kind => return Ok(message),
                Some(Value::String(found)) if found == "ping" => self.send(&json!({ "type": "pong" })),
                _ => return Err(format!("instead of an event: {message}")),
            }
        }
    }
}

/// How many subscriptions the server has open.
fn count(served: &TestProcess) -> u64 {
    served.query("{ server { subscriptionCount } }")["data"]["server"]["subscriptionCount"].as_u64().unwrap()
}
