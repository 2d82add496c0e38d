//! What blocks do to the mempool: those that join have taken their transactions and what these make impossible out of it
//! (`first_seen.rs`), those that left give theirs back, as far as they can still be in a block.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::constants::COINBASE_MATURITY;
use bitcoin::{BlockHash, OutPoint, Txid};
use tracing::warn;

use super::conflicts::spending_input;
use super::departure::LastReorg;
use super::first_seen::first_seen_in;
use super::incoming::{AddOutcome, FetchRequest, Incoming};
use super::{Unconfirmed, now};
use crate::chain::Height;
use crate::chain::raw::RawBlock;
use crate::index::{DeadTransaction, IndexError, ReorgOutcome, Snapshot, Tip};
use crate::mempool::{Cause, Departure, Mempool, PrevoutRef, PrevoutSource};
use crate::node::Node;

/// The most of the blocks that left whose transactions are given back, in bytes, the newest first. A node drops the
/// oldest of them from 20,000,000 on (`MAX_DISCONNECTED_TX_POOL_BYTES` of Core's `kernel/disconnected_transactions.h`).
const MAX_RETURNED_BYTES: usize = 64 << 20;
/// How long the node may take to tell what it kept of them.
const WAIT: Duration = Duration::from_secs(2);

/// A transaction of a block that left, which no block of the chain holds now.
struct FreedTransaction {
    incoming: Incoming,
    block: BlockHash,
}

impl Unconfirmed<'_> {
    /// Follows the chain from one state to the next, in persistence. `left` are the blocks that are no longer in it, the
    /// highest first, `behind` the mempool as those that are now leave it, if it has to do with them; `before` is a
    /// state of the chain with the blocks that left. Whether it is known what became of all that these held: if not, it is
    /// after the next list.
    pub(in crate::sync) fn follow_chain(
        &mut self,
        node: &Node,
        before: Option<&Snapshot>,
        chain: &Snapshot,
        after: Option<Mempool>,
        disconnected: &[Tip],
    ) -> Result<bool, IndexError> {
        let mut is_known = false;
        // what could not be made sense of on another chain may be on this one
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
            self.reorged = Some(LastReorg { highest: highest.hash, is_unverified: !is_known });
            // the node may see some of it otherwise
            self.request_list();
        }
        // what waited for a transaction may find it in a block now
        for Incoming { txid, cause, first_seen, .. } in self.orphans.take_all() {
            self.to_fetch.push(txid, FetchRequest { cause, first_seen: first_seen });
        }
        Ok(is_known)
    }

    /// What became of the transactions of blocks that left, those left out that are in a block again. It is true once the
    /// mempool was made the node's on this chain. What the node has and is not here did not die, and is not known to be
    /// back: with such it is not whole.
    pub(in crate::sync) fn outcome(&self, chain: &Snapshot, disconnected: &[Tip]) -> Result<ReorgOutcome, IndexError> {
        let (freed, is_whole) = freed(None, chain, disconnected, 0)?;
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

    /// Gives back what blocks that left held: to the mempool what the node has there, and to the memory of what departed
    /// the rest, with all that stands on it. Whether it is known what the node has there.
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
        let (freed, is_whole) = freed(before, chain, disconnected, at)?;
        // what is not given back here comes with the next list
        let mut is_known = kept_by_node.is_some() && is_whole;
        if !is_whole {
            warn!("not all blocks that disconnected are kept, or they are too many, to give their transactions back");
        }
        for FreedTransaction { incoming, block } in freed {
            let kept = kept_by_node.as_ref().is_none_or(|kept_by_node| kept_by_node.contains(&incoming.txid));
            let is_on_its_way = self.to_fetch.contains(&incoming.txid) || self.orphans.contains(&incoming.txid);
            if kept {
                match incoming.add(self.mempool, chain, height, at)? {
                    AddOutcome::Added | AddOutcome::Known => continue,
                    AddOutcome::Rejected => {
                        // the node has it, and what is to be said of it the next list tells
                        is_known = false;
                        continue;
                    }
                    AddOutcome::Orphan(_) => {}
                }
            }
            // the node has it, on top of what only the next list tells, or told of it since its list
            is_known &= !(kept || is_on_its_way);
            let departure = departure_of(&incoming, chain, block)?;
            self.mempool.restore_departed([incoming.departed(departure, at)]);
        }
        for (txid, block) in self.unconfirmable(chain, disconnected, kept_by_node.as_ref())? {
            self.mempool.remove(&txid, Departure::ReorgedOut { block }, at);
        }
        Ok(is_known)
    }

    /// The transactions, in the chain or in the mempool, that spend what this one does.
    fn conflicting(&self, incoming: &Incoming, chain: &Snapshot) -> Result<Vec<Txid>, IndexError> {
        let mut found = Vec::new();
        for input in incoming.parsed().into_iter().flat_map(|transaction| transaction.inputs()) {
            let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
            let mined =
                spending_input(chain, &outpoint)?.map(|spender| chain.txid(spender.txnum)).transpose()?.flatten();
            let waiting = self.mempool.spender(&outpoint).map(|entry| entry.txid);
            found.extend(mined.or(waiting).filter(|txid| !found.contains(txid)));
        }
        Ok(found)
    }

    /// The transactions that no block can hold on this chain: what they spend was in a block that left, and is in none
    /// and in the mempool neither, or is of a coinbase that is not mature any more. With each the block with which that
    /// went.
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
            // the parts are looked at only where a block that left may have to do with it
            let concerned = |prevout: PrevoutRef<'_>| match prevout.source {
                PrevoutSource::Confirmed { height, coinbase } => {
                    height >= lowest.height || (coinbase && is_immature(height))
                }
                PrevoutSource::Unconfirmed => false,
            };
            if !entry.prevouts.iter().any(concerned) {
                continue;
            }
            for (outpoint, prevout) in entry.outpoints().zip(&entry.prevouts) {
                let PrevoutSource::Confirmed { height, coinbase } = prevout.source else { continue };
                if height >= lowest.height && chain.positions(&outpoint.txid)?.is_empty() {
                    let block = disconnected.iter().find(|tip| tip.height == height).unwrap_or(highest);
                    found.push((entry.txid, block.hash));
                    continue 'entries;
                }
                if coinbase
                    && is_immature(height)
                    && kept_by_node.is_none_or(|kept_by_node| !kept_by_node.contains(&entry.txid))
                {
                    found.push((entry.txid, highest.hash));
                    continue 'entries;
                }
            }
        }
        Ok(found)
    }
}

/// The node's mempool, if it stands on the same block as ours; `None` if that cannot be known now. It is asked but once,
/// since what happened to the chain is not published before.
fn node_mempool_txids(node: &Node, chain: &Snapshot) -> Option<HashSet<Txid>> {
    let list = node.mempool_list_once(WAIT).ok()?;
    let stands_here = list.status.tip == chain.tip()?.hash && list.status.info.loaded;
    stands_here.then(|| list.txids.into_iter().collect())
}

/// The transactions of blocks that left and are in no block now, in the order of the chain, and whether these are all.
/// What was never seen unconfirmed is first seen now.
fn freed(
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

/// Why a transaction of a block that left is not in the mempool repeat_soon: the chain holds another that spends the same, or
/// what it spends is gone itself.
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
