//! A block, its transactions, and where it stands.

use bitcoin::Txid;
use bitcoin::hashes::{Hash, sha256d};
use btcgraph::sim::Rng;
use serde_json::Value;

use super::figures::{Checked, at, count, holds, int, list, rows, same, sum, text, whole};
use super::known::Known;

/// What is answered for a transaction of a block.
const TRANSACTION: &str =
    "txid state confirmations block { hash } indexInBlock size weight isCoinbase inputCount outputCount
    totalInputValue totalOutputValue fee mempoolEntry { addedAt } merkleProof { blockHash height position merkleBranch root }";
const SUMS: &str = "cumulative { txCount inputCount outputCount outputValue fees subsidy size weight utxoCount }";

/// The tip, or a block by height or hash, on the main chain or off it.
pub(super) fn parts(known: &Known, random: &mut Rng) -> String {
    let hash = random.choose(&known.blocks).cloned();
    let block = match (random.index(3), hash) {
        (0, Some(hash)) => format!("block(hash: \"{hash}\")"),
        (1, _) => format!("block(height: {})", known.height.saturating_sub(random.below(10))),
        _ => "tip".to_owned(),
    };
    format!(
        "asked: {block} {{
            hash height chainStatus confirmations txCount size weight subsidy totalFees coinbaseValue unclaimedReward
            merkleRoot txids feeStats {{ totalFees minFee maxFee averageFee }}
            stats {{ inputCount outputCount totalInputValue totalOutputValue utxoDelta outputsByType {{ outputCount totalValue }} }}
            {SUMS} previousBlock {{ hash height chainStatus nextBlock {{ hash }} {SUMS} }} nextBlock {{ hash previousBlock {{ hash }} }}
            siblings {{ hash height chainStatus }}
            transactions(first: 25) {{ totalCount pageInfo {{ hasNextPage }} nodes {{ {TRANSACTION} }} }} }}
         mempool {{ txids(first: 100) {{ nodes }} }}"
    )
}

pub(super) fn check(data: &Value) -> Checked {
    let block = at(data, "asked");
    if block.is_null() {
        // above the tip
        return Ok(());
    }
    let tip = int(data, "tip.height");
    let is_main = text(block, "chainStatus") == "MAIN";
    let (hash, height) = (text(block, "hash"), int(block, "height"));
    same("confirmations", int(block, "confirmations"), if is_main { tip + 1 - height } else { 0 })?;
    same("whether there is a next", !at(block, "nextBlock").is_null(), is_main && height < tip)?;
    if !at(block, "nextBlock").is_null() {
        same("what is before the next", text(block, "nextBlock.previousBlock.hash"), hash)?;
    }
    let mains = list(block, "siblings").iter().filter(|sibling| text(sibling, "chainStatus") == "MAIN").count();
    holds("two blocks of one height on the main chain", mains <= usize::from(!is_main))?;
    holds("a sibling of another height", list(block, "siblings").iter().all(|one| int(one, "height") == height))?;
    holds("its own sibling", list(block, "siblings").iter().all(|one| text(one, "hash") != hash))?;
    check_sums(block)?;
    for transaction in rows(block, "transactions") {
        let proof = at(transaction, "merkleProof");
        if is_main {
            same("root", at(proof, "root"), at(block, "merkleRoot"))?;
            same("height", int(proof, "height"), height)?;
        }
    }
    if is_main {
        let previous = at(block, "previousBlock");
        same("whether there is a previous", !previous.is_null(), height > 0)?;
        if height > 0 {
            same("height of the previous", int(previous, "height"), height - 1)?;
            same("status of the previous", text(previous, "chainStatus"), "MAIN")?;
            same("what is next to the previous", text(previous, "nextBlock.hash"), hash)?;
            check_cumulative(block)?;
        }
        for txid in list(data, "mempool.txids.nodes") {
            holds("in the chain and in the mempool", !list(block, "txids").contains(txid))?;
        }
    }
    check_transactions(block, is_main)
}

fn check_sums(block: &Value) -> Checked {
    let figure = |path: &str| int(block, path);
    same("reward", figure("coinbaseValue") + figure("unclaimedReward"), figure("subsidy") + figure("totalFees"))?;
    same("fees", figure("feeStats.totalFees"), figure("totalFees"))?;
    // what is spent comes out again, less what nobody claimed, and what was issued
    let created = figure("stats.totalOutputValue") - figure("coinbaseValue");
    same("what is paid", figure("stats.totalInputValue"), created + figure("totalFees"))?;
    same("txids", count(list(block, "txids")), figure("txCount"))?;
    same("number of transactions", figure("transactions.totalCount"), figure("txCount"))?;
    if !at(block, "stats.outputsByType").is_null() {
        let types = list(block, "stats.outputsByType");
        same("outputs by type", sum(types, "outputCount"), figure("stats.outputCount"))?;
        same("values by type", sum(types, "totalValue"), figure("stats.totalOutputValue"))?;
    }
    if figure("txCount") > 1 {
        let average = figure("totalFees") / (figure("txCount") - 1);
        same("average fee", figure("feeStats.averageFee"), average)?;
        holds("lowest and highest fee", (figure("feeStats.minFee")..=figure("feeStats.maxFee")).contains(&average))?;
    }
    Ok(())
}

/// All that there was before it, and what it adds.
fn check_cumulative(block: &Value) -> Checked {
    let adds = |part: &str| {
        int(block, &format!("cumulative.{part}")) - int(block, &format!("previousBlock.cumulative.{part}"))
    };
    for (part, path) in [
        ("txCount", "txCount"),
        ("inputCount", "stats.inputCount"),
        ("outputCount", "stats.outputCount"),
        ("outputValue", "stats.totalOutputValue"),
        ("fees", "totalFees"),
        ("subsidy", "subsidy"),
        ("size", "size"),
        ("weight", "weight"),
        ("utxoCount", "stats.utxoDelta"),
    ] {
        same(part, adds(part), int(block, path))?;
    }
    Ok(())
}

fn check_transactions(block: &Value, is_main: bool) -> Checked {
    for (index, (transaction, txid)) in rows(block, "transactions").iter().zip(list(block, "txids")).enumerate() {
        same("order of transactions", at(transaction, "txid"), txid)?;
        let is_coinbase = index == 0;
        same("coinbase", at(transaction, "isCoinbase"), &Value::Bool(is_coinbase))?;
        // what a stale block spends may be of another one that is not kept any more
        if !is_main && at(transaction, "totalInputValue").is_null() {
            same("fee", at(transaction, "fee"), &Value::Null)?;
        } else if !is_coinbase {
            let left = int(transaction, "totalInputValue") - int(transaction, "totalOutputValue");
            same("fee", int(transaction, "fee"), left)?;
        }
        if is_main {
            same("state", text(transaction, "state"), "CONFIRMED")?;
            same("block", at(transaction, "block.hash"), at(block, "hash"))?;
            same("index", int(transaction, "indexInBlock"), i128::try_from(index).unwrap())?;
        }
        check_proof(transaction)?;
    }
    let Some(transactions) = whole(block, "transactions") else { return Ok(()) };
    let (coinbase, others) = transactions.split_first().unwrap();
    same("inputs of the transactions", sum(others, "inputCount"), int(block, "stats.inputCount"))?;
    same("outputs of the transactions", sum(transactions, "outputCount"), int(block, "stats.outputCount"))?;
    same("what they pay", sum(transactions, "totalOutputValue"), int(block, "stats.totalOutputValue"))?;
    same("what the coinbase pays", int(coinbase, "totalOutputValue"), int(block, "coinbaseValue"))?;
    // a header, and how many transactions there are
    same("their size", sum(transactions, "size") + 81, int(block, "size"))?;
    same("their weight", sum(transactions, "weight") + 4 * 81, int(block, "weight"))?;
    // a stale block keeps its own figures, though what its transactions spend may be gone
    if !is_main && others.iter().any(|one| at(one, "fee").is_null()) {
        let known = others.iter().filter(|one| !at(one, "fee").is_null());
        return holds("fees above those of the block", sum(known, "fee") <= int(block, "totalFees"));
    }
    same("fees of the transactions", sum(others, "fee"), int(block, "totalFees"))?;
    let lowest = others.iter().map(|one| int(one, "fee")).min().unwrap_or_default();
    let highest = others.iter().map(|one| int(one, "fee")).max().unwrap_or_default();
    same("lowest fee", int(block, "feeStats.minFee"), lowest)?;
    same("highest fee", int(block, "feeStats.maxFee"), highest)
}

/// What is true of every transaction: it is in one place, and a block shows that it holds it.
pub(super) fn check_proof(transaction: &Value) -> Checked {
    let (state, proof, block) = (text(transaction, "state"), at(transaction, "merkleProof"), at(transaction, "block"));
    same("waiting", state == "MEMPOOL", !at(transaction, "mempoolEntry").is_null())?;
    same("in a block", state == "CONFIRMED", !block.is_null())?;
    same("provable", state == "CONFIRMED", !proof.is_null())?;
    same("index in a block", state == "CONFIRMED", !at(transaction, "indexInBlock").is_null())?;
    same("confirmed", state == "CONFIRMED", int(transaction, "confirmations") > 0)?;
    if proof.is_null() {
        return Ok(());
    }
    same("block of the proof", at(proof, "blockHash"), at(block, "hash"))?;
    same("place", at(proof, "position"), at(transaction, "indexInBlock"))?;
    let parse = |text: &str| text.parse::<Txid>().unwrap().to_byte_array();
    let (mut node, mut position) = (parse(text(transaction, "txid")), int(proof, "position"));
    for partner in list(proof, "merkleBranch") {
        let partner = parse(partner.as_str().unwrap());
        let pair = if position % 2 == 0 { [node, partner] } else { [partner, node] };
        node = sha256d::Hash::hash(&pair.concat()).to_byte_array();
        position /= 2;
    }
    same("position above the root", position, 0)?;
    same("merkle root", Txid::from_byte_array(node).to_string().as_str(), text(proof, "root"))
}
