//! The raw bytes that the index does not store are read from the node.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::SyncError;
use super::sync_loop::SyncLoop;
use crate::chain::Height;
use crate::index::{BlockFileRow, Index, IndexError, RawBlocks, Tip};
use crate::node::{BlockPosition, BlockPositions, Node, NodeBlocks};

impl RawBlocks for NodeBlocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(NodeBlocks::read(self, block.height, &block.hash, offset, length)?)
    }

    fn read_elsewhere(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(self.request(&block.hash, offset, length)?)
    }
}

/// Memory for whole blocks that were requested to read a part of them, in bytes.
const CACHE: usize = 32 << 20;

/// Lets the index read the bytes of frozen blocks from the node, or from its block files if their directory is given.
///
/// Errors: the index cannot be read.
pub fn read_frozen_blocks(index: &Index, node: &Node, blocks_dir: Option<PathBuf>) -> Result<NodeBlocks, IndexError> {
    let snapshot = index.snapshot()?;
    let position = |row| {
        let (height, BlockFileRow { file, offset, length }) = row?;
        Ok((height, BlockPosition { file, offset, length }))
    };
    let positions = snapshot.block_files()?.map(position).collect::<Result<BlockPositions, IndexError>>()?;
    let blocks = NodeBlocks::new(node, blocks_dir, positions, CACHE);
    index.set_raw_blocks(Arc::new(blocks.clone()));
    Ok(blocks)
}

impl SyncLoop<'_> {
    /// Records where blocks are, for the next start.
    pub(super) fn record_positions(
        &mut self,
        positions: impl Iterator<Item = (Height, BlockPosition)>,
    ) -> Result<(), SyncError> {
        let mut positions = positions.peekable();
        if positions.peek().is_none() {
            return Ok(());
        }
        let row = |(height, BlockPosition { file, offset, length })| (height, BlockFileRow { file, offset, length });
        let mut update = self.follow.index.update()?;
        update.record_block_files(positions.map(row))?;
        update.commit_non_durable()?;
        Ok(self.follow.index.flush_soon()?)
    }
}
