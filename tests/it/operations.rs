//! The program as those who run it watch it: its metrics, its log, the tokens of its clients.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};

use crate::support::bitcoind::wait_for;
use crate::support::program::{btcgraph, run};

/// A running server over a simulated chain of three blocks.
struct Running {
    process: Child,
    address: String,
    directory: tempfile::TempDir,
    _node: SimNode,
}

impl Running {
    fn start(variables: &[(&str, &str)]) -> Self {
        let mut chain = SimChain::new(1);
        chain.mine_empty(3).unwrap();
        let login = ("user".to_owned(), "hunter2".to_owned());
        let options = SimNodeOptions { login, ..SimNodeOptions::default() };
        let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let port_file = directory.path().join("port");
        let mut program = btcgraph(directory.path(), &["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        program.args(["--rpc-url", &node.url(), "--rpc-user", "user", "--port-file"]).arg(&port_file);
        program.env("BTCGRAPH_NODE__RPC_PASSWORD", "hunter2").envs(variables.iter().copied());
        let log = File::create(directory.path().join("log")).unwrap();
        let process = program.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let port = wait_for("the port file", Duration::from_secs(30), || {
            std::fs::read_to_string(&port_file).ok().filter(|port| !port.is_empty())
        });
        let running = Self { process, address: format!("127.0.0.1:{port}"), directory, _node: node };
        wait_for("the server to be ready", Duration::from_secs(30), || {
            (running.get("/health/ready").0 == 200).then_some(())
        });
        running
    }

    fn get(&self, path: &str) -> (u16, String) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut response = agent.get(format!("http://{}{path}", self.address)).call().unwrap();
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    }

    fn post(&self, body: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = agent.post(format!("http://{}/graphql", self.address));
        for (name, value) in headers.iter().chain(&[("content-type", "application/json")]) {
            request = request.header(*name, *value);
        }
        let mut response = request.send(body.to_string()).unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap())
    }

    fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory().join("log")).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The metrics in Prometheus's text: name, type and labels' names of each, as `name type label,label`.
fn told(text: &str) -> BTreeSet<String> {
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
    let page = include_str!("../../docs/metrics.md");
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
fn every_metric_is_documented_and_every_documented_one_is_told_at_both_addresses() {
    let server = Running::start(&[("BTCGRAPH_SERVER__METRICS", "true")]);
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200);
    assert_eq!(told(&text), documented());
    let (code, printed) = run(&mut btcgraph(server.directory(), &["metrics"]));
    assert_eq!((code, told(&printed)), (Some(0), documented()));

    assert_eq!(value(&text, "btcgraph_sync_tip_height").to_string(), "3");
    assert_eq!(value(&text, "btcgraph_sync_blocks_behind").to_string(), "0");
    assert_eq!(value(&text, "btcgraph_index_blocks_connected_total").to_string(), "4");
    assert!(value(&text, "btcgraph_sync_seconds_since_node") < 30.0);
    assert!(value(&text, "btcgraph_node_requests_total{interface=\"rpc\"}") >= 3.0);
}

#[test]
fn what_is_asked_shows_in_the_metrics_by_outcome_and_never_by_what_a_client_wrote() {
    let server = Running::start(&[("BTCGRAPH_SERVER__METRICS", "true")]);
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
fn the_public_address_has_no_metrics_unless_it_is_set_and_the_admin_socket_has() {
    let server = Running::start(&[]);
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
fn a_token_that_is_made_is_known_by_its_line_and_the_log_has_its_name_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (code, printed) = run(&mut btcgraph(directory.path(), &["token", "alice", "--cost", "1000"]));
    assert_eq!(code, Some(0));
    let token = printed.split_whitespace().find(|word| word.starts_with("btcgraph_")).unwrap().to_owned();
    let line = printed.lines().find(|line| line.starts_with("alice ")).unwrap();
    assert!(line.ends_with(" cost=1000"), "{line}");

    let server = Running::start(&[("BTCGRAPH_SERVER__TOKENS", line), ("BTCGRAPH_SERVER__REQUIRE_TOKEN", "true")]);
    let asked = json!({ "query": "query Height { tip { height } }", "operationName": "Height" });
    assert_eq!(server.post(&asked, &[]).0, 401);
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("x-request-id", "of-alice")];
    assert_eq!(server.post(&asked, &headers), (200, json!({ "data": { "tip": { "height": 3 } } })));

    let log = wait_for("the line of the request", Duration::from_secs(10), || {
        Some(server.log()).filter(|log| log.contains("of-alice"))
    });
    let told: Value = serde_json::from_str(log.lines().find(|line| line.contains("of-alice")).unwrap()).unwrap();
    assert_eq!(told["message"], "answered");
    for (field, expected) in
        [("token", json!("alice")), ("operation", json!("Height")), ("code", json!("OK")), ("status", json!(200))]
    {
        assert_eq!(told[field], expected, "{told}");
    }
    assert!(told["cost"].as_u64() >= Some(1) && told["bytes"].as_u64() >= Some(10), "{told}");
    assert!(told["milliseconds"].as_f64() > Some(0.0), "{told}");
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
