//! Transactions that replace others, and what is answered for those that left.

use bitcoin::{OutPoint, Transaction, Txid};
use btcgraph::mempool::{Departure, MempoolLimits};
use serde_json::{Value, json};

use super::projected::{VSIZE, chain_with_coins, output_of, paying, paying_of, refusal};
use crate::support::api::{Api, MOMENT};

/// The same, signalling that it may be replaced.
fn signalling(mut transaction: Transaction) -> Transaction {
    transaction.input[0].sequence = bitcoin::Sequence::ENABLE_RBF_NO_LOCKTIME;
    transaction
}

fn transaction(api: &Api, txid: Txid, fields: &str) -> Value {
    api.data(&format!("{{ transaction(txid: \"{txid}\") {{ {fields} }} }}"))["transaction"].take()
}

fn id(of: &Transaction) -> Value {
    json!({ "txid": of.compute_txid().to_string() })
}

/// Three transactions that spend one coin, each for more than the one before; the second does not signal.
fn rivals(coin: OutPoint) -> [Transaction; 3] {
    [signalling(paying(coin, 500)), paying(coin, 700), signalling(paying(coin, 900))]
}

const FIELDS: &str = "state isSignalingRbf firstSeenAt fee replaces { txid } replacedBy { txid } conflicts mempoolEntry { addedAtHeight }";

#[test]
fn a_replaced_transaction_is_kept_with_what_took_its_place() {
    let (chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let [first, second, third] = rivals(coins[0]);
    for (number, transaction) in (0..).zip([&first, &second, &third]) {
        api.arrive_at(MOMENT + number, [transaction]);
    }
    let txid = |of: &Transaction| json!(of.compute_txid().to_string());
    let sorted = |txids: [&Transaction; 2]| {
        let mut txids = txids.map(Transaction::compute_txid);
        txids.sort();
        json!(txids.map(|txid| txid.to_string()))
    };
    assert_eq!(
        transaction(&api, first.compute_txid(), FIELDS),
        json!({
            "state": "REPLACED", "isSignalingRbf": true, "firstSeenAt": "2027-01-15T08:00:00Z", "fee": 500,
            "replaces": [], "replacedBy": id(&second), "conflicts": sorted([&second, &third]), "mempoolEntry": null,
        })
    );
    assert_eq!(
        transaction(&api, second.compute_txid(), FIELDS),
        json!({
            "state": "REPLACED", "isSignalingRbf": false, "firstSeenAt": "2027-01-15T08:00:01Z", "fee": 700,
            "replaces": [id(&first)], "replacedBy": id(&third), "conflicts": sorted([&first, &third]), "mempoolEntry": null,
        })
    );
    assert_eq!(
        transaction(&api, third.compute_txid(), FIELDS),
        json!({
            "state": "MEMPOOL", "isSignalingRbf": true, "firstSeenAt": "2027-01-15T08:00:02Z", "fee": 900,
            "replaces": [id(&second)], "replacedBy": null, "conflicts": [txid(&second)],
            "mempoolEntry": { "addedAtHeight": 102 },
        })
    );
}

const TREE: &str = "{ txid fee vsize seenAt isFullRbf isMined replacedNodes { txid fee isFullRbf replacedNodes { txid isFullRbf replacedNodes { txid } } } }";

#[test]
fn the_tree_of_replacements_is_the_same_from_wherever_it_is_asked() {
    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let [first, second, third] = rivals(coins[0]);
    api.arrive([&first, &second, &third]);
    let txid = |of: &Transaction| json!(of.compute_txid().to_string());
    let tree = |seen_at: Value, mined: bool| {
        json!({
            "txid": txid(&third), "fee": 900, "vsize": VSIZE, "seenAt": seen_at, "isFullRbf": true, "isMined": mined,
            "replacedNodes": [{
                "txid": txid(&second), "fee": 700, "isFullRbf": false,
                "replacedNodes": [{ "txid": txid(&first), "isFullRbf": false, "replacedNodes": [] }],
            }],
        })
    };
    let waiting = tree(json!("2027-01-15T08:00:00Z"), false);
    for of in [&first, &second, &third] {
        assert_eq!(transaction(&api, of.compute_txid(), &format!("rbfTree {TREE}"))["rbfTree"], waiting);
    }
    assert_eq!(
        api.data(&format!("{{ mempool {{ replacements {{ nodes {TREE} }} }} }}"))["mempool"]["replacements"]["nodes"],
        json!([waiting])
    );

    api.connect(&chain.mine(vec![third.clone()]).unwrap());
    let mined = tree(Value::Null, true);
    assert_eq!(transaction(&api, third.compute_txid(), &format!("rbfTree {TREE}"))["rbfTree"], mined);
    assert_eq!(transaction(&api, first.compute_txid(), &format!("rbfTree {TREE}"))["rbfTree"], mined);
    let answer = transaction(&api, first.compute_txid(), "state replacedBy { txid } conflicts");
    assert_eq!((&answer["state"], &answer["replacedBy"]), (&json!("REPLACED"), &id(&second)));
    assert!(answer["conflicts"].as_array().unwrap().contains(&txid(&third)), "it is on the main chain");
}

#[test]
fn what_a_block_holds_was_not_replaced_whatever_the_mempool_remembers() {
    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let [first, second, third] = rivals(coins[0]);
    api.arrive([&first, &second, &third]);
    api.connect(&chain.mine(vec![second.clone()]).unwrap());
    let fields =
        "state replaces { txid } replacedBy { txid } rbfTree { txid isMined isFullRbf replacedNodes { txid isMined } }";
    let tree = json!({
        "txid": second.compute_txid().to_string(), "isMined": true, "isFullRbf": false,
        "replacedNodes": [{ "txid": first.compute_txid().to_string(), "isMined": false }],
    });
    assert_eq!(
        transaction(&api, second.compute_txid(), fields),
        json!({ "state": "CONFIRMED", "replaces": [id(&first)], "replacedBy": null, "rbfTree": tree })
    );
    assert_eq!(transaction(&api, first.compute_txid(), fields)["rbfTree"], tree);
    assert_eq!(
        transaction(&api, third.compute_txid(), fields),
        json!({ "state": "CONFLICTED", "replaces": [], "replacedBy": null, "rbfTree": null })
    );
    let roots = api.data("{ mempool { replacements { nodes { txid } } } }")["mempool"]["replacements"]["nodes"].take();
    assert_eq!(roots, json!([id(&second)]), "the third replaced nothing in the end");
}

#[test]
fn replacements_are_listed_newest_first_and_by_signalling() {
    let (chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let pairs: Vec<_> = [true, false, true]
        .into_iter()
        .zip(&coins)
        .map(|(signals, coin)| {
            let old = paying(*coin, 500);
            (if signals { signalling(old) } else { old }, paying(*coin, 800))
        })
        .collect();
    for (old, new) in &pairs {
        api.arrive([old, new]);
    }
    let ask = |arguments: &str| {
        let asked = format!("{{ mempool {{ replacements{arguments} {{ nodes {{ txid }} }} }} }}");
        api.data(&asked)["mempool"]["replacements"]["nodes"].take()
    };
    assert_eq!(ask(""), json!([id(&pairs[2].1), id(&pairs[1].1), id(&pairs[0].1)]));
    assert_eq!(ask("(first: 1)"), json!([id(&pairs[2].1)]));
    assert_eq!(ask("(fullRbfOnly: true)"), json!([id(&pairs[1].1)]));
    assert_eq!(refusal(&api, "replacements(first: -1) { nodes { txid } }"), json!("BAD_USER_INPUT"));
    assert_eq!(transaction(&api, pairs[0].0.compute_txid(), "rbfTree { txid }"), json!({ "rbfTree": id(&pairs[0].1) }));
}

#[test]
fn what_stood_on_a_replaced_transaction_was_not_replaced_itself() {
    let (chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let (old, new) = (paying(coins[0], 500), paying(coins[0], 5_000));
    let child = paying_of(output_of(&old), 99_500, 300);
    api.arrive([&old, &child, &new]);
    let answer = transaction(&api, child.compute_txid(), "state replacedBy { txid } rbfTree { txid } conflicts");
    assert_eq!(answer, json!({ "state": "REPLACED", "replacedBy": null, "rbfTree": null, "conflicts": [] }));
}

#[test]
fn what_a_block_made_impossible_names_its_rival() {
    let (mut chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    let (waiting, mined) = (paying(coins[0], 500), paying(coins[0], 700));
    api.arrive([&waiting]);
    api.connect(&chain.mine(vec![mined.clone()]).unwrap());
    let answer = transaction(
        &api,
        waiting.compute_txid(),
        "state replacedBy { txid } rbfTree { txid } conflicts block { hash }",
    );
    let conflicts = json!([mined.compute_txid().to_string()]);
    let expected =
        json!({ "state": "CONFLICTED", "replacedBy": null, "rbfTree": null, "conflicts": conflicts, "block": null });
    assert_eq!(answer, expected);
}

#[test]
fn what_the_mempool_let_go_of_is_evicted() {
    let (chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    for (coin, departure) in coins.iter().zip([Departure::Expired, Departure::Evicted, Departure::Unknown]) {
        let gone = paying(*coin, 500);
        api.arrive([&gone]);
        api.depart(&gone.compute_txid(), departure);
        let answer = transaction(&api, gone.compute_txid(), "state firstSeenAt fee confirmations conflicts hex");
        let expected = json!({
            "state": "EVICTED", "firstSeenAt": "2027-01-15T08:00:00Z", "fee": 500, "confirmations": 0, "conflicts": [],
            "hex": bitcoin::consensus::encode::serialize_hex(&gone),
        });
        assert_eq!(answer, expected, "{departure:?}");
    }
}

#[test]
fn a_transaction_without_bytes_is_in_replacement_trees_only() {
    let (chain, coins) = chain_with_coins(1);
    let mut api = Api::of_chain(&chain);
    api.remember(MempoolLimits { departed_bytes: 0, ..MempoolLimits::default() });
    let (old, new) = (paying(coins[0], 500), paying(coins[0], 700));
    api.arrive([&old, &new]);
    let gone = api.data(&format!("{{ transaction(txid: \"{}\") {{ txid }} }}", old.compute_txid()));
    assert_eq!(gone, json!({ "transaction": null }));
    let answer = transaction(&api, new.compute_txid(), &format!("replaces {{ txid }} conflicts rbfTree {TREE}"));
    let txid = old.compute_txid().to_string();
    assert_eq!((&answer["replaces"], &answer["conflicts"]), (&json!([]), &json!([txid])));
    let replaced = json!([{ "txid": txid, "fee": 500, "isFullRbf": false, "replacedNodes": [] }]);
    assert_eq!(answer["rbfTree"]["replacedNodes"], replaced);
    assert_eq!(answer["rbfTree"]["isFullRbf"], json!(false), "nothing says whether it signalled");
}

#[test]
fn a_coinbase_signals_nothing() {
    let (chain, _) = chain_with_coins(1);
    let api = Api::of_chain(&chain);
    let answer = api.data("{ tip { transactions { nodes { isCoinbase isSignalingRbf replaces { txid } rbfTree { txid } conflicts firstSeenAt } } } }");
    let coinbase = json!({
        "isCoinbase": true, "isSignalingRbf": false, "replaces": [], "rbfTree": null, "conflicts": [], "firstSeenAt": null,
    });
    assert_eq!(answer["tip"]["transactions"]["nodes"][0], coinbase);
}
