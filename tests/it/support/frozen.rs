//! An index whose lower blocks are in generations, and the bytes of their blocks.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::{Block, BlockHash};
use btcgraph::chain::Height;
use btcgraph::index::{RawBlocks, Tip};

use super::indexed::{Indexed, in_memory};

/// Blocks in memory.
pub(crate) struct BlockBytes(HashMap<BlockHash, Vec<u8>>);

impl BlockBytes {
    pub(crate) fn of<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Self {
        Self(blocks.into_iter().map(|block| (block.block_hash(), serialize(block))).collect())
    }
}

impl RawBlocks for BlockBytes {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        part(self.0.get(&block.hash).ok_or("the block is not there")?, offset, length)
    }
}

/// A part of a block.
pub(crate) fn part(block: &[u8], offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let (offset, length) = (usize::try_from(offset)?, usize::try_from(length)?);
    Ok(block.get(offset..).and_then(|bytes| bytes.get(..length)).ok_or("it is shorter")?.to_vec())
}

/// An index of the first of these blocks, in generations that end at these heights.
pub(crate) fn frozen(blocks: &[&Block], ends: &[u32]) -> Indexed {
    let live = Indexed::of(blocks.iter().copied(), 50);
    let snapshot = live.index.snapshot().unwrap();
    let mut indexed = Indexed::within(in_memory());
    indexed.index.set_raw_blocks(Arc::new(BlockBytes::of(blocks.iter().copied())));
    let mut first = Height::GENESIS;
    for end in ends {
        let path = indexed.directory.path().join("generation");
        let range = snapshot.pack(first..=Height::from(*end), &path).unwrap();
        assert_eq!(indexed.index.adopt(&path).unwrap(), range.last);
        first = range.last.height.next();
    }
    indexed
}
