//! A node for unit tests: a small HTTP server whose responses the test chooses, so that a test can make it slow, busy,
//! wrong or unreachable. The responses of a real node are tested on a real node.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bitcoin::{BlockHash, Network, constants};
use serde_json::{Value, json};

use super::options::{Auth, NodeOptions};
use super::retry::RetryPolicy;

/// A request to the fake node.
pub(crate) enum FakeRequest<'a> {
    /// A path below `/rest/`.
    Rest(&'a str),
    /// A method and its parameters.
    Rpc(&'a str, &'a [Value]),
}

/// A response of the fake node.
pub(crate) enum FakeResponse {
    Result(Value),
    Error(i32, &'static str),
    Bytes(Vec<u8>),
    /// Any HTTP status with any body, in place of the whole answer.
    Status(u16, &'static str),
}

/// Answers the requests of [`Node::connect`](super::Node::connect) as a regtest node with REST does, and no others.
pub(crate) fn regtest(asked: &FakeRequest<'_>) -> FakeResponse {
    match asked {
        FakeRequest::Rpc("getblockchaininfo", _) => FakeResponse::Result(json!({
            "chain": "regtest", "blocks": 0, "headers": 0, "bestblockhash": regtest_genesis(),
            "verificationprogress": 1, "initialblockdownload": false, "size_on_disk": 0, "pruned": false,
        })),
        FakeRequest::Rpc("getblockhash", [Value::Number(height)]) if height.as_u64() == Some(0) => {
            FakeResponse::Result(json!(regtest_genesis()))
        }
        FakeRequest::Rpc("getnetworkinfo", _) => {
            FakeResponse::Result(json!({"version": 1, "subversion": "/fake/", "connections": 0, "warnings": []}))
        }
        FakeRequest::Rest("chaininfo.json") => FakeResponse::Bytes(b"{}".to_vec()),
        FakeRequest::Rest(_) => FakeResponse::Status(404, ""),
        FakeRequest::Rpc(..) => FakeResponse::Error(-32601, "Method not found"),
    }
}

fn regtest_genesis() -> BlockHash {
    constants::genesis_block(Network::Regtest).block_hash()
}

type Responder = dyn Fn(&FakeRequest<'_>) -> FakeResponse + Send + Sync;

/// The running server; dropping it closes its port and connections.
pub(crate) struct FakeNode {
    port: u16,
    stopped: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    requests: Arc<AtomicUsize>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl FakeNode {
    pub(crate) fn start(answer: impl Fn(&FakeRequest<'_>) -> FakeResponse + Send + Sync + 'static) -> FakeNode {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stopped = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::new(AtomicUsize::new(0));
        let accepting = thread::spawn({
            let (stopped, connections, answer) = (Arc::clone(&stopped), Arc::clone(&connections), Arc::new(answer));
            let requests = Arc::clone(&requests);
            move || {
                for connection in listener.incoming() {
                    let connection = connection.unwrap();
                    let mut open = connections.lock().unwrap();
                    if stopped.load(Ordering::Acquire) {
                        return;
                    }
                    open.push(connection.try_clone().unwrap());
                    let answer = Arc::clone(&answer);
                    let requests = Arc::clone(&requests);
                    thread::spawn(move || serve(connection, &requests, &*answer));
                }
            }
        });
        FakeNode { port, stopped, connections, requests, accepting: Some(accepting) }
    }

    /// The number of connections opened so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    /// The number of HTTP requests received so far.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// Options to reach it, with short pauses.
    pub(crate) fn options(&self) -> NodeOptions {
        let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
        let retry = RetryPolicy {
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(10),
            patience: Duration::from_secs(20),
        };
        let url = format!("http://127.0.0.1:{}", self.port);
        NodeOptions { retry, connect_retry: retry, ..NodeOptions::new(Network::Regtest, url, auth) }
    }

    /// Options to reach it without retries.
    pub(crate) fn impatient_options(&self) -> NodeOptions {
        let retry = RetryPolicy { patience: Duration::ZERO, ..RetryPolicy::default() };
        NodeOptions { retry, connect_retry: retry, ..self.options() }
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // wakes the accepting thread
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        self.accepting.take().unwrap().join().unwrap();
        for connection in self.connections.lock().unwrap().drain(..) {
            // the other side may have closed it
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// Serves one connection until it closes.
fn serve(connection: TcpStream, requests: &AtomicUsize, answer: &Responder) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut writer = connection;
    while let Some((path, body)) = read_request(&mut reader) {
        requests.fetch_add(1, Ordering::AcqRel);
        let (status, body) = match path.strip_prefix("/rest/") {
            Some(path) => match answer(&FakeRequest::Rest(path)) {
                FakeResponse::Bytes(bytes) => (200, bytes),
                FakeResponse::Status(status, text) => (status, text.into()),
                FakeResponse::Result(_) | FakeResponse::Error(..) => panic!("REST knows no JSON-RPC"),
            },
            None => answer_rpc(&serde_json::from_slice(&body).unwrap(), answer),
        };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
        if writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&body)).is_err() {
            return;
        }
    }
}

/// Path and body of the next request; `None` when the connection is closed.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&length| length > 0)?;
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

fn answer_rpc(request: &Value, answer: &Responder) -> (u16, Vec<u8>) {
    let one = |request: &Value| {
        let params = request["params"].as_array().map_or(&[][..], Vec::as_slice);
        let (result, error) = match answer(&FakeRequest::Rpc(request["method"].as_str().unwrap(), params)) {
            FakeResponse::Result(result) => (result, Value::Null),
            FakeResponse::Error(code, message) => (Value::Null, json!({"code": code, "message": message})),
            FakeResponse::Status(status, text) => return Err((status, text.into())),
            FakeResponse::Bytes(_) => panic!("RPC knows no bytes"),
        };
        Ok(json!({"result": result, "error": error, "id": request["id"]}))
    };
    let whole = match request {
        Value::Array(requests) => requests.iter().map(one).collect::<Result<Value, _>>(),
        request => one(request),
    };
    match whole {
        Ok(answer) => (200, answer.to_string().into()),
        Err(status) => status,
    }
}
