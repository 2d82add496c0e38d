//! What blocks do to the mempool: those that join take their transactions and what these make impossible out of it, those
//! that left give theirs back, as far as they can still be in a block.

use std::collections::HashSet;
use std::sync::Arc;

use bitcoin::{BlockHash, OutPoint, Txid};
use tracing::{debug, warn};

use super::incoming::{Incoming, Outcome};
use super::{Unconfirmed, now};
use crate::chain::Height;
use crate::chain::raw::RawBlock;
use crate::index::{Block, IndexError, Snapshot, Tip};
use crate::mempool::{Cause, ConnectedBlock, Departure};
use crate::node::Node;

/// The most of the blocks that left whose transactions are given back, in bytes, the newest first. A node drops the
/// oldest of them from 20,000,000 on (`MAX_DISCONNECTED_TX_POOL_BYTES` of Core's `kernel/disconnected_transactions.h`).
const GIVEN_BACK: usize = 64 << 20;

/// What of a block that joined concerns the mempool.
pub(in crate::sync) struct Joined {
    tip: Tip,
    txids: Vec<Txid>,
    spends: Vec<(OutPoint, Txid)>,
}

impl Joined {
    pub(in crate::sync) fn new(block: &Block, height: Height) -> Self {
        let tip = Tip { height, hash: block.hash() };
        Self { tip, txids: block.txids().collect(), spends: block.spends().collect() }
    }
}

/// A transaction of a block that left, which no block of the chain holds now.
struct Freed {
    incoming: Incoming,
    block: BlockHash,
}

impl Unconfirmed<'_> {
    /// Follows the chain from one state to the next, in memory. `left` are the blocks that are no longer in it, the
    /// highest first, `joined` those that are now, the lowest first.
    pub(in crate::sync) fn follow_chain(
        &mut self,
        node: &Node,
        chain: &Snapshot,
        left: &[Tip],
        joined: &[Joined],
    ) -> Result<(), IndexError> {
        if left.is_empty() && !self.holds_any() {
            return Ok(());
        }
        let at = now();
        for Joined { tip, txids, spends } in joined {
            let block = ConnectedBlock { hash: tip.hash, height: tip.height, txids, spends, at };
            let effect = self.mempool.connect_block(&block);
            let (mined, conflicted) = (effect.mined.len(), effect.conflicted.len());
            debug!(height = tip.height.to_u32(), mined, conflicted, "a block took from the mempool");
        }
        if !left.is_empty() {
            self.give_back(node, chain, left, at)?;
            // the node may see some of it otherwise
            self.doubt();
        }
        // what waited for a transaction may find it in a block now
        let waiting = std::mem::take(&mut self.waiting).into_values().flatten();
        self.wanted.extend(waiting.map(|incoming| (incoming.txid, Cause::New)));
        Ok(())
    }

    /// Gives back what blocks that left held: to the mempool what the node has there, and to the memory of what departed
    /// the rest, with all that stands on it.
    fn give_back(&mut self, node: &Node, chain: &Snapshot, left: &[Tip], at: u64) -> Result<(), IndexError> {
        let (freed, coinbases) = freed(chain, left, at)?;
        let there = what_the_node_kept(node, chain);
        let height = chain.tip().map_or(Height::GENESIS, |tip| tip.height);
        for Freed { incoming, block } in freed {
            let kept = there.as_ref().is_none_or(|there| there.contains(&incoming.txid));
            if kept && matches!(incoming.add(self.mempool, chain, height, at)?, Outcome::Added | Outcome::Known) {
                continue;
            }
            let departure = why_not(&incoming, chain, block)?;
            self.mempool.restore_departed([incoming.departed(departure, at)]);
            self.let_go_of_children(&incoming.txid, block, at);
        }
        for (txid, block) in coinbases {
            self.let_go_of_children(&txid, block, at);
        }
        Ok(())
    }

    fn let_go_of_children(&mut self, txid: &Txid, block: BlockHash, at: u64) {
        for child in self.mempool.children(txid) {
            self.mempool.remove(&child.txid, Departure::ReorgedOut { block }, at);
        }
    }
}

/// The node's mempool, if it stands on the same block as ours; `None` if that cannot be known now.
fn what_the_node_kept(node: &Node, chain: &Snapshot) -> Option<HashSet<Txid>> {
    let stands_here = || Some(node.chain_info().ok()?.best_block_hash == chain.tip()?.hash);
    let listed = node.mempool_txids().ok().filter(|_| stands_here() == Some(true));
    listed.map(|(txids, _)| txids.into_iter().collect())
}

/// A transaction that creates coins, and the block that left with it.
type LostCoinbase = (Txid, BlockHash);

/// The transactions of blocks that left and are in no block now, in the order of the chain, and the coinbases of these
/// blocks.
fn freed(chain: &Snapshot, left: &[Tip], at: u64) -> Result<(Vec<Freed>, Vec<LostCoinbase>), IndexError> {
    let (mut blocks, mut bytes) = (Vec::new(), 0_usize);
    for tip in left {
        let Some(stale) = chain.stale_block(tip.height, tip.hash)? else { break };
        bytes = bytes.saturating_add(stale.raw.len());
        if bytes > GIVEN_BACK {
            warn!(blocks = left.len() - blocks.len(), "blocks that left are too many to give their transactions back");
            break;
        }
        blocks.push((tip.hash, stale.raw));
    }
    let (mut freed, mut coinbases) = (Vec::new(), Vec::new());
    for (block, raw) in blocks.into_iter().rev() {
        let Ok(parsed) = RawBlock::parse(&raw) else { continue };
        for transaction in &parsed.transactions {
            let txid = transaction.txid();
            if transaction.is_coinbase() {
                coinbases.push((txid, block));
            } else if chain.positions(&txid)?.is_empty() {
                let cause = Cause::Returned { block };
                let incoming = Incoming::of(Arc::from(transaction.bytes()), at, cause);
                freed.extend(incoming.map(|incoming| Freed { incoming, block }));
            }
        }
    }
    Ok((freed, coinbases))
}

/// Why a transaction of a block that left is not in the mempool again: the chain holds another that spends the same, or
/// what it spends is gone itself.
fn why_not(incoming: &Incoming, chain: &Snapshot, left: BlockHash) -> Result<Departure, IndexError> {
    for input in incoming.parsed().into_iter().flat_map(|transaction| transaction.inputs()) {
        let Some(funding) = chain.newest(&input.outpoint_txid())? else { continue };
        let Some(spender) = chain.spender(funding.txnum, input.vout)? else { continue };
        let height = chain.occurrence(spender.txnum)?.height;
        if let Some(by) = chain.txid(spender.txnum)? {
            return Ok(Departure::Conflicted { by, block: chain.block_hash(height)? });
        }
    }
    Ok(Departure::ReorgedOut { block: left })
}
