//! Several replicas of one node behind the load balancer and the cache whose configurations are in `packaging/`, with the real
//! HAProxy and nginx: no request fails when a replica leaves, no client goes back in time, and caches keep what they may.

mod balanced;
mod cached;
mod composed;
mod proxies;
mod rolling;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::bitcoind::wait_for;
use crate::support::program::btcgraph;
use crate::support::test_process::TestProcess;

const PATIENCE: Duration = Duration::from_secs(30);

/// Replicas of one simulated node.
struct Fleet {
    replicas: Vec<TestProcess>,
    directories: Vec<TempDir>,
    world: Arc<Mutex<World>>,
    login: Vec<OsString>,
    _node: SimNode,
}

impl Fleet {
    /// As many replicas as there are numbers, each of which asks the node for blocks after so many seconds.
    fn start(polls: &[&str]) -> Self {
        let mut chain = SimChain::new(71);
        chain.mine_empty(10).unwrap();
        let world = Arc::new(Mutex::new(World::new(chain)));
        let node = SimNode::start(world.clone(), SimNodeOptions::default()).unwrap();
        let login: Vec<OsString> = ["--rpc-url", &node.url(), "--rpc-user", "user", "--rpc-password", "password"]
            .iter()
            .map(std::convert::Into::into)
            .collect();
        let directories: Vec<_> = polls.iter().map(|_| tempfile::tempdir().unwrap()).collect();
        let variables = [
            ("BTCGRAPH_SERVER__METRICS", "true"),
            ("BTCGRAPH_CACHE__DEPTH", "4"),
            // as docs/replicas.md has it
            ("BTCGRAPH_SERVER__MAX_WAITING", "1000"),
        ];
        let replicas = polls.iter().zip(&directories).map(|(poll, directory)| {
            let variables = [&variables[..], &[("BTCGRAPH_NODE__POLL_SECONDS", *poll)]].concat();
            TestProcess::start_on(&login, directory.path(), &variables)
        });
        let fleet = Self { replicas: replicas.collect(), directories, world, login: login.clone(), _node: node };
        for replica in &fleet.replicas {
            wait_for("the replica to be ready", PATIENCE, || {
                (status(&replica.address, "/health/ready") == 200).then_some(())
            });
        }
        fleet
    }

    fn addresses(&self) -> Vec<&str> {
        self.replicas.iter().map(|replica| replica.address.as_str()).collect()
    }

    fn mine(&self) -> u32 {
        let mut world = self.world.lock().unwrap();
        world.change_chain(|chain| chain.mine_empty(1)).unwrap();
        world.chain().height().to_u32()
    }

    /// Shows a replica as not ready, as an operator does before stopping it.
    fn drain(&self, replica: usize) {
        let drained = btcgraph(self.directories[replica].path(), &["drain"]).status().unwrap();
        assert!(drained.success());
    }

    /// Replaces a replica by a new process at its address, as an operator does who upgrades it.
    fn replace(&mut self, replica: usize) {
        self.drain(replica);
        // HAProxy asks every second
        std::thread::sleep(Duration::from_secs(3));
        self.replicas[replica].restart_on(&self.login, self.directories[replica].path(), || {});
        wait_for("the new process to be ready", PATIENCE, || {
            (status(&self.replicas[replica].address, "/health/ready") == 200).then_some(())
        });
        std::thread::sleep(Duration::from_secs(3));
    }

    /// How many requests over HTTP each replica executed.
    fn executed(&self) -> Vec<u64> {
        self.samples("btcgraph_server_operations_total{code=\"OK\",transport=\"http\"}")
    }

    /// How many websockets each replica has.
    fn websockets(&self) -> Vec<u64> {
        self.samples("btcgraph_server_sockets{transport=\"websocket\"}")
    }

    fn samples(&self, sample: &str) -> Vec<u64> {
        let value = |replica: &TestProcess| {
            let metrics = replica.get("/metrics");
            let value = metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
            value.map_or(0, |value| value.parse().unwrap())
        };
        self.replicas.iter().map(value).collect()
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build().into()
}

fn status(address: &str, path: &str) -> u16 {
    agent().get(format!("http://{address}{path}")).call().map_or(0, |response| response.status().as_u16())
}

/// The response to a query: its status, its header with the tip, its body.
#[derive(Debug)]
struct Answered {
    status: u16,
    tip: Option<String>,
    body: Value,
}

/// Sends a query, with the tip of an earlier answer.
fn ask(agent: &ureq::Agent, address: &str, query: &str, carried: Option<&str>) -> Answered {
    let mut request = agent.post(format!("http://{address}/graphql")).header("content-type", "application/json");
    if let Some(tip) = carried {
        request = request.header("x-btcgraph-tip", tip);
    }
    let mut response = request.send(json!({ "query": query }).to_string()).unwrap();
    let tip = response.headers().get("x-btcgraph-tip").map(|tip| tip.to_str().unwrap().to_owned());
    let body = response.body_mut().read_to_string().unwrap();
    let body = serde_json::from_str(&body).unwrap_or_else(|_| json!(body));
    Answered { status: response.status().as_u16(), tip, body }
}

/// The configuration file of the repository, each text replaced by the one behind it.
fn configuration(name: &str, changes: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name);
    let mut text = std::fs::read_to_string(path).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no {from}");
        text = text.replace(from, to);
    }
    text
}

/// Runs a program to its end; whether it succeeded, and what it printed.
fn run(program: &mut Command) -> (bool, String) {
    let output = program.output().unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), printed)
}
