//! How the mempool follows the chain: what a block holds or conflicts with leaves, what a disconnected block held
//! returns where it can (`removeForBlock`, `MaybeUpdateMempoolForReorg` and `removeForReorg` of Core).

use std::collections::HashSet;
use std::sync::Arc;

use bitcoin::{Block, BlockHash, OutPoint, Transaction, Txid};

use super::super::TipChange;
use super::super::mempool::FeeRule;
use super::{Happening, World};
use crate::chain::Height;

/// How many blocks `invalidateblock` disconnects before it stops to take their transactions back (`InvalidateBlock` of
/// Core's `validation.cpp`).
const BLOCKS_TAKEN_BACK: usize = 10;

/// Why the tip changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A branch became the longest, or may be the tip again.
    Growth,
    /// A block of the active chain was invalidated.
    Invalidation,
}

/// A transaction of a disconnected block.
struct Loose {
    tx: Transaction,
    txid: Txid,
    /// The height of its block.
    height: Height,
    /// Whether it may return: it is no coinbase, and its block not too deep.
    welcome: bool,
}

impl World {
    /// Makes the mempool what it is after the tip has changed.
    pub(super) fn follow_chain(&mut self, change: &TipChange, cause: Cause) {
        let taken_back = if cause == Cause::Invalidation { BLOCKS_TAKEN_BACK } else { usize::MAX };
        let before_reorg = self.chain.height().to_u32() + len(&change.disconnected) - len(&change.connected);
        let mut loose = Vec::new();
        for (hash, (index, height)) in change.disconnected.iter().zip((0..).zip((0..=before_reorg).rev())) {
            self.log.note(Happening::BlockDisconnected { hash: *hash, height: Height::from(height) });
            if let Some(block) = self.chain.block(hash).cloned() {
                loose.push(loose_transactions(&block, Height::from(height), index < taken_back));
            }
        }
        // The deepest block's come first.
        let loose: Vec<Loose> = loose.into_iter().rev().flatten().collect();

        let is_reorg = !change.disconnected.is_empty();
        let mut mined = HashSet::new();
        let mut is_known = true;
        for hash in &change.connected {
            match self.chain.block(hash).cloned() {
                Some(block) => mined.extend(self.leave_for(hash, &block)),
                None => is_known = false,
            }
            if !is_reorg {
                self.note_connected(hash);
            }
        }
        if is_reorg || !is_known {
            self.take_back(loose, &mined, cause);
            self.drop_what_no_longer_holds();
        }
        for hash in change.connected.iter().filter(|_| is_reorg) {
            self.note_connected(hash);
        }
    }

    fn note_connected(&mut self, hash: &BlockHash) {
        let height = self.chain.height_of(hash).unwrap_or(Height::GENESIS);
        self.log.note(Happening::BlockConnected { hash: *hash, height });
    }

    /// Removes what a block holds and what conflicts with that, and tells the ids of all that it holds.
    fn leave_for(&mut self, hash: &BlockHash, block: &Block) -> Vec<Txid> {
        let mut held = Vec::with_capacity(block.txdata.len());
        for tx in block.txdata.iter().skip(1) {
            let txid = tx.compute_txid();
            held.push(txid);
            if self.mempool.remove_mined(&txid).is_some() {
                self.log.note(Happening::Mined { txid, block: *hash });
            }
            for input in &tx.input {
                let Some(conflict) = self.mempool.spender(&input.previous_output).map(|entry| entry.txid) else {
                    continue;
                };
                let removed = self.mempool.remove_with_descendants(&conflict);
                self.note_each(&removed, |conflict| Happening::Conflicted { txid: conflict, by: txid, block: *hash });
            }
        }
        held
    }

    /// Takes back what disconnected blocks held, parents first, unless a connected block holds it. What cannot return
    /// takes what stands on it along.
    fn take_back(&mut self, loose: Vec<Loose>, mined: &HashSet<Txid>, cause: Cause) {
        let mut returned = Vec::new();
        for Loose { tx, txid, height, welcome } in loose {
            if mined.contains(&txid) {
                continue;
            }
            let assessed = self.mempool.assess(&self.chain, &tx, FeeRule::Returning).ok().filter(|_| welcome);
            if let Some(assessed) = assessed {
                // An invalidation disconnects block by block.
                let tip = if cause == Cause::Invalidation {
                    height.to_u32().saturating_sub(1)
                } else {
                    self.chain.height().to_u32()
                };
                self.insert(Arc::new(tx), assessed, Height::from(tip));
                self.log.note(Happening::Returned { txid });
                returned.push(txid);
                continue;
            }
            for (vout, _) in (0..).zip(&tx.output) {
                let spender = self.mempool.spender(&OutPoint { txid, vout }).map(|entry| entry.txid);
                if let Some(spender) = spender {
                    self.drop_with_descendants(&spender);
                }
            }
        }
        returned.retain(|txid| self.mempool.contains(txid));
        self.mempool.join_children(&returned);
        for txid in self.mempool.beyond_ancestor_limits(&returned) {
            self.drop_with_descendants(&txid);
        }
    }

    fn drop_what_no_longer_holds(&mut self) {
        let entries = self.mempool.entries().filter(|entry| !self.mempool.still_holds(&self.chain, entry));
        let gone: Vec<Txid> = entries.map(|entry| entry.txid).collect();
        for txid in gone {
            self.drop_with_descendants(&txid);
        }
    }

    fn drop_with_descendants(&mut self, txid: &Txid) {
        let removed = self.mempool.remove_with_descendants(txid);
        self.note_each(&removed, |txid| Happening::Invalidated { txid });
    }
}

fn loose_transactions(block: &Block, height: Height, welcome: bool) -> Vec<Loose> {
    let loose = |tx: &Transaction| Loose {
        txid: tx.compute_txid(),
        height,
        welcome: welcome && !tx.is_coinbase(),
        tx: tx.clone(),
    };
    block.txdata.iter().map(loose).collect()
}

fn len(hashes: &[BlockHash]) -> u32 {
    u32::try_from(hashes.len()).unwrap_or(u32::MAX)
}
