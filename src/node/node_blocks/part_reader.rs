//! Reads parts of blocks from the block files, and from the node where these cannot give them.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use bitcoin::BlockHash;
use parking_lot::RwLock;
use tracing::{debug, warn};

use super::recent::RecentBlocks;
use super::relocate::Relocation;
use crate::chain::Height;
use crate::node::block_files::{BlockFileReader, BlockPosition, BlockPositions, find};
use crate::node::error::NodeError;
use crate::node::node::Node;

pub(super) struct PartReader {
    /// Its stop flag is also raised when the last [`NodeBlocks`](super::NodeBlocks) is dropped.
    pub(super) node: Node,
    pub(super) blocks_dir: Option<PathBuf>,
    pub(super) located: RwLock<Arc<LocatedFiles>>,
    pub(super) relocation: Relocation,
    pub(super) recent: RecentBlocks,
}

/// The block files, and where blocks are in them.
pub(super) struct LocatedFiles {
    /// `None` if they cannot be read.
    pub(super) reader: Option<BlockFileReader>,
    pub(super) positions: BlockPositions,
}

impl PartReader {
    pub(super) fn located(&self) -> Arc<LocatedFiles> {
        Arc::clone(&self.located.read())
    }

    /// Adds positions, after replacing all by those in another reader's files if there is one.
    pub(super) fn change(
        &self,
        reader: Option<BlockFileReader>,
        positions: impl IntoIterator<Item = (Height, BlockPosition)>,
    ) {
        let mut located = self.located.write();
        let mut all = if reader.is_some() { BlockPositions::default() } else { located.positions.clone() };
        positions.into_iter().for_each(|(height, position)| all.insert(height, position));
        let reader = reader.or_else(|| located.reader.clone());
        *located = Arc::new(LocatedFiles { reader, positions: all });
    }

    /// `None` if the block files cannot give these bytes. They are then scanned again.
    pub(super) fn read_files(
        self: &Arc<Self>,
        height: Height,
        hash: &BlockHash,
        offset: u32,
        length: u32,
    ) -> Option<Vec<u8>> {
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
        self.begin_relocation(height);
        None
    }

    /// Requests the bytes from the node.
    pub(super) fn request(&self, hash: &BlockHash, offset: u32, length: u32) -> Result<Vec<u8>, NodeError> {
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

    /// Starts a scan for the block at this height and all others, on a thread of its own, unless one runs or the last is
    /// recent.
    fn begin_relocation(self: &Arc<Self>, height: Height) {
        if !self.relocation.begin() {
            return;
        }
        let scanned = Arc::clone(self);
        let scan = move || {
            let before = scanned.located().positions.get(height);
            let outcome = scanned.relocate();
            let after = scanned.located().positions.get(height);
            if let Err(error) = &outcome {
                warn!(%error, "cannot find out where the blocks are in the block files");
            }
            scanned.relocation.end(after.is_some() && after != before);
            if outcome.is_ok() {
                scanned.relocation.set_finished();
            }
        };
        if let Err(error) = thread::Builder::new().name("relocate".into()).spawn(scan) {
            warn!(%error, "cannot start a thread for scanning the block files");
            self.relocation.end(false);
        }
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
pub(super) fn by_height(first: Height, positions: Vec<Option<BlockPosition>>) -> BlockPositions {
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
