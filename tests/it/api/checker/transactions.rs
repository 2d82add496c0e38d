//! Transactions that were heard of, wherever they are now, with what they spend and what spends them.

use btcgraph::sim::Rng;
use serde_json::{Value, json};

use super::blocks::check_proof;
use super::figures::{Checked, at, count, holds, int, list, rows, same, sum, text, whole};
use super::known::Known;

const SPENDERS: &str = "spendStatus unspendableReason spentHeight
    spentBy { index transaction { txid state block { height } } }
    spentInMempoolBy { index transaction { txid state } }";

pub(super) fn parts(known: &Known, random: &mut Rng) -> String {
    let mut txids: Vec<_> = (0..3).filter_map(|_| random.choose(&known.txids)).collect();
    txids.sort_unstable();
    txids.dedup();
    format!(
        "transactionsByTxid(txids: {}) {{
            txid state confirmations block {{ hash height chainStatus }} indexInBlock isCoinbase mempoolEntry {{ addedAt }}
            merkleProof {{ blockHash position merkleBranch root }} fee totalInputValue totalOutputValue inputCount outputCount
            occurrences {{ index isOnMainChain block {{ hash chainStatus }} }}
            replacedBy {{ txid state }} conflicts
            inputs(first: 4) {{ pageInfo {{ hasNextPage }} nodes {{ index
                prevout {{ outpoint {{ text }} value transaction {{ state }} {SPENDERS} }} }} }}
            outputs(first: 5) {{ pageInfo {{ hasNextPage }} nodes {{ outpoint {{ text }} value scriptPubKey address {SPENDERS} }} }} }}
         mempool {{ txids(first: 100) {{ pageInfo {{ hasNextPage }} nodes }} }}",
        json!(txids)
    )
}

pub(super) fn check(data: &Value) -> Checked {
    for transaction in list(data, "transactionsByTxid") {
        // what left long ago is forgotten
        if !transaction.is_null() {
            check_one(data, transaction)?;
        }
    }
    Ok(())
}

fn check_one(data: &Value, transaction: &Value) -> Checked {
    let state = text(transaction, "state");
    check_proof(transaction)?;
    let main = list(transaction, "occurrences").iter().filter(|one| at(one, "isOnMainChain") == &json!(true));
    let main: Vec<_> = main.collect();
    same("blocks of the main chain that hold it", count(&main), i128::from(state == "CONFIRMED"))?;
    for occurrence in list(transaction, "occurrences") {
        let status = if at(occurrence, "isOnMainChain") == &json!(true) { "MAIN" } else { "STALE" };
        same("status of a block that holds it", text(occurrence, "block.chainStatus"), status)?;
    }
    if let [main] = main[..] {
        same("its block", at(main, "block.hash"), at(transaction, "block.hash"))?;
        same("its index", at(main, "index"), at(transaction, "indexInBlock"))?;
        let confirmations = int(data, "tip.height") + 1 - int(transaction, "block.height");
        same("confirmations", int(transaction, "confirmations"), confirmations)?;
        same("status of its block", text(transaction, "block.chainStatus"), "MAIN")?;
    }
    let waiting = list(data, "mempool.txids.nodes").contains(at(transaction, "txid"));
    holds("it waits and is elsewhere", !waiting || state == "MEMPOOL")?;
    if whole(at(data, "mempool"), "txids").is_some() {
        same("whether it waits", waiting, state == "MEMPOOL")?;
    }
    if !at(transaction, "replacedBy").is_null() {
        let by = at(transaction, "replacedBy");
        holds("both are there", !is_there(state) || !is_there(text(by, "state")))?;
        holds("no conflict with what replaced it", list(transaction, "conflicts").contains(at(by, "txid")))?;
    }
    if !at(transaction, "fee").is_null() && at(transaction, "isCoinbase") == &json!(false) {
        same(
            "fee",
            int(transaction, "fee"),
            int(transaction, "totalInputValue") - int(transaction, "totalOutputValue"),
        )?;
    }
    check_inputs(transaction, state)?;
    check_outputs(transaction, state)
}

fn is_there(state: &str) -> bool {
    matches!(state, "MEMPOOL" | "CONFIRMED")
}

fn check_inputs(transaction: &Value, state: &str) -> Checked {
    if at(transaction, "isCoinbase") == &json!(true) {
        return same("what a coinbase spends", at(transaction, "fee"), &Value::Null);
    }
    for input in rows(transaction, "inputs") {
        let prevout = at(input, "prevout");
        if prevout.is_null() {
            holds("what it spends is not there", !is_there(state))?;
            continue;
        }
        check_spenders(prevout, text(prevout, "transaction.state"))?;
        let spender = match state {
            "MEMPOOL" => list(prevout, "spentInMempoolBy").first(),
            "CONFIRMED" => Some(at(prevout, "spentBy")).filter(|spender| !spender.is_null()),
            _ => {
                let spenders = list(prevout, "spentInMempoolBy").iter().chain([at(prevout, "spentBy")]);
                let spenders = spenders.filter(|spender| !spender.is_null());
                for spender in spenders {
                    holds("it is gone and spends", at(spender, "transaction.txid") != at(transaction, "txid"))?;
                }
                continue;
            }
        };
        let Some(spender) = spender else { return Err("what it spends is not spent".to_owned()) };
        same("what spends it", at(spender, "transaction.txid"), at(transaction, "txid"))?;
        same("which input spends it", at(spender, "index"), at(input, "index"))?;
    }
    if let Some(inputs) = whole(transaction, "inputs")
        && is_there(state)
    {
        same("inputs", count(inputs), int(transaction, "inputCount"))?;
        same("what it spends", sum(inputs, "prevout.value"), int(transaction, "totalInputValue"))?;
    }
    Ok(())
}

fn check_outputs(transaction: &Value, state: &str) -> Checked {
    for output in rows(transaction, "outputs") {
        check_spenders(output, state)?;
    }
    let Some(outputs) = whole(transaction, "outputs") else { return Ok(()) };
    same("outputs", count(outputs), int(transaction, "outputCount"))?;
    same("what it pays", sum(outputs, "value"), int(transaction, "totalOutputValue"))
}

/// Whether what is answered for an output agrees with what spends it.
fn check_spenders(output: &Value, state: &str) -> Checked {
    let (by, waiting) = (at(output, "spentBy"), list(output, "spentInMempoolBy"));
    let expected = if !is_there(state) {
        None
    } else if !by.is_null() {
        Some("SPENT")
    } else if !waiting.is_empty() {
        Some("SPENT_IN_MEMPOOL")
    } else if !at(output, "unspendableReason").is_null() {
        Some("UNSPENDABLE")
    } else {
        Some("UNSPENT")
    };
    same("spend status", at(output, "spendStatus").as_str(), expected)?;
    holds("spent twice", waiting.len() <= usize::from(by.is_null()))?;
    same("height of the spend", at(output, "spentHeight").is_null(), by.is_null())?;
    for spender in waiting {
        same("what spends it waits", text(spender, "transaction.state"), "MEMPOOL")?;
    }
    if !by.is_null() {
        same("what spends it is confirmed", text(by, "transaction.state"), "CONFIRMED")?;
        same("where it is spent", int(output, "spentHeight"), int(by, "transaction.block.height"))?;
        holds("a block spends what none creates", state == "CONFIRMED")?;
    }
    Ok(())
}
