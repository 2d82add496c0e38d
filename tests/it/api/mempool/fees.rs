//! What to pay: read off the projected blocks, or asked of the node.

use std::sync::{Arc, Mutex};

use bitcoin::{OutPoint, Transaction};
use btcgraph::limits::Limits;
use btcgraph::mempool::{MempoolLimits, NodeMempool};
use btcgraph::sim::{Owner, ScriptKind, SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};

use super::projected::{NODE, VSIZE, chain_with_coins, large, paying, paying_of};
use crate::node::sim_node::client;
use crate::support::api::{Api, coinbase_output, sat, spend};

const RECOMMENDED: &str =
    "{ recommendedFees { within1Block within3Blocks within6Blocks economy minimum asOf { height mempoolSequence } } }";

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
            "within1Block": 1.5, "within3Blocks": 1.5, "within6Blocks": 1.5, "economy": 1.5, "minimum": 1.5,
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
        "within1Block": rate(&api, &transactions[0]), "within3Blocks": rate(&api, &transactions[4]),
        "within6Blocks": rate(&api, &transactions[10]), "economy": 0.04, "minimum": 0.02,
        "asOf": { "height": 102, "mempoolSequence": 16 },
    });
    let close = |one: &Value, other: &Value| (one.as_f64().unwrap() - other.as_f64().unwrap()).abs() < 1e-12;
    for field in ["within1Block", "within3Blocks", "within6Blocks", "economy", "minimum"] {
        assert!(close(&found[field], &expected[field]), "{field}: {} {}", found[field], expected[field]);
    }
    assert_eq!(found["asOf"], expected["asOf"]);
}

#[test]
fn the_projection_answers_for_any_number_of_blocks_without_the_node() {
    let (api, transactions) = full_blocks(3);
    let estimate = |target: u32| {
        let arguments = format!("targetBlocks: {target}, source: MEMPOOL_PROJECTION");
        let fields = "requestedBlocks targetBlocks feeRate source mode asOf { mempoolSequence }";
        api.data(&format!("{{ feeEstimate({arguments}) {{ {fields} }} }}"))["feeEstimate"].take()
    };
    let reported = |target: u32, rate: f64| {
        json!({
            "requestedBlocks": target, "targetBlocks": target, "feeRate": rate, "source": "MEMPOOL_PROJECTION", "mode": null,
            "asOf": { "mempoolSequence": 6 },
        })
    };
    let fee_rates = |target| estimate(target)["feeRate"].as_f64().unwrap();
    for (target, of) in [(1, &transactions[0]), (2, &transactions[2])] {
        assert!((fee_rates(target) - rate(&api, of)).abs() < 1e-12, "{target}");
    }
    assert!(fee_rates(3) < rate(&api, &transactions[4]) && fee_rates(3) > 0.02, "the third is not quite full");
    assert_eq!(estimate(4), reported(4, 0.02));
    assert_eq!(estimate(1_008), reported(1_008, 0.02));
    let all = api.data("{ feeEstimates(targets: [1008, 4], source: MEMPOOL_PROJECTION) { requestedBlocks feeRate } }");
    let each = [1_008, 4].map(|target| json!({ "requestedBlocks": target, "feeRate": 0.02 }));
    assert_eq!(all["feeEstimates"], json!(each));
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

/// A transaction that spends a coin of 100,000 sat at this feerate, in sat/vB, and fills a quarter of a block.
fn quarter_of_a_block(coin: OutPoint, value: u64, rate: u64) -> Transaction {
    let mut transaction = paying_of(coin, value, 0);
    transaction.input[0].script_sig = vec![0x51; 245_000].into();
    let fee = u64::try_from(transaction.vsize()).unwrap() * rate;
    transaction.output[0].value = sat(value - fee);
    transaction
}

#[test]
fn an_estimate_says_how_often_it_would_have_been_enough_before() {
    // the first block with a payment, one without, a full one at 10 sat/vB, one with a payment, one without
    let (mut chain, _) = chain_with_coins(1);
    let owner = Owner::new(ScriptKind::BareTrue, 1);
    let (large, small) = (20_000_000_u64, 100_000_u64);
    let coinbase = chain.active_blocks().nth(50).unwrap().clone();
    chain.mine_empty(60).unwrap();
    let outputs = [vec![owner.output(sat(large)); 4], vec![owner.output(sat(small)); 2]].concat();
    let split = spend(&chain, SimChain::miner(), &[coinbase_output(&coinbase, 0)], outputs);
    let coin = |vout| OutPoint { txid: split.compute_txid(), vout };
    let full = (0..4).map(|vout| quarter_of_a_block(coin(vout), large, 10)).collect();
    for transactions in
        [vec![split.clone(), paying_mined(&coin(4))], vec![], full, vec![paying_mined(&coin(5))], vec![]]
    {
        chain.mine(transactions).unwrap();
    }
    let mut api = Api::of_chain(&chain);
    let tip = api.view().tip().height.to_u32();
    let mut hits = |rate: f64, target: u32, argument: &str| {
        api.set_node_mempool(NodeMempool { min_fee_rate: rate, ..NODE });
        let field = format!("feeEstimate(targetBlocks: {target}, source: MEMPOOL_PROJECTION)");
        let answer = api.data(&format!("{{ {field} {{ feeRate hitRate{argument} }} }}"));
        assert_eq!(answer["feeEstimate"]["feeRate"], json!(rate));
        answer["feeEstimate"]["hitRate"].clone()
    };
    let last = |count: u32| format!("(range: {{ lastBlocks: {count} }})");
    assert_eq!(hits(1.5, 1, &last(5)), json!(2.0 / 5.0));
    assert_eq!(hits(10.0, 1, &last(5)), json!(3.0 / 5.0));
    assert_eq!(hits(1.5, 2, &last(5)), json!(3.0 / 4.0));
    assert_eq!(hits(1.5, 3, &last(5)), json!(1.0));
    assert_eq!(hits(1.5, 1, &last(1)), json!(0.0));
    assert_eq!(hits(1.5, 2, &last(1)), Value::Null, "no two blocks");
    let heights = format!("(range: {{ heights: {{ from: {}, to: {} }} }})", tip - 4, tip);
    assert_eq!(hits(1.5, 2, &heights), json!(3.0 / 4.0));
    assert_eq!(
        hits(1.5, 1, "(range: { heights: { to: 0 } })"),
        Value::Null,
        "nothing is in front of the genesis block"
    );
    // of a shorter chain, what there is: all blocks but the first
    let taken = 3.0; // two above, and the one that made the coins of these tests
    assert_eq!(hits(1.5, 1, ""), json!(taken / f64::from(tip)));
    assert_eq!(hits(1.5, 1_008, ""), Value::Null);
    for (argument, code) in [
        ("range: { lastBlocks: 0 }", "BAD_USER_INPUT"),
        ("range: { lastBlocks: -1 }", "BAD_USER_INPUT"),
        ("range: { heights: { from: 3, to: 2 } }", "BAD_USER_INPUT"),
    ] {
        let field = format!("feeEstimate(targetBlocks: 1, source: MEMPOOL_PROJECTION) {{ hitRate({argument}) }}");
        let response = api.ask(&format!("{{ {field} }}"));
        assert_eq!(response["data"], json!({ "feeEstimate": { "hitRate": null } }), "{argument}");
        assert_eq!(response["errors"][0]["extensions"]["code"], json!(code), "{argument}");
    }
    let mut few = Api::of_chain_within(&chain, Limits { points: 4, ..Limits::default() });
    few.set_node_mempool(NodeMempool { min_fee_rate: 1.5, ..NODE });
    let asked = "{ feeEstimate(targetBlocks: 1, source: MEMPOOL_PROJECTION) { most: hitRate(range: { lastBlocks: 4 })
        all: hitRate(range: { heights: {} }) } }";
    let response = few.ask(asked);
    assert_eq!(response["data"], json!({ "feeEstimate": { "most": 0.25, "all": null } }));
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("QUERY_LIMIT_EXCEEDED"));

    // the newest block with a payment, which pays 1 sat/vB, is full where blocks may weigh no more
    let asked =
        "{ feeEstimate(targetBlocks: 1, source: MEMPOOL_PROJECTION) { feeRate hitRate(range: { lastBlocks: 2 }) } }";
    for (block_weight, hit_rate) in [(4_000_000, 0.5), (400, 0.0)] {
        let mut api = Api::of_chain(&chain);
        api.remember(MempoolLimits { block_weight, ..MempoolLimits::default() });
        api.set_node_mempool(NodeMempool { min_fee_rate: 0.5, ..NODE });
        let found = api.data(asked)["feeEstimate"].take();
        assert_eq!(found, json!({ "feeRate": 0.5, "hitRate": hit_rate }), "{block_weight}");
    }
}

/// A payment that pays 1 sat/vB.
fn paying_mined(coin: &OutPoint) -> Transaction {
    paying(*coin, VSIZE)
}

#[test]
fn a_blend_is_the_higher_of_what_the_node_and_the_projection_say() {
    let (mut chain, coins) = chain_with_coins(3);
    let estimates = |chain: &SimChain, minimum: f64| {
        let world = World::new(chain.clone());
        let sim = SimNode::start(Arc::new(Mutex::new(world)), SimNodeOptions::default()).unwrap();
        let mut api = Api::of_chain(chain);
        api.set_node_mempool(NodeMempool { min_fee_rate: minimum, ..NODE });
        api.set_node(&client(&sim));
        let fields = "requestedBlocks targetBlocks feeRate source mode";
        let mut answer = api.data(&format!(
            "{{ node: feeEstimate(targetBlocks: 1) {{ {fields} }}
                blend: feeEstimate(targetBlocks: 1, mode: CONSERVATIVE, source: BLEND) {{ {fields} }} }}"
        ));
        (answer["node"].take(), answer["blend"].take())
    };
    let blend = |rate: f64| json!({ "requestedBlocks": 1, "targetBlocks": 1, "feeRate": rate, "source": "BLEND", "mode": "CONSERVATIVE" });
    // the node has seen nobody pay
    chain.mine_empty(12).unwrap();
    assert_eq!(estimates(&chain, 1.5), (Value::Null, blend(1.5)));

    chain.mine(vec![paying(coins[0], 10 * VSIZE)]).unwrap();
    let node = json!({ "requestedBlocks": 1, "targetBlocks": 2, "feeRate": 10.0, "source": "NODE_ESTIMATOR", "mode": "ECONOMICAL" });
    assert_eq!(estimates(&chain, 1.5), (node.clone(), blend(10.0)));
    assert_eq!(estimates(&chain, 12.5), (node, blend(12.5)));
}
