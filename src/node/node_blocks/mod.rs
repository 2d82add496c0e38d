//! [`NodeBlocks`]: reads parts of blocks from the node that has them, in the fastest way that works.
//!
//! ```text
//!   read ─► position known? ─► block files: the header is checked, then exactly these bytes are read
//!              │ no, or another block is there
//!              ├─► relocate.rs: a thread scans the files again, at most once a minute
//!              └─► REST: the part of the block (Core 31), or the whole block, a few of which are cached ─► RPC
//! ```

mod recent;
mod relocate;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use bitcoin::BlockHash;
use parking_lot::RwLock;
use tracing::{debug, info};

use super::block_files::{BlockFileError, BlockFileReader, BlockPosition, BlockPositions, ScanProgress, find};
use super::error::NodeError;
use super::node::Node;
use super::retry::StopFlag;
use crate::chain::Height;
use recent::RecentBlocks;
use relocate::Relocation;

/// How far ahead of its chain a node downloads blocks (Core: `BLOCK_DOWNLOAD_WINDOW`): a block is written after all blocks
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

struct PartReader {
    /// Its stop flag is also raised when the last [`NodeBlocks`] is dropped.
    node: Node,
    blocks_dir: Option<PathBuf>,
    located: RwLock<Arc<LocatedFiles>>,
    relocation: Relocation,
    recent: RecentBlocks,
}

/// The block files, and where blocks are in them.
struct LocatedFiles {
    /// `None` if they cannot be read.
    reader: Option<BlockFileReader>,
    positions: BlockPositions,
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

impl PartReader {
    fn located(&self) -> Arc<LocatedFiles> {
        Arc::clone(&self.located.read())
    }

    /// Adds positions, after replacing all by those in another reader's files if there is one.
    fn change(&self, reader: Option<BlockFileReader>, positions: impl IntoIterator<Item = (Height, BlockPosition)>) {
        let mut located = self.located.write();
        let mut all = if reader.is_some() { BlockPositions::default() } else { located.positions.clone() };
        positions.into_iter().for_each(|(height, position)| all.insert(height, position));
        let reader = reader.or_else(|| located.reader.clone());
        *located = Arc::new(LocatedFiles { reader, positions: all });
    }

    /// `None` if the block files cannot give these bytes. They are then scanned again.
    fn read_files(self: &Arc<Self>, height: Height, hash: &BlockHash, offset: u32, length: u32) -> Option<Vec<u8>> {
        self.blocks_dir.as_ref()?;
        let located = self.located();
        if let Some((reader, position)) = located.reader.as_ref().zip(located.positions.get(height)) {
            if offset.checked_add(length).is_none_or(|end| end > position.length) {
                // the node says how long the block is
                return None;
            }
            match reader.read_part(hash, position, offset, length) {
                Ok(bytes) => return Some(bytes),
                Err(error) => debug!(%height, %error, "requesting a part of a block from the node"),
            }
        }
        // this read does not wait for the scan, which can take minutes
        Relocation::begin(self, height);
        None
    }

    /// Requests the bytes from the node.
    fn request(&self, hash: &BlockHash, offset: u32, length: u32) -> Result<Vec<u8>, NodeError> {
        if let Some(part) = self.recent.get(hash).and_then(|block| part(&block, hash, offset, length).ok()) {
            return Ok(part);
        }
        if let Some(bytes) = self.node.block_part(hash, offset, length)? {
            return Ok(bytes);
        }
        let block = Arc::new(self.node.block(hash)?);
        self.recent.insert(*hash, &block);
        part(&block, hash, offset, length)
    }

    /// Scans all block files for all blocks of the active chain.
    fn relocate(&self) -> Result<(), NodeError> {
        let Some(directory) = &self.blocks_dir else { return Ok(()) };
        let hashes = self.node.active_hashes(u32::MAX.into())?;
        let found = BlockFileReader::open(directory, self.node.options().network).and_then(|reader| {
            let found = find(&reader, &reader.files()?, &hashes, self.node.stop(), &mut |_| {})?;
            Ok((reader, found))
        });
        if self.node.stop().is_raised() {
            return Err(NodeError::Stopped);
        }
        match found {
            Ok((reader, found)) => {
                debug!(found = found.count, blocks = hashes.len(), directory = %directory.display(), "scanned the block files");
                self.change(Some(reader), by_height(Height::GENESIS, found.positions).iter());
            }
            Err(error) => debug!(%error, "parts of blocks are requested from the node"),
        }
        Ok(())
    }
}

/// Positions of blocks that follow each other from a height on.
fn by_height(first: Height, positions: Vec<Option<BlockPosition>>) -> BlockPositions {
    let heights = (first.to_u32()..).map(Height::from);
    heights.zip(positions).filter_map(|(height, position)| Some((height, position?))).collect()
}

/// Some bytes of a block.
fn part(block: &[u8], hash: &BlockHash, offset: u32, length: u32) -> Result<Vec<u8>, NodeError> {
    let begin = usize::try_from(offset).unwrap_or(usize::MAX);
    let count = usize::try_from(length).unwrap_or(usize::MAX);
    let bytes = block.get(begin..).and_then(|bytes| bytes.get(..count));
    bytes.map(<[u8]>::to_vec).ok_or_else(|| NodeError::Protocol {
        asked: format!("block {hash}"),
        problem: format!("it has {} bytes, so there are no {length} bytes at offset {offset}", block.len()),
    })
}
