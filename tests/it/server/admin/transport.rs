//! The socket's HTTP: what gets through, what is refused, and how checks begin and end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use btcgraph::metrics::Metrics;
use btcgraph::server::Draining;
use btcgraph::server::admin::{Admin, AdminSocket, Job, NotNotified, serve};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A served socket whose handlers hand on what they are given.
struct AdminServer {
    directory: TempDir,
    notices: Receiver<String>,
    jobs: Receiver<(Vec<u8>, Job)>,
    draining: Draining,
    shutdown: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

impl AdminServer {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = AdminSocket::unix(&directory.path().join("s")).await.unwrap();
        Self::at(socket, directory)
    }

    fn at(socket: AdminSocket, directory: TempDir) -> Self {
        let ((notice, notices), (job, jobs)) = (channel(), channel());
        let draining = Draining::default();
        let admin = Admin {
            notify: Box::new(move |hash| {
                let answer = match hash {
                    "nonsense" => Err(NotNotified::NotAHash("nonsense".into())),
                    "unknown" => Err(NotNotified::UnknownBlock(BlockHash::all_zeros().to_string())),
                    hash => {
                        notice.send(hash.into()).unwrap();
                        Ok(())
                    }
                };
                Box::pin(async { answer })
            }),
            verify: Box::new(move |question, started| match question {
                b"nonsense" => Err("that is nonsense".into()),
                question => job.send((question.into(), started)).map_err(|error| error.to_string()),
            }),
            set_log: Box::new(|filter| match filter {
                "nonsense" => Err("that is no filter".into()),
                filter => Ok(format!("logs {filter}")),
            }),
            backup: Box::new(|_, _| Err("no backup is made here".into())),
            cut: Box::new(|_| Err("no blocks are frozen".into())),
            draining: draining.clone(),
            metrics: Some(Metrics::new().unwrap()),
        };
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(serve(socket, admin, shutdown.clone()));
        Self { directory, notices, jobs, draining, shutdown, serving }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    async fn answer(&self, head: &str, body: &str) -> String {
        let (socket, head, body) = (self.socket(), head.to_owned(), body.to_owned());
        tokio::task::spawn_blocking(move || rest(send(&socket, &head, &body))).await.unwrap()
    }

    /// The check that was started last.
    fn job(&self) -> (Vec<u8>, Job) {
        self.jobs.recv_timeout(Duration::from_secs(10)).unwrap()
    }
}

/// Sends a request: its first line and more lines of its head, and its body.
fn send(socket: &Path, head: &str, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (line, fields) = head.split_once('\n').unwrap_or((head, ""));
    let length = body.len();
    let head = format!("{line} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n");
    // a server that refuses a body need not read it
    let _ = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
    stream
}

fn rest(mut stream: UnixStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_answers_under_the_names_of_this_machine_alone() {
    // another test may take a free port before the socket does
    let (free, socket) = loop {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        if let Ok(socket) = AdminSocket::tcp(free).await {
            break (free, socket);
        }
    };
    let served = AdminServer::at(socket, tempfile::tempdir().unwrap());
    let answer = async |host: String| {
        tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(free).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            write!(stream, "GET /metrics HTTP/1.0\r\n{host}\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
        .await
        .unwrap()
    };
    for (host, expected) in [
        ("", 200),
        ("Host: localhost:8081\r\n", 200),
        ("Host: 127.0.0.1:8081\r\n", 200),
        ("Host: [::1]:8081\r\n", 200),
        ("Host: evil.example:8081\r\n", 421),
        ("Host: 192.0.2.1\r\n", 421),
        ("Host: localhost\r\nHost: evil.example\r\n", 421),
    ] {
        assert_eq!(status(&answer(host.to_owned()).await), expected, "{host:?}");
    }
    served.shutdown.cancel();
    served.serving.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_by_what_was_handed_in() {
    let served = AdminServer::start().await;
    assert_eq!(status(&served.answer("POST /notify/abc", "").await), 202);
    assert_eq!(served.notices.try_recv().unwrap(), "abc");
    for (line, body, expected, reason) in [
        ("POST /notify/nonsense", "", 400, "\"nonsense\" is not a block hash: give 64 hexadecimal digits"),
        ("POST /notify/unknown", "", 404, "; the server still requests the newest block"),
        ("POST /verify", "nonsense", 400, "that is nonsense"),
        ("POST /log", "nonsense", 400, "that is no filter"),
        ("POST /log", "btcgraph=debug", 200, "logs btcgraph=debug"),
    ] {
        let answer = served.answer(line, body).await;
        assert_eq!(status(&answer), expected);
        assert!(answer.ends_with(reason), "{answer}");
    }
    for (line, is_draining) in [("POST /drain", true), ("POST /drain", true), ("POST /drain/undo", false)] {
        assert_eq!(status(&served.answer(line, "").await), 200);
        assert_eq!(served.draining.is_set(), is_draining);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_socket_does_not_know_or_take_is_refused() {
    let served = AdminServer::start().await;
    let large = "x".repeat(100_000);
    for (head, body, expected) in [
        ("GET /notify/abc", "", 405),
        ("POST /notify", "", 404),
        ("POST /notify/%ff", "", 400),
        ("POST /graphql", "", 404),
        ("POST /verify", &large, 413),
        ("POST /notify/abc\nOrigin: http://evil.example\r\n", "", 403),
        ("POST /notify/abc\nOrigin: null\r\n", "", 403),
        ("POST /verify\nOrigin: http://127.0.0.1:8080\r\n", "{}", 403),
    ] {
        assert_eq!(status(&served.answer(head, body).await), expected, "{head}");
    }
    assert!(served.notices.try_recv().is_err() && served.jobs.try_recv().is_err(), "nothing was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_is_streamed_and_no_other_starts_before_its_end() {
    let served = AdminServer::start().await;
    let first = send(&served.socket(), "POST /verify", "question");
    let (question, job) = served.job();
    assert_eq!(question, b"question");
    assert_eq!(status(&served.answer("POST /verify", "another").await), 409);
    job.tell("one".into());
    tokio::task::spawn_blocking(move || job.finish("two".into())).await.unwrap();
    let answer = rest(first);
    assert_eq!(status(&answer), 200);
    assert!(answer.ends_with("\r\n\r\none\ntwo\n"), "{answer}");

    let _second = send(&served.socket(), "POST /verify", "another");
    assert_eq!(served.job().0, b"another");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_check_ends_its_response_and_permits_another() {
    let served = AdminServer::start().await;
    let first = send(&served.socket(), "POST /verify", "question");
    drop(served.job());
    assert_eq!(status(&rest(first)), 200);
    let _second = send(&served.socket(), "POST /verify", "question");
    served.job();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_is_stopped_when_its_client_disconnects() {
    let served = AdminServer::start().await;
    let client = send(&served.socket(), "POST /verify", "question");
    let (_, job) = served.job();
    assert!(!job.stop().is_cancelled());
    drop(client);
    tokio::time::timeout(Duration::from_secs(10), job.stop().cancelled()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_shutdown_a_check_may_finish_and_the_socket_is_removed() {
    let served = AdminServer::start().await;
    let client = send(&served.socket(), "POST /verify", "question");
    let (_, job) = served.job();
    served.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(10), job.stop().cancelled()).await.unwrap();
    tokio::task::spawn_blocking(move || job.finish("stopped".into())).await.unwrap();
    assert!(rest(client).ends_with("\r\n\r\nstopped\n"));
    let socket = served.socket();
    served.serving.await.unwrap().unwrap();
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_does_not_stop_does_not_delay_the_shutdown() {
    let served = AdminServer::start().await;
    let client = send(&served.socket(), "POST /verify", "question");
    let (_, _job) = served.job();
    served.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(30), served.serving).await.unwrap().unwrap().unwrap();
    drop(client);
}
