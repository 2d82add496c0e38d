//! One unconfirmed transaction: what is around it, where it stands, and what it takes to replace it.

use bitcoin::{OutPoint, Transaction};
use btcgraph::index::OptionalTables;
use btcgraph::mempool::NodeMempool;
use btcgraph::sim::{Owner, ScriptKind};
use serde_json::{Value, json};

use super::projected::{NODE, VSIZE, chain_with_coins, output_of, paying, paying_of, txids};
use crate::support::api::{Api, MOMENT, error, sat, spend_outputs};

const OWNER: Owner = Owner::new(ScriptKind::BareTrue, 1);

fn transaction(api: &Api, of: &Transaction, fields: &str) -> Value {
    let txid = of.compute_txid();
    api.data(&format!("{{ transaction(txid: \"{txid}\") {{ {fields} }} }}"))["transaction"].take()
}

const ENTRY: &str = "mempoolEntry {
    addedAt addedAtHeight ancestorCount totalAncestorVsize totalAncestorFees descendantCount totalDescendantVsize totalDescendantFees
    parents { txid } children { txid } isSpendingUnconfirmed projectedBlockIndex totalVsizeAhead isReplaceable
}";

/// The ids of a list of transactions in an answer.
fn ids(list: &Value) -> Value {
    list.as_array().unwrap().iter().map(|item| item["txid"].clone()).collect()
}

/// A transaction at 1 sat/vB, one that spends it at 9 sat/vB, and one beside them at 4 sat/vB.
fn family(coins: &[OutPoint]) -> [Transaction; 3] {
    let parent = paying(coins[0], VSIZE);
    let child = paying_of(output_of(&parent), 100_000 - VSIZE, 9 * VSIZE);
    [parent, child, paying(coins[1], 4 * VSIZE)]
}

#[test]
fn an_entry_counts_itself_among_its_ancestors_and_descendants() {
    let (chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let [parent, child, other] = family(&coins);
    api.arrive([&parent, &child, &other]);

    let answer =
        transaction(&api, &parent, &format!("state confirmations firstSeenAt feeRate effectiveFeeRate {ENTRY}"));
    assert_eq!(answer["state"], json!("MEMPOOL"));
    assert_eq!(answer["confirmations"], json!(0));
    assert_eq!(answer["firstSeenAt"], json!("2027-01-15T08:00:00Z"), "{MOMENT}");
    assert_eq!((&answer["feeRate"], &answer["effectiveFeeRate"]), (&json!(1.0), &json!(5.0)));
    let expected = json!({
        "addedAt": "2027-01-15T08:00:00Z", "addedAtHeight": 102,
        "ancestorCount": 1, "totalAncestorVsize": VSIZE, "totalAncestorFees": VSIZE,
        "descendantCount": 2, "totalDescendantVsize": 2 * VSIZE, "totalDescendantFees": 10 * VSIZE,
        "parents": [], "children": [{ "txid": child.compute_txid().to_string() }], "isSpendingUnconfirmed": false,
        "projectedBlockIndex": 0, "totalVsizeAhead": 0, "isReplaceable": true,
    });
    assert_eq!(answer["mempoolEntry"], expected);

    let answer = transaction(&api, &child, &format!("feeRate effectiveFeeRate {ENTRY}"));
    assert_eq!((&answer["feeRate"], &answer["effectiveFeeRate"]), (&json!(9.0), &json!(5.0)));
    let expected = json!({
        "addedAt": "2027-01-15T08:00:00Z", "addedAtHeight": 102,
        "ancestorCount": 2, "totalAncestorVsize": 2 * VSIZE, "totalAncestorFees": 10 * VSIZE,
        "descendantCount": 1, "totalDescendantVsize": VSIZE, "totalDescendantFees": 9 * VSIZE,
        "parents": [{ "txid": parent.compute_txid().to_string() }], "children": [], "isSpendingUnconfirmed": true,
        "projectedBlockIndex": 0, "totalVsizeAhead": VSIZE, "isReplaceable": true,
    });
    assert_eq!(answer["mempoolEntry"], expected);

    let answer = transaction(&api, &other, "effectiveFeeRate mempoolEntry { totalVsizeAhead }");
    assert_eq!(answer, json!({ "effectiveFeeRate": 4.0, "mempoolEntry": { "totalVsizeAhead": 2 * VSIZE } }));
}

#[test]
fn parents_and_children_are_listed_once_by_arrival() {
    let (chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let two = |coin, fee: u64| {
        let half = OWNER.output(sat((100_000 - fee) / 2));
        spend_outputs(OWNER, &[coin], &[OWNER.output(sat(100_000))], vec![half.clone(), half])
    };
    let (first, second) = (two(coins[0], 1_000), two(coins[1], 2_000));
    let outpoint = |of: &Transaction, vout| OutPoint { txid: of.compute_txid(), vout };
    let coins = [outpoint(&second, 0), outpoint(&first, 0), outpoint(&first, 1)];
    let prevouts = [second.output[0].clone(), first.output[0].clone(), first.output[1].clone()];
    let joining = spend_outputs(OWNER, &coins, &prevouts, vec![OWNER.output(sat(10_000))]);
    let last = paying_of(outpoint(&second, 1), 49_000, 500);
    api.arrive([&first, &second, &joining, &last]);
    let answer = transaction(&api, &joining, "mempoolEntry { parents { txid } }");
    assert_eq!(ids(&answer["mempoolEntry"]["parents"]), txids([&first, &second]));
    let answer = transaction(&api, &second, "mempoolEntry { children { txid } }");
    assert_eq!(ids(&answer["mempoolEntry"]["children"]), txids([&joining, &last]));
    let answer = transaction(&api, &first, "mempoolEntry { children { txid } }");
    assert_eq!(ids(&answer["mempoolEntry"]["children"]), txids([&joining]));
}

#[test]
fn what_a_block_holds_is_no_entry_any_more() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let [parent, child, other] = family(&coins);
    api.arrive([&parent, &child, &other]);
    api.connect(&chain.mine(vec![parent.clone()]).unwrap());
    let answer = transaction(&api, &parent, "state firstSeenAt effectiveFeeRate mempoolEntry { totalVsizeAhead }");
    assert_eq!(
        answer,
        json!({ "state": "CONFIRMED", "firstSeenAt": null, "effectiveFeeRate": 1.0, "mempoolEntry": null })
    );
    let answer = transaction(&api, &child, "effectiveFeeRate mempoolEntry { ancestorCount isSpendingUnconfirmed }");
    let mempool = json!({ "ancestorCount": 1, "isSpendingUnconfirmed": false });
    assert_eq!(answer, json!({ "effectiveFeeRate": 9.0, "mempoolEntry": mempool }));
}

#[test]
fn an_unconfirmed_transaction_is_found_by_its_wtxid() {
    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let mut witnessed = paying(coins[0], 500);
    witnessed.input[0].witness.push([7]);
    api.arrive([&witnessed]);
    let (txid, wtxid) = (witnessed.compute_txid(), witnessed.compute_wtxid());
    assert_ne!(txid.to_string(), wtxid.to_string());
    let question = format!("{{ transaction(wtxid: \"{wtxid}\") {{ txid wtxid }} }}");
    let expected = json!({ "transaction": { "txid": txid.to_string(), "wtxid": wtxid.to_string() } });
    assert_eq!(api.data(&question), expected);
    for arguments in [String::new(), format!("(txid: \"{txid}\", wtxid: \"{wtxid}\")")] {
        assert_eq!(api.refusal(&format!("{{ transaction{arguments} {{ txid }} }}")), json!("BAD_USER_INPUT"));
    }
    api.connect(&chain.mine(vec![witnessed]).unwrap());
    assert_eq!(api.refusal(&question), json!("FEATURE_DISABLED"));
}

#[test]
fn a_confirmed_transaction_is_found_by_its_wtxid_once_the_table_is_complete() {
    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let mut witnessed = paying(coins[0], 500);
    witnessed.input[0].witness.push([7]);
    api.connect(&chain.mine(vec![witnessed.clone()]).unwrap());
    let (txid, wtxid) = (witnessed.compute_txid(), witnessed.compute_wtxid());
    let by_wtxid = |id: &str| format!("{{ transaction(wtxid: \"{id}\") {{ txid state }} }}");
    let refusal = |api: &Api| api.ask(&by_wtxid(&wtxid.to_string()))["errors"][0].clone();
    let disabled = "this feature is disabled; the operator enables it with the setting index.wtxids";
    let extensions = json!({ "code": "FEATURE_DISABLED", "feature": "WTXIDS", "setting": "index.wtxids" });
    assert_eq!(refusal(&api), error(&json!(["transaction"]), 3, disabled, &extensions));

    let transactions = u32::try_from(chain.active_blocks().map(|block| block.txdata.len()).sum::<usize>()).unwrap();
    api.switch_tables(OptionalTables { wtxids: true, ..OptionalTables::default() }, 20);
    let message =
        format!("the server has read 20 of {transactions} transactions for lookups of this kind; retry later");
    let progress = 20.0 / f64::from(transactions);
    let extensions = json!({ "code": "NOT_READY", "feature": "WTXIDS", "progress": progress });
    assert_eq!(refusal(&api), error(&json!(["transaction"]), 3, &message, &extensions));

    api.switch_tables(OptionalTables { wtxids: true, ..OptionalTables::default() }, 1_000);
    let expected = json!({ "transaction": { "txid": txid.to_string(), "state": "CONFIRMED" } });
    assert_eq!(api.data(&by_wtxid(&wtxid.to_string())), expected);
    assert_eq!(api.data(&by_wtxid(&txid.to_string())), json!({ "transaction": null }));
    // without a witness its txid is the same
    let coinbase = coins[0].txid.to_string();
    let witness = chain.active_blocks().flat_map(|block| &block.txdata).find(|it| it.compute_txid() == coins[0].txid);
    let id = witness.unwrap().compute_wtxid().to_string();
    assert_eq!(api.data(&by_wtxid(&id)), json!({ "transaction": { "txid": coinbase, "state": "CONFIRMED" } }));

    api.switch_tables(OptionalTables { wtxids: false, ..OptionalTables::default() }, 1_000);
    assert_eq!(api.refusal(&by_wtxid(&wtxid.to_string())), json!("FEATURE_DISABLED"));
}

#[test]
fn a_bump_pays_the_feerate_and_what_a_replacement_costs() {
    let (chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    api.set_node_mempool(NodeMempool { incremental_fee_rate: 1.0, ..NODE });
    let [parent, child, other] = family(&coins);
    api.arrive([&parent, &child, &other]);
    let bump = |of: &Transaction, arguments: &str| {
        transaction(&api, of, &format!("mempoolEntry {{ bumpFeeTo({arguments}) }}"))["mempoolEntry"]["bumpFeeTo"].take()
    };
    // its own fee and size are what a replacement costs at least; at 5 sat/vB that is just reached
    assert_eq!(bump(&other, "feeRate: 0"), json!(5 * VSIZE));
    assert_eq!(bump(&other, "feeRate: 5"), json!(5 * VSIZE));
    assert_eq!(bump(&other, "feeRate: 7.5"), json!((15 * VSIZE).div_ceil(2)));
    // all that stands on it leaves, too
    assert_eq!(bump(&parent, "feeRate: 2"), json!(11 * VSIZE));
    assert_eq!(bump(&parent, "feeRate: 20"), json!(20 * VSIZE));
    // for itself alone, or for its parent as well
    assert_eq!(bump(&child, "feeRate: 20"), json!(20 * VSIZE));
    assert_eq!(bump(&child, "feeRate: 20, minimal: false"), json!(39 * VSIZE));
    assert_eq!(bump(&child, "feeRate: 5, minimal: false"), json!(10 * VSIZE), "the parent is taken at that already");
    let response = api.ask(&format!(
        "{{ transaction(txid: \"{}\") {{ mempoolEntry {{ bumpFeeTo(feeRate: -1) }} }} }}",
        other.compute_txid()
    ));
    assert_eq!(response["data"]["transaction"]["mempoolEntry"], json!({ "bumpFeeTo": null }));
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"));
}

#[test]
fn a_bump_pays_at_least_what_the_node_takes_now() {
    let (chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    api.set_node_mempool(NodeMempool { min_fee_rate: 30.0, ..NODE });
    let low = paying(coins[0], VSIZE);
    api.arrive([&low]);
    let answer = transaction(&api, &low, "mempoolEntry { bumpFeeTo(feeRate: 2) }");
    assert_eq!(answer, json!({ "mempoolEntry": { "bumpFeeTo": 30 * VSIZE } }));
}

#[test]
fn what_more_than_a_hundred_would_leave_with_cannot_be_replaced() {
    let (chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let mut line = vec![paying(coins[0], 100)];
    for number in 1..101 {
        let parent = output_of(&line[line.len() - 1]);
        line.push(paying_of(parent, 100_000 - 100 * number, 100));
    }
    api.arrive(&line);
    let answer = |of| transaction(&api, of, "mempoolEntry { descendantCount isReplaceable bumpFeeTo(feeRate: 1) }");
    let refused = json!({ "descendantCount": 101, "isReplaceable": false, "bumpFeeTo": null });
    assert_eq!(answer(&line[0]), json!({ "mempoolEntry": refused }));
    let next = answer(&line[1]);
    assert_eq!(
        (&next["mempoolEntry"]["descendantCount"], &next["mempoolEntry"]["isReplaceable"]),
        (&json!(100), &json!(true))
    );
}
