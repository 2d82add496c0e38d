//! Blocks that all are in the block files.

use std::sync::Arc;

use crate::node::block_files::{BlockFileReader, BlockPosition};

/// The block files, and where all blocks are in them.
#[derive(Clone)]
pub(super) struct LocatedBlocks {
    pub(super) reader: BlockFileReader,
    /// In the order of the hashes.
    pub(super) positions: Arc<[BlockPosition]>,
    pub(super) transactions: u64,
}
