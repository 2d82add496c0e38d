//! What a block contains, transaction by transaction: as it arrived, and as it was mined.

use std::sync::Arc;

use bitcoin::Block;
use btcgraph::index::ObservedBlock;
use btcgraph::mempool::BlockAudit;
use btcgraph::sim::{Hostile, SimChain};
use serde_json::{Value, json};

use crate::support::api::Api;

/// A chain whose newest block has at least so many transactions, and that block.
fn chain_to(seed: u64, transactions: usize) -> (SimChain, Arc<Block>) {
    let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
    while chain.height().to_u32() < 120 || chain.block(&chain.tip()).unwrap().txdata.len() < transactions {
        hostile.mine(&mut chain).unwrap();
    }
    let block = chain.block(&chain.tip()).unwrap().clone();
    (chain, block)
}

const AUDIT: &str = "firstSeenAt audit {
    projectedTxCount projectedWeight totalProjectedFees matchRate missing fresh unexpected unseen
}";

#[test]
fn a_block_shows_when_it_arrived_and_how_it_was_projected() {
    let (chain, block) = chain_to(71, 4);
    let mut api = Api::of_chain(&chain);
    let ask =
        |api: &Api| api.data(&format!("{{ block(hash: \"{}\") {{ {AUDIT} }} }}", block.block_hash()))["block"].take();
    assert_eq!(ask(&api), json!({ "firstSeenAt": null, "audit": null }), "it was there before the server");

    let txid = |index: usize| block.txdata[index].compute_txid();
    let (missing, fresh) = (chain.active_blocks().nth(1).unwrap().txdata[0].compute_txid(), txid(0));
    let audit = BlockAudit {
        projected_count: 5,
        projected_weight: 4_000,
        projected_fees: 12_345,
        matched_weight: 3_000,
        missing: vec![missing],
        fresh: vec![fresh],
        unexpected: vec![1, 3],
        unseen: vec![2],
    };
    api.observe(&ObservedBlock { first_seen: 1_700_000_000, audit: audit.encode() });
    let expected = json!({
        "firstSeenAt": "2023-11-14T22:13:20Z",
        "audit": {
            "projectedTxCount": 5,
            "projectedWeight": 4_000,
            "totalProjectedFees": 12_345,
            "matchRate": 0.75,
            "missing": [missing.to_string()],
            "fresh": [fresh.to_string()],
            "unexpected": [txid(1).to_string(), txid(3).to_string()],
            "unseen": [txid(2).to_string()],
        },
    });
    assert_eq!(ask(&api), expected);
    api.change(1, []);
    assert_eq!(ask(&api), expected, "a stale block keeps its observation");
}

#[test]
fn a_block_that_was_not_compared_has_no_audit() {
    let (chain, _) = chain_to(72, 1);
    let mut api = Api::of_chain(&chain);
    api.observe(&ObservedBlock { first_seen: 1_700_000_000, audit: Vec::new() });
    let tip = api.data(&format!("{{ tip {{ {AUDIT} }} }}"));
    assert_eq!(tip["tip"], json!({ "firstSeenAt": "2023-11-14T22:13:20Z", "audit": Value::Null }));
}
