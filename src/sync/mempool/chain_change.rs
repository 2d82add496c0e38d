//! What blocks do to the mempool: those that join have taken their transactions and what these make impossible out of it
//! (`first_seen.rs`), those that left give theirs back, as far as they can still be in a block.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::constants::COINBASE_MATURITY;
use bitcoin::{BlockHash, OutPoint, Txid};
use tracing::warn;

use super::conflicts::spending_input;
use super::first_seen::first_seen_in;
use super::incoming::{Incoming, Outcome as Entered, Wanted};
use super::leaving::Reorged;
use super::{Unconfirmed, now};
use crate::chain::Height;
use crate::chain::raw::RawBlock;
use crate::index::{DeadTransaction, IndexError, ReorgOutcome, Snapshot, Tip};
use crate::mempool::{Cause, Departure, Mempool, PrevoutRef, PrevoutSource};
use crate::node::Node;

/// The most of the blocks that left whose transactions are given back, in bytes, the newest first. A node drops the
/// oldest of them from 20,000,000 on (`MAX_DISCONNECTED_TX_POOL_BYTES` of Core's `kernel/disconnected_transactions.h`).
const GIVEN_BACK: usize = 64 << 20;
/// How long the node may take to tell what it kept of them.
const WAIT: Duration = Duration::from_secs(2);

/// A transaction of a block that left, which no block of the chain holds now.
struct Freed {
    incoming: Incoming,
    block: BlockHash,
}

impl Unconfirmed<'_> {
    /// Follows the chain from one state to the next, in memory. `left` are the blocks that are no longer in it, the
    /// highest first, `behind` the mempool as those that are now leave it, if it has to do with them; `before` is a
    /// state of the chain with the blocks that left. Whether it is known what became of all that these held: if not, it is
    /// after the next list.
    pub(in crate::sync) fn follow_chain(
        &mut self,
        node: &Node,
        before: Option<&Snapshot>,
        chain: &Snapshot,
        behind: Option<Mempool>,
        left: &[Tip],
    ) -> Result<bool, IndexError> {
        let mut is_known = false;
        // what could not be made sense of on another chain may be on this one
        self.missed.forgive_all();
        if left.is_empty() && !self.holds_any() {
            return Ok(is_known);
        }
        let at = now();
        if let Some(behind) = behind {
            *self.mempool = behind;
        }
        if let Some(highest) = left.first() {
            is_known = self.give_back(node, before, chain, left, at)?;
            self.reorged = Some(Reorged { highest: highest.hash, is_guessed: !is_known });
            // the node may see some of it otherwise
            self.doubt();
        }
        // what waited for a transaction may find it in a block now
        for Incoming { txid, cause, first_seen, .. } in self.waiting.take_all() {
            self.wanted.push(txid, Wanted { cause, heard: first_seen });
        }
        Ok(is_known)
    }

    /// What became of the transactions of blocks that left, those left out that are in a block again. It is true once the
    /// mempool was made the node's on this chain. What the node has and is not here did not die, and is not known to be
    /// back: with such it is not whole.
    pub(in crate::sync) fn outcome(&self, chain: &Snapshot, left: &[Tip]) -> Result<ReorgOutcome, IndexError> {
        let (freed, is_whole) = freed(None, chain, left, 0)?;
        let mut outcome = ReorgOutcome { is_whole, ..ReorgOutcome::default() };
        for Freed { incoming, block } in freed {
            let txid = incoming.txid;
            if self.mempool.get(&txid).is_some() || self.waiting.contains(&txid) {
                outcome.returned.push(txid);
            } else if self.missed.contains(&txid) || self.wanted.contains(&txid) {
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
    fn give_back(
        &mut self,
        node: &Node,
        before: Option<&Snapshot>,
        chain: &Snapshot,
        left: &[Tip],
        at: u64,
    ) -> Result<bool, IndexError> {
        let there = what_the_node_kept(node, chain);
        let height = chain.tip().map_or(Height::GENESIS, |tip| tip.height);
        let (freed, is_whole) = freed(before, chain, left, at)?;
        // what is not given back here comes with the next list
        let mut is_known = there.is_some() && is_whole;
        if !is_whole {
            warn!("not all blocks that left are kept, or they are too many, to give their transactions back");
        }
        for Freed { incoming, block } in freed {
            let kept = there.as_ref().is_none_or(|there| there.contains(&incoming.txid));
            let is_on_its_way = self.wanted.contains(&incoming.txid) || self.waiting.contains(&incoming.txid);
            if kept {
                match incoming.add(self.mempool, chain, height, at)? {
                    Entered::Added | Entered::Known => continue,
                    Entered::Refused => {
                        // the node has it, and what is to be said of it the next list tells
                        is_known = false;
                        continue;
                    }
                    Entered::WaitsFor(_) => {}
                }
            }
            // the node has it, on top of what only the next list tells, or told of it since its list
            is_known &= !(kept || is_on_its_way);
            let departure = why_not(&incoming, chain, block)?;
            self.mempool.restore_departed([incoming.departed(departure, at)]);
        }
        for (txid, block) in self.without_ground(chain, left, there.as_ref())? {
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
    fn without_ground(
        &mut self,
        chain: &Snapshot,
        left: &[Tip],
        there: Option<&HashSet<Txid>>,
    ) -> Result<Vec<(Txid, BlockHash)>, IndexError> {
        let (Some(highest), Some(lowest)) = (left.first(), left.last()) else { return Ok(Vec::new()) };
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
                    let block = left.iter().find(|tip| tip.height == height).unwrap_or(highest);
                    found.push((entry.txid, block.hash));
                    continue 'entries;
                }
                if coinbase && is_immature(height) && there.is_none_or(|there| !there.contains(&entry.txid)) {
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
fn what_the_node_kept(node: &Node, chain: &Snapshot) -> Option<HashSet<Txid>> {
    let list = node.mempool_list_once(WAIT).ok()?;
    let stands_here = list.status.tip == chain.tip()?.hash && list.status.info.loaded;
    stands_here.then(|| list.txids.into_iter().collect())
}

/// The transactions of blocks that left and are in no block now, in the order of the chain, and whether these are all.
/// What was never seen unconfirmed is first seen now.
fn freed(before: Option<&Snapshot>, chain: &Snapshot, left: &[Tip], at: u64) -> Result<(Vec<Freed>, bool), IndexError> {
    let (mut blocks, mut bytes) = (Vec::new(), 0_usize);
    for tip in left {
        let Some(stale) = chain.stale_block(tip.height, tip.hash)? else { break };
        bytes = bytes.saturating_add(stale.raw.len());
        if bytes > GIVEN_BACK {
            break;
        }
        blocks.push((tip.hash, stale.raw));
    }
    let is_whole = blocks.len() == left.len();
    let mut freed = Vec::new();
    for (block, raw) in blocks.into_iter().rev() {
        let Ok(parsed) = RawBlock::parse(&raw) else { continue };
        for transaction in parsed.transactions.iter().filter(|transaction| !transaction.is_coinbase()) {
            let txid = transaction.txid();
            if chain.positions(&txid)?.is_empty() {
                let (cause, first_seen) = (Cause::Returned { block }, first_seen_in(before, &txid)?.unwrap_or(at));
                let incoming = Incoming::of(Arc::from(transaction.bytes()), first_seen, cause);
                freed.extend(incoming.map(|incoming| Freed { incoming, block }));
            }
        }
    }
    Ok((freed, is_whole))
}

/// Why a transaction of a block that left is not in the mempool again: the chain holds another that spends the same, or
/// what it spends is gone itself.
fn why_not(incoming: &Incoming, chain: &Snapshot, left: BlockHash) -> Result<Departure, IndexError> {
    for input in incoming.parsed().into_iter().flat_map(|transaction| transaction.inputs()) {
        let outpoint = OutPoint { txid: input.outpoint_txid(), vout: input.vout };
        let Some(spender) = spending_input(chain, &outpoint)? else { continue };
        let height = chain.occurrence(spender.txnum)?.height;
        if let Some(by) = chain.txid(spender.txnum)? {
            return Ok(Departure::Conflicted { by, block: chain.block_hash(height)? });
        }
    }
    Ok(Departure::ReorgedOut { block: left })
}
