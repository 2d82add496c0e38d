//! The unconfirmed transactions: their figures, the histogram of what they pay, and the blocks they would make.

use std::time::SystemTime;

use bitcoin::{OutPoint, Transaction};
use btcgraph::mempool::NodeMempool;
use btcgraph::sim::{Owner, Reward, ScriptKind, SimChain, Template};
use btcgraph::view::SyncState;
use serde_json::{Value, json};

use crate::support::api::{Api, coinbase_output, sat, spend, spend_outputs};

const OWNER: Owner = Owner::new(ScriptKind::BareTrue, 1);

/// A chain that holds `count` coins of 100,000 sat at its tip, and these coins.
pub(crate) fn chain_with_coins(count: u32) -> (SimChain, Vec<OutPoint>) {
    let mut chain = SimChain::new(70).with_clock(1_700_000_000, 600);
    let reward = Reward::to(OWNER.script_pubkey());
    let first = chain.mine_template(Template { reward: Some(reward), ..Template::default() }).unwrap();
    chain.mine_empty(100).unwrap();
    let outputs = vec![OWNER.output(sat(100_000)); usize::try_from(count).unwrap()];
    let split = spend(&chain, OWNER, &[coinbase_output(&first, 0)], outputs);
    chain.mine(vec![split.clone()]).unwrap();
    let txid = split.compute_txid();
    (chain, (0..count).map(|vout| OutPoint { txid, vout }).collect())
}

/// A transaction that spends one coin of 100,000 sat to one output and leaves this fee, in sat.
pub(crate) fn paying(coin: OutPoint, fee: u64) -> Transaction {
    paying_of(coin, 100_000, fee)
}

/// The same of a coin of another value.
pub(crate) fn paying_of(coin: OutPoint, value: u64, fee: u64) -> Transaction {
    spend_outputs(OWNER, &[coin], &[OWNER.output(sat(value))], vec![OWNER.output(sat(value - fee))])
}

/// The first output of a transaction.
pub(crate) fn output_of(transaction: &Transaction) -> OutPoint {
    OutPoint { txid: transaction.compute_txid(), vout: 0 }
}

/// The ids of transactions, as an answer has them.
pub(crate) fn txids<'t>(transactions: impl IntoIterator<Item = &'t Transaction>) -> Value {
    transactions.into_iter().map(|transaction| json!(transaction.compute_txid().to_string())).collect()
}

/// The code with which a field of the mempool is refused, which must be null then.
pub(crate) fn refusal(api: &Api, field: &str) -> Value {
    let response = api.ask(&format!("{{ mempool {{ field: {field} }} }}"));
    assert_eq!(response["data"], json!({ "mempool": { "field": null } }), "{response:#}");
    response["errors"][0]["extensions"]["code"].clone()
}

pub(crate) const NODE: NodeMempool = NodeMempool {
    min_fee_rate: 1.5,
    min_relay_fee_rate: 0.1,
    incremental_fee_rate: 0.1,
    max_memory: 300_000_000,
    memory_usage: 4_096,
    loaded: true,
};

/// All of [`paying`] have this size in vbytes.
pub(crate) const VSIZE: u64 = 63;

#[test]
fn the_size_that_these_tests_count_with_is_right() {
    let (_, coins) = chain_with_coins(1);
    assert_eq!(paying(coins[0], 7).vsize(), usize::try_from(VSIZE).unwrap());
}

const STATS: &str =
    "txCount totalVsize totalWeight totalSize totalFees memoryUsage maxMemory minFeeRate minRelayFeeRate
    incrementalFeeRate loaded sequence txPerSecond vbytesPerSecond outputCount";

#[test]
fn an_empty_mempool_has_zeros_and_lists_without_items() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    let answer = api.data(&format!(
        "{{ mempool {{ id stats {{ {STATS} }} txids {{ nodes }} feeHistogram {{ txCount }} projectedBlocks {{ index }} }}
            snapshot {{ mempoolSequence isMempoolInSync }} }}"
    ));
    let stats = json!({
        "txCount": 0, "totalVsize": 0, "totalWeight": 0, "totalSize": 0, "totalFees": 0, "memoryUsage": 0, "maxMemory": 0,
        "minFeeRate": 0.0, "minRelayFeeRate": 0.0, "incrementalFeeRate": 0.0, "loaded": false, "sequence": 0,
        "txPerSecond": 0.0, "vbytesPerSecond": 0.0, "outputCount": 0,
    });
    let mempool = json!({ "id": "Mempool:main", "stats": stats, "txids": { "nodes": [] }, "feeHistogram": [], "projectedBlocks": [] });
    assert_eq!(
        answer,
        json!({
            "mempool": mempool, "snapshot": { "mempoolSequence": null, "isMempoolInSync": false },
        })
    );
}

#[test]
fn figures_are_those_of_the_transactions_and_of_the_node() {
    let (mut chain, coins) = chain_with_coins(4);
    let mut api = Api::of_chain(&chain);
    api.set_node_mempool(NODE);
    assert_eq!(api.data("{ snapshot { mempoolSequence } }"), json!({ "snapshot": { "mempoolSequence": 0 } }));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let transactions: Vec<_> = (1..).zip(&coins).map(|(fee, coin)| paying(*coin, fee * 100)).collect();
    api.arrive_at(now, &transactions[..3]);
    api.arrive_at(now - 3_600, &transactions[3..]);
    api.set_state(SyncState { mempool_in_sync: true, ..SyncState::default() });
    let answer = api.data(&format!(
        "{{ node(id: \"Mempool:main\") {{ ... on Mempool {{ stats {{ {STATS} }} }} }}
            snapshot {{ mempoolSequence isMempoolInSync }} }}"
    ));
    let vbytes = f64::from(3 * u32::try_from(VSIZE).unwrap());
    let stats = json!({
        "txCount": 4, "totalVsize": 4 * VSIZE, "totalWeight": 16 * VSIZE, "totalSize": 4 * VSIZE, "totalFees": 1_000,
        "memoryUsage": 4_096, "maxMemory": 300_000_000, "minFeeRate": 1.5, "minRelayFeeRate": 0.1,
        "incrementalFeeRate": 0.1, "loaded": true, "sequence": 4,
        "txPerSecond": 3.0 / 60.0, "vbytesPerSecond": vbytes / 60.0, "outputCount": 4,
    });
    let snapshot = json!({ "mempoolSequence": 4, "isMempoolInSync": true });
    assert_eq!(answer, json!({ "node": { "stats": stats }, "snapshot": snapshot }));

    // a block takes what it holds
    api.connect(&chain.mine(transactions[1..].to_vec()).unwrap());
    let answer = api.data("{ mempool { stats { txCount totalFees sequence } txids { nodes } } }");
    let stats = json!({ "txCount": 1, "totalFees": 100, "sequence": 7 });
    assert_eq!(
        answer,
        json!({ "mempool": { "stats": stats, "txids": { "nodes": [transactions[0].compute_txid().to_string()] } } })
    );
}

fn txid_objects(transactions: &[Transaction]) -> Value {
    transactions.iter().map(|transaction| json!({ "txid": transaction.compute_txid().to_string() })).collect()
}

#[test]
fn the_newest_come_first_whatever_they_pay() {
    let (chain, coins) = chain_with_coins(13);
    let mut api = Api::of_chain(&chain);
    let mut transactions: Vec<_> = (1..).zip(&coins).map(|(fee, coin)| paying(*coin, fee * 7 % 13 * 100)).collect();
    api.arrive(&transactions);
    transactions.reverse();
    let ask = |first: &str| {
        let asked = format!("{{ mempool {{ transactions(order: ARRIVAL{first}) {{ nodes {{ txid }} }} }} }}");
        api.data(&asked)["mempool"]["transactions"]["nodes"].take()
    };
    assert_eq!(ask(""), txid_objects(&transactions));
    assert_eq!(ask(", first: 3"), txid_objects(&transactions[..3]));
    assert_eq!(ask(", first: 0"), json!([]));
    assert_eq!(refusal(&api, "transactions(order: ARRIVAL, first: -1) { nodes { txid } }"), json!("BAD_USER_INPUT"));
}

const BIN: &str = "fromRate toRate totalVsize txCount cumulativeVsize";

#[test]
fn a_histogram_counts_from_the_highest_feerate_down() {
    let (chain, coins) = chain_with_coins(6);
    let mut api = Api::of_chain(&chain);
    // 1, 2, 2, 10 sat/vB, and a parent at 1 whose child pays 9: 5 for both
    let mut transactions: Vec<_> =
        [1, 2, 2, 10, 1].iter().zip(&coins).map(|(rate, coin)| paying(*coin, rate * VSIZE)).collect();
    let parent = output_of(&transactions[4]);
    transactions.push(paying_of(parent, 100_000 - VSIZE, 9 * VSIZE));
    api.arrive(&transactions);
    let answer = api.data(&format!(
        "{{ mempool {{
            own: feeHistogram(bins: [2, 9, 1.001]) {{ {BIN} }}
            effective: feeHistogram(bins: [2, 9, 1.001], effective: true) {{ {BIN} }}
            cut: feeHistogram(binVsize: {}) {{ {BIN} }}
            whole: feeHistogram {{ {BIN} }}
        }} }}",
        2 * VSIZE
    ));
    let bin = |from: f64, to: Option<f64>, count: u64, above: u64| json!({ "fromRate": from, "toRate": to, "totalVsize": count * VSIZE, "txCount": count, "cumulativeVsize": above * VSIZE });
    let expected = json!({ "mempool": {
        "own": [bin(9.0, None, 2, 2), bin(2.0, Some(9.0), 2, 4), bin(1.001, Some(2.0), 0, 4), bin(0.0, Some(1.001), 2, 6)],
        "effective": [bin(9.0, None, 1, 1), bin(2.0, Some(9.0), 4, 5), bin(1.001, Some(2.0), 0, 5), bin(0.0, Some(1.001), 1, 6)],
        "cut": [bin(9.0, None, 2, 2), bin(2.0, Some(9.0), 2, 4), bin(1.0, Some(2.0), 2, 6)],
        "whole": [bin(1.0, None, 6, 6)],
    } });
    assert_eq!(answer, expected);
}

#[test]
fn a_histogram_refuses_what_is_no_bin() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    for (arguments, code) in [
        ("bins: [-1]".to_owned(), "BAD_USER_INPUT"),
        ("bins: [1e300]".to_owned(), "BAD_USER_INPUT"),
        ("binVsize: 0".to_owned(), "BAD_USER_INPUT"),
        ("binVsize: -5".to_owned(), "BAD_USER_INPUT"),
        (format!("bins: {:?}", vec![1; 2_001]), "QUERY_LIMIT_EXCEEDED"),
    ] {
        assert_eq!(refusal(&api, &format!("feeHistogram({arguments}) {{ txCount }}")), json!(code), "{arguments}");
    }
}

const PROJECTED: &str = "index txCount vsize weight totalFees medianFeeRate feeRatePercentiles";

/// A transaction that spends a coin of 100,000 sat, pays this fee, and has so many bytes that only two of its kind fit a
/// block.
pub(crate) fn large(coin: OutPoint, fee: u64) -> Transaction {
    let mut transaction = paying(coin, fee);
    transaction.input[0].script_sig = vec![0x51; 400_000].into();
    transaction
}

#[test]
fn projected_blocks_take_what_pays_best_until_they_are_full() {
    let (chain, coins) = chain_with_coins(6);
    let mut api = Api::of_chain(&chain);
    let large: Vec<_> =
        [10_000, 40_000, 30_000, 20_000, 50_000].iter().zip(&coins).map(|(fee, coin)| large(*coin, *fee)).collect();
    let small = paying(coins[5], VSIZE);
    api.arrive(large.iter().chain([&small]));
    let (vsize, whole) = (u64::try_from(large[0].vsize()).unwrap(), 2);
    let rate = |fee: u32| f64::from(fee * 4) / f64::from(u32::try_from(vsize * 4).unwrap());
    let block = |index: u32, fees: &[u32], extra: u64| {
        let count = u64::try_from(fees.len()).unwrap();
        json!({
            "index": index, "txCount": count + extra, "vsize": count * vsize + extra * VSIZE,
            "weight": 4 * (count * vsize + extra * VSIZE), "totalFees": u64::from(fees.iter().sum::<u32>()) + extra * VSIZE,
        })
    };
    let answer = api.data("{ mempool { projectedBlocks { index txCount vsize weight totalFees } } }");
    let expected = [block(0, &[50_000, 40_000], 1), block(1, &[30_000, 20_000], 0), block(2, &[10_000], 0)];
    assert_eq!(answer["mempool"]["projectedBlocks"], json!(expected));

    let answer = api.data(&format!("{{ mempool {{ projectedBlocks(first: 2) {{ {PROJECTED} }} }} }}"));
    let blocks = answer["mempool"]["projectedBlocks"].as_array().unwrap();
    assert_eq!(blocks.len(), whole);
    let (low, high) = (rate(20_000), rate(30_000));
    assert_eq!(blocks[1]["medianFeeRate"], json!(low));
    assert_eq!(blocks[1]["feeRatePercentiles"], json!([low, low, low, low, high, high, high]));
    assert_eq!(blocks[0]["medianFeeRate"], json!(rate(50_000)), "the small one pays most and is no tenth of the block");
    assert_eq!(refusal(&api, "projectedBlocks(first: 101) { index }"), json!("QUERY_LIMIT_EXCEEDED"));
}
