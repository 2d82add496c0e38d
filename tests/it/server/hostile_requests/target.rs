use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::corpus::SUBSCRIBE;
use crate::support::bitcoind::wait_for;

/// The subprotocols of websockets.
pub(super) const TRANSPORT: &str = "graphql-transport-ws";
pub(super) const LEGACY: &str = "graphql-ws";

/// After this there is no answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program on a simulated chain. A process of its own, for a stack that overflows ends all of it.
pub(super) struct Target {
    process: Child,
    address: String,
    agent: ureq::Agent,
    _directory: TempDir,
}

impl Target {
    pub(super) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port_file = directory.path().join("port");
        let mut program = Command::new(env!("CARGO_BIN_EXE_btcgraph"));
        program.args(["demo", "--listen", "127.0.0.1:0", "--port-file"]).arg(&port_file);
        program.env_clear().env("TMPDIR", directory.path()).stdin(Stdio::null()).stderr(Stdio::null());
        let process = program.spawn().unwrap();
        let port = wait_for("the port file", PATIENCE, || {
            std::fs::read_to_string(&port_file).ok().filter(|port| !port.is_empty())
        });
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        let (address, agent) = (format!("127.0.0.1:{port}"), config.build().into());
        let target = Self { process, address, agent, _directory: directory };
        let ready = || {
            target
                .ask(br#"{"query": "{ sync { isReady } }"}"#)
                .filter(|answer| answer["data"]["sync"]["isReady"] == true)
        };
        wait_for("the history to be indexed", PATIENCE, ready);
        target
    }

    /// The answer to a POST of this body, `None` if there is none.
    fn ask(&self, body: &[u8]) -> Option<Value> {
        let request = self.agent.post(format!("http://{}/graphql", self.address));
        let mut response = request.header("content-type", "application/json").send(body).ok()?;
        serde_json::from_slice(&response.body_mut().read_to_vec().ok()?).ok()
    }

    /// What becomes of it over HTTP, and how long that takes.
    pub(super) fn post(&self, body: &[u8]) -> (String, Duration) {
        let started = Instant::now();
        let answer = tokio::task::block_in_place(|| self.ask(body));
        (answer.map_or_else(|| "no answer".to_owned(), |answer| outcome(&answer)), started.elapsed())
    }

    /// What becomes of a message over a websocket of this subprotocol that is introduced, and how long that takes.
    pub(super) async fn say(&self, subprotocol: &'static str, message: &[u8]) -> (String, Duration) {
        let mut request = format!("ws://{}/graphql", self.address).into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(subprotocol));
        let Ok((mut socket, _)) = tokio_tungstenite::connect_async(request).await else {
            return ("no answer".to_owned(), Duration::ZERO);
        };
        let _ = socket.send(Message::text(json!({ "type": "connection_init" }).to_string())).await;
        let started = Instant::now();
        let frame = Frame::message(message.to_vec(), OpCode::Data(Data::Text), true);
        // one that is too large may be refused before it is all sent
        let _ = socket.send(Message::Frame(frame)).await;
        if subprotocol == TRANSPORT && !message.starts_with(SUBSCRIBE) {
            // which needs no answer
            let last = json!({ "type": "subscribe", "id": "last", "payload": { "query": "{ __typename }" } });
            let _ = socket.send(Message::text(last.to_string())).await;
        }
        let reported = loop {
            let Ok(next) = tokio::time::timeout(PATIENCE, socket.next()).await else { break "no answer".to_owned() };
            let text = match next {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(frame))) => {
                    break format!("closed {}", frame.map_or(0, |frame| frame.code.into()));
                }
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => break "closed without a word".to_owned(),
            };
            // with what was in the ping, however deep
            if text.starts_with(r#"{"type":"pong""#) {
                break "pong".to_owned();
            }
            let reported: Value = serde_json::from_str(&text).unwrap();
            match (reported["type"].as_str(), reported["id"].as_str()) {
                (Some("next"), Some("last")) => break "nothing".to_owned(),
                (Some("error"), _) if reported["payload"].is_array() => {
                    break outcome(&json!({ "errors": reported["payload"] }));
                }
                // an error of the older protocol has all errors in it, as a result has
                (Some("next" | "data" | "error"), _) => break outcome(&reported["payload"]),
                // of the older protocol, for a message that is none
                (Some("connection_error"), _) => break "connection_error".to_owned(),
                _ => {}
            }
        };
        (reported, started.elapsed())
    }

    pub(super) fn lives(&self) -> bool {
        std::path::Path::new(&format!("/proc/{}/exe", self.process.id())).exists()
            && self.ask(br#"{"query": "{ __typename }"}"#).is_some()
    }

    /// The most memory that it ever had.
    pub(super) fn memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The code of the first error, or `data`.
fn outcome(answer: &Value) -> String {
    match answer["errors"].get(0) {
        None => "data".to_owned(),
        Some(error) => error["extensions"]["code"].as_str().unwrap_or("an error without a code").to_owned(),
    }
}
