//! Clients that take their time, byte by byte: how long each part of a conversation may take, that who takes longer is cut off
//! with all that was held for it, and that who is merely slow is served whole.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use btcgraph::limits::Limits;
use btcgraph::server::Options;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::{chain, within};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

const SECOND: Duration = Duration::from_secs(1);

async fn served(change: impl FnOnce(&mut Options)) -> TestServer {
    let mut options = Options::default();
    change(&mut options);
    TestServer::with_options(&Api::of_chain(&chain()).schema, options).await
}

fn connections(change: impl FnOnce(&mut Limits)) -> impl FnOnce(&mut Options) {
    move |options| change(&mut options.limits)
}

/// A connection whose own end holds little that was not read.
async fn connect(served: &TestServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    socket.connect(served.address).await.unwrap()
}

fn post(headers: &str, document: &str) -> String {
    let body = json!({ "query": document }).to_string();
    let length = body.len();
    format!(
        "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

const HANDSHAKE: &str = "GET /graphql HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
    Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n";

/// A frame, masked with zeros, which leaves what is in it as it is. `first` is its first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    if let Ok(length @ ..126) = u8::try_from(payload.len()) {
        frame.push(0x80 | length);
    } else {
        frame.push(0xfe);
        frame.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

const TEXT: u8 = 0x81;
const TEXT_BEGIN: u8 = 0x01;
const MORE: u8 = 0x00;
const PING: u8 = 0x89;

fn text(message: &Value) -> Vec<u8> {
    frame(TEXT, message.to_string().as_bytes())
}

/// What comes until the connection ends, however it does.
async fn until_end(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    let _ = within(stream.read_to_end(&mut received)).await;
    String::from_utf8_lossy(&received).into_owned()
}

/// Sends this again and again until the connection has ended: how long that took, and what came.
async fn until_cut(mut stream: TcpStream, drop: &[u8], every: Duration) -> (Duration, String) {
    let begin = Instant::now();
    let mut received = Vec::new();
    within(async {
        loop {
            match timeout(every, stream.read_buf(&mut received)).await {
                Ok(Ok(0) | Err(_)) => break,
                Ok(Ok(_)) => {}
                // it may have ended since
                Err(_) => drop_of(&mut stream, drop).await,
            }
        }
    })
    .await;
    (begin.elapsed(), String::from_utf8_lossy(&received).into_owned())
}

async fn drop_of(stream: &mut TcpStream, drop: &[u8]) {
    let _ = stream.write_all(drop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_does_not_come_to_its_end_is_not_waited_for() {
    let served = served(connections(|limits| limits.header_timeout = SECOND)).await;
    for (begin, drop) in [("", ""), ("GET /graphql HTTP/1.1\r\nHost: localhost\r\n", "X-Drop: 1\r\n")] {
        let mut stream = connect(&served).await;
        stream.write_all(begin.as_bytes()).await.unwrap();
        let (elapsed, _) = until_cut(stream, drop.as_bytes(), SECOND / 10).await;
        assert!((SECOND * 9 / 10..SECOND * 8).contains(&elapsed), "{elapsed:?}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_request_is_kept_for_a_while_and_no_longer() {
    let served = served(connections(|limits| {
        limits.header_timeout = SECOND / 2;
        limits.idle_timeout = SECOND * 8;
    }))
    .await;
    let mut stream = connect(&served).await;
    let mut answers = String::new();
    for _ in 0..2 {
        stream.write_all(post("", "{ tip { height } }").as_bytes()).await.unwrap();
        while !answers.ends_with("}}}") {
            let mut bytes = [0; 4096];
            let read = within(stream.read(&mut bytes)).await.unwrap();
            assert_ne!(read, 0, "{answers}");
            answers.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
        answers.clear();
        // longer than a head may take
        sleep(SECOND * 3 / 2).await;
    }
    let begin = Instant::now();
    assert_eq!(until_end(&mut stream).await, "");
    assert!(begin.elapsed() < SECOND * 18);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_comes_too_slowly_is_408() {
    let served = served(connections(|limits| limits.body_timeout = SECOND)).await;
    let mut stream = connect(&served).await;
    let request = post("", "{ tip { height } }");
    stream.write_all(&request.as_bytes()[..request.len() - 30]).await.unwrap();
    let (elapsed, answer) = until_cut(stream, b" ", SECOND / 5).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(elapsed >= SECOND * 9 / 10, "{elapsed:?}");
    served.stop().await;
}

/// Has an answer of about so many times 140 KB.
fn many(count: usize) -> String {
    let again: Vec<_> = (0..count).map(|number| format!("a{number}: description")).collect();
    format!("{{ __schema {{ types {{ fields {{ {} }} }} }} }}", again.join(" "))
}

/// Lets a document of a hundred of them through.
fn allow_many(options: &mut Options) {
    let guard = &mut options.limits;
    (guard.aliases, guard.introspection) = (1_000, 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_are_dropped_and_others_refused_until_then() {
    let served = served(|options| {
        options.limits.write_timeout = SECOND * 3;
        options.limits.buffered_bytes = 20 << 20;
        allow_many(options);
    })
    .await;
    let mut never = connect(&served).await;
    never.write_all(post("", &many(100)).as_bytes()).await.unwrap();
    // its response exists and counts, before any other is requested
    within(async { never.peek(&mut [0]).await.unwrap() }).await;
    let ask = async |document: &str| {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(post("Connection: close\r\n", document).as_bytes()).await.unwrap();
        until_end(&mut stream).await
    };
    let first = ask(&many(100)).await;
    assert!(first.starts_with("HTTP/1.1 503") && first.contains("RESOURCE_EXHAUSTED"), "{}", &first[..400]);
    assert!(ask("{ tip { height } }").await.starts_with("HTTP/1.1 200"));
    let begin = Instant::now();
    within(async {
        while !ask(&many(100)).await.starts_with("HTTP/1.1 200") {
            sleep(SECOND / 10).await;
        }
    })
    .await;
    assert!(begin.elapsed() < SECOND * 10, "{:?}", begin.elapsed());
    // of an answer that began nothing more comes than was on its way
    let rest = until_end(&mut never).await;
    assert!(rest.starts_with("HTTP/1.1 200") && rest.len() < 5 << 20, "{}", rest.len());
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_for_a_websocket_that_is_not_read_count_from_when_they_are_there() {
    // some of four such answers, and not all of them
    let served = served(|options| {
        options.limits.buffered_bytes = 15 << 20;
        options.public_metrics = true;
        allow_many(options);
    })
    .await;
    let mut socket = connect(&served).await;
    let queries = (40..44).map(|count| text(&super::subscribe(&count.to_string(), &many(count))));
    let asked: Vec<u8> = [text(&json!({ "type": "connection_init" }))].into_iter().chain(queries).flatten().collect();
    socket.write_all(&[HANDSHAKE.as_bytes(), &asked].concat()).await.unwrap();
    within(async {
        let executed = "btcgraph_server_execution_seconds_count 4\n";
        loop {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).await.unwrap();
            if until_end(&mut stream).await.contains(executed) {
                return;
            }
        }
    })
    .await;
    // one is being sent, and the others wait behind it
    let (mut refused, mut completed) = (Occurrences::of(r#""type":"error""#), Occurrences::of(r#""type":"complete""#));
    let mut exhausted = Occurrences::of(r#""code":"RESOURCE_EXHAUSTED""#);
    let mut bytes = vec![0; 1 << 20];
    within(async {
        while refused.count + completed.count < 4 {
            let read = socket.read(&mut bytes).await.unwrap();
            assert_ne!(read, 0, "the server closed the websocket");
            for occurrences in [&mut refused, &mut completed, &mut exhausted] {
                occurrences.find_in(&bytes[..read]);
            }
        }
    })
    .await;
    assert!(refused.count > 0 && completed.count > 0, "{} refused", refused.count);
    assert_eq!(exhausted.count, refused.count);
    served.stop().await;
}

/// How often a text occurs in bytes that come in pieces.
struct Occurrences {
    text: &'static [u8],
    count: usize,
    /// The last bytes, with which it may begin.
    tail: Vec<u8>,
}

impl Occurrences {
    fn of(text: &'static str) -> Self {
        Self { text: text.as_bytes(), count: 0, tail: Vec::new() }
    }

    fn find_in(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.count += self.tail.windows(self.text.len()).filter(|window| *window == self.text).count();
        self.tail.drain(..self.tail.len().saturating_sub(self.text.len() - 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_get_whole_answers_in_every_encoding() {
    let served = served(|options| {
        options.limits.write_timeout = SECOND * 3;
        options.limits.socket_ping_interval = SECOND * 3;
        allow_many(options);
    })
    .await;
    let large = many(8);
    let asked = [text(&json!({ "type": "connection_init" })), text(&super::subscribe("1", &large))].concat();
    let stream = |accept: &str| post(&format!("Accept: {accept}\r\n"), &large).into_bytes();
    let ways = [
        ("plain", post("Connection: close\r\n", &large).into_bytes(), "}}"),
        ("compressed", post("Connection: close\r\nAccept-Encoding: gzip\r\n", &many(100)).into_bytes(), "0\r\n\r\n"),
        ("events", stream("text/event-stream"), "event: complete\ndata:\n\n\r\n0\r\n\r\n"),
        ("parts", stream("multipart/mixed;subscriptionSpec=1.0"), "--graphql--\r\n\r\n0\r\n\r\n"),
        ("websocket", [HANDSHAKE.as_bytes(), &asked].concat(), "\"type\":\"complete\"}"),
    ];
    let readers = ways.map(|(way, request, end)| {
        let connecting = connect(&served);
        async move {
            let mut stream = connecting.await;
            stream.write_all(&request).await.unwrap();
            let (mut received, mut tail) = (0, Vec::new());
            let begin = Instant::now();
            while !tail.ends_with(end.as_bytes()) {
                let mut bytes = vec![0; 8 << 10];
                let read = stream.read(&mut bytes).await.unwrap_or(0);
                assert_ne!(read, 0, "{way}: cut off after {received} bytes and {:?}", begin.elapsed());
                received += read;
                tail.extend_from_slice(&bytes[..read]);
                tail.drain(..tail.len().saturating_sub(end.len()));
                // a client of a websocket answers pings, when it comes to them
                if way == "websocket" && bytes[..read].windows(2).any(|two| two == [PING, 0]) {
                    stream.write_all(&frame(0x8a, b"")).await.unwrap();
                }
                // 160 KiB a second at most
                sleep(SECOND / 20).await;
            }
            (way, received, begin.elapsed())
        }
    });
    for (way, received, elapsed) in futures_util::future::join_all(readers).await {
        if way != "compressed" {
            assert!(received > 500 << 10 && elapsed > SECOND * 3, "{way} {received} {elapsed:?}");
        }
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_streams_and_websockets_end_at_the_write_timeout() {
    let served = served(|options| {
        options.limits.write_timeout = SECOND;
        options.limits.connections = 1;
    })
    .await;
    let large = many(8);
    let asked = [text(&json!({ "type": "connection_init" })), text(&super::subscribe("1", &large))].concat();
    for request in [
        post("Accept: text/event-stream\r\n", &large).into_bytes(),
        post("Accept: multipart/mixed;subscriptionSpec=1.0\r\n", &large).into_bytes(),
        [HANDSHAKE.as_bytes(), &asked].concat(),
    ] {
        let mut stuck = connect(&served).await;
        stuck.write_all(&request).await.unwrap();
        sleep(SECOND / 2).await;
        let begin = Instant::now();
        // its place is free again
        within(async {
            loop {
                let mut next = TcpStream::connect(served.address).await.unwrap();
                let request = post("Connection: close\r\nAccept: text/event-stream\r\n", "{ tip { height } }");
                next.write_all(request.as_bytes()).await.unwrap();
                if until_end(&mut next).await.starts_with("HTTP/1.1 200") {
                    break;
                }
                sleep(SECOND / 20).await;
            }
        })
        .await;
        assert!((SECOND / 10..SECOND * 8).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        let rest = until_end(&mut stuck).await;
        assert!(rest.starts_with("HTTP/1.1 ") && rest.len() < 900 << 10, "{}", rest.len());
        // and the one that asked has left it
        sleep(SECOND / 10).await;
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_does_not_come_to_its_end_closes_its_socket_whatever_stands_between_its_parts() {
    let limits = Limits { message_timeout: SECOND, socket_init_timeout: SECOND * 60, ..Limits::default() };
    let served = TestServer::with_limits(&Api::of_chain(&chain()).schema, &limits).await;
    let long = [0x81, 0xfe, 0x10, 0x00, 0, 0, 0, 0];
    for (begin, drop) in [
        (frame(TEXT_BEGIN, b"{"), [frame(MORE, b" "), frame(PING, b"")].concat()),
        (long.to_vec(), b" ".to_vec()),
        (vec![TEXT], Vec::new()),
    ] {
        let mut stream = connect(&served).await;
        stream.write_all(&[HANDSHAKE.as_bytes(), &begin].concat()).await.unwrap();
        let (elapsed, reported) = until_cut(stream, &drop, SECOND / 10).await;
        assert!((SECOND * 9 / 10..SECOND * 8).contains(&elapsed), "{elapsed:?}");
        assert!(reported.contains("a message did not arrive within 1 s"), "{reported}");
    }
    // one that does is answered, and so is one that is slow but in time
    let mut stream = connect(&served).await;
    let init = json!({ "type": "connection_init" }).to_string();
    let (first, second) = init.as_bytes().split_at(5);
    let begun = [HANDSHAKE.as_bytes(), &frame(TEXT_BEGIN, first), &frame(PING, b"")].concat();
    stream.write_all(&begun).await.unwrap();
    sleep(SECOND / 2).await;
    stream.write_all(&frame(0x80, second)).await.unwrap();
    sleep(SECOND * 2).await;
    stream.write_all(&text(&json!({ "type": "ping" }))).await.unwrap();
    let mut received = Vec::new();
    within(async {
        while !String::from_utf8_lossy(&received).contains("\"pong\"") {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "{}", String::from_utf8_lossy(&received));
        }
    })
    .await;
    served.stop().await;
}

/// What begins an event of `newBlock`.
const BLOCK: &str = "\"newBlock\":{\"height\":";

/// The heights in all events that came.
fn heights(received: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(received);
    text.split(BLOCK).skip(1).map(|rest| rest.split(',').next().unwrap().parse().unwrap()).collect()
}

/// Reads until the event of this height has begun.
async fn read_up_to(height: u64, stream: &mut TcpStream, received: &mut Vec<u8>) {
    let begin = format!("{BLOCK}{height},");
    let mut unseen = received.len();
    within(async {
        while !String::from_utf8_lossy(&received[unseen..]).contains(&begin) {
            unseen = unseen.max(received.len().saturating_sub(begin.len()));
            assert_ne!(stream.read_buf(received).await.unwrap(), 0, "it ended after {:?}", heights(received));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_behind_the_shared_ring_misses_no_block() {
    const BLOCKS: u64 = 80;
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let mut options = Options::default();
    options.limits.write_timeout = SECOND * 60;
    options.limits.min_rate = 0;
    allow_many(&mut options);
    let served = TestServer::with_options(&api.schema, options).await;
    // some 150 KB an event, of which a megabyte is kept
    let again: Vec<_> = (0..900).map(|number| format!("a{number}: headerHex")).collect();
    let document = format!("subscription {{ newBlock {{ height {} }} }}", again.join(" "));
    let mut slow = connect(&served).await;
    slow.write_all(post("Accept: text/event-stream\r\n", &document).as_bytes()).await.unwrap();
    let mut fast = served.client().await;
    fast.ask("1", &document).await;
    super::until_subscriptions(&mut fast, 2).await;
    assert_eq!(api.listeners(), 1, "they share one execution");
    for height in 4..4 + BLOCKS {
        api.connect(&chain.mine(Vec::new()).unwrap());
        assert_eq!(fast.receive().await["payload"]["data"]["newBlock"]["height"], json!(height));
    }
    let mut received = Vec::new();
    read_up_to(3 + BLOCKS, &mut slow, &mut received).await;
    assert_eq!(api.listeners(), 2, "it had lost its place");
    // and of what happens from then on
    api.connect(&chain.mine(Vec::new()).unwrap());
    read_up_to(4 + BLOCKS, &mut slow, &mut received).await;
    assert_eq!(heights(&received), (4..=4 + BLOCKS).collect::<Vec<_>>());
    served.stop().await;
}
