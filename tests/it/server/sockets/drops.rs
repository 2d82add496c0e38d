//! The clients of docs/clients on connections that are lost. tests/web/drops.js loses them and compares what the clients
//! receive; this runs the simulated node and the server.

use std::sync::Arc;

use btcgraph::api;
use btcgraph::limits::Limits;
use btcgraph::server::Options;
use btcgraph::sim::{Life, Profile, SimNode};
use serde_json::{Value, json};

use super::clients::{converse, runtime};
use crate::mempool::following::{Following, PATIENCE};
use crate::mempool::ledger_streams::{last_block, scripts};
use crate::mempool::simulated::{live, start};
use crate::support::indexed::in_memory;
use crate::support::test_server::TestServer;

const SEED: u64 = 29;
/// How many scripts are watched, the one that miners are paid to among them.
const WATCHED: usize = 8;

/// A server over an index and a mempool that follow a node.
struct Running {
    following: Following,
    served: TestServer,
}

impl Running {
    fn start(following: Following, sim: &SimNode, runtime: &tokio::runtime::Runtime) -> Self {
        following.assert_catches_up(sim);
        let (published, live) = (following.published.clone(), following.live.clone());
        let schema = api::schema(published, live, Limits::default(), api::Features::default());
        let mut options = Options::default();
        // an event of many subscriptions may take long on a busy machine, and is not what is looked at here
        options.limits.timeout = PATIENCE;
        let served = runtime.block_on(TestServer::with_options(&schema, options));
        Self { following, served }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.served.address)
    }

    fn stop(self, runtime: &tokio::runtime::Runtime) {
        let Self { following, served } = self;
        runtime.block_on(served.stop());
        following.stop();
    }
}

/// What the script is sent of a state that the server has reached.
fn state(running: &Running, sim: &SimNode) -> Value {
    let head = running.following.assert_catches_up(sim);
    json!({ "sequence": head.mempool.sequence(), "tip": head.tip.hash.to_string() })
}

fn answer(question: &Value, running: &Running, life: &mut Life, sim: &SimNode) -> Value {
    if let Some(steps) = question["live"].as_u64() {
        live(life, sim, steps.try_into().unwrap());
        return state(running, sim);
    }
    assert_eq!(question, "end");
    let coinbase = last_block(sim).txdata[0].compute_txid();
    let mut end = state(running, sim);
    end["coinbase"] = json!(coinbase.to_string());
    end
}

#[test]
fn clients_that_resume_lose_and_repeat_nothing() {
    let (mut life, sim) = start(Profile::Hostile, SEED);
    let (runtime, directory) = (runtime(), Arc::new(in_memory()));
    let mut running = Some(Running::start(Following::within(&directory, &sim), &sim, &runtime));
    let first = running.as_ref().unwrap();
    let hexes: Vec<_> = scripts(SEED).iter().rev().take(WATCHED).map(|script| script.to_hex_string()).collect();
    let sequence = first.following.head().mempool.sequence().to_string();
    let arguments = [first.origin(), sequence, hexes.join(",")];
    let seen = converse("drops.js", "@urql/core", &arguments, |question| {
        if question == "restart" {
            running.take().unwrap().stop(&runtime);
            let next = Running::start(Following::within(&directory, &sim), &sim, &runtime);
            let origin = next.origin();
            running = Some(next);
            return json!({ "origin": origin }).to_string();
        }
        answer(&question, running.as_ref().unwrap(), &mut life, &sim).to_string()
    });
    let Some(seen) = seen else { return };
    running.take().unwrap().stop(&runtime);
    println!("{seen:#}");
    assert!(seen["events"].as_u64() >= Some(250), "too little happened: {seen:#}");
    let drops = seen["drops"].as_object().unwrap();
    assert_eq!(drops.len(), 6, "{seen:#}");
    assert!(drops.values().all(|drops| drops.as_u64() >= Some(20)), "{seen:#}");
}
