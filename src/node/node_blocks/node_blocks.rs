//! Reads parts of blocks of the active chain, and where they are.

use std::path::PathBuf;
use std::sync::Arc;

use bitcoin::BlockHash;
use parking_lot::RwLock;
use tracing::info;

use super::part_reader::{LocatedFiles, PartReader, by_height};
use super::recent::RecentBlocks;
use super::relocate::Relocation;
use crate::chain::Height;
use crate::node::block_files::{BlockFileError, BlockFileReader, BlockPosition, BlockPositions, ScanProgress, find};
use crate::node::error::NodeError;
use crate::node::node::Node;
use crate::node::retry::StopFlag;

/// How far ahead of its chain a node downloads blocks (Core: `BLOCK_DOWNLOAD_WINDOW`): a block is stored after all blocks
/// that are so far below it.
const DOWNLOAD_WINDOW: u32 = 1_024;

/// Reads parts of blocks of the active chain. Clones share everything.
#[derive(Clone)]
pub struct NodeBlocks {
    parts: Arc<PartReader>,
    /// Ends the threads when the last clone is dropped.
    _end: Arc<RaisedOnDrop>,
}

struct RaisedOnDrop(StopFlag);

impl Drop for RaisedOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}

impl NodeBlocks {
    /// Reads from the block files in `blocks_dir`, where `positions` are known, and from the node. Up to `cache_bytes` of
    /// whole blocks are cached.
    #[must_use]
    pub fn new(node: &Node, blocks_dir: Option<PathBuf>, positions: BlockPositions, cache_bytes: usize) -> Self {
        let stop = node.stop().child();
        let node = node.with_stop(stop.clone());
        let reader = blocks_dir.as_ref().map(|directory| BlockFileReader::open(directory, node.options().network));
        if let Some(Err(error)) = &reader {
            info!(%error, "parts of blocks are requested from the node");
        }
        let located = LocatedFiles { reader: reader.and_then(Result::ok), positions };
        let parts = PartReader {
            node,
            blocks_dir,
            located: RwLock::new(Arc::new(located)),
            relocation: Relocation::default(),
            recent: RecentBlocks::new(cache_bytes),
        };
        Self { parts: Arc::new(parts), _end: Arc::new(RaisedOnDrop(stop)) }
    }

    /// `length` bytes of a block of the active chain, from `offset` on. They are bytes of this block, or of its place in a
    /// damaged file.
    ///
    /// Errors: the node cannot be reached, or does not have the block; the block is shorter.
    pub fn read(&self, height: Height, hash: &BlockHash, offset: u32, length: u32) -> Result<Vec<u8>, NodeError> {
        match self.parts.read_files(height, hash, offset, length) {
            Some(bytes) => Ok(bytes),
            None => self.parts.request(hash, offset, length),
        }
    }

    /// The same from the node itself, for bytes of its block files that are damaged.
    ///
    /// Errors: as [`NodeBlocks::read`].
    pub fn request(&self, hash: &BlockHash, offset: u32, length: u32) -> Result<Vec<u8>, NodeError> {
        self.parts.request(hash, offset, length)
    }

    /// Adds positions, as of blocks that were imported from the same files.
    pub fn add(&self, positions: impl IntoIterator<Item = (Height, BlockPosition)>) {
        self.parts.change(None, positions);
    }

    /// Finds the blocks with these hashes, of which `first` is the height of the first, in those block files that can have them,
    /// adds their positions, and returns them. Blocks that are not found are requested from the node when they are read.
    ///
    /// Errors: the files cannot be read.
    pub fn locate(
        &self,
        first: Height,
        hashes: &[BlockHash],
        watch: &mut dyn FnMut(ScanProgress),
    ) -> Result<BlockPositions, BlockFileError> {
        let located = self.parts.located();
        let Some(reader) = &located.reader else { return Ok(BlockPositions::default()) };
        let before =
            located.positions.iter().take_while(|(height, _)| height.to_u32() + DOWNLOAD_WINDOW < first.to_u32());
        let earliest = before.map(|(_, position)| position.file).max().unwrap_or(0);
        let mut files = reader.files()?;
        files.retain(|file| *file >= earliest);
        let found = find(reader, &files, hashes, self.parts.node.stop(), watch)?;
        let found = by_height(first, found.positions);
        self.parts.change(None, found.iter());
        Ok(found)
    }

    /// The positions, if the files were scanned again since the last call: those of the caller are then out of date.
    #[must_use]
    pub fn relocated(&self) -> Option<BlockPositions> {
        self.parts.relocation.take_finished().then(|| self.parts.located().positions.clone())
    }
}
