//! The invariants of every published state, and of the step from the state before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::consensus::deserialize;
use bitcoin::{Block, OutPoint, Txid};
use btcgraph::index::Snapshot;
use btcgraph::live::Event;
use btcgraph::mempool::{Departure, MempoolEventKind, PrevoutSource};
use btcgraph::view::Head;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Checks each published state against the one before it, and returns how many states it checked. `keeps` is whether
/// the index keeps disconnected blocks.
pub(super) fn check_each(mut events: Receiver<Arc<Event>>, keeps: bool) -> usize {
    let (mut before, mut checked): (Option<Arc<Head>>, _) = (None, 0);
    loop {
        match events.blocking_recv() {
            Ok(event) => {
                check(before.as_deref(), &event.head, keeps);
                checked += 1;
                before = Some(Arc::clone(&event.head));
            }
            // the state before the next one is unknown
            Err(RecvError::Lagged(_)) => before = None,
            Err(RecvError::Closed) => return checked,
        }
    }
}

pub(super) fn is_in(chain: &Snapshot, txid: &Txid) -> bool {
    !chain.positions(txid).unwrap().is_empty()
}

fn check(before: Option<&Head>, head: &Head, keeps: bool) {
    let Head { chain, mempool, .. } = head;
    for entry in mempool.by_arrival(..) {
        assert!(!is_in(chain, &entry.txid), "{} is in the chain and in the mempool", entry.txid);
        for (outpoint, prevout) in entry.outpoints().zip(&entry.prevouts) {
            check_prevout(head, outpoint, prevout.source, prevout.value);
        }
    }
    let Some(before) = before else { return };
    // replaying the events on the state before yields this state
    let mut replayed: BTreeSet<_> = before.mempool.by_arrival(..).map(|entry| entry.txid).collect();
    for event in mempool.events_after(before.mempool.sequence()).expect("the events since the state before are kept") {
        match event.kind {
            MempoolEventKind::Added { txid, .. } => assert!(replayed.insert(txid), "{txid} is added twice"),
            MempoolEventKind::Removed { txid, departure } => {
                assert!(replayed.remove(&txid), "{txid} is removed and was not in the mempool");
                if let Departure::Mined { block, height } = departure {
                    assert_eq!(chain.block_hash(height).unwrap(), block, "the block that mined {txid}");
                }
            }
            MempoolEventKind::Corrected { txid, departure } => {
                assert!(
                    !replayed.contains(&txid),
                    "{txid} is in the mempool, and the reason of its removal is corrected"
                );
                assert!(
                    departure.conflicting().is_some(),
                    "{txid} is corrected to {departure:?}, which names no conflict"
                );
            }
        }
    }
    assert_eq!(replayed, mempool.by_arrival(..).map(|entry| entry.txid).collect(), "the replayed events");
    // no transaction vanishes
    let left = before
        .mempool
        .by_arrival(..)
        .map(|entry| entry.txid)
        .chain(keeps.then(|| disconnected(before, head)).into_iter().flatten());
    for txid in left {
        let somewhere = mempool.get(&txid).is_some() || mempool.departed(&txid).is_some() || is_in(chain, &txid);
        assert!(somewhere, "{txid} is neither in the mempool nor departed nor in the chain");
    }
}

fn check_prevout(Head { chain, mempool, .. }: &Head, outpoint: OutPoint, source: PrevoutSource, value: u64) {
    match source {
        PrevoutSource::Unconfirmed => {
            let parent = mempool
                .get(&outpoint.txid)
                .unwrap_or_else(|| panic!("the transaction of {outpoint} is not in the mempool"));
            assert_eq!(parent.transaction().unwrap().output(outpoint.vout).unwrap().value, value);
        }
        PrevoutSource::Confirmed { height, coinbase } => {
            let parent = chain.newest(&outpoint.txid).unwrap().unwrap_or_else(|| panic!("{outpoint} is in no block"));
            assert_eq!(chain.occurrence(parent.txnum).unwrap().height, height);
            assert_eq!(parent.fee.is_none(), coinbase);
            assert_eq!(chain.spender(parent.txnum, outpoint.vout).unwrap(), None, "{outpoint} is spent by a block");
        }
    }
}

/// The transactions, except coinbases, of the blocks that are in the first chain and not in the second.
fn disconnected(before: &Head, now: &Head) -> Vec<Txid> {
    let mut txids = Vec::new();
    let mut at = Some(before.tip);
    while let Some(tip) = at.filter(|tip| now.chain.block(tip.height).unwrap().is_none_or(|row| row.hash != tip.hash)) {
        let stale = now.chain.stale_block(tip.height, tip.hash).unwrap().expect("the disconnected block is kept");
        let block: Block = deserialize(&stale.raw).unwrap();
        txids.extend(block.txdata[1..].iter().map(bitcoin::Transaction::compute_txid));
        let hash = block.header.prev_blockhash;
        at = tip.height.previous().map(|height| btcgraph::index::Tip { height, hash });
    }
    txids
}
