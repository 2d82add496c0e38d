//! The tree of blocks: the choice of the tip, invalidation, and the path from one block to another.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use bitcoin::{Block, BlockHash};

use super::super::ChainError;
use super::super::utxo::UtxoChange;
use super::sim_chain::SimChain;
use super::tree_entry::{BlockData, TreeEntry};
use crate::chain::Height;

/// The path from one tip to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainPath {
    /// The blocks that left the active chain, the highest first.
    pub disconnected: Vec<BlockHash>,
    /// The blocks that joined it, the lowest first.
    pub connected: Vec<BlockHash>,
}

/// The status of a branch in Core's `getchaintips`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TipStatus {
    /// The tip of the active chain.
    Active,
    /// A branch all of whose blocks were on the active chain once.
    ValidFork,
    /// A branch that was never the longest, so that a node never connected it.
    ValidHeaders,
    /// A branch with an invalidated block.
    Invalid,
}

impl TipStatus {
    /// The value of `status` in `getchaintips`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TipStatus::Active => "active",
            TipStatus::ValidFork => "valid-fork",
            TipStatus::ValidHeaders => "valid-headers",
            TipStatus::Invalid => "invalid",
        }
    }
}

/// A block without a successor, or the active tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchTip {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
    /// The number of blocks from the fork with the active chain to this one; 0 for the active tip.
    pub branch_length: u32,
    /// The status of its branch.
    pub status: TipStatus,
}

impl SimChain {
    /// Marks a block and its descendants as invalid, which removes them from the active chain, as Core's
    /// `invalidateblock`. The tip becomes the best block that remains, at worst genesis, which cannot be invalidated.
    pub fn invalidate(&mut self, hash: &BlockHash) -> Result<ChainPath, ChainError> {
        let record = self.records.get(hash).ok_or(ChainError::UnknownBlock(*hash))?;
        if record.height == Height::GENESIS {
            return Err(ChainError::InvalidGenesis);
        }
        let marked = self.with_descendants(hash);
        self.mark(marked, true)
    }

    /// Marks an invalidated block, its descendants and its ancestors as valid again, as Core's `reconsiderblock`.
    pub fn reconsider(&mut self, hash: &BlockHash) -> Result<ChainPath, ChainError> {
        if !self.records.contains_key(hash) {
            return Err(ChainError::UnknownBlock(*hash));
        }
        let mut marked = self.with_descendants(hash);
        marked.extend(std::iter::successors(self.parent(hash), |below| self.parent(below)));
        self.mark(marked, false)
    }

    /// Whether this block or one below it was invalidated.
    #[must_use]
    pub fn is_invalid(&self, hash: &BlockHash) -> bool {
        self.records.get(hash).is_some_and(|record| record.invalid)
    }

    /// The active tip and every block without a successor, as Core's `getchaintips` lists them: the highest first, of
    /// the same height the first seen first.
    #[must_use]
    pub fn tips(&self) -> Vec<BranchTip> {
        let mut tips: Vec<(BlockHash, &TreeEntry)> = self.ends().collect();
        tips.sort_unstable_by_key(|(_, record)| (Reverse(record.height), record.seen));
        tips.into_iter()
            .map(|(hash, record)| {
                let below = std::iter::successors(Some(hash), |below| self.parent(below));
                let branch_length = (0..).zip(below).find(|(_, below)| self.is_active(below)).map_or(0, |(n, _)| n);
                let status = match record {
                    _ if hash == self.tip => TipStatus::Active,
                    TreeEntry { invalid: true, .. } => TipStatus::Invalid,
                    TreeEntry { connected: true, .. } => TipStatus::ValidFork,
                    _ => TipStatus::ValidHeaders,
                };
                BranchTip { height: record.height, hash, branch_length, status }
            })
            .collect()
    }

    /// How many blocks the tree has, of all branches. It never has fewer.
    pub(crate) fn known_blocks(&self) -> usize {
        self.records.len()
    }

    /// The active tip and every block without a successor, in no order to rely on.
    pub(crate) fn branch_ends(&self) -> impl Iterator<Item = BlockHash> {
        self.ends().map(|(hash, _)| hash)
    }

    fn ends(&self) -> impl Iterator<Item = (BlockHash, &TreeEntry)> {
        let parents: HashSet<BlockHash> = self.records.values().map(|record| record.parent).collect();
        self.records
            .iter()
            .filter(move |(hash, _)| **hash == self.tip || !(parents.contains(*hash) || self.is_active(hash)))
            .map(|(hash, record)| (*hash, record))
    }

    /// The path from one block of the tree to another, through their last common ancestor.
    pub fn path(&self, from: &BlockHash, to: &BlockHash) -> Result<ChainPath, ChainError> {
        let record = |hash| self.records.get(&hash).ok_or(ChainError::UnknownBlock(hash));
        let (mut left, mut right) = (*from, *to);
        let mut path = ChainPath::default();
        while left != right {
            let (left_record, right_record) = (record(left)?, record(right)?);
            if left_record.height >= right_record.height {
                path.disconnected.push(left);
                left = left_record.parent;
            }
            if right_record.height >= left_record.height {
                path.connected.push(right);
                right = right_record.parent;
            }
        }
        path.connected.reverse();
        Ok(path)
    }

    /// Adds a block, whose UTXO set is the current view; it becomes the tip if its branch is now the longest.
    pub(super) fn grow(&mut self, parent: BlockHash, height: Height, block: &Arc<Block>, changes: Vec<UtxoChange>) {
        let hash = block.block_hash();
        self.view = hash;
        let data = Some(BlockData { block: Arc::clone(block), changes: Arc::from(changes) });
        let (time, seen) = (block.header.time, self.records.len());
        self.records.insert(hash, TreeEntry { parent, height, time, seen, invalid: false, connected: false, data });
        if height > self.height() {
            self.activate(hash);
        }
    }

    /// A block and its descendants.
    fn with_descendants(&self, hash: &BlockHash) -> HashSet<BlockHash> {
        let mut order: Vec<(&BlockHash, &TreeEntry)> = self.records.iter().collect();
        order.sort_unstable_by_key(|(_, record)| record.seen);
        let mut found = HashSet::from([*hash]);
        for (hash, record) in order {
            if found.contains(&record.parent) {
                found.insert(*hash);
            }
        }
        found
    }

    /// Marks blocks as invalid or as valid, and makes the best valid block the tip. After an error nothing is changed.
    fn mark(&mut self, marked: HashSet<BlockHash>, invalid: bool) -> Result<ChainPath, ChainError> {
        let is_invalid =
            |hash: &BlockHash, record: &TreeEntry| if marked.contains(hash) { invalid } else { record.invalid };
        let valid = self.records.iter().filter(|(hash, record)| !is_invalid(hash, record));
        // Genesis is always valid.
        let best = valid.max_by_key(|(_, record)| (record.height, Reverse(record.seen)));
        let best = best.map_or(self.tip, |(hash, _)| *hash);
        let change = self.path(&self.tip, &best)?;
        self.move_view(best)?;
        for hash in marked {
            if let Some(record) = self.records.get_mut(&hash) {
                record.invalid = invalid;
            }
        }
        self.activate(best);
        Ok(change)
    }

    /// Makes `hash` the tip and drops the bodies that are now too deep.
    fn activate(&mut self, hash: BlockHash) {
        let Some(height) = self.height_of(&hash) else { return };
        self.tip = hash;
        self.active.split_off(&height.next());
        let mut next = hash;
        while let Some(record) = self.records.get_mut(&next) {
            if self.active.insert(record.height, next) == Some(next) {
                break;
            }
            record.connected = true;
            next = record.parent;
        }
        let deep = self.keep.and_then(|keep| height.to_u32().checked_sub(keep));
        let deep = deep.and_then(|height| self.active.get(&Height::from(height)));
        if let Some(record) = deep.and_then(|hash| self.records.get_mut(hash)) {
            record.data = None;
        }
    }
}
