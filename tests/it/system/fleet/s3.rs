//! An S3 server of a test (`tests/s3`), and a way to it that fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::skips::{current_test, skip};

/// A server with two buckets: `private`, and `public`, which answers everyone. Killed when dropped.
pub(in crate::system) struct S3Server {
    process: Child,
    port: u16,
}

impl S3Server {
    /// `None`, and a line in the skips, if it is not installed.
    #[track_caller]
    pub(in crate::system) fn start() -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3");
        if !folder.join(".venv/.installed").exists() {
            skip(&current_test(), "no S3 server: run scripts/python.sh --install-python tests/s3");
            return None;
        }
        let mut program = Command::new(folder.join(".venv/bin/python"));
        program.args(["server.py", "private", "public"]).current_dir(&folder);
        let mut process = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Some(Self { process, port: line.trim().parse().unwrap() })
    }

    pub(in crate::system) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The variables by which a client finds it.
    pub(in crate::system) fn variables(endpoint: &str) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", endpoint.to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Passes requests on, one a connection at a time, unless it is to answer 500 or to wait first.
pub(super) struct FlakyProxy {
    port: u16,
    shared: Arc<Flakiness>,
}

#[derive(Default)]
struct Flakiness {
    /// Of so many requests one is answered with 500; 0 for none.
    fails_one_in: AtomicUsize,
    /// Milliseconds before the answer of a request.
    delay: AtomicU32,
    requests: AtomicUsize,
    failed: AtomicUsize,
    /// What a request must have in its first line to get no answer; empty for none.
    stalled: Mutex<String>,
    /// Requests of more bytes than this get no answer; 0 for none.
    held_above: AtomicU64,
    /// The first lines of the requests that were passed on, each with the range that it asks for.
    passed: Mutex<Vec<String>>,
}

impl FlakyProxy {
    pub(super) fn start(server: &S3Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, shared, target) = (listener.local_addr().unwrap().port(), Arc::<Flakiness>::default(), server.port);
        let of_threads = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&of_threads);
                thread::spawn(move || serve(client, target, &shared));
            }
        });
        Self { port, shared }
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn fail_one_in(&self, requests: usize) {
        self.shared.fails_one_in.store(requests, Ordering::Relaxed);
    }

    pub(super) fn delay(&self, milliseconds: u32) {
        self.shared.delay.store(milliseconds, Ordering::Relaxed);
    }

    /// Gives requests no answer that have this in their first line.
    pub(super) fn stall(&self, what: &str) {
        what.clone_into(&mut self.shared.stalled.lock().unwrap());
    }

    /// Gives requests no answer that are for more bytes of an object than this, which is not 0; 0 passes all on again.
    pub(super) fn hold_above(&self, bytes: u64) {
        self.shared.held_above.store(bytes, Ordering::Relaxed);
    }

    /// How many requests were passed on that have this in their first line.
    pub(super) fn passed(&self, what: &str) -> usize {
        self.shared.passed.lock().unwrap().iter().filter(|line| line.contains(what)).count()
    }

    pub(super) fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::Relaxed)
    }
}

/// How many bytes `bytes=0-9` asks for.
fn bytes_of(range: &str) -> u64 {
    let bounds = range.trim().strip_prefix("bytes=").and_then(|bounds| bounds.split_once('-'));
    bounds.map_or(0, |(first, last)| last.parse::<u64>().unwrap() + 1 - first.parse::<u64>().unwrap())
}

/// One request, after which the connection is closed.
fn serve(mut client: TcpStream, target: u16, shared: &Flakiness) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if client.read_exact(&mut byte).is_err() {
            return;
        }
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let length =
        text.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    if client.read_exact(&mut body).is_err() {
        return;
    }
    thread::sleep(Duration::from_millis(shared.delay.load(Ordering::Relaxed).into()));
    let range = text.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("range: ").map(str::to_owned));
    let bytes = range.as_deref().map_or(0, bytes_of);
    let first = format!("{} {}", text.lines().next().unwrap_or_default(), range.unwrap_or_default());
    loop {
        let stalled = shared.stalled.lock().unwrap().clone();
        let held_above = shared.held_above.load(Ordering::Relaxed);
        if (stalled.is_empty() || !first.contains(&stalled)) && (held_above == 0 || bytes <= held_above) {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let (number, one_in) =
        (shared.requests.fetch_add(1, Ordering::Relaxed), shared.fails_one_in.load(Ordering::Relaxed));
    if one_in > 0 && number % one_in == 0 {
        shared.failed.fetch_add(1, Ordering::Relaxed);
        let _ =
            client.write_all(b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    shared.passed.lock().unwrap().push(first);
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)) else { return };
    let head = text.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    if server.write_all(head.as_bytes()).and_then(|()| server.write_all(&body)).is_ok() {
        let _ = std::io::copy(&mut server, &mut client);
    }
    let _ = client.shutdown(Shutdown::Both);
}
