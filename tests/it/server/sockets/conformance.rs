//! `graphql-transport-ws` by its PROTOCOL.md: how a conversation begins, and every way to break it.

use std::time::Duration;

use btcgraph::limits::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{Client, PATIENCE, TRANSPORT, chain, subscribe, within};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

const BLOCKS: &str = "subscription { newBlock { hash } }";

fn text(message: &Value) -> Message {
    Message::text(message.to_string())
}

/// A frame of a text as it could not be made otherwise.
fn frame(bytes: impl Into<Vec<u8>>, code: OpCode) -> Message {
    Message::Frame(Frame::message(bytes.into(), code, true))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_break_the_protocol_closes_the_socket_with_its_code_and_says_why() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let init = || text(&json!({ "type": "connection_init", "payload": {} }));
    let ask = |id: &str| text(&subscribe(id, BLOCKS));
    let bad = |message: Value| vec![init(), text(&message)];
    for (messages, code, reason) in [
        (vec![ask("1")], 4401, "Unauthorized"),
        (vec![init(), init()], 4429, "Too many initialisation requests"),
        (vec![init(), ask("1"), ask("2"), ask("1")], 4409, "Subscriber for 1 already exists"),
        (vec![Message::text("{")], 4400, "the message is not JSON: EOF while parsing an object at line 1 column 1"),
        (vec![init(), Message::text("[]")], 4400, "the message is not an object"),
        (vec![init(), Message::binary(b"{}".to_vec())], 4400, "the message is binary: send text"),
        (bad(json!({ "id": "1" })), 4400, "the message has no type"),
        (bad(json!({ "type": "start", "id": "1" })), 4400, "\"start\" is not a message type of graphql-transport-ws"),
        (bad(json!({ "type": "connection_ack" })), 4400, "connection_ack: only a server may send this message"),
        (bad(json!({ "type": "subscribe", "payload": { "query": BLOCKS } })), 4400, "subscribe: there is no id"),
        (bad(json!({ "type": "subscribe", "id": "", "payload": {} })), 4400, "subscribe: id is empty"),
        (bad(json!({ "type": "subscribe", "id": "1" })), 4400, "subscribe: there is no payload"),
        (bad(json!({ "type": "complete" })), 4400, "complete: there is no id"),
        (bad(json!({ "type": "ping", "payload": 1 })), 4400, "ping: payload is neither an object nor null"),
        (vec![init(), Message::text(" ".repeat(65 * 1024))], 1009, "a message may have at most 65536 bytes"),
        (vec![init(), Message::binary(vec![0; 65 * 1024])], 1009, "a message may have at most 65536 bytes"),
        (vec![init(), frame(*b"\xff", OpCode::Data(Data::Text))], 1007, "a text message is not UTF-8"),
        (vec![init(), frame(*b"x", OpCode::Data(Data::Continue))], 1002, ""),
    ] {
        let mut client = served.connect(TRANSPORT).await;
        for message in &messages {
            client.send(message.clone()).await.unwrap();
        }
        loop {
            match client.message().await {
                Some(Ok(Message::Text(text))) => assert_eq!(text.as_str(), r#"{"type":"connection_ack"}"#),
                Some(Ok(Message::Close(Some(frame)))) => {
                    let found = (u16::from(frame.code), frame.reason.as_str());
                    assert!(found == (code, reason) || (found.0, reason) == (code, ""), "{messages:?}: {found:?}");
                    break;
                }
                other => panic!("{messages:?}: {other:?}"),
            }
        }
        // the closing handshake is done properly, without a reset
        let after = client.message().await;
        assert!(matches!(after, None | Some(Err(Error::ConnectionClosed))) || code < 1009, "{messages:?}: {after:?}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_far_above_the_limit_is_refused_unread() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut client = served.client().await;
    // the client reads while it writes, or it would wait until the server reads on
    let (mut sink, stream) = futures_util::StreamExt::split(client.stream);
    let sending = tokio::spawn(async move {
        let _ = futures_util::SinkExt::send(&mut sink, Message::text("x".repeat(30 << 20))).await;
    });
    let mut frames = stream;
    let Some(Ok(Message::Close(Some(frame)))) = within(futures_util::StreamExt::next(&mut frames)).await else {
        panic!("it is closed")
    };
    assert_eq!((u16::from(frame.code), frame.reason.as_str()), (1009, "the message is too long"));
    drop(frames);
    sending.abort();
    client = served.client().await;
    assert!(client.is_silent().await);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_is_not_initialised_in_time_is_closed_and_others_stay() {
    let limits = Limits { socket_init_timeout: Duration::from_millis(300), ..Limits::default() };
    let served = TestServer::with_limits(&Api::of_chain(&chain()).schema, &limits).await;
    let mut initialised = served.client().await;
    for protocol in [TRANSPORT, "graphql-ws"] {
        let mut silent = served.connect(protocol).await;
        // to say something is not enough
        if protocol == TRANSPORT {
            assert!(silent.is_silent().await);
        }
        assert_eq!(silent.closed().await, (4408, "Connection initialisation timeout".to_owned()));
    }
    assert!(initialised.is_silent().await);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_is_answered_with_its_payload_before_and_after_the_acknowledgement() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    for mut client in [served.connect(TRANSPORT).await, served.client().await] {
        assert!(client.is_silent().await);
        client.say(&json!({ "type": "ping", "payload": { "at": [1, null] } })).await;
        assert_eq!(client.receive().await, json!({ "type": "pong", "payload": { "at": [1, null] } }));
        client.say(&json!({ "type": "pong", "payload": { "nobody": "asked" } })).await;
        client.send(Message::Ping((*b"frame").to_vec().into())).await.unwrap();
        assert!(client.is_silent().await);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_offers_no_subprotocol_is_closed_with_4406() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let (stream, _) = connect_async(served.handshake(&[])).await.unwrap();
    assert_eq!(Client { stream }.closed().await, (4406, "Subprotocol not acceptable".to_owned()));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_offers_an_unknown_subprotocol_is_answered_without_one_and_closed_with_4406() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let handshake = "GET /graphql HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
                     Sec-WebSocket-Protocol: soap, wamp\r\n\r\n";
    stream.write_all(handshake.as_bytes()).await.unwrap();
    let (mut answer, end) = (Vec::new(), 4406_u16.to_be_bytes());
    tokio::time::timeout(PATIENCE, async {
        while !answer.windows(2).any(|bytes| bytes == end) {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
        }
    })
    .await
    .unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, frame) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 101") && !head.to_lowercase().contains("sec-websocket-protocol"), "{head}");
    assert!(frame.contains("Subprotocol not acceptable"), "{frame}");
    drop(stream);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newer_subprotocol_is_taken_when_both_are_offered() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let request = served.handshake(&[("Sec-WebSocket-Protocol", "graphql-ws, graphql-transport-ws")]);
    let (_, response) = connect_async(request).await.unwrap();
    assert_eq!(response.headers()["Sec-WebSocket-Protocol"], TRANSPORT);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_foreign_origin_gets_no_socket_and_one_of_this_machine_does() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    for (origin, status) in [("https://example.com", 403), ("null", 403), ("http://localhost:3000", 101)] {
        let request = served.handshake(&[("Sec-WebSocket-Protocol", TRANSPORT), ("Origin", origin)]);
        let found = match connect_async(request).await {
            Ok((_, response)) => response.status(),
            Err(Error::Http(response)) => response.status(),
            Err(error) => panic!("{origin}: {error}"),
        };
        assert_eq!(found.as_u16(), status, "{origin}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_closes_sockets_with_1012() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut clients = [served.connect(TRANSPORT).await, served.client().await, served.client().await];
    clients[2].ask("1", BLOCKS).await;
    served.shutdown.cancel();
    for client in &mut clients {
        assert_eq!(client.closed().await, (1012, "the server stops".to_owned()));
    }
    served.stop().await;
}
