//! A client of a server in this process over a websocket.

use std::future::Future;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::Request;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::test_server::TestServer;

pub(crate) const TRANSPORT: &str = "graphql-transport-ws";
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

impl TestServer {
    /// A handshake with these headers, of which a client may offer any.
    pub(crate) fn handshake(&self, headers: &[(&'static str, &'static str)]) -> Request<()> {
        let mut request = format!("ws://{}/graphql", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        request
    }

    /// A websocket that has sent nothing yet.
    pub(crate) async fn connect(&self, protocol: &'static str) -> Client {
        let request = self.handshake(&[("Sec-WebSocket-Protocol", protocol)]);
        let (stream, response) = connect_async(request).await.unwrap();
        assert_eq!(response.headers()["Sec-WebSocket-Protocol"], protocol);
        Client { stream }
    }

    /// A websocket that has been acknowledged.
    pub(crate) async fn client(&self) -> Client {
        let mut client = self.connect(TRANSPORT).await;
        client.say(&json!({ "type": "connection_init" })).await;
        assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
        client
    }
}

/// A websocket.
pub(crate) struct Client {
    pub(crate) stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    pub(crate) async fn send(&mut self, message: Message) -> Result<(), Error> {
        within(self.stream.send(message)).await
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.send(Message::text(message.to_string())).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, id: &str, document: &str) {
        self.say(&subscribe(id, document)).await;
    }

    /// The next message that is not the websocket's own.
    pub(crate) async fn message(&mut self) -> Option<Result<Message, Error>> {
        // the server pings for as long as the connection lasts, so patience is for all of it
        within(async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    message => return message,
                }
            }
        })
        .await
    }

    pub(crate) async fn receive(&mut self) -> Value {
        match self.message().await {
            Some(Ok(Message::Text(text))) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The code and the reason of the close frame that comes next.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        match self.message().await {
            Some(Ok(Message::Close(Some(frame)))) => (frame.code.into(), frame.reason.to_string()),
            other => panic!("{other:?}"),
        }
    }

    /// Whether the server is there and has sent nothing that was not expected.
    pub(crate) async fn is_silent(&mut self) -> bool {
        self.say(&json!({ "type": "ping" })).await;
        self.receive().await == json!({ "type": "pong" })
    }
}

pub(crate) fn subscribe(id: &str, document: &str) -> Value {
    json!({ "type": "subscribe", "id": id, "payload": { "query": document } })
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("an answer in time")
}
