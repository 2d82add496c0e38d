//! What to pay: read off the projected blocks, or asked of the node.

use bitcoin::Transaction;
use btcgraph::mempool::NodeMempool;
use serde_json::{Value, json};

use super::mempool::{NODE, VSIZE, chain_with_coins, large, paying};
use crate::support::api::Api;

const RECOMMENDED: &str =
    "{ recommendedFees { nextBlock within3Blocks within6Blocks economy minimum asOf { height mempoolSequence } } }";

fn recommended(api: &Api) -> Value {
    api.data(RECOMMENDED)["recommendedFees"].take()
}

/// A mempool of this many full blocks of two transactions each, which pay ever less, from the first on 20 sat/vB less.
fn full_blocks(count: u32) -> (Api, Vec<Transaction>) {
    let (chain, coins) = chain_with_coins(2 * count);
    let mut api = Api::of_chain(&chain);
    api.set_node_mempool(NodeMempool { min_fee_rate: 0.02, ..NODE });
    let sizes = large(coins[0], 0).vsize();
    let steps = (0..u64::from(count)).flat_map(|block| [block, block]);
    let transactions: Vec<_> = coins
        .iter()
        .zip(steps)
        .map(|(coin, block)| large(*coin, u64::try_from(sizes).unwrap() * (20 - 2 * block) / 100))
        .collect();
    api.arrive(&transactions);
    (api, transactions)
}

/// The feerate that the API tells of a transaction.
fn rate(api: &Api, of: &Transaction) -> f64 {
    let answer = api.data(&format!("{{ transaction(txid: \"{}\") {{ feeRate }} }}", of.compute_txid()));
    answer["transaction"]["feeRate"].as_f64().unwrap()
}

#[test]
fn an_empty_mempool_asks_for_the_minimum_of_the_node() {
    let (chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    assert_eq!(api.refusal(RECOMMENDED), json!("NODE_UNAVAILABLE"), "the minimum is not known yet");
    api.set_node_mempool(NODE);
    let minimum = |sequence: u32| {
        json!({
            "nextBlock": 1.5, "within3Blocks": 1.5, "within6Blocks": 1.5, "economy": 1.5, "minimum": 1.5,
            "asOf": { "height": 102, "mempoolSequence": sequence },
        })
    };
    assert_eq!(recommended(&api), minimum(0));
    // a block that is nearly empty has room for all
    api.arrive([&paying(coins[0], 90 * VSIZE)]);
    assert_eq!(recommended(&api), minimum(1));
}

#[test]
fn a_full_block_asks_for_its_median() {
    let (api, transactions) = full_blocks(8);
    let found = recommended(&api);
    let expected = json!({
        "nextBlock": rate(&api, &transactions[0]), "within3Blocks": rate(&api, &transactions[4]),
        "within6Blocks": rate(&api, &transactions[10]), "economy": 0.04, "minimum": 0.02,
        "asOf": { "height": 102, "mempoolSequence": 16 },
    });
    let close = |one: &Value, other: &Value| (one.as_f64().unwrap() - other.as_f64().unwrap()).abs() < 1e-12;
    for field in ["nextBlock", "within3Blocks", "within6Blocks", "economy", "minimum"] {
        assert!(close(&found[field], &expected[field]), "{field}: {} {}", found[field], expected[field]);
    }
    assert_eq!(found["asOf"], expected["asOf"]);
}

#[test]
fn the_projection_answers_for_any_number_of_blocks_without_the_node() {
    let (api, transactions) = full_blocks(3);
    let estimate = |target: u32| {
        let arguments = format!("targetBlocks: {target}, source: MEMPOOL_PROJECTION");
        let fields = "targetBlocks feeRate source mode asOf { mempoolSequence }";
        api.data(&format!("{{ feeEstimate({arguments}) {{ {fields} }} }}"))["feeEstimate"].take()
    };
    let told = |target: u32, rate: f64| {
        json!({
            "targetBlocks": target, "feeRate": rate, "source": "MEMPOOL_PROJECTION", "mode": null,
            "asOf": { "mempoolSequence": 6 },
        })
    };
    let fee_rates = |target| estimate(target)["feeRate"].as_f64().unwrap();
    for (target, of) in [(1, &transactions[0]), (2, &transactions[2])] {
        assert!((fee_rates(target) - rate(&api, of)).abs() < 1e-12, "{target}");
    }
    assert!(fee_rates(3) < rate(&api, &transactions[4]) && fee_rates(3) > 0.02, "the third is not quite full");
    assert_eq!(estimate(4), told(4, 0.02));
    assert_eq!(estimate(1_008), told(1_008, 0.02));
}

#[test]
fn estimates_refuse_what_is_no_target_and_miss_a_node_that_is_away() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    for (field, code) in [
        ("feeEstimate(targetBlocks: 0) { feeRate }".to_owned(), "BAD_USER_INPUT"),
        ("feeEstimate(targetBlocks: 1009, source: MEMPOOL_PROJECTION) { feeRate }".to_owned(), "BAD_USER_INPUT"),
        ("feeEstimate(targetBlocks: 1, source: MEMPOOL_PROJECTION) { feeRate }".to_owned(), "NODE_UNAVAILABLE"),
        ("feeEstimate(targetBlocks: 6) { feeRate }".to_owned(), "NODE_UNAVAILABLE"),
        (format!("feeEstimates(targets: {:?}) {{ feeRate }}", vec![1; 2_001]), "QUERY_LIMIT_EXCEEDED"),
    ] {
        assert_eq!(api.refusal(&format!("{{ {field} }}")), json!(code), "{field}");
    }
    let response = api.ask("{ feeEstimates(targets: [6, 12]) { feeRate } tip { height } }");
    assert_eq!(response["data"], json!({ "feeEstimates": [null, null], "tip": { "height": 102 } }));
}
