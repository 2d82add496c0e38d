//! A client that asks for a balance every few moments, while the index catches up from nothing and the node changes its
//! mind again and again: each answer is that of exactly one block of the node, or says that there is none yet.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bitcoin::consensus::encode::deserialize_hex;
use bitcoin::{Block, OutPoint, ScriptBuf};
use serde_json::{Value, json};

use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::test_process::TestProcess;

const PAUSE: Duration = Duration::from_millis(50);

/// What a script received and spent up to a block, and the amounts that it holds.
#[derive(Clone, Default)]
struct Figures {
    received: u64,
    spent: u64,
    coins: HashMap<OutPoint, u64>,
}

/// The figures of a script right after any block of the node, from the blocks alone.
struct Chain<'n> {
    node: &'n RealNode,
    script: ScriptBuf,
    known: HashMap<String, (u64, Figures)>,
}

impl Chain<'_> {
    /// The height of a block, and the figures right after it.
    fn at(&mut self, hash: &str) -> (u64, Figures) {
        let mut path = vec![hash.to_owned()];
        while !self.known.contains_key(path.last().unwrap()) {
            let header = self.node.must("getblockheader", &[json!(path.last())]);
            let Some(previous) = header["previousblockhash"].as_str() else {
                // the genesis coinbase is nobody's
                self.known.insert(path.last().unwrap().clone(), (0, Figures::default()));
                break;
            };
            path.push(previous.to_owned());
        }
        let (mut height, mut figures) = self.known[&path.pop().unwrap()].clone();
        for hash in path.into_iter().rev() {
            let hex = self.node.must("getblock", &[json!(hash), json!(0)]);
            let block: Block = deserialize_hex(hex.as_str().unwrap()).unwrap();
            for transaction in &block.txdata {
                let spent = transaction.input.iter().filter_map(|input| figures.coins.remove(&input.previous_output));
                figures.spent += spent.sum::<u64>();
                let txid = transaction.compute_txid();
                for (vout, output) in (0..).zip(&transaction.output) {
                    if output.script_pubkey == self.script {
                        figures.received += output.value.to_sat();
                        figures.coins.insert(OutPoint { txid, vout }, output.value.to_sat());
                    }
                }
            }
            height += 1;
            self.known.insert(hash, (height, figures.clone()));
        }
        (height, figures)
    }
}

/// Pays the watched address from the wallet, which spends what it was paid before, and mines that.
fn churn(node: &RealNode, watched: &str) {
    for amount in [0.5, 1.25] {
        node.must("sendtoaddress", &[json!(watched), json!(amount)]);
    }
    // the coins of the watched address are spent as well, and come back in part
    let coins = node.must("listunspent", &[json!(1), json!(9_999_999), json!([watched])]);
    let coins = coins.as_array().unwrap();
    if let Some(coin) = coins.iter().max_by_key(|coin| coin["confirmations"].as_u64()) {
        let inputs = json!([{ "txid": coin["txid"], "vout": coin["vout"] }]);
        let elsewhere = node.wallet_address("bech32");
        let options = json!({ "inputs": inputs, "add_inputs": true, "change_address": watched });
        node.must("send", &[json!([{ elsewhere: 0.1 }]), Value::Null, json!("unset"), json!(2), options]);
    }
    node.mine(1);
}

#[test]
fn whatever_is_answered_is_the_figure_of_one_block_while_the_index_catches_up_and_the_node_reorganises() {
    let Some(node) = RealNode::start(&[]) else { return };
    let miner = node.wallet_address("bech32");
    let watched = node.wallet_address("bech32");
    node.mine_to(&miner, 110);
    node.mine_to(&watched, 5);
    for _ in 0..12 {
        churn(&node, &watched);
    }
    let document = format!(
        "{{ tip {{ height hash }} address(address: \"{watched}\") {{ balance {{ confirmed }} stats {{ received spent }}
            utxos(first: 100, filter: {{ minConfirmations: 1, includeSpentInMempool: true }}) {{
                totalValue totalCount nodes {{ value }} }} }} }}"
    );
    let directory = tempfile::tempdir().unwrap();
    let served = TestProcess::start(&node, directory.path());
    let (answers, done) = (Mutex::new(Vec::<Value>::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                answers.lock().unwrap().push(served.query(&document));
                std::thread::sleep(PAUSE);
            }
        });
        // ends the poller even if this thread panics
        let _end = OnDrop(|| done.store(true, Ordering::Relaxed));
        let seen = |hash: &Value| {
            wait_for("an answer at the new tip", Duration::from_mins(1), || {
                answers.lock().unwrap().iter().any(|answer| answer["data"]["tip"]["hash"] == *hash).then_some(())
            });
        };
        seen(&node.must("getbestblockhash", &[]));
        for depth in [1, 6, 2] {
            let tip = node.must("getblockcount", &[]).as_u64().unwrap();
            let root = node.must("getblockhash", &[json!(tip - depth + 1)]);
            node.must("invalidateblock", &[root]);
            // the first block of the new branch leaves the payments out
            let nobody = node.wallet_address("bech32m");
            node.must("generateblock", &[json!(nobody), json!([])]);
            for _ in 0..=depth {
                churn(&node, &watched);
            }
            seen(&node.must("getbestblockhash", &[]));
        }
    });
    assert_answers(&node, &watched, &answers.into_inner().unwrap());
}

fn assert_answers(node: &RealNode, watched: &str, answers: &[Value]) {
    let script = node.must("getaddressinfo", &[json!(watched)])["scriptPubKey"].as_str().unwrap().to_owned();
    let mut chain = Chain { node, script: ScriptBuf::from_hex(&script).unwrap(), known: HashMap::new() };
    let mut tips = std::collections::BTreeSet::new();
    for answer in answers {
        if let Some(errors) = answer.get("errors") {
            let errors = errors.as_array().unwrap();
            assert!(errors.iter().all(|error| error["extensions"]["code"] == json!("NOT_READY")), "{answer}");
            assert_eq!(answer["data"], json!({ "tip": null, "address": null }), "{answer}");
            continue;
        }
        let (tip, ledger) = (&answer["data"]["tip"], &answer["data"]["address"]);
        let (height, figures) = chain.at(tip["hash"].as_str().unwrap());
        let held: u64 = figures.coins.values().sum();
        let mut values: Vec<u64> = figures.coins.values().copied().collect();
        values.sort_unstable();
        let mut reported: Vec<u64> =
            ledger["utxos"]["nodes"].as_array().unwrap().iter().map(|coin| coin["value"].as_u64().unwrap()).collect();
        reported.sort_unstable();
        assert_eq!(figures.received - figures.spent, held);
        assert_eq!(tip["height"], json!(height));
        assert_eq!(ledger["balance"], json!({ "confirmed": held }), "at {tip}");
        let (received, spent) = (figures.received.to_string(), figures.spent.to_string());
        assert_eq!(ledger["stats"], json!({ "received": received, "spent": spent }), "at {tip}");
        assert_eq!(ledger["utxos"]["totalValue"], json!(held), "at {tip}");
        assert_eq!(ledger["utxos"]["totalCount"], json!(values.len()), "at {tip}");
        assert_eq!(reported, values, "at {tip}");
        tips.insert(tip["hash"].as_str().unwrap().to_owned());
    }
    assert!(tips.len() >= 4, "{} tips were answered for", tips.len());
}

/// Runs something at the end of its scope.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
