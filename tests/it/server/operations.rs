//! The program as those who run it watch it: its metrics, its log, the tokens of its clients.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use btcgraph::server::Token;
use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::bitcoind::wait_for;
use crate::support::program::{btcgraph, run};
use crate::support::test_process::TestProcess;

/// A server over a simulated chain of three blocks, and its log.
struct LoggedServer {
    process: TestProcess,
    directory: tempfile::TempDir,
    _node: SimNode,
}

/// The same program, which can have no more files open than these.
fn with_files(program: &Command, files: u32) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]);
    limited.arg(program.get_program()).args(program.get_args());
    limited.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

impl LoggedServer {
    fn start(variables: &[(&str, &str)]) -> Self {
        Self::start_as(variables, |program| program)
    }

    fn start_as(variables: &[(&str, &str)], change: impl FnOnce(Command) -> Command) -> Self {
        let mut chain = SimChain::new(1);
        chain.mine_empty(3).unwrap();
        let login = ("user".to_owned(), "hunter2".to_owned());
        let options = SimNodeOptions { login, ..SimNodeOptions::default() };
        let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let flags = ["--rpc-url", &node.url(), "--rpc-user", "user"].map(OsString::from);
        let variables =
            [variables, &[("BTCGRAPH_NODE__RPC_PASSWORD", "hunter2"), ("BTCGRAPH_LOG__FORMAT", "json")]].concat();
        let log = File::create(directory.path().join("log")).unwrap();
        let listen = "127.0.0.1:0";
        let process = TestProcess::start_as(listen, &flags, directory.path(), &variables, log.into(), change);
        let running = Self { process, directory, _node: node };
        wait_for("the server to be ready", Duration::from_secs(30), || {
            (running.get("/health/ready").0 == 200).then_some(())
        });
        running
    }

    fn get(&self, path: &str) -> (u16, String) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut response = agent.get(format!("http://{}{path}", self.process.address)).call().unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }

    fn post(&self, body: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = agent.post(format!("http://{}/graphql", self.process.address));
        for (name, value) in headers.iter().chain(&[("content-type", "application/json")]) {
            request = request.header(*name, *value);
        }
        let mut response = request.send(body.to_string()).unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap())
    }

    /// What comes as server-sent events until their end.
    fn events(&self, query: &str) -> String {
        let request = ureq::post(format!("http://{}/graphql", self.process.address))
            .header("accept", "text/event-stream")
            .header("content-type", "application/json");
        let mut response = request.send(json!({ "query": query }).to_string()).unwrap();
        response.body_mut().read_to_string().unwrap()
    }

    fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory().join("log")).unwrap()
    }

    /// The line of the log that says this, once it is there.
    fn logged(&self, message: &str) -> Value {
        let found = || {
            let lines = self.log().lines().map(str::to_owned).collect::<Vec<_>>();
            let parsed = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            parsed.into_iter().find(|line| line["message"].as_str().is_some_and(|text| text.contains(message)))
        };
        wait_for(message, Duration::from_secs(20), found)
    }
}

/// The metrics in Prometheus's text: name, type and labels' names of each, as `name type label,label`.
fn metrics_of(text: &str) -> BTreeSet<String> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    kinds
        .map(|(name, kind)| {
            let sample = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#')).unwrap();
            let labels = sample.split_once('{').map_or("", |(_, rest)| rest.split('}').next().unwrap());
            let labels: Vec<_> = labels.split(',').filter_map(|label| label.split('=').next()).collect();
            let labels: Vec<_> = labels.into_iter().filter(|label| !matches!(*label, "" | "le")).collect();
            format!("{name} {kind} {}", labels.join(",")).trim_end().to_owned()
        })
        .collect()
}

/// The same of the table in docs/metrics.md.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(|cell| cell.trim().replace('`', "")).collect();
        format!("{} {} {}", cells[1], cells[2], cells[3].replace(", ", ",")).trim_end().to_owned()
    })
    .collect()
}

/// The value of a sample.
fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{sample} in {text}")).parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn both_addresses_report_exactly_the_documented_metrics() {
    // the metrics of webhooks are there with the first
    let mut settings = tempfile::NamedTempFile::new().unwrap();
    let hook = "[[webhook]]\nname = 'shop'\nurl = 'http://127.0.0.1:9/'\nallow_private = true\nblocks = true\n\
                secret = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='\n";
    settings.write_all(hook.as_bytes()).unwrap();
    let server = LoggedServer::start_as(&[("BTCGRAPH_SERVER__METRICS", "true")], |mut program| {
        program.arg("--config").arg(settings.path());
        program
    });
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200);
    assert_eq!(metrics_of(&text), documented());
    let (code, printed) = run(&mut btcgraph(server.directory(), &["metrics"]));
    assert_eq!((code, metrics_of(&printed)), (Some(0), documented()));

    assert_eq!(value(&text, "btcgraph_sync_tip_height").to_string(), "3");
    assert_eq!(value(&text, "btcgraph_sync_blocks_behind").to_string(), "0");
    assert_eq!(value(&text, "btcgraph_index_blocks_connected_total").to_string(), "4");
    assert!(value(&text, "btcgraph_sync_seconds_since_node") < 30.0);
    assert!(value(&text, "btcgraph_node_requests_total{interface=\"rpc\"}") >= 3.0);
}

#[test]
fn metrics_count_outcomes_and_contain_no_text_of_clients() {
    let server = LoggedServer::start(&[("BTCGRAPH_SERVER__METRICS", "true")]);
    let before = server.get("/metrics").1;
    server.post(&json!({ "query": "query Evil { tip { height } }", "operationName": "Evil" }), &[]);
    server.post(&json!({ "query": "query Evil { evil }" }), &[]);
    server.post(&json!({ "query": "{" }), &[]);
    let after = server.get("/metrics").1;
    let grown =
        |sample: &str| value(&after, sample) - if before.contains(sample) { value(&before, sample) } else { 0.0 };
    for (code, count) in [("OK", "1"), ("GRAPHQL_VALIDATION_FAILED", "1"), ("GRAPHQL_PARSE_FAILED", "1")] {
        let sample = format!("btcgraph_server_operations_total{{code=\"{code}\",transport=\"http\"}}");
        assert_eq!(grown(&sample).to_string(), count, "{code}");
    }
    assert_eq!(grown("btcgraph_server_execution_seconds_count").to_string(), "2");
    assert!(grown("btcgraph_server_cost_total") >= 2.0);
    assert!(grown("btcgraph_server_sent_bytes_total{transport=\"http\"}") > 0.0);
    assert!(!after.to_lowercase().contains("evil"));
}

#[test]
fn a_request_whose_connection_closes_is_counted_and_logged() {
    let server = LoggedServer::start(&[("BTCGRAPH_SERVER__METRICS", "true")]);
    let extensions = json!({ "waitForTip": { "height": 99, "timeoutMs": 10_000 } });
    let body = json!({ "query": "{ tip { height } }", "extensions": extensions }).to_string();
    let length = body.len();
    let head = "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Request-Id: gone";
    let sample = "btcgraph_server_operations_total{code=\"ABANDONED\",transport=\"http\"}";
    // a connection may be closed before the server has read the request, so there are several, each open for longer
    let mut open_for = Duration::ZERO;
    wait_for("a request to be counted", Duration::from_secs(20), || {
        let mut stream = TcpStream::connect(&server.process.address).unwrap();
        stream.write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
        open_for += Duration::from_millis(10);
        std::thread::sleep(open_for);
        drop(stream);
        server.get("/metrics").1.contains(sample).then_some(())
    });
    let line = server.logged("the connection closed before the answer");
    assert_eq!((&line["path"], &line["span"]["id"]), (&json!("/graphql"), &json!("gone")), "{line}");
}

#[test]
fn what_is_refused_for_lack_of_memory_counts_as_what_the_client_receives() {
    let server = LoggedServer::start(&[
        ("BTCGRAPH_SERVER__METRICS", "true"),
        ("BTCGRAPH_SERVER__MAX_HELD", "0B"),
        ("BTCGRAPH_SERVER__SUBSCRIPTION_DOCUMENTS", "0B"),
    ]);
    let fields = "name description fields { name description }";
    let answer = server.post(&json!({ "query": format!("{{ __schema {{ types {{ {fields} }} }} }}") }), &[]);
    assert_eq!((answer.0, &answer.1["errors"][0]["extensions"]["code"]), (503, &json!("RESOURCE_EXHAUSTED")));
    assert_eq!(server.logged("answered")["code"], json!("RESOURCE_EXHAUSTED"));
    assert!(server.events("subscription { chainEvents { __typename } }").contains("RESOURCE_EXHAUSTED"));
    let metrics = server.get("/metrics").1;
    for transport in ["http", "sse"] {
        let sample =
            format!("btcgraph_server_operations_total{{code=\"RESOURCE_EXHAUSTED\",transport=\"{transport}\"}}");
        assert_eq!(value(&metrics, &sample).to_string(), "1", "{transport}");
    }
}

#[test]
fn an_error_of_a_field_is_the_outcome_over_event_streams_too() {
    let server = LoggedServer::start(&[("BTCGRAPH_SERVER__METRICS", "true")]);
    let events = server.events("{ tip { height } blocks(after: \"nonsense\") { nodes { hash } } }");
    assert!(events.contains("event: next") && events.contains("BAD_USER_INPUT"), "{events}");
    let sample = "btcgraph_server_operations_total{code=\"BAD_USER_INPUT\",transport=\"sse\"}";
    assert_eq!(value(&server.get("/metrics").1, sample).to_string(), "1");
}

#[test]
fn public_metrics_are_off_by_default() {
    let server = LoggedServer::start(&[]);
    assert_eq!(server.get("/metrics").0, 404);
    let (code, printed) = run(&mut btcgraph(server.directory(), &["metrics"]));
    assert_eq!(code, Some(0));
    assert!(printed.contains("btcgraph_server_sockets"));
    let elsewhere = tempfile::tempdir().unwrap();
    let (code, reason) = run(&mut btcgraph(elsewhere.path(), &["metrics"]));
    assert_eq!(code, Some(1));
    assert!(reason.contains("Is `btcgraph serve` running"), "{reason}");
}

#[test]
fn a_token_authenticates_and_the_log_has_only_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let (code, printed) = run(&mut btcgraph(directory.path(), &["token", "alice", "--cost", "1000"]));
    assert_eq!(code, Some(0));
    let token = printed.split_whitespace().find(|word| word.starts_with("btcgraph_")).unwrap().to_owned();
    let line = printed.lines().find(|line| line.starts_with("alice ")).unwrap();
    assert!(line.ends_with(" cost=1000"), "{line}");

    let server = LoggedServer::start(&[("BTCGRAPH_SERVER__TOKENS", line), ("BTCGRAPH_SERVER__REQUIRE_TOKEN", "true")]);
    let asked = json!({ "query": "query Height { tip { height } }", "operationName": "Height" });
    assert_eq!(server.post(&asked, &[]).0, 401);
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("x-request-id", "of-alice")];
    assert_eq!(server.post(&asked, &headers), (200, json!({ "data": { "tip": { "height": 3 } } })));

    let log = wait_for("the line of the request", Duration::from_secs(10), || {
        Some(server.log()).filter(|log| log.contains("of-alice"))
    });
    let logged: Value = serde_json::from_str(log.lines().find(|line| line.contains("of-alice")).unwrap()).unwrap();
    assert_eq!(logged["message"], "answered");
    for (field, expected) in
        [("token", json!("alice")), ("operation", json!("Height")), ("code", json!("OK")), ("status", json!(200))]
    {
        assert_eq!(logged[field], expected, "{logged}");
    }
    assert!(logged["cost"].as_u64() >= Some(1) && logged["bytes"].as_u64() >= Some(10), "{logged}");
    assert!(logged["milliseconds"].as_f64() > Some(0.0), "{logged}");
    assert!(!log.contains(&token));
    let (_, settings) = run(btcgraph(directory.path(), &["config"]).env("BTCGRAPH_SERVER__TOKENS", line));
    assert!(settings.contains(line) && !settings.contains(&token));
}

#[test]
fn a_name_that_does_not_fit_the_log_gets_no_token() {
    let directory = tempfile::tempdir().unwrap();
    let (code, reason) = run(&mut btcgraph(directory.path(), &["token", "al ice"]));
    assert_eq!(code, Some(2), "{reason}");
}

/// A line for the settings: the token `secret` of alice, who may not send transactions.
fn alice() -> String {
    Token::new("alice", "secret", 0, false).unwrap().to_string()
}

#[test]
fn a_token_without_broadcast_may_not_send_transactions() {
    let bob = Token::new("bob", "other", 0, true).unwrap().to_string();
    let tokens = format!("{}\n{bob}", alice());
    let server = LoggedServer::start(&[
        ("BTCGRAPH_SERVER__TOKENS", &tokens),
        ("BTCGRAPH_API__BROADCAST", "true"),
        ("BTCGRAPH_SERVER__ANONYMOUS_BROADCAST", "false"),
    ]);
    let sent = json!({ "query": "mutation { broadcastTransaction(hex: \"00\") { outcome } }" });
    let alice = &[("authorization", "Bearer secret")][..];
    let exact = &[("authorization", "Bearer secret"), ("accept", "application/graphql-response+json")];
    for headers in [alice, exact, &[]] {
        let (status, answer) = server.post(&sent, headers);
        assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{answer}");
        // the error is that of a field of a document that was executed
        assert_eq!((status, &answer["data"]), (200, &json!({ "broadcastTransaction": null })));
        assert_eq!(answer["errors"][0]["path"], json!(["broadcastTransaction"]));
    }
    let (_, answer) = server.post(&sent, &[("authorization", "Bearer other")]);
    assert_ne!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{answer}");
}

#[test]
fn a_websocket_is_logged_with_the_token_of_its_first_message() {
    let server = LoggedServer::start(&[("BTCGRAPH_SERVER__TOKENS", &alice())]);
    for protocol in ["graphql-transport-ws", "graphql-ws"] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut request = format!("ws://{}/graphql", server.process.address).into_client_request().unwrap();
            request.headers_mut().insert("Sec-WebSocket-Protocol", protocol.parse().unwrap());
            request.headers_mut().insert("X-Request-Id", protocol.parse().unwrap());
            let (mut socket, _) = connect_async(request).await.unwrap();
            let init = json!({ "type": "connection_init", "payload": { "authorization": "Bearer secret" } });
            socket.send(Message::text(init.to_string())).await.unwrap();
            let acknowledged = socket.next().await.unwrap().unwrap();
            assert!(acknowledged.to_text().unwrap().contains("connection_ack"), "{acknowledged}");
            socket.close(None).await.unwrap();
        });
        let closed = wait_for("the line of its end", Duration::from_secs(20), || {
            let log = server.log();
            let mut lines = log.lines().filter(|line| line.contains("a websocket is closed"));
            let line = lines.find(|line| line.contains(&format!("\"{protocol}\"")))?;
            serde_json::from_str::<Value>(line).ok()
        });
        assert_eq!((&closed["token"], &closed["protocol"]), (&json!("alice"), &json!(protocol)), "{closed}");
    }
    assert!(!server.log().contains("secret"));
}

#[cfg(unix)]
#[test]
fn only_a_set_max_connections_that_does_not_fit_is_a_warning() {
    let server = LoggedServer::start_as(&[], |program| with_files(&program, 1_000));
    let line = server.logged("is limited by the open files of this process");
    assert_eq!((&line["level"], &line["connections"]), (&json!("INFO"), &json!(800)), "{line}");
    let set = [("BTCGRAPH_SERVER__MAX_CONNECTIONS", "900")];
    let server = LoggedServer::start_as(&set, |program| with_files(&program, 1_000));
    let line = server.logged("server.max_connections is 900");
    assert_eq!(line["level"], "WARN", "{line}");
}

/// How long this process has been running on a processor.
#[cfg(target_os = "linux")]
fn processor_time(process: &Child) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    // the second field is the name, in parentheses; the 14th and the 15th are hundredths of a second
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let hundredths: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(hundredths * 10)
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_out_of_files_pauses_and_serves_again_later() {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let mut server = LoggedServer::start(&[]);
    let alive = |stream: &mut TcpStream| {
        stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 1_024];
        let read = stream.read(&mut answer).unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..read]));
    };
    let mut before = TcpStream::connect(&server.process.address).unwrap();
    alive(&mut before);
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.process.process.id())).unwrap().count();
    let most = Rlimit { current: Some(u64::try_from(files).unwrap() + 10), maximum: Some(20_000) };
    prlimit(Some(Pid::from_child(&server.process.process)), Resource::Nofile, most).unwrap();

    // the operating system connects them, whether the server takes them or not
    let streams: Vec<_> = (0..50).map(|_| TcpStream::connect(&server.process.address).unwrap()).collect();
    server.logged("cannot accept connections for now");
    let spent = processor_time(&server.process.process);
    std::thread::sleep(Duration::from_secs(3));
    let spent = processor_time(&server.process.process).saturating_sub(spent);
    assert!(spent < Duration::from_secs(1), "{spent:?} of 3 seconds");
    let lines = server.log().lines().filter(|line| line.contains("cannot accept connections")).count();
    assert!((1..100).contains(&lines), "{lines} lines");
    alive(&mut before);

    drop(streams);
    let height = json!({ "data": { "tip": { "height": 3 } } });
    assert_eq!(server.post(&json!({ "query": "{ tip { height } }" }), &[]), (200, height));
    wait_for("the server to be ready", Duration::from_secs(30), || {
        (server.get("/health/ready").0 == 200).then_some(())
    });
    assert_eq!(server.process.process.try_wait().unwrap(), None);
}

#[test]
fn a_server_that_drains_is_not_ready_and_answers() {
    let server = LoggedServer::start(&[]);
    let command = |arguments: &[&str]| run(&mut btcgraph(server.directory.path(), arguments));
    for (arguments, status) in [(&["drain"][..], 503), (&["drain"], 503), (&["drain", "--undo"], 200)] {
        assert_eq!(command(arguments), (Some(0), String::new()));
        let (found, body) = server.get("/health/ready");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((found, &body["draining"], &body["ready"]), (status, &json!(status == 503), &json!(status == 200)));
        let height = json!({ "data": { "tip": { "height": 3 } } });
        assert_eq!(server.post(&json!({ "query": "{ tip { height } }" }), &[]), (200, height));
    }
}

#[test]
fn the_log_of_a_running_server_changes() {
    let server = LoggedServer::start(&[("BTCGRAPH_LOG__FILTER", "info")]);
    let command = |arguments: &[&str]| run(&mut btcgraph(server.directory.path(), arguments));
    let block = "00".repeat(32);
    let debug_lines = || {
        // the server logs every notice at the level debug
        command(&["notify", &block]);
        server.log().lines().filter(|line| line.contains("the node has a new block")).count()
    };
    assert_eq!(debug_lines(), 0);
    assert_eq!(command(&["log", "btcgraph=debug"]), (Some(0), "btcgraph=debug\n".to_owned()));
    assert_eq!(debug_lines(), 1);
    let (code, printed) = command(&["log", "btcgraph=loud"]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("\"btcgraph=loud\" is not a filter of the log"), "{printed}");
    assert_eq!(debug_lines(), 2, "a refused filter changes nothing");
    assert_eq!(command(&["log"]), (Some(0), "info\n".to_owned()));
    assert_eq!(debug_lines(), 2);
}
