//! The client against receivers coded by hand, down to the byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;
use crate::outbound::{HEAD_BYTES, LOCALHOST, Target};
use crate::webhooks::hook::HookWatch;

const KEY: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// A certificate of `localhost` that signs itself, until the year 2126.
const CERTIFICATE: &[u8] = LOCALHOST.0;
const CERTIFICATE_KEY: &[u8] = LOCALHOST.1;

fn hook(url: &str) -> Hook {
    Hook {
        name: "shop".to_owned(),
        target: Target::parse(url).unwrap(),
        keys: SigningKeys::parse(KEY).unwrap(),
        watch: HookWatch::Blocks,
        fields: None,
        allow_private: true,
        timing: Timing {
            attempts: 3,
            backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(10),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
        },
    }
}

fn message() -> HookMessage {
    HookMessage {
        id: "msg_1".to_owned(),
        kind: "ledger.seen".to_owned(),
        created_at: 0,
        body: "{\"data\":\"ü\"}".to_owned(),
        cursor: "c".to_owned(),
        is_snapshot: false,
    }
}

/// A request from its first line to the end of its body.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse().unwrap() {
                return Some(text);
            }
        }
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend(&buffer[..read]),
        }
    }
}

/// A receiver that answers each request with this text, and closes the connection after so many. Its address, the requests,
/// and the number of connections.
async fn receiver(
    response: impl Into<Vec<u8>>,
    per_connection: usize,
) -> (SocketAddr, mpsc::UnboundedReceiver<String>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, response) = (listener.local_addr().unwrap(), response.into());
    let ((sender, requests), connections) = (mpsc::unbounded_channel(), Arc::<AtomicUsize>::default());
    let counter = connections.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::Relaxed);
            for _ in 0..per_connection {
                let Some(request) = read_request(&mut stream).await else { break };
                let _ = sender.send(request);
                if stream.write_all(&response).await.is_err() {
                    break;
                }
            }
        }
    });
    (address, requests, connections)
}

fn sender_to(address: SocketAddr) -> MessageSender {
    MessageSender::new(&hook(&format!("http://{address}/events?a=b")), None)
}

async fn failure(response: impl Into<Vec<u8>>) -> DeliveryFailure {
    let (address, _requests, _) = receiver(response, 1).await;
    sender_to(address).send(&message()).await.unwrap_err()
}

#[tokio::test]
async fn the_request_has_the_headers_of_standard_webhooks() {
    let (address, mut requests, _) = receiver("HTTP/1.1 204 No Content\r\n\r\n", 1).await;
    sender_to(address).send(&message()).await.unwrap();
    let request = requests.recv().await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, message().body);
    let mut lines = head.lines();
    assert_eq!(lines.next(), Some("POST /events?a=b HTTP/1.1"));
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
    assert_eq!(header("host"), address.to_string());
    assert_eq!((header("content-type"), header("webhook-id")), ("application/json", "msg_1"));
    let time: u64 = header("webhook-timestamp").parse().unwrap();
    assert!(now() - time < 10, "{time}");
    assert_eq!(header("webhook-signature"), SigningKeys::parse(KEY).unwrap().sign("msg_1", time, body));
}

#[tokio::test]
async fn an_open_connection_is_used_again_and_replaced_when_the_receiver_closes_it() {
    let response = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let (address, _requests, connections) = receiver(response, 2).await;
    let mut sender = sender_to(address);
    for (sent, expected) in [1, 1, 2, 2, 3].into_iter().zip(1..) {
        sender.send(&message()).await.unwrap();
        assert_eq!(connections.load(Ordering::Relaxed), sent, "after message {expected}");
    }
}

/// What a receiver does with the second request on its first connection.
#[derive(Clone, Copy, Debug)]
enum SecondRequest {
    Close,
    RespondPartly,
    Ignore,
}

/// A receiver that accepts the first message, and does this with the next on the same connection. The failure of the second
/// message, and how many requests the receiver has read.
async fn second_message(reaction: SecondRequest) -> (Option<FailureReason>, usize) {
    const ACCEPTED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let read = Arc::<AtomicUsize>::default();
    let counter = read.clone();
    tokio::spawn(async move {
        for connection in 0_usize.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let counter = counter.clone();
            tokio::spawn(async move {
                for number in 0_usize.. {
                    if read_request(&mut stream).await.is_none() {
                        return;
                    }
                    counter.fetch_add(1, Ordering::Relaxed);
                    match reaction {
                        _ if connection > 0 || number == 0 => stream.write_all(ACCEPTED).await.unwrap(),
                        SecondRequest::Close => return,
                        SecondRequest::RespondPartly => return stream.write_all(b"HTTP/1.1 2").await.unwrap(),
                        SecondRequest::Ignore => {}
                    }
                }
            });
        }
    });
    let mut hook = hook(&format!("http://{address}/"));
    hook.timing.timeout = Duration::from_millis(300);
    let mut sender = MessageSender::new(&hook, None);
    sender.send(&message()).await.unwrap();
    let failure = sender.send(&message()).await.err().map(|failure| failure.reason);
    tokio::time::sleep(Duration::from_millis(50)).await;
    (failure, read.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_message_is_repeated_at_once_only_if_no_byte_came_back() {
    let (failure, read) = second_message(SecondRequest::Close).await;
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!(read, 3, "the message went to a new connection");
    let (failure, read) = second_message(SecondRequest::RespondPartly).await;
    assert!(matches!(failure, Some(FailureReason::Http(_))), "{failure:?}");
    assert_eq!(read, 2);
    let (failure, read) = second_message(SecondRequest::Ignore).await;
    assert!(matches!(failure, Some(FailureReason::Timeout(_))), "{failure:?}");
    assert_eq!(read, 2, "a receiver that is slow does not get the message twice");
}

#[tokio::test]
async fn any_status_but_2xx_is_a_failure() {
    for status in [300, 301, 302, 307, 308, 400, 404, 410, 429, 500, 503] {
        let failure =
            failure(format!("HTTP/1.1 {status} X\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n"));
        let reason = failure.await.reason;
        assert!(matches!(&reason, FailureReason::Status(found) if found.as_u16() == status), "{status}: {reason}");
        assert_eq!(reason.to_string().contains("redirects are not followed"), (300..400).contains(&status));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (other, mut requests, connections) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 9).await;
    failure(format!("HTTP/1.1 307 X\r\nlocation: http://{other}/\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!((connections.load(Ordering::Relaxed), requests.try_recv().is_err()), (0, true));
}

#[tokio::test]
async fn the_receiver_can_request_a_pause() {
    let pause = |value: &'static str| async move {
        failure(format!("HTTP/1.1 503 X\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n")).await.retry_after
    };
    assert_eq!(pause("120").await, Some(Duration::from_mins(2)));
    assert_eq!(pause("Fri, 31 Dec 1999 23:59:59 GMT").await, None);
    assert_eq!(pause("99999999999999999999").await, Some(Duration::from_secs(u64::MAX)));
    assert_eq!(pause("-1").await, None);
}

#[tokio::test]
async fn what_is_no_http_is_a_failure() {
    let too_long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(2 * HEAD_BYTES));
    for response in ["", "nonsense\r\n\r\n", "HTTP/1.1 200", "\0\0\0\0", &too_long] {
        let reason = failure(response).await.reason;
        assert!(matches!(reason, FailureReason::Http(_)), "{response:.20}: {reason}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_not_there_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let reason = sender_to(address).send(&message()).await.unwrap_err().reason;
    assert!(matches!(reason, FailureReason::Connect(_)), "{reason}");
    let mut sender = MessageSender::new(&hook("http://no.such.host.invalid/"), None);
    let reason = sender.send(&message()).await.unwrap_err().reason;
    assert!(matches!(reason, FailureReason::Resolve(_)), "{reason}");
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_ends_with_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut hook = hook(&format!("http://{}/", listener.local_addr().unwrap()));
    hook.timing.timeout = Duration::from_millis(50);
    let started = Instant::now();
    let reason = MessageSender::new(&hook, None).send(&message()).await.unwrap_err().reason;
    assert!(matches!(reason, FailureReason::Timeout(_)), "{reason}");
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn of_a_long_or_endless_body_little_is_read() {
    // longer than what is read, and one that never ends
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n{}", "x".repeat(10_000_000));
    let endless = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx".to_owned();
    for response in [long, endless] {
        let (address, _requests, connections) = receiver(response, 9).await;
        let mut sender = sender_to(address);
        let started = Instant::now();
        sender.send(&message()).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(4));
        assert!(sender.open.is_none(), "the connection is closed");
        sender.send(&message()).await.unwrap();
        assert_eq!(connections.load(Ordering::Relaxed), 2);
    }
}

#[tokio::test]
async fn a_private_address_is_refused_however_it_is_written() {
    let (address, mut requests, _) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 9).await;
    let port = address.port();
    for host in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1", "0x7f.1", "2130706433", "[64:ff9b::7f00:1]"]
    {
        let mut hook = hook(&format!("http://{host}:{port}/"));
        hook.allow_private = false;
        let reason = MessageSender::new(&hook, None).send(&message()).await.unwrap_err().reason;
        assert!(matches!(reason, FailureReason::Address(..) | FailureReason::Resolve(_)), "{host}: {reason}");
    }
    assert!(requests.try_recv().is_err());
}

/// A receiver with TLS at this address.
async fn tls_receiver() -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(CERTIFICATE_KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (acceptor, listener) = (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            if read_request(&mut stream).await.is_some() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
    });
    address
}

#[tokio::test]
async fn a_receiver_with_a_trusted_certificate_of_its_name_gets_messages() {
    let address = tls_receiver().await;
    let trusting = TlsConfig::trusting([CertificateDer::from_pem_slice(CERTIFICATE).unwrap()]).unwrap();
    let send = |host: &str, tls: Option<TlsConfig>| {
        let mut sender = MessageSender::new(&hook(&format!("https://{host}:{}/", address.port())), tls);
        async move { sender.send(&message()).await.map_err(|failure| failure.reason) }
    };
    send("localhost", Some(trusting.clone())).await.unwrap();
    for (host, tls) in [("127.0.0.1", Some(trusting)), ("localhost", TlsConfig::of_system().ok()), ("localhost", None)]
    {
        let reason = send(host, tls).await.unwrap_err();
        assert!(matches!(reason, FailureReason::Tls(_)), "{host}: {reason}");
    }
}
