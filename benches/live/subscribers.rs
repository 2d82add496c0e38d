//! Websockets that listen to `unconfirmedTransaction` and `newBlock`, and note when they read what.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// What a websocket listens to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Transaction,
    Block,
}

impl Kind {
    pub(crate) const fn query(self) -> &'static str {
        match self {
            Kind::Transaction => "subscription { unconfirmedTransaction { txid fee vsize } }",
            Kind::Block => "subscription { newBlock { hash txCount } }",
        }
    }

    /// What stands right before the id of an event.
    const fn before_id(self) -> &'static str {
        match self {
            Kind::Transaction => "\"txid\":\"",
            Kind::Block => "\"hash\":\"",
        }
    }
}

/// What was read: by which subscriber, the id of the event, and when.
pub(crate) type Read = (Kind, String, Instant);

/// As many websockets of either kind. Dropping them closes all.
pub(crate) struct Subscribers {
    tasks: Vec<JoinHandle<()>>,
    read: mpsc::UnboundedReceiver<Read>,
}

impl Subscribers {
    /// Connects so many of each kind, and waits until all of them listen.
    pub(crate) async fn connect(address: &str, of_each: usize) -> Result<Self> {
        let (noted, read) = mpsc::unbounded_channel();
        let mut tasks = Vec::new();
        for kind in [Kind::Transaction, Kind::Block] {
            for _ in 0..of_each {
                let socket = open(address, kind.query()).await?;
                tasks.push(tokio::spawn(note(socket, kind, noted.clone())));
            }
        }
        Ok(Self { tasks, read })
    }

    /// All that those of one kind have read so far; what the others read is forgotten.
    pub(crate) fn received(&mut self, wanted: Kind) -> Vec<(String, Instant)> {
        let read = std::iter::from_fn(|| self.read.try_recv().ok());
        read.filter(|(kind, ..)| *kind == wanted).map(|(_, id, at)| (id, at)).collect()
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The buffer of the default is zeroed at every look, which would be most of what reading takes.
pub(crate) fn config() -> WebSocketConfig {
    WebSocketConfig::default().read_buffer_size(4 << 10)
}

/// A websocket that has subscribed: operations of a socket are begun in order, so that the answer to a query that was sent
/// after the subscription tells that this has begun.
pub(crate) async fn open(address: &str, query: &str) -> Result<Socket> {
    let mut request = format!("ws://{address}/graphql").into_client_request()?;
    request.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse()?);
    let (mut socket, _) = connect_async_with_config(request, Some(config()), true).await?;
    socket.send(Message::text(json!({ "type": "connection_init" }).to_string())).await?;
    let acknowledged = socket.next().await.context("the server closed the websocket")??;
    ensure!(acknowledged.to_text()?.contains("connection_ack"), "the server says {acknowledged}");
    for (id, query) in [("events", query), ("asked", "{ __typename }")] {
        let subscribe = json!({ "type": "subscribe", "id": id, "payload": { "query": query } });
        socket.send(Message::text(subscribe.to_string())).await?;
    }
    loop {
        let answer = socket.next().await.context("the server closed the websocket")??;
        let answer = answer.to_text()?;
        ensure!(!answer.contains("error"), "the server says {answer}");
        if answer.contains("\"complete\"") && answer.contains("asked") {
            return Ok(socket);
        }
    }
}

/// Notes what comes until the websocket is closed.
pub(crate) async fn note(mut socket: Socket, kind: Kind, noted: mpsc::UnboundedSender<Read>) {
    while let Some(Ok(message)) = socket.next().await {
        let at = Instant::now();
        let Message::Text(text) = message else { continue };
        let id = text.split_once(kind.before_id()).and_then(|(_, rest)| rest.split_once('"'));
        let Some((id, _)) = id else { continue };
        if noted.send((kind, id.to_owned(), at)).is_err() {
            return;
        }
    }
}
