//! Applies blocks to the mempool: connected blocks remove their transactions and conflicting ones (`block_state.rs`),
//! disconnected blocks return theirs, as far as these can still be in a block.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::constants::COINBASE_MATURITY;
use bitcoin::{BlockHash, OutPoint, Txid};
use tracing::warn;

use super::block_state::first_seen_in;
use super::clock::now;
use super::conflicts::spending_input;
use super::departure::LastReorg;
use super::incoming::{AddOutcome, Incoming};
use super::mempool_sync::MempoolSync;
use crate::chain::Height;
use crate::chain::raw::RawBlock;
use crate::index::{DeadTransaction, IndexError, ReorgOutcome, Snapshot, Tip};
use crate::mempool::{Cause, Departure, Mempool, PrevoutRef, PrevoutSource};
use crate::node::Node;

/// The most bytes of disconnected blocks whose transactions return, the newest first. A node drops the oldest from
/// 20,000,000 on (`MAX_DISCONNECTED_TX_POOL_BYTES` of Core's `kernel/disconnected_transactions.h`).
const MAX_RETURNED_BYTES: usize = 64 << 20;
/// How long to wait for the node's list.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// A transaction of a disconnected block that is in no block of the chain.
struct FreedTransaction {
    incoming: Incoming,
    block: BlockHash,
}

impl MempoolSync<'_> {
    /// Applies a chain change in memory. `disconnected` are the blocks that left the chain, the highest first; `after`
    /// is the mempool after the connected blocks, if they may affect it; `before` is a snapshot of the chain with the
    /// disconnected blocks. Returns whether the outcome of their transactions is known; otherwise the next list
    /// determines it.
    pub(in crate::sync) fn follow_chain(
        &mut self,
        node: &Node,
        before: Option<&Snapshot>,
        chain: &Snapshot,
        after: Option<Mempool>,
        disconnected: &[Tip],
    ) -> Result<bool, IndexError> {
        let mut is_known = false;
        // what could not be resolved on another chain may be resolved on this one
        self.unresolved.clear();
        if disconnected.is_empty() && !self.is_affected_by_blocks() {
            return Ok(is_known);
        }
        let at = now();
        if let Some(after) = after {
            *self.mempool = after;
        }
        if let Some(highest) = disconnected.first() {
            is_known = self.return_transactions(node, before, chain, disconnected, at)?;
            self.last_reorg = Some(LastReorg { highest: highest.hash, is_unverified: !is_known });
            // the node may keep other transactions than these rules
            self.request_list();
        }
        // a block may contain the parents of orphans now
        let orphans = self.orphans.take_all();
        self.request_again(orphans);
        Ok(is_known)
    }

    /// The outcome of the transactions of disconnected blocks that are in no block again, once the mempool is equal to
    /// the node's. A transaction that only the node has is neither dead nor known to have returned: the outcome is then
    /// incomplete.
    pub(in crate::sync) fn outcome(&self, chain: &Snapshot, disconnected: &[Tip]) -> Result<ReorgOutcome, IndexError> {
        let (freed, is_whole) = freed_transactions(None, chain, disconnected, 0)?;
        let mut outcome = ReorgOutcome { is_whole, ..ReorgOutcome::default() };
        for FreedTransaction { incoming, block } in freed {
            let txid = incoming.txid;
            if self.mempool.get(&txid).is_some() || self.orphans.contains(&txid) {
                outcome.returned.push(txid);
            } else if self.unresolved.contains(&txid) || self.to_fetch.contains(&txid) {
                outcome.is_whole = false;
            } else {
                let conflicting = self.conflicting(&incoming, chain)?;
                outcome.died.push(DeadTransaction { txid, block, conflicting });
            }
        }
        Ok(outcome)
    }

    /// Returns the transactions of disconnected blocks: those that the node kept to the mempool, the others, with their
    /// descendants, to the departures. Returns whether the node's mempool is known.
    fn return_transactions(
        &mut self,
        node: &Node,
        before: Option<&Snapshot>,
        chain: &Snapshot,
        disconnected: &[Tip],
        at: u64,
    ) -> Result<bool, IndexError> {
        let kept_by_node = node_mempool_txids(node, chain);
        let height = chain.tip().map_or(Height::GENESIS, |tip| tip.height);
        let (freed, is_whole) = freed_transactions(before, chain, disconnected, at)?;
        // the next list adds what does not return here
        let mut is_known = kept_by_node.is_some() && is_whole;
        if !is_whole {
            warn!(
                "cannot return the transactions of all disconnected blocks: some are not stored, or they are too large"
            );
        }
        for FreedTransaction { incoming, block } in freed {
            let kept = kept_by_node.as_ref().is_none_or(|txids| txids.contains(&incoming.txid));
            let is_pending = self.to_fetch.contains(&incoming.txid) || self.orphans.contains(&incoming.txid);
            if kept {
                match incoming.add(self.mempool, chain, height, at) {
                    Ok(AddOutcome::Added | AddOutcome::Known) => continue,
                    Ok(AddOutcome::Orphan(_)) => {}
                    // the node has it, and the next list resolves it
                    Ok(AddOutcome::Rejected) => {
                        is_known = false;
                        continue;
                    }
                    Err(error) if error.is_transient() => {
                        is_known = false;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            // the node has it, but its parents are only in the next list, or it was signalled after the node's list
            is_known &= !(kept || is_pending);
            let departure = departure_of(&incoming, chain, block)?;
            self.mempool.record_departed([incoming.departed(departure, at)]);
        }
        for (txid, block) in self.unconfirmable(chain, disconnected, kept_by_node.as_ref())? {
            self.mempool.remove(&txid, Departure::ReorgedOut { block }, at);
        }
        Ok(is_known)
    }

    /// The transactions, in the chain or the mempool, that spend the same outputs.
    fn conflicting(&self, incoming: &Incoming, chain: &Snapshot) -> Result<Vec<Txid>, IndexError> {
        let mut found = Vec::new();
        for input in incoming.parsed().into_iter().flat_map(|transaction| transaction.inputs()) {
            let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
            let mined =
                spending_input(chain, &outpoint)?.map(|spender| chain.txid(spender.txnum)).transpose()?.flatten();
            let pending = self.mempool.spender(&outpoint).map(|entry| entry.txid);
            found.extend(mined.or(pending).filter(|txid| !found.contains(txid)));
        }
        Ok(found)
    }

    /// The transactions that cannot be in a block on this chain: they spend an output of a disconnected block that is
    /// neither in a block nor in the mempool, or one of a coinbase that is no longer mature. Each with the block that
    /// caused this.
    fn unconfirmable(
        &mut self,
        chain: &Snapshot,
        disconnected: &[Tip],
        kept_by_node: Option<&HashSet<Txid>>,
    ) -> Result<Vec<(Txid, BlockHash)>, IndexError> {
        let (Some(highest), Some(lowest)) = (disconnected.first(), disconnected.last()) else { return Ok(Vec::new()) };
        let next = chain.tip().map_or(Height::GENESIS, |tip| tip.height.next()).to_u32();
        let is_immature = |height: Height| next.saturating_sub(height.to_u32()) < COINBASE_MATURITY;
        let mempool = self.mempool.snapshot();
        let mut found = Vec::new();
        'entries: for entry in mempool.by_arrival(..) {
            // only entries that a disconnected block may affect are parsed
            let is_affected = |prevout: PrevoutRef<'_>| match prevout.source {
                PrevoutSource::Confirmed { height, coinbase } => {
                    height >= lowest.height || (coinbase && is_immature(height))
                }
                PrevoutSource::Unconfirmed => false,
            };
            if !entry.prevouts.iter().any(is_affected) {
                continue;
            }
            for (outpoint, prevout) in entry.outpoints().zip(&entry.prevouts) {
                let PrevoutSource::Confirmed { height, coinbase } = prevout.source else { continue };
                if height >= lowest.height && chain.positions(&outpoint.txid)?.is_empty() {
                    let block = disconnected.iter().find(|tip| tip.height == height).unwrap_or(highest);
                    found.push((entry.txid, block.hash));
                    continue 'entries;
                }
                if coinbase && is_immature(height) && kept_by_node.is_none_or(|txids| !txids.contains(&entry.txid)) {
                    found.push((entry.txid, highest.hash));
                    continue 'entries;
                }
            }
        }
        Ok(found)
    }
}

/// The txids of the node's mempool, if the node has the same tip; `None` if they are not available now. There is no
/// retry, as the chain change is published after this.
fn node_mempool_txids(node: &Node, chain: &Snapshot) -> Option<HashSet<Txid>> {
    let list = node.mempool_list_once(LIST_TIMEOUT).ok()?;
    let has_same_tip = list.status.tip == chain.tip()?.hash && list.status.info.loaded;
    has_same_tip.then(|| list.txids.into_iter().collect())
}

/// The transactions of disconnected blocks that are in no block now, in chain order, and whether these are all. One
/// that was never seen unconfirmed is first seen at `at`.
fn freed_transactions(
    before: Option<&Snapshot>,
    chain: &Snapshot,
    disconnected: &[Tip],
    at: u64,
) -> Result<(Vec<FreedTransaction>, bool), IndexError> {
    let (mut blocks, mut bytes) = (Vec::new(), 0_usize);
    for tip in disconnected {
        let Some(stale) = chain.stale_block(tip.height, tip.hash)? else { break };
        bytes = bytes.saturating_add(stale.raw.len());
        if bytes > MAX_RETURNED_BYTES {
            break;
        }
        blocks.push((tip.hash, stale.raw));
    }
    let is_whole = blocks.len() == disconnected.len();
    let mut freed = Vec::new();
    for (block, raw) in blocks.into_iter().rev() {
        let Ok(parsed) = RawBlock::parse(&raw) else { continue };
        for transaction in parsed.transactions.iter().filter(|transaction| !transaction.is_coinbase()) {
            let txid = transaction.txid();
            if chain.positions(&txid)?.is_empty() {
                let (cause, first_seen) = (Cause::Returned { block }, first_seen_in(before, &txid)?.unwrap_or(at));
                let incoming = Incoming::of(Arc::from(transaction.bytes()), first_seen, cause);
                freed.extend(incoming.map(|incoming| FreedTransaction { incoming, block }));
            }
        }
    }
    Ok((freed, is_whole))
}

/// Why a transaction of a disconnected block is not in the mempool: it conflicts with one of the chain, or its inputs
/// no longer exist.
fn departure_of(incoming: &Incoming, chain: &Snapshot, disconnected: BlockHash) -> Result<Departure, IndexError> {
    for input in incoming.parsed().into_iter().flat_map(|transaction| transaction.inputs()) {
        let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
        let Some(spender) = spending_input(chain, &outpoint)? else { continue };
        let height = chain.occurrence(spender.txnum)?.height;
        if let Some(by) = chain.txid(spender.txnum)? {
            return Ok(Departure::Conflicted { by, block: chain.block_hash(height)? });
        }
    }
    Ok(Departure::ReorgedOut { block: disconnected })
}
