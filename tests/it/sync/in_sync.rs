//! A node that goes away without a word: everything that says "in sync" says so for the same documented time, and no longer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};

use crate::support::bitcoind::wait_for;
use crate::support::test_process::TestProcess;

const PATIENCE: Duration = Duration::from_mins(1);
/// The node is asked again for ten minutes before it counts as away: only time says that it is silent.
const VARIABLES: [(&str, &str); 3] = [
    ("BTCGRAPH_SERVER__READY_SECONDS", "2"),
    ("BTCGRAPH_NODE__PATIENCE_SECONDS", "600"),
    ("BTCGRAPH_SERVER__METRICS", "true"),
];

fn followed() -> (SimNode, TestProcess, tempfile::TempDir) {
    let mut chain = SimChain::new(23);
    chain.mine_empty(5).unwrap();
    let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let login = ["--rpc-url", &node.url(), "--rpc-user", "user", "--rpc-password", "password"].map(Into::into);
    let served = TestProcess::start_on(&login, directory.path(), &VARIABLES);
    (node, served, directory)
}

/// All that says whether the server is in sync, as each of them says it.
fn in_sync(served: &TestProcess) -> Value {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let query = "{ snapshot { isInSync isMempoolInSync } sync { isReady phase } }";
    let request = agent.post(format!("http://{}/graphql", served.address)).header("x-btcgraph-include", "snapshot");
    let request = request.header("content-type", "application/json");
    let mut response = request.send(json!({ "query": query }).to_string()).unwrap();
    let mut answer: Value = serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap();
    let health = agent.get(format!("http://{}/health/ready", served.address)).call().unwrap();
    let metrics = served.get("/metrics");
    let metric = |what: &str| {
        let sample = format!("btcgraph_sync_in_sync{{what=\"{what}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&sample)).map(str::to_owned)
    };
    json!({
        "data": answer["data"].take(),
        "extension": answer["extensions"]["snapshot"]["isInSync"].take(),
        "health": health.status().as_u16(),
        "metrics": [metric("chain"), metric("mempool")],
    })
}

#[test]
fn a_silent_node_ends_all_that_is_in_sync_after_the_same_time() {
    let (mut node, served, _directory) = followed();
    let all = json!({
        "data": {
            "snapshot": { "isInSync": true, "isMempoolInSync": true },
            "sync": { "isReady": true, "phase": "FOLLOWING" },
        },
        "extension": true,
        "health": 200,
        "metrics": ["1", "1"],
    });
    let nothing = json!({
        "data": {
            "snapshot": { "isInSync": false, "isMempoolInSync": false },
            "sync": { "isReady": false, "phase": "WAITING_FOR_NODE" },
        },
        "extension": false,
        "health": 503,
        "metrics": ["0", "0"],
    });
    wait_for("all to be in sync", PATIENCE, || (in_sync(&served) == all).then_some(()));
    assert_eq!(served.query("{ sync { silenceSeconds } }")["data"]["sync"]["silenceSeconds"], json!(2.0));
    node.stop_serving();
    wait_for("the silence to be too long", PATIENCE, || {
        (served.query("{ snapshot { isInSync } }")["data"]["snapshot"]["isInSync"] == json!(false)).then_some(())
    });
    assert_eq!(in_sync(&served), nothing, "what is false at once is false everywhere");
    assert_eq!(served.query("{ tip { height } }")["data"]["tip"]["height"], json!(5), "what is indexed is answered");
    node.answer().unwrap();
    wait_for("all to be in sync again", PATIENCE, || (in_sync(&served) == all).then_some(()));
}

#[test]
fn an_answer_that_says_in_sync_is_not_kept() {
    let (_node, served, _directory) = followed();
    served.wait_for_height(5);
    for query in ["{snapshot{isInSync}}", "{snapshot{isMempoolInSync}}", "{sync{isReady}}"] {
        let url = format!("http://{}/graphql?query={query}", served.address).replace('{', "%7B").replace('}', "%7D");
        let response = ureq::get(url).call().unwrap();
        assert_eq!(
            (&response.headers()["cache-control"], response.headers().get("etag")),
            (&"no-store".parse().unwrap(), None)
        );
    }
}
