//! What only the node knows of a block: soft forks.

use std::sync::{Arc, Mutex};

use crate::support::api::Api;
use crate::support::bitcoind::RealNode;
use bitcoin::Network;
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};

const DEPLOYMENTS: &str =
    "{ chain { deployments { name isActive activationHeight bip9 { bit signallingStartAt timeoutAt
    minActivationHeight bip9State sinceHeight nextBip9State
    statistics { periodBlockCount thresholdBlockCount elapsedBlockCount signallingBlockCount isPossible } } } } }";

fn buried(name: &str, height: u32) -> Value {
    json!({ "name": name, "isActive": true, "activationHeight": height, "bip9": null })
}

fn taproot() -> Value {
    let bip9 = json!({
        "bit": null, "signallingStartAt": null, "timeoutAt": null, "minActivationHeight": 0, "bip9State": "ACTIVE",
        "sinceHeight": 0, "nextBip9State": "ACTIVE", "statistics": null,
    });
    json!({ "name": "taproot", "isActive": true, "activationHeight": 0, "bip9": bip9 })
}

/// An API over the chain of a node, which it may ask.
pub(crate) fn api_over(node: &Node) -> Api {
    let mut api = Api::empty(Network::Regtest, btcgraph::limits::Limits::default());
    api.follow(node);
    api
}

#[test]
fn the_soft_forks_of_a_simulated_node_are_reported() {
    let mut chain = SimChain::new(12);
    chain.mine_empty(3).unwrap();
    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain.clone()))), SimNodeOptions::default()).unwrap();
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth)).unwrap();
    let api = api_over(&node);
    let expected =
        [buried("bip34", 1), buried("bip65", 1), buried("bip66", 1), buried("csv", 1), buried("segwit", 0), taproot()];
    assert_eq!(api.data(DEPLOYMENTS)["chain"]["deployments"], json!(expected));

    let alone = Api::of_chain(&chain);
    let answered = alone.ask("{ chain { deployments { name } } }");
    assert_eq!(answered["errors"][0]["extensions"]["code"], json!("NODE_UNAVAILABLE"), "{answered}");
    assert_eq!(answered["errors"][0]["message"], json!("the server has not reached its Bitcoin node yet"));
}

#[test]
fn the_soft_forks_of_a_real_node_are_reported() {
    let Some(node) = RealNode::start(&["-vbparams=testdummy:1:3999999999"]) else { return };
    node.mine(150);
    let api = api_over(&node.client());
    let answered = api.data(DEPLOYMENTS)["chain"]["deployments"].take();
    let reported = node.must("getdeploymentinfo", &[]);
    let names: Vec<_> =
        answered.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    let mut expected: Vec<_> = reported["deployments"].as_object().unwrap().keys().cloned().collect();
    expected.sort();
    assert_eq!(names, expected);
    for deployment in answered.as_array().unwrap() {
        let reported = &reported["deployments"][deployment["name"].as_str().unwrap()];
        assert_eq!(
            (&deployment["isActive"], &deployment["activationHeight"]),
            (&reported["active"], &reported["height"])
        );
        let (bip9, reported) = (&deployment["bip9"], &reported["bip9"]);
        assert_eq!(bip9.is_null(), reported.is_null());
        assert_eq!((&bip9["bit"], &bip9["sinceHeight"]), (&reported["bit"], &reported["since"]));
        assert_eq!(&bip9["minActivationHeight"], &reported["min_activation_height"]);
        let state = |word: &Value| word.as_str().map(str::to_uppercase);
        assert_eq!(bip9["bip9State"].as_str().map(ToOwned::to_owned), state(&reported["status"]));
        assert_eq!(bip9["nextBip9State"].as_str().map(ToOwned::to_owned), state(&reported["status_next"]));
        let (statistics, reported) = (&bip9["statistics"], &reported["statistics"]);
        for (ours, theirs) in [
            ("periodBlockCount", "period"),
            ("thresholdBlockCount", "threshold"),
            ("elapsedBlockCount", "elapsed"),
            ("signallingBlockCount", "count"),
            ("isPossible", "possible"),
        ] {
            assert_eq!(&statistics[ours], &reported[theirs], "{ours}");
        }
    }
    let dummy = answered.as_array().unwrap().iter().find(|one| one["name"] == "testdummy").unwrap();
    let expected = json!({
        "bit": 28, "signallingStartAt": "1970-01-01T00:00:01Z", "timeoutAt": "2096-10-02T07:06:39Z", "minActivationHeight": 0,
        "bip9State": "STARTED", "sinceHeight": 144, "nextBip9State": "STARTED",
        "statistics": dummy["bip9"]["statistics"],
    });
    assert_eq!(dummy["bip9"], expected);
    assert_eq!(dummy["bip9"]["statistics"]["elapsedBlockCount"], json!(7));
}
