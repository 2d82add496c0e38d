//! Clients that come in numbers: how many connections, sockets and operations there may be in all and of one client, and that
//! one client's are nobody else's.

use std::net::SocketAddr;
use std::time::Duration;

use btcgraph::server::Options;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, client_async};

use super::{Client, TRANSPORT, chain, within};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

/// Two clients of this machine.
const ONE: &str = "127.0.0.2:0";
const OTHER: &str = "127.0.0.3:0";

async fn served(change: impl FnOnce(&mut Options)) -> TestServer {
    let mut options = Options::default();
    change(&mut options);
    TestServer::with_options(&Api::of_chain(&chain()).schema, options).await
}

async fn connect_from(client: &str, served: &TestServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(client.parse::<SocketAddr>().unwrap()).unwrap();
    socket.connect(served.address).await.unwrap()
}

/// The first line of the answer to a small question, and the head after it, in small letters.
async fn ask_over(stream: &mut TcpStream) -> String {
    // it may be closed already
    let _ = stream.write_all(b"GET /graphql?query={tip{height}} HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut received = Vec::new();
    within(async {
        while !received.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
                break;
            }
        }
    })
    .await;
    String::from_utf8(received).unwrap().to_lowercase()
}

async fn until_answered(client: &str, served: &TestServer) {
    within(async {
        while !ask_over(&mut connect_from(client, served).await).await.starts_with("http/1.1 200") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_too_many_is_503_and_one_of_a_client_that_has_its_share_429() {
    for (per_client, limit_loopback, expected) in
        [(0, true, "http/1.1 503"), (2, false, "http/1.1 503"), (1, true, "http/1.1 429")]
    {
        let served = served(|options| {
            options.limits.connections = if per_client == 1 { 3 } else { 2 };
            options.limits.connections_per_client = per_client;
            options.limit_loopback = limit_loopback;
        })
        .await;
        let mut first = connect_from(ONE, &served).await;
        assert!(ask_over(&mut first).await.starts_with("http/1.1 200"));
        let mut second = connect_from(if per_client == 1 { OTHER } else { ONE }, &served).await;
        assert!(ask_over(&mut second).await.starts_with("http/1.1 200"));
        // where clients have shares there is a place left, but not for this client
        let third = ask_over(&mut connect_from(ONE, &served).await).await;
        assert!(third.starts_with(expected) && third.contains("retry-after: 10"), "{third}");
        // who has a place keeps it, and who leaves leaves it to others
        assert!(ask_over(&mut first).await.starts_with("http/1.1 200"));
        drop(first);
        until_answered(ONE, &served).await;
        served.stop().await;
    }
}

async fn socket_from(client: &str, served: &TestServer, protocol: &'static str) -> Client {
    let mut request = format!("ws://{}/graphql", served.address).into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocol.parse().unwrap());
    let stream = MaybeTlsStream::Plain(connect_from(client, served).await);
    let (stream, _) = within(client_async(request, stream)).await.unwrap();
    Client { stream }
}

async fn acknowledged(mut client: Client) -> Client {
    client.say(&json!({ "type": "connection_init" })).await;
    assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_too_many_of_one_client_is_refused_and_other_clients_have_theirs() {
    let served = served(|options| {
        options.limit_loopback = true;
        options.limits.sockets_per_client = 1;
    })
    .await;
    let mut first = acknowledged(socket_from(ONE, &served, TRANSPORT).await).await;
    let reported = socket_from(ONE, &served, TRANSPORT).await.closed().await;
    assert_eq!(reported, (1013, "this client has too many websockets: close one".to_owned()));
    let mut stream = connect_from(ONE, &served).await;
    let events = b"GET /graphql?query=subscription{newBlock{hash}} HTTP/1.1\r\nHost: localhost\r\n\
        Accept: text/event-stream\r\nConnection: close\r\n\r\n";
    stream.write_all(events).await.unwrap();
    let mut refusal = String::new();
    within(stream.read_to_string(&mut refusal)).await.unwrap();
    assert!(refusal.starts_with("HTTP/1.1 429") && refusal.contains("RESOURCE_EXHAUSTED"), "{refusal}");
    let mut other = acknowledged(socket_from(OTHER, &served, TRANSPORT).await).await;
    assert!(first.is_silent().await && other.is_silent().await);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_on_websockets_count_as_requests_of_their_client() {
    // the handshake is a request, too
    for (protocol, start, error) in
        [(TRANSPORT, "subscribe", "/payload/0"), ("graphql-ws", "start", "/payload/errors/0")]
    {
        let served = served(|options| options.limits.requests_per_minute = 3).await;
        let mut client = acknowledged(socket_from(ONE, &served, protocol).await).await;
        let ask = |id: u8| json!({ "type": start, "id": id.to_string(), "payload": { "query": "{ tip { height } }" } });
        for id in 0..2 {
            client.say(&ask(id)).await;
            assert_eq!(client.receive().await["payload"], json!({ "data": { "tip": { "height": 3 } } }));
            assert_eq!(client.receive().await["type"], "complete");
        }
        client.say(&ask(2)).await;
        let reported = client.receive().await;
        let error = reported.pointer(error).unwrap_or(&Value::Null);
        assert_eq!(error["extensions"]["code"], "RESOURCE_EXHAUSTED", "{reported}");
        let seconds = error["extensions"]["retryAfterSeconds"].as_u64().unwrap();
        assert!((1..=20).contains(&seconds), "{reported}");
        // over HTTP it has asked as often, and another client has not
        assert!(ask_over(&mut connect_from(ONE, &served).await).await.starts_with("http/1.1 429"));
        assert!(ask_over(&mut connect_from(OTHER, &served).await).await.starts_with("http/1.1 200"));
        served.stop().await;
    }
}
