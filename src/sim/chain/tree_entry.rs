//! A block of the tree, and what is kept of it.

use std::sync::Arc;

use bitcoin::{Block, BlockHash};

use crate::chain::Height;
use crate::sim::utxo::UtxoChange;

/// A block of the tree. Body and changes are dropped once it is deeper than the chain keeps them.
#[derive(Clone, Debug)]
pub(super) struct TreeEntry {
    pub(super) parent: BlockHash,
    pub(super) height: Height,
    pub(super) time: u32,
    /// How many blocks were made before this one.
    pub(super) seen: usize,
    /// Whether this block or one below it was invalidated.
    pub(super) invalid: bool,
    /// Whether it was ever on the active chain.
    pub(super) connected: bool,
    pub(super) data: Option<BlockData>,
}

#[derive(Clone, Debug)]
pub(super) struct BlockData {
    pub(super) block: Arc<Block>,
    pub(super) changes: Arc<[UtxoChange]>,
}
