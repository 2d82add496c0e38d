//! What waits: counts and sums over all of it, who stands on whom, and what it changes.

use std::collections::{BTreeMap, BTreeSet};

use btcgraph::sim::Rng;
use serde_json::Value;

use super::figures::{Checked, at, count, flag, holds, int, list, rows, same, sum, text, whole};

const ORDERS: [&str; 4] = ["FEE_RATE", "EFFECTIVE_FEE_RATE", "ARRIVAL", "VALUE"];

/// Sums over all of it, and over how miners and bins divide it.
pub(super) fn sums(random: &mut Rng) -> String {
    let order = random.choose(&ORDERS).unwrap();
    format!(
        "mempool {{
            stats {{ txCount totalVsize totalWeight totalSize totalFees sequence outputCount }}
            txids(first: 100) {{ totalCount pageInfo {{ hasNextPage }} nodes }}
            transactions(first: 100, order: {order}) {{ totalCount pageInfo {{ hasNextPage }} nodes {{
                txid fee vsize adjustedVsize weight size outputCount totalInputValue totalOutputValue }} }}
            newest: transactions(order: ARRIVAL, first: 5) {{ nodes {{ txid outputs(first: 5) {{ nodes {{ scriptPubKey address }} }} }} }}
            projectedBlocks(first: 8) {{ index txCount vsize weight totalFees
                transactions(first: 100) {{ totalCount pageInfo {{ hasNextPage }} nodes {{ txid fee }} }} }}
            feeHistogram {{ fromRate toRate txCount totalVsize cumulativeVsize }}
            effectiveBins: feeHistogram(effective: true) {{ fromRate toRate txCount totalVsize cumulativeVsize }} }}"
    )
}

pub(super) fn check_sums(data: &Value) -> Checked {
    let mempool = at(data, "mempool");
    let stats = |part: &str| int(mempool, &format!("stats.{part}"));
    same("sequence", stats("sequence"), int(data, "first.mempoolSequence"))?;
    same("the count in every answer", stats("txCount"), int(data, "waiting.stats.txCount"))?;
    same("the fees in every answer", stats("totalFees"), int(data, "waiting.stats.totalFees"))?;
    same("txids", int(mempool, "txids.totalCount"), stats("txCount"))?;
    same("transactions", int(mempool, "transactions.totalCount"), stats("txCount"))?;
    for transaction in rows(mempool, "transactions") {
        let left = int(transaction, "totalInputValue") - int(transaction, "totalOutputValue");
        same("fee", int(transaction, "fee"), left)?;
        same("vsize", int(transaction, "vsize"), (int(transaction, "weight") + 3) / 4)?;
    }
    let newest: Vec<_> = rows(mempool, "newest").iter().map(|transaction| at(transaction, "txid")).collect();
    let listed: Vec<_> = rows(mempool, "txids").iter().collect();
    same("the newest", &newest[..], &listed[..newest.len()])?;
    if let Some(transactions) = whole(mempool, "transactions") {
        same("all transactions", count(transactions), stats("txCount"))?;
        check_bins(list(mempool, "feeHistogram"), stats("txCount"), sum(transactions, "vsize"))?;
        for (part, path) in [
            ("totalVsize", "adjustedVsize"),
            ("totalWeight", "weight"),
            ("totalSize", "size"),
            ("totalFees", "fee"),
            ("outputCount", "outputCount"),
        ] {
            same(part, stats(part), sum(transactions, path))?;
        }
        let listed: BTreeSet<_> = listed.iter().filter_map(|txid| txid.as_str()).collect();
        same("the same in both lists", transactions.iter().map(|one| text(one, "txid")).collect(), listed)?;
    }
    check_bins(list(mempool, "effectiveBins"), stats("txCount"), stats("totalVsize"))?;
    check_projected(mempool)
}

fn check_bins(bins: &[Value], all: i128, vsize: i128) -> Checked {
    same("transactions in bins", sum(bins, "txCount"), all)?;
    same("vbytes in bins", sum(bins, "totalVsize"), vsize)?;
    let mut above = 0;
    for bin in bins {
        above += int(bin, "totalVsize");
        same("vbytes above", int(bin, "cumulativeVsize"), above)?;
    }
    Ok(())
}

fn check_projected(mempool: &Value) -> Checked {
    let stats = |part: &str| int(mempool, &format!("stats.{part}"));
    let blocks = list(mempool, "projectedBlocks");
    let mut projected = BTreeSet::new();
    for (index, block) in (0..).zip(blocks) {
        same("number of a projected block", int(block, "index"), index)?;
        same("transactions of a projected block", int(block, "transactions.totalCount"), int(block, "txCount"))?;
        holds("room in a projected block", int(block, "weight") <= 3_992_000)?;
        for transaction in rows(block, "transactions") {
            holds("projected twice", projected.insert(text(transaction, "txid")))?;
        }
        if let Some(transactions) = whole(block, "transactions") {
            same("fees of a projected block", sum(transactions, "fee"), int(block, "totalFees"))?;
        }
    }
    // so little fits into the blocks asked for
    for (part, path) in
        [("txCount", "txCount"), ("totalVsize", "vsize"), ("totalWeight", "weight"), ("totalFees", "totalFees")]
    {
        same(part, stats(part), sum(blocks, path))?;
    }
    if blocks.iter().all(|block| whole(block, "transactions").is_some())
        && let Some(all) = whole(mempool, "txids")
    {
        same("what is projected", projected, all.iter().filter_map(Value::as_str).collect())?;
    }
    Ok(())
}

/// Who stands on whom.
pub(super) fn relatives(random: &mut Rng) -> String {
    let order = random.choose(&ORDERS).unwrap();
    format!(
        "mempool {{ transactions(first: 12, order: {order}) {{ pageInfo {{ hasNextPage }} nodes {{
            txid state confirmations indexInBlock fee inputCount block {{ hash }} merkleProof {{ position }}
            mempoolEntry {{ ancestorCount totalAncestorFees totalAncestorVsize descendantCount totalDescendantFees totalDescendantVsize
                isSpendingUnconfirmed projectedBlockIndex parents {{ txid }} children {{ txid }} }} adjustedVsize
            inputs(first: 4) {{ pageInfo {{ hasNextPage }} nodes {{ index prevout {{ spendStatus spentHeight
                spentBy {{ index }} spentInMempoolBy {{ index transaction {{ txid }} }}
                transaction {{ txid state }} }} }} }} }} }} }}"
    )
}

pub(super) fn check_relatives(data: &Value) -> Checked {
    let transactions = rows(at(data, "mempool"), "transactions");
    let by_txid: BTreeMap<_, _> = transactions.iter().map(|one| (text(one, "txid"), one)).collect();
    for (txid, transaction) in &by_txid {
        same("state", text(transaction, "state"), "MEMPOOL")?;
        same("confirmations", int(transaction, "confirmations"), 0)?;
        for field in ["block", "indexInBlock", "merkleProof"] {
            holds("in the chain and in the mempool", at(transaction, field).is_null())?;
        }
        let entry = at(transaction, "mempoolEntry");
        let txids = |field: &str| -> BTreeSet<_> { list(entry, field).iter().map(|one| text(one, "txid")).collect() };
        let parents = txids("parents");
        same("unconfirmed inputs", flag(entry, "isSpendingUnconfirmed"), !parents.is_empty())?;
        for (relatives, kind, kinds) in
            [(&parents, "ancestor", "Ancestor"), (&txids("children"), "descendant", "Descendant")]
        {
            let reported = int(entry, &format!("{kind}Count"));
            holds("fewer relatives than the nearest", reported > count(relatives))?;
            same("relatives without near ones", reported == 1, relatives.is_empty())?;
            if relatives.is_empty() {
                same("its own fee", int(entry, &format!("total{kinds}Fees")), int(transaction, "fee"))?;
                same("its own size", int(entry, &format!("total{kinds}Vsize")), int(transaction, "adjustedVsize"))?;
            }
        }
        // who is a parent of whom, from both sides
        for parent in parents.iter().filter_map(|parent| by_txid.get(parent)) {
            let children = list(parent, "mempoolEntry.children");
            holds("a parent does not know its child", children.iter().any(|child| text(child, "txid") == *txid))?;
            let order = |one: &Value| int(one, "mempoolEntry.projectedBlockIndex");
            holds("a child is mined before its parent", order(parent) <= order(transaction))?;
        }
        check_prevouts(transaction, &parents)?;
    }
    Ok(())
}

fn check_prevouts(transaction: &Value, parents: &BTreeSet<&str>) -> Checked {
    let mut spent = BTreeSet::new();
    for input in rows(transaction, "inputs") {
        let prevout = at(input, "prevout");
        same("spent", text(prevout, "spendStatus"), "SPENT_IN_MEMPOOL")?;
        for field in ["spentBy", "spentHeight"] {
            holds("spent in the chain and in the mempool", at(prevout, field).is_null())?;
        }
        let [spender] = list(prevout, "spentInMempoolBy") else { return Err("not one spender".to_owned()) };
        same("spender", at(spender, "transaction.txid"), at(transaction, "txid"))?;
        same("spending input", at(spender, "index"), at(input, "index"))?;
        let parent = text(prevout, "transaction.txid");
        match text(prevout, "transaction.state") {
            "MEMPOOL" => holds("an unknown parent", parents.contains(parent))?,
            "CONFIRMED" => holds("a confirmed parent waits", !parents.contains(parent))?,
            other => return Err(format!("a parent is {other}")),
        }
        spent.insert(parent);
    }
    let Some(inputs) = whole(transaction, "inputs") else { return Ok(()) };
    same("inputs", count(inputs), int(transaction, "inputCount"))?;
    holds("a parent of which nothing is spent", parents.iter().all(|parent| spent.contains(parent)))
}

/// By how much each script changes.
pub(super) fn balance_changes() -> String {
    "mempool {
        stats { totalFees }
        balanceChanges(first: 30) { totalCount pageInfo { hasNextPage } nodes {
            address net received spent txCount script { scriptHash address stats { mempoolTxCount }
                balance { confirmed pendingIn spentInMempool unconfirmedDelta total } } } }
        transactions(first: 100, order: ARRIVAL) { pageInfo { hasNextPage } nodes { txid totalInputValue totalOutputValue } } }"
        .to_owned()
}

pub(super) fn check_balance_changes(data: &Value) -> Checked {
    let mempool = at(data, "mempool");
    let changes = rows(mempool, "balanceChanges");
    for change in changes {
        same("net", int(change, "net"), int(change, "received") - int(change, "spent"))?;
        let balance = at(change, "script.balance");
        same("received", int(change, "received"), int(balance, "pendingIn"))?;
        same("spent", int(change, "spent"), int(balance, "spentInMempool"))?;
        same("delta", int(change, "net"), int(balance, "unconfirmedDelta"))?;
        same("total", int(balance, "total"), int(balance, "confirmed") + int(change, "net"))?;
        same("transactions", int(change, "txCount"), int(change, "script.stats.mempoolTxCount"))?;
        same("address", at(change, "address"), at(change, "script.address"))?;
    }
    for pair in changes.windows(2) {
        holds("order of scripts", text(&pair[0], "script.scriptHash") < text(&pair[1], "script.scriptHash"))?;
    }
    let (Some(changes), Some(transactions)) = (whole(mempool, "balanceChanges"), whole(mempool, "transactions")) else {
        return Ok(());
    };
    same("number of scripts", int(mempool, "balanceChanges.totalCount"), count(changes))?;
    same("all that is spent", sum(changes, "spent"), sum(transactions, "totalInputValue"))?;
    // what is paid to nobody is missing
    holds("all that is paid", sum(changes, "received") <= sum(transactions, "totalOutputValue"))?;
    let fees = sum(transactions, "totalInputValue") - sum(transactions, "totalOutputValue");
    same("all fees", int(mempool, "stats.totalFees"), fees)
}
