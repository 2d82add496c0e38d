//! What must hold in every state that is published, and between it and the one before.

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

/// Checks every state that is told of against the one before; how many there were. `keeps` is whether the index keeps the
/// blocks that left.
pub(super) fn check_each(mut events: Receiver<Arc<Event>>, keeps: bool) -> usize {
    let (mut before, mut checked): (Option<Arc<Head>>, _) = (None, 0);
    loop {
        match events.blocking_recv() {
            Ok(event) => {
                check(before.as_deref(), &event.head, keeps);
                checked += 1;
                before = Some(Arc::clone(&event.head));
            }
            // there is no state before the next one
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
        assert!(!is_in(chain, &entry.txid), "{} is in both", entry.txid);
        for (outpoint, prevout) in entry.outpoints().zip(&entry.prevouts) {
            check_prevout(head, outpoint, prevout.source, prevout.value);
        }
    }
    let Some(before) = before else { return };
    // whoever was told everything knows the same
    let mut told: BTreeSet<_> = before.mempool.by_arrival(..).map(|entry| entry.txid).collect();
    for event in mempool.events_after(before.mempool.sequence()).expect("so little is remembered") {
        match event.kind {
            MempoolEventKind::Added { txid, .. } => assert!(told.insert(txid), "{txid} comes twice"),
            MempoolEventKind::Removed { txid, departure } => {
                assert!(told.remove(&txid), "{txid} leaves and was not there");
                if let Departure::Mined { block, height } = departure {
                    assert_eq!(chain.block_hash(height).unwrap(), block, "the block that mined {txid}");
                }
            }
            MempoolEventKind::Corrected { txid, departure } => {
                assert!(!told.contains(&txid), "{txid} is there, and it is corrected why it left");
                assert!(departure.conflicting().is_some(), "{txid} left for {departure:?}, which explains nothing");
            }
        }
    }
    assert_eq!(told, mempool.by_arrival(..).map(|entry| entry.txid).collect(), "what was told");
    // nothing vanishes
    let left = before
        .mempool
        .by_arrival(..)
        .map(|entry| entry.txid)
        .chain(keeps.then(|| disconnected(before, head)).into_iter().flatten());
    for txid in left {
        let somewhere = mempool.get(&txid).is_some() || mempool.departed(&txid).is_some() || is_in(chain, &txid);
        assert!(somewhere, "{txid} is nowhere");
    }
}

fn check_prevout(Head { chain, mempool, .. }: &Head, outpoint: OutPoint, source: PrevoutSource, value: u64) {
    match source {
        PrevoutSource::Unconfirmed => {
            let parent = mempool.get(&outpoint.txid).unwrap_or_else(|| panic!("{outpoint} is not there"));
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

/// The transactions, coinbases left out, of blocks that are in the first chain and not in the second.
fn disconnected(before: &Head, now: &Head) -> Vec<Txid> {
    let mut txids = Vec::new();
    let mut at = Some(before.tip);
    while let Some(tip) = at.filter(|tip| now.chain.block(tip.height).unwrap().is_none_or(|row| row.hash != tip.hash)) {
        let stale = now.chain.stale_block(tip.height, tip.hash).unwrap().expect("it is kept");
        let block: Block = deserialize(&stale.raw).unwrap();
        txids.extend(block.txdata[1..].iter().map(bitcoin::Transaction::compute_txid));
        let hash = block.header.prev_blockhash;
        at = tip.height.previous().map(|height| btcgraph::index::Tip { height, hash });
    }
    txids
}
