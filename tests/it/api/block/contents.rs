//! What a block contains, transaction by transaction: as it arrived, and as it was mined.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Transaction, TxOut};
use btcgraph::index::ObservedBlock;
use btcgraph::limits::Limits;
use btcgraph::mempool::BlockAudit;
use btcgraph::sim::{Hostile, Payment, SimChain, Spendable};
use serde_json::{Value, json};

use crate::support::api::{Api, spend};
use crate::support::cut::IndexForm;

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
    projectedTxCount totalProjectedWeight totalProjectedFees matchRate missing fresh unexpected unseen
}";

#[test]
fn a_block_shows_when_it_arrived_and_how_it_was_projected() {
    let (chain, block) = chain_to(71, 5);
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
        matched_weight: 2_700,
        fresh_weight: 400,
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
            "totalProjectedWeight": 4_000,
            "totalProjectedFees": 12_345,
            "matchRate": 0.75,
            "missing": [missing.to_string()],
            "fresh": [fresh.to_string()],
            "unexpected": [txid(1).to_string(), txid(3).to_string()],
            "unseen": [txid(2).to_string()],
        },
    });
    assert_eq!(ask(&api), expected);
    let transactions = api.data("{ tip { transactions(first: 5) { nodes { txAudit { isProjected isSeen } } } } }");
    let of = |projected: bool, seen: bool| json!({ "txAudit": { "isProjected": projected, "isSeen": seen } });
    let treated = json!([{ "txAudit": null }, of(false, true), of(false, false), of(false, true), of(true, true)]);
    assert_eq!(transactions["tip"]["transactions"]["nodes"], treated);
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

/// The figures of the transactions of a block as lists, one transaction at a time.
fn listed(block: &Value) -> Value {
    let nodes = block["transactions"]["nodes"].as_array().unwrap();
    let column = |name: &str| nodes.iter().map(|node| node[name].clone()).collect::<Vec<_>>();
    json!({
        "txids": column("txid"), "txFees": column("fee"), "vsizes": column("vsize"),
        "totalOutputValues": column("totalOutputValue"), "feeRates": column("feeRate"),
        "effectiveFeeRates": column("effectiveFeeRate"), "txFeatures": column("features"), "txFirstSeenAt": column("firstSeenAt"),
    })
}

const COLUMNS: &str = "txids txFees vsizes totalOutputValues feeRates effectiveFeeRates txFeatures txFirstSeenAt";
const OF_EACH: &str = "txid fee vsize totalOutputValue feeRate effectiveFeeRate features firstSeenAt";

#[test]
fn a_summary_lists_what_each_transaction_shows() {
    for form in [IndexForm::Live, IndexForm::Cut] {
        let (chain, _) = chain_to(73, 6);
        let api = Api::of_chain_in(form, &chain);
        let mut found = BTreeSet::new();
        for height in (0..=chain.height().to_u32()).rev().step_by(7) {
            let answer = api.data(&format!(
                "{{ block(height: {height}) {{ summary {{ {COLUMNS} }} transactions(first: 100) {{ nodes {{ {OF_EACH} }} }} }} }}"
            ));
            let block = &answer["block"];
            assert_eq!(block["summary"], listed(block), "at height {height}");
            let features =
                block["summary"]["txFeatures"].as_array().unwrap().iter().flat_map(|own| own.as_array().unwrap());
            found.extend(features.map(Value::to_string));
        }
        assert!(found.len() > 6, "few features: {found:?}");
    }
}

/// A block with a parent for which a child pays, between two that pay for themselves.
fn packaged() -> (SimChain, Vec<Transaction>) {
    let owner = SimChain::miner();
    let mut chain = SimChain::new(74);
    let blocks = chain.mine_empty(103).unwrap();
    let coin = |index: usize| Spendable::of(&blocks[index].txdata[0], 0, owner).unwrap();
    let pay = |coin, rate| Payment::of([coin]).change(owner, rate).sign().unwrap();
    let (dear, parent, cheap) = (pay(coin(0), 30), pay(coin(1), 1), pay(coin(2), 5));
    let child = pay(Spendable::of(&parent, 0, owner).unwrap(), 40);
    let transactions = vec![cheap, dear, parent, child];
    chain.mine(transactions.clone()).unwrap();
    (chain, transactions)
}

#[test]
fn what_signature_operations_count_for_is_read_once_for_a_block() {
    let owner = SimChain::miner();
    let mut chain = SimChain::new(76);
    let coin = Spendable::of(&chain.mine_empty(101).unwrap()[0].txdata[0], 0, owner).unwrap();
    let fan_out = spend(&chain, owner, &[coin.outpoint], vec![owner.output(Amount::from_sat(10_000)); 60]);
    chain.mine(vec![fan_out.clone()]).unwrap();
    // a bare multisig of 20 keys, for which each counts 1,600 weight units
    let multisig = TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::from_bytes(vec![0xae]) };
    let spends = (0..60).map(|vout| {
        let paid = vec![owner.output(Amount::from_sat(9_000)), multisig.clone()];
        spend(&chain, owner, &[OutPoint::new(fan_out.compute_txid(), vout)], paid)
    });
    let spends: Vec<_> = spends.collect();
    chain.mine(spends).unwrap();
    let sizes = Api::of_chain(&chain).data("{ tip { transactions(first: 100) { nodes { adjustedVsize } } } }");
    let sizes = sizes["tip"]["transactions"]["nodes"].as_array().unwrap();
    assert!(sizes[1..].iter().all(|node| node["adjustedVsize"] == 400), "{sizes:?}");
    // more than the block and the transaction that it spends, and less than that for each spend
    let limits = Limits { transaction_bytes: 30_000, ..Limits::default() };
    let api = Api::of_chain_within(&chain, limits);
    let read = api.data("{ tip { summary { effectiveFeeRates } } }");
    let rates = read["tip"]["summary"]["effectiveFeeRates"].as_array().unwrap();
    assert_eq!((rates.len(), &rates[1..]), (61, &vec![json!(2.5); 60][..]));
    // the 60 inputs count as three fields each, beside the 61 transactions
    let api = Api::of_chain_within(&chain, Limits { complexity: 200, ..Limits::default() });
    for (column, is_refused) in [("feeRates", false), ("effectiveFeeRates", true), ("txFeatures", true)] {
        let answer = api.ask(&format!("{{ tip {{ summary {{ {column} }} }} }}"));
        assert_eq!(answer["errors"][0]["extensions"]["which"] == "complexity", is_refused, "{column}: {answer}");
    }
}

#[test]
fn effective_feerates_are_those_of_packages_within_the_block() {
    let (chain, transactions) = packaged();
    let mut api = Api::of_chain(&chain);
    let fields = "summary { feeRates effectiveFeeRates } feeStats { feeRatePercentiles
        effective: feeRatePercentiles(effective: true) }";
    let tip = api.data(&format!("{{ tip {{ {fields} }} }}"))["tip"].take();
    let rates: Vec<f64> =
        tip["summary"]["feeRates"].as_array().unwrap()[1..].iter().map(|rate| rate.as_f64().unwrap()).collect();
    let weights: Vec<f64> = transactions
        .iter()
        .map(|transaction| f64::from(u32::try_from(transaction.weight().to_wu()).unwrap()))
        .collect();
    let package = (rates[2] * weights[2] + rates[3] * weights[3]) / (weights[2] + weights[3]);
    let effective = tip["summary"]["effectiveFeeRates"].as_array().unwrap();
    assert_eq!(effective[0], Value::Null);
    for (place, transaction) in transactions.iter().enumerate() {
        let asked = format!("{{ transaction(txid: \"{}\") {{ effectiveFeeRate }} }}", transaction.compute_txid());
        assert_eq!(api.data(&asked)["transaction"]["effectiveFeeRate"], effective[place + 1], "alone");
    }
    for (found, expected) in effective[1..].iter().zip([rates[0], rates[1], package, package]) {
        assert!((found.as_f64().unwrap() - expected).abs() < 1e-9, "{effective:?}");
    }
    // the lowest is that of the cheap one, and no longer that of the parent
    let percentiles = |name: &str| tip["feeStats"][name].as_array().unwrap().clone();
    let truncated = |rate: f64| (rate * 1_000.0).floor() / 1_000.0;
    let effective = percentiles("effective");
    assert_eq!(
        (effective.len(), &effective[0], &effective[6]),
        (7, &json!(truncated(rates[0])), &json!(truncated(rates[1])))
    );
    assert_eq!(percentiles("feeRatePercentiles")[0], json!(truncated(rates[2])));

    let audit = BlockAudit { unexpected: vec![1, 2, 3, 4], ..BlockAudit::default() };
    api.observe(&ObservedBlock { first_seen: 1_700_000_000, audit: audit.encode() });
    let prioritised = |api: &Api| api.data("{ tip { audit { prioritised } } }")["tip"]["audit"]["prioritised"].clone();
    assert_eq!(
        prioritised(&api),
        json!([transactions[0].compute_txid().to_string()]),
        "it stands in front of all others"
    );
    let asked = "{ tip { transactions { nodes { txAudit { isProjected isSeen isPrioritised } } } } }";
    let of = |prioritised: bool| json!({ "txAudit": { "isProjected": false, "isSeen": true, "isPrioritised": prioritised } });
    let expected = json!([{ "txAudit": null }, of(true), of(false), of(false), of(false)]);
    assert_eq!(api.data(asked)["tip"]["transactions"]["nodes"], expected, "each by itself");

    let expected = json!({ "summary": null, "feeStats": {
        "feeRatePercentiles": tip["feeStats"]["feeRatePercentiles"], "effective": null,
    }});
    let hash = chain.tip();
    api.change(1, []);
    let stale = api.data(&format!(
        "{{ block(hash: \"{hash}\") {{ summary {{ feeRates }} feeStats {{ feeRatePercentiles
            effective: feeRatePercentiles(effective: true) }} }} }}"
    ));
    assert_eq!(stale["block"], expected);
}

/// A block in which a transaction with many outputs is spent by many, each of which spends the one before it as well.
fn clustered() -> SimChain {
    let owner = SimChain::miner();
    let mut chain = SimChain::new(75);
    let blocks = chain.mine_empty(105).unwrap();
    let coin = |index: usize| Spendable::of(&blocks[index].txdata[0], 0, owner).unwrap();
    let mut hub = Payment::of([coin(0)]);
    for _ in 0..40 {
        hub = hub.to(owner, Amount::from_sat(10_000_000));
    }
    let hub = hub.change(owner, 3).sign().unwrap();
    let mut transactions = vec![hub.clone()];
    for vout in 0..40 {
        let mut coins = vec![Spendable::of(&hub, vout, owner).unwrap()];
        if vout % 4 > 0 {
            coins.push(Spendable::of(&transactions[transactions.len() - 1], 0, owner).unwrap());
        }
        transactions.push(Payment::of(coins).change(owner, 1 + u64::from(vout * 7 % 23)).sign().unwrap());
    }
    transactions.extend((1..4).map(|index| Payment::of([coin(index)]).change(owner, 9).sign().unwrap()));
    chain.mine(transactions).unwrap();
    chain
}

#[test]
fn a_large_cluster_is_read_once_for_all_that_ask_for_it() {
    for form in [IndexForm::Live, IndexForm::Cut] {
        let api = Api::of_chain_in(form, &clustered());
        let height = 106;
        let both = api.data(&format!(
            "{{ block(height: {height}) {{ summary {{ effectiveFeeRates }} transactions(first: 100) {{ nodes {{ effectiveFeeRate }} }} }} }}"
        ));
        let nodes = both["block"]["transactions"]["nodes"].as_array().unwrap();
        let rates: Vec<_> = nodes.iter().map(|node| node["effectiveFeeRate"].clone()).collect();
        assert_eq!((rates.len(), json!(rates)), (45, both["block"]["summary"]["effectiveFeeRates"].clone()));
        for index in [0, 1, 2, 40, 41, 44] {
            let alone =
                format!("{{ block(height: {height}) {{ transaction(index: {index}) {{ effectiveFeeRate }} }} }}");
            assert_eq!(api.data(&alone)["block"]["transaction"]["effectiveFeeRate"], rates[index], "{index}");
        }
    }
}

#[test]
fn feerates_stand_at_any_percent_of_the_weight_and_of_the_number() {
    let (chain, transactions) = packaged();
    let api = Api::of_chain(&chain);
    let asked = "{ tip { summary { feeRates effectiveFeeRates } } }";
    let summary = api.data(asked)["tip"]["summary"].take();
    let weights: Vec<u32> =
        transactions.iter().map(|transaction| transaction.weight().to_wu().try_into().unwrap()).collect();
    let percents: Vec<f64> = (0..=100).map(f64::from).collect();
    let reads = |arguments: &str| {
        let asked = format!("{{ tip {{ feeStats {{ feeRatePercentiles({arguments}) }} }} }}");
        let found = api.data(&asked)["tip"]["feeStats"]["feeRatePercentiles"].take();
        found.as_array().unwrap().iter().map(|rate| rate.as_f64().unwrap()).collect::<Vec<_>>()
    };
    for (column, effective) in [("feeRates", false), ("effectiveFeeRates", true)] {
        let rates: Vec<f64> = (1..=4).map(|place| summary[column][place].as_f64().unwrap()).collect();
        for weighted in [true, false] {
            // the lowest feerate that so much of the block pays at most
            let share = |rate: f64| {
                let paying = rates.iter().zip(&weights).filter(|(own, _)| **own <= rate);
                paying.map(|(_, weight)| if weighted { *weight } else { 1 }).sum::<u32>()
            };
            let least = |percent: &f64| {
                let enough = |rate: &f64| f64::from(share(*rate)) * 100.0 >= f64::from(share(f64::MAX)) * percent;
                let mut enough: Vec<f64> = rates.iter().copied().filter(enough).collect();
                enough.sort_unstable_by(f64::total_cmp);
                (enough[0] * 1_000.0).floor() / 1_000.0
            };
            let how = format!("weighted: {weighted}, effective: {effective}");
            let expected: Vec<_> = percents.iter().map(least).collect();
            assert_eq!(reads(&format!("percents: {percents:?}, {how}")), expected, "{how}");
            assert_eq!(reads(&format!("percents: [99.5, 12.5], {how}")), [least(&99.5), least(&12.5)], "{how}");
            let stored = [0, 10, 25, 50, 75, 90, 100].map(|percent: usize| expected[percent]);
            assert_eq!(reads(&how), stored, "{how}");
        }
    }
    for (arguments, name) in [
        ("percents: [50, 100.1]".to_owned(), "percents[1]"),
        ("percents: [-0.5]".to_owned(), "percents[0]"),
        (format!("percents: {:?}", vec![1.0; 102]), "percents"),
    ] {
        let answer = api.ask(&format!("{{ tip {{ feeStats {{ feeRatePercentiles({arguments}) }} }} }}"));
        assert_eq!(answer["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"), "{arguments}");
        assert_eq!(answer["errors"][0]["extensions"]["argument"], json!(name), "{arguments}");
    }
}

#[test]
fn a_projected_transaction_is_not_prioritised_wherever_it_stands() {
    let (chain, _) = packaged();
    let mut api = Api::of_chain(&chain);
    let audit = BlockAudit { unexpected: vec![2], unseen: vec![3, 4], ..BlockAudit::default() };
    api.observe(&ObservedBlock { first_seen: 1_700_000_000, audit: audit.encode() });
    assert_eq!(api.data("{ tip { audit { prioritised } } }")["tip"]["audit"]["prioritised"], json!([]));
}

/// What each script of a block receives and spends, and in how many transactions, from the blocks of its chain alone.
fn counted(chain: &SimChain, height: usize) -> BTreeMap<Vec<u8>, (u64, u64, u64)> {
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let outputs: HashMap<OutPoint, TxOut> = blocks
        .iter()
        .flat_map(|block| &block.txdata)
        .flat_map(|transaction| {
            let txid = transaction.compute_txid();
            (0..).zip(&transaction.output).map(move |(vout, output)| (OutPoint { txid, vout }, output.clone()))
        })
        .collect();
    let mut changes: BTreeMap<Vec<u8>, (u64, u64, u64)> = BTreeMap::new();
    for transaction in &blocks[height].txdata {
        let mut scripts = HashSet::new();
        for input in transaction.input.iter().filter(|input| !input.previous_output.is_null()) {
            let spent = &outputs[&input.previous_output];
            changes.entry(spent.script_pubkey.to_bytes()).or_default().1 += spent.value.to_sat();
            scripts.insert(spent.script_pubkey.to_bytes());
        }
        for output in &transaction.output {
            let script = output.script_pubkey.to_bytes();
            if height > 0 && !output.script_pubkey.is_op_return() && script.len() <= 10_000 {
                changes.entry(script.clone()).or_default().0 += output.value.to_sat();
                scripts.insert(script);
            }
        }
        for script in scripts {
            changes.entry(script).or_default().2 += 1;
        }
    }
    changes
}

#[test]
fn balance_changes_are_what_a_block_pays_and_spends() {
    for form in [IndexForm::Live, IndexForm::Cut] {
        let (chain, block) = chain_to(75, 6);
        let mut api = Api::of_chain_in(form, &chain);
        let tip = chain.height().to_u32();
        for height in [0, 1, tip - 60, tip - 30, tip - 1, tip] {
            let expected: Vec<_> = counted(&chain, usize::try_from(height).unwrap())
                .into_iter()
                .map(|(script, (received, spent, transactions))| {
                    let net = i64::try_from(received).unwrap() - i64::try_from(spent).unwrap();
                    json!({
                        "script": { "hex": script.to_lower_hex_string() },
                        "net": net, "received": received, "spent": spent, "txCount": transactions,
                    })
                })
                .collect();
            let (mut found, mut after) = (Vec::new(), String::new());
            loop {
                let answer = api.data(&format!(
                    "{{ block(height: {height}) {{ balanceChanges(first: 4{after}) {{
                        totalCount nodes {{ script {{ hex }} net received spent txCount }} pageInfo {{ hasNextPage endCursor }}
                    }} }} }}"
                ));
                let page = &answer["block"]["balanceChanges"];
                assert_eq!(page["totalCount"], json!(expected.len()));
                found.extend(page["nodes"].as_array().unwrap().clone());
                if page["pageInfo"]["hasNextPage"] == json!(false) {
                    break;
                }
                after = format!(", after: {}", page["pageInfo"]["endCursor"]);
            }
            assert_eq!(found, expected, "at height {height}");
        }
        let changes = |arguments: &str| {
            let fields = "totalCount nodes { net } pageInfo { endCursor }";
            format!("{{ block(height: {tip}) {{ balanceChanges({arguments}) {{ {fields} }} }} }}")
        };
        let all = api.data(&changes("first: 100"))["block"]["balanceChanges"]["nodes"].take();
        let all: Vec<_> = all.as_array().unwrap().iter().map(|change| change["net"].as_i64().unwrap()).collect();
        for least in all.iter().map(|net| net.abs()).chain([0, i64::MAX >> 11]) {
            let asked = changes(&format!("minAbsNet: {least}, first: 100"));
            let found = api.data(&asked)["block"]["balanceChanges"].take();
            let expected: Vec<_> = all.iter().filter(|net| net.abs() >= least).collect();
            assert_eq!(found["totalCount"], json!(expected.len()), "{least}");
            let nets: Vec<_> = found["nodes"].as_array().unwrap().iter().map(|change| &change["net"]).collect();
            assert_eq!(json!(nets), json!(expected), "{least}");
        }
        let cursor = api.data(&changes("first: 1"))["block"]["balanceChanges"]["pageInfo"]["endCursor"].take();
        let refused = api.ask(&changes(&format!("minAbsNet: 1, after: {cursor}")));
        assert_eq!(refused["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"), "a cursor of another list");
        api.change(1, []);
        let stale =
            api.data(&format!("{{ block(hash: \"{}\") {{ balanceChanges {{ totalCount }} }} }}", block.block_hash()));
        assert_eq!(stale["block"], json!({ "balanceChanges": null }));
    }
}
