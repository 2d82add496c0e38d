//! Changes of the mempool after a change of the tip: transactions that a block contains or conflicts with leave, and
//! those of a disconnected block return where they can (`removeForBlock`, `MaybeUpdateMempoolForReorg` and
//! `removeForReorg` of Core).

use std::collections::HashSet;
use std::sync::Arc;

use bitcoin::{Block, BlockHash, OutPoint, Transaction, Txid};

use super::super::ChainPath;
use super::super::mempool::FeeRule;
use super::event::WorldEvent;
use super::tip_change::TipChangeCause;
use super::world::World;
use crate::chain::Height;

/// The number of blocks that `invalidateblock` disconnects before it stops returning their transactions to the mempool
/// (`InvalidateBlock` of Core's `validation.cpp`).
const RETURNING_BLOCKS: usize = 10;

/// A transaction of a disconnected block.
struct DisconnectedTransaction {
    tx: Transaction,
    txid: Txid,
    /// The height of its block.
    height: Height,
    /// Whether it may return: it is no coinbase, and its block is not too deep.
    may_return: bool,
}

impl World {
    /// Updates the mempool after a change of the tip.
    pub(super) fn follow_chain(&mut self, change: &ChainPath, cause: TipChangeCause) {
        let returning_blocks = if cause == TipChangeCause::Invalidation { RETURNING_BLOCKS } else { usize::MAX };
        let before_reorg = self.chain.height().to_u32() + len(&change.disconnected) - len(&change.connected);
        let mut disconnected = Vec::new();
        for (hash, (index, height)) in change.disconnected.iter().zip((0..).zip((0..=before_reorg).rev())) {
            self.log.push(WorldEvent::BlockDisconnected { hash: *hash, height: Height::from(height) });
            if let Some(block) = self.chain.block(hash).cloned() {
                disconnected.push(disconnected_transactions(&block, Height::from(height), index < returning_blocks));
            }
        }
        // The transactions of the deepest block come first.
        let disconnected: Vec<DisconnectedTransaction> = disconnected.into_iter().rev().flatten().collect();

        let is_reorg = !change.disconnected.is_empty();
        let mut mined = HashSet::new();
        let mut is_known = true;
        for hash in &change.connected {
            match self.chain.block(hash).cloned() {
                Some(block) => mined.extend(self.remove_for_block(hash, &block)),
                None => is_known = false,
            }
            if !is_reorg {
                self.log_connected(hash);
            }
        }
        if is_reorg || !is_known {
            self.return_transactions(disconnected, &mined, cause);
            self.drop_invalid_entries();
        }
        for hash in change.connected.iter().filter(|_| is_reorg) {
            self.log_connected(hash);
        }
    }

    fn log_connected(&mut self, hash: &BlockHash) {
        let height = self.chain.height_of(hash).unwrap_or(Height::GENESIS);
        self.log.push(WorldEvent::BlockConnected { hash: *hash, height });
    }

    /// Removes the transactions of a block and those that conflict with them, and returns the txids of the block.
    fn remove_for_block(&mut self, hash: &BlockHash, block: &Block) -> Vec<Txid> {
        let mut txids = Vec::with_capacity(block.txdata.len());
        for tx in block.txdata.iter().skip(1) {
            let txid = tx.compute_txid();
            txids.push(txid);
            if self.mempool.remove_mined(&txid).is_some() {
                self.log.push(WorldEvent::Mined { txid, block: *hash });
            }
            for input in &tx.input {
                let Some(conflict) = self.mempool.spender(&input.previous_output).map(|entry| entry.txid) else {
                    continue;
                };
                let removed = self.mempool.remove_with_descendants(&conflict);
                self.log_each(&removed, |conflict| WorldEvent::Conflicted { txid: conflict, by: txid, block: *hash });
            }
        }
        txids
    }

    /// Returns the transactions of disconnected blocks to the mempool, parents first, unless a connected block contains
    /// them. A transaction that cannot return is dropped with its descendants.
    fn return_transactions(
        &mut self,
        disconnected: Vec<DisconnectedTransaction>,
        mined: &HashSet<Txid>,
        cause: TipChangeCause,
    ) {
        let mut returned = Vec::new();
        for DisconnectedTransaction { tx, txid, height, may_return } in disconnected {
            if mined.contains(&txid) {
                continue;
            }
            let assessed = self.mempool.assess(&self.chain, &tx, FeeRule::Returning).ok().filter(|_| may_return);
            if let Some(assessed) = assessed {
                // An invalidation disconnects block by block.
                let tip = if cause == TipChangeCause::Invalidation {
                    height.to_u32().saturating_sub(1)
                } else {
                    self.chain.height().to_u32()
                };
                self.insert(Arc::new(tx), assessed, Height::from(tip));
                self.log.push(WorldEvent::Returned { txid });
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

    fn drop_invalid_entries(&mut self) {
        let entries = self.mempool.entries().filter(|entry| !self.mempool.is_still_valid(&self.chain, entry));
        let gone: Vec<Txid> = entries.map(|entry| entry.txid).collect();
        for txid in gone {
            self.drop_with_descendants(&txid);
        }
    }

    fn drop_with_descendants(&mut self, txid: &Txid) {
        let removed = self.mempool.remove_with_descendants(txid);
        self.log_each(&removed, |txid| WorldEvent::Invalidated { txid });
    }
}

fn disconnected_transactions(block: &Block, height: Height, may_return: bool) -> Vec<DisconnectedTransaction> {
    let disconnected = |tx: &Transaction| DisconnectedTransaction {
        txid: tx.compute_txid(),
        height,
        may_return: may_return && !tx.is_coinbase(),
        tx: tx.clone(),
    };
    block.txdata.iter().map(disconnected).collect()
}

fn len(hashes: &[BlockHash]) -> u32 {
    u32::try_from(hashes.len()).unwrap_or(u32::MAX)
}
