//! What left the main chain, and what took its place.

use std::collections::BTreeSet;

use serde_json::Value;

use super::figures::{Checked, at, count, holds, int, rows, same, text};

/// How many of each list of a reorganisation are asked for.
const FIRST: i128 = 12;

pub(super) fn parts() -> String {
    format!(
        "reorgs(first: 2) {{ nodes {{ id depth forkHeight forkHash
            disconnected(first: {FIRST}) {{ totalCount nodes {{ hash height block {{ hash height chainStatus confirmations reorg {{ id }} }} }} }}
            connected(first: {FIRST}) {{ totalCount nodes {{ hash height block {{ hash height chainStatus confirmations }} }} }}
            returnedToMempool(first: {FIRST}) {{ totalCount nodes }}
            conflicted(first: {FIRST}) {{ totalCount nodes {{ txid disconnectedBlockHash conflictingTxids }} }} }} }}
         staleBlocks(first: 3) {{ nodes {{ hash height chainStatus confirmations nextBlock {{ hash }}
            transactions(first: 3) {{ nodes {{ txid state confirmations block {{ hash chainStatus }} }} }} }} }}
         blocks(first: 30) {{ nodes {{ hash }} }}"
    )
}

pub(super) fn check(data: &Value) -> Checked {
    let main: BTreeSet<_> = rows(data, "blocks").iter().map(|block| text(block, "hash")).collect();
    let (tip, lowest) = (int(data, "tip.height"), int(data, "tip.height") + 1 - count(&main));
    let stands = |block: &Value| -> Checked {
        let is_main = text(block, "chainStatus") == "MAIN";
        let confirmations = if is_main { tip + 1 - int(block, "height") } else { 0 };
        same("confirmations", int(block, "confirmations"), confirmations)?;
        if int(block, "height") < lowest {
            return Ok(());
        }
        same("on the main chain", is_main, main.contains(text(block, "hash")))
    };
    for reorg in rows(data, "reorgs") {
        let (depth, fork) = (int(reorg, "depth"), int(reorg, "forkHeight"));
        let (left, joined) = (rows(reorg, "disconnected"), rows(reorg, "connected"));
        same("how deep", int(reorg, "disconnected.totalCount"), depth)?;
        for name in ["disconnected", "connected", "returnedToMempool", "conflicted"] {
            let total = int(at(reorg, name), "totalCount");
            same("how many of a list", count(rows(reorg, name)), total.min(FIRST))?;
        }
        for (block, height) in left.iter().zip((0..).map(|below| fork + depth - below)) {
            same("height of a block that left", int(block, "height"), height)?;
            let block = at(block, "block");
            let is_main = || text(block, "chainStatus") == "MAIN";
            holds("it left by none", block.is_null() || is_main() || !at(block, "reorg").is_null())?;
        }
        for (block, height) in joined.iter().zip(fork + 1..) {
            same("height of a block that joined", int(block, "height"), height)?;
            holds("it left and joined", left.iter().all(|other| text(other, "hash") != text(block, "hash")))?;
        }
        for outer in left.iter().chain(joined) {
            let block = at(outer, "block");
            if !block.is_null() {
                same("hash of a block", text(block, "hash"), text(outer, "hash"))?;
                same("height of a block", int(block, "height"), int(outer, "height"))?;
                stands(block)?;
            }
        }
        for one in rows(reorg, "conflicted") {
            let was_in = |block: &Value| at(block, "hash") == at(one, "disconnectedBlockHash");
            holds("it was in no block that left", depth > FIRST || left.iter().any(was_in))?;
            let both = rows(reorg, "returnedToMempool").contains(at(one, "txid"));
            holds("it returned and could not", !both)?;
        }
    }
    for block in rows(data, "staleBlocks") {
        same("status of a stale block", text(block, "chainStatus"), "STALE")?;
        holds("something comes next to a stale block", at(block, "nextBlock").is_null())?;
        stands(block)?;
        for transaction in rows(block, "transactions") {
            let is_confirmed = text(transaction, "state") == "CONFIRMED";
            same("in a block", is_confirmed, !at(transaction, "block").is_null())?;
            same("confirmed", is_confirmed, int(transaction, "confirmations") > 0)?;
            if is_confirmed {
                same("status of its block", text(transaction, "block.chainStatus"), "MAIN")?;
            }
        }
    }
    Ok(())
}
