//! The block that the node itself would make next.

use std::sync::{Arc, Mutex};

use btcgraph::sim::{Owner, Payment, ScriptKind, SimChain, SimNode, SimNodeOptions, Spendable, World};
use btcgraph::view::NodeLimits;
use serde_json::json;

use crate::sim_node::client;
use crate::support::api::Api;

const TEMPLATE: &str = "{ mempool { nextBlockTemplate { height previousBlockHash totalFees txCount weight txids takenAt } } tip { height } }";
const ALLOWED: NodeLimits =
    NodeLimits { requests: 1, timeout: std::time::Duration::from_secs(20), block_template: true };

#[test]
fn the_template_of_the_node_is_told_where_the_settings_allow_it() {
    let mut chain = SimChain::new(90);
    let blocks = chain.mine_empty(105).unwrap();
    let mut world = World::new(chain.clone());
    world.set_time(1_800_000_000);
    let owner = Owner::new(ScriptKind::P2wpkh, 1);
    let coins = blocks.iter().take(2).map(|block| Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap());
    let mut paid: Vec<_> =
        (2..).zip(coins).map(|(rate, coin)| Payment::of([coin]).change(owner, rate * 10).sign().unwrap()).collect();
    for payment in &paid {
        world.submit(payment.clone()).unwrap();
    }
    let fees: u64 = paid.iter().map(|tx| world.mempool().get(&tx.compute_txid()).unwrap().fee.to_sat()).sum();
    let sim = SimNode::start(Arc::new(Mutex::new(world)), SimNodeOptions::default()).unwrap();

    let api = Api::of_chain_asking(&chain, ALLOWED);
    let response = api.ask(TEMPLATE);
    assert_eq!(response["data"], json!({ "mempool": { "nextBlockTemplate": null }, "tip": { "height": 105 } }));
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("NODE_UNAVAILABLE"), "no node was reached yet");

    api.set_node(&client(&sim));
    let mut template = api.data(TEMPLATE)["mempool"]["nextBlockTemplate"].take();
    assert!(template["takenAt"].take().is_string());
    // what pays best comes first
    paid.reverse();
    let weight: u64 = paid.iter().map(|tx| tx.weight().to_wu()).sum();
    let txids: Vec<_> = paid.iter().map(|tx| tx.compute_txid().to_string()).collect();
    let expected = json!({
        "height": 106, "previousBlockHash": chain.tip().to_string(), "totalFees": fees, "txCount": 2, "weight": weight,
        "txids": txids, "takenAt": null,
    });
    assert_eq!(template, expected);

    let api = Api::of_chain(&chain);
    api.set_node(&client(&sim));
    let response = api.ask(TEMPLATE);
    let refused = &response["errors"][0];
    assert_eq!(response["data"]["mempool"]["nextBlockTemplate"], json!(null));
    let expected =
        json!({ "code": "FEATURE_DISABLED", "feature": "BLOCK_TEMPLATE", "setting": "server.block_template" });
    assert_eq!(refused["extensions"], expected);
}
