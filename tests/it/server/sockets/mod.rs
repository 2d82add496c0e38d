//! Connections, and websockets and streams of events on them, to a listening server: what PROTOCOL.md of graphql-ws and of
//! graphql-sse say, and that nobody can keep more of the server than its share.

mod callers;
mod clients;
mod conformance;
mod crowds;
mod drops;
mod heavy;
mod legacy;
mod operations;
mod refused;
mod resuming;
mod share;
mod shared;
mod slow;
mod streams;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use btcgraph::api::Schema;
use btcgraph::limits::Limits;
use btcgraph::server::{self, Options};
use btcgraph::sim::SimChain;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::Request;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tokio_util::sync::CancellationToken;

use crate::support::api::Api;

const TRANSPORT: &str = "graphql-transport-ws";
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
struct Served {
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Served {
    async fn start(api: &Api) -> Self {
        Self::with(&api.schema, &Limits::default()).await
    }

    async fn with(schema: &Schema, limits: &Limits) -> Self {
        Self::with_options(schema, Options { limits: *limits, ..Options::default() }).await
    }

    async fn with_options(schema: &Schema, options: Options) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
        let serving = tokio::spawn(server::serve(listener, schema.clone(), options, shutdown.clone()));
        Self { address, shutdown, serving }
    }

    /// A handshake with these headers, of which a client may offer any.
    fn handshake(&self, headers: &[(&'static str, &'static str)]) -> Request<()> {
        let mut request = format!("ws://{}/graphql", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        request
    }

    /// A websocket that has sent nothing yet.
    async fn connect(&self, protocol: &'static str) -> Client {
        let request = self.handshake(&[("Sec-WebSocket-Protocol", protocol)]);
        let (stream, response) = connect_async(request).await.unwrap();
        assert_eq!(response.headers()["Sec-WebSocket-Protocol"], protocol);
        Client { stream }
    }

    /// A websocket that has been acknowledged.
    async fn client(&self) -> Client {
        let mut client = self.connect(TRANSPORT).await;
        client.say(&json!({ "type": "connection_init" })).await;
        assert_eq!(client.told().await, json!({ "type": "connection_ack" }));
        client
    }

    /// Stops the server, and waits until it has.
    async fn stop(self) {
        self.shutdown.cancel();
        within(self.serving).await.unwrap().unwrap();
    }
}

struct Client {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    async fn send(&mut self, message: Message) -> Result<(), Error> {
        within(self.stream.send(message)).await
    }

    async fn say(&mut self, message: &Value) {
        self.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn ask(&mut self, id: &str, document: &str) {
        self.say(&subscribe(id, document)).await;
    }

    /// The next message that is not the websocket's own.
    async fn message(&mut self) -> Option<Result<Message, Error>> {
        loop {
            match within(self.stream.next()).await {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                message => return message,
            }
        }
    }

    async fn told(&mut self) -> Value {
        match self.message().await {
            Some(Ok(Message::Text(text))) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The code and the reason of the close frame that comes next.
    async fn closed(&mut self) -> (u16, String) {
        match self.message().await {
            Some(Ok(Message::Close(Some(frame)))) => (frame.code.into(), frame.reason.to_string()),
            other => panic!("{other:?}"),
        }
    }

    /// Whether the server is there and has sent nothing that was not expected.
    async fn is_silent(&mut self) -> bool {
        self.say(&json!({ "type": "ping" })).await;
        self.told().await == json!({ "type": "pong" })
    }
}

fn subscribe(id: &str, document: &str) -> Value {
    json!({ "type": "subscribe", "id": id, "payload": { "query": document } })
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("an answer in time")
}

fn chain() -> SimChain {
    let mut chain = SimChain::new(40);
    chain.mine_empty(3).unwrap();
    chain
}

/// How many subscriptions the server has open.
async fn subscriptions(client: &mut Client) -> u64 {
    client.ask("count", "{ server { subscriptionCount } }").await;
    let count = client.told().await["payload"]["data"]["server"]["subscriptionCount"].as_u64().unwrap();
    assert_eq!(client.told().await["type"], "complete");
    count
}

/// Waits until the server has so many subscriptions open.
async fn until_subscriptions(client: &mut Client, count: u64) {
    within(async {
        while subscriptions(client).await != count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
