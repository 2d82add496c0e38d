//! The source of certain blocks, and its choice.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bitcoin::BlockHash;
use parking_lot::Mutex;

use super::batches::{BatchReader, BlockBatches};
use super::located::LocatedBlocks;
use super::status::{BlockSourceKind, BlockSourceStatus};
use crate::node::block_files::{BlockFileReader, BlockPosition, FoundBlocks, ScanProgress, find};
use crate::node::error::NodeError;
use crate::node::node::Node;

/// A source of certain blocks of the active chain.
pub struct BlockSource {
    node: Node,
    hashes: Arc<[BlockHash]>,
    files: Option<LocatedBlocks>,
    status: Arc<Mutex<BlockSourceStatus>>,
}

impl BlockSource {
    /// Chooses a source of the blocks with these hashes, which follow each other on the node's active chain. The block files
    /// in `blocks_dir` are chosen if they have all of these blocks; `watch` receives the progress of their scan.
    ///
    /// Errors: [`NodeError::Stopped`].
    pub fn choose(
        node: &Node,
        blocks_dir: Option<&Path>,
        hashes: impl Into<Arc<[BlockHash]>>,
        watch: &mut dyn FnMut(ScanProgress),
    ) -> Result<Self, NodeError> {
        let hashes = hashes.into();
        let located = match blocks_dir {
            Some(directory) => locate(node, directory, &hashes, watch)?,
            None => Err("the directory of the node's block files is not known (node.blocks_dir)".to_owned()),
        };
        let status = match &located {
            Ok(_) => {
                let directory = blocks_dir.map(|directory| directory.display().to_string());
                BlockSourceStatus { kind: BlockSourceKind::BlockFiles, detail: directory.unwrap_or_default() }
            }
            Err(reason) => BlockSourceStatus::from_node(node, reason.clone()),
        };
        Ok(Self { node: node.clone(), hashes, files: located.ok(), status: Arc::new(Mutex::new(status)) })
    }

    /// How blocks are read now: a source that fails while it is read is replaced.
    #[must_use]
    pub fn status(&self) -> BlockSourceStatus {
        self.status.lock().clone()
    }

    /// The position of each block, in the order of the hashes; empty unless the block files are read.
    #[must_use]
    pub fn positions(&self) -> &[BlockPosition] {
        self.files.as_ref().map_or(&[], |files| &files.positions)
    }

    /// How many transactions the blocks have: as the block files state, else as the node reports, which includes the
    /// transactions below the first of the blocks.
    pub fn transactions(&self) -> Result<u64, NodeError> {
        match (&self.files, self.hashes.last()) {
            (Some(files), _) => Ok(files.transactions),
            (None, Some(last)) => self.node.transactions_up_to(last),
            (None, None) => Ok(0),
        }
    }

    /// The bytes of the blocks, as the block files state them; `None` unless these are read.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let positions = &self.files.as_ref()?.positions;
        Some(positions.iter().map(|position| u64::from(position.length)).sum())
    }

    /// Starts reading the blocks from the one at `first` in the list of hashes on, in their order, ahead of the consumer, on
    /// a thread of its own. Requests over `connections` connections are in flight at once if the node serves the blocks. At
    /// most some `buffer_bytes` are buffered, or the largest block if that is more.
    ///
    /// Raising the node's stop flag ends the iteration with [`NodeError::Stopped`].
    ///
    /// Errors: [`NodeError::Threads`].
    pub fn blocks(
        &self,
        first: usize,
        connections: NonZeroUsize,
        buffer_bytes: u64,
    ) -> Result<BlockBatches, NodeError> {
        let located = |files: &LocatedBlocks| {
            let positions = files.positions.get(first..).unwrap_or_default().into();
            LocatedBlocks { positions, ..files.clone() }
        };
        BlockBatches::start(BatchReader {
            node: self.node.clone(),
            hashes: self.hashes.get(first..).unwrap_or_default().into(),
            files: self.files.as_ref().map(located),
            status: Arc::clone(&self.status),
            connections,
            buffer_bytes,
        })
    }
}

/// Scans the block files for the blocks. The inner error says why they cannot be read.
fn locate(
    node: &Node,
    directory: &Path,
    hashes: &[BlockHash],
    watch: &mut dyn FnMut(ScanProgress),
) -> Result<Result<LocatedBlocks, String>, NodeError> {
    let found = BlockFileReader::open(directory, node.options().network).and_then(|reader| {
        let found = find(&reader, &reader.files()?, hashes, node.stop(), watch)?;
        Ok((reader, found))
    });
    if node.stop().is_raised() {
        return Err(NodeError::Stopped);
    }
    let (reader, found) = match found {
        Ok(found) => found,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if let Some(missing) = found.first_missing() {
        return Ok(Err(missing_blocks(directory, &found, hashes, missing)));
    }
    let positions = found.positions.into_iter().flatten().collect();
    Ok(Ok(LocatedBlocks { reader, positions, transactions: found.transactions }))
}

fn missing_blocks(directory: &Path, found: &FoundBlocks, hashes: &[BlockHash], missing: usize) -> String {
    let (count, all, path) = (found.count, hashes.len(), directory.display());
    let hash = hashes.get(missing).map(ToString::to_string).unwrap_or_default();
    if count == 0 {
        return format!("the block files in {path} are not those of this node: they have none of its {all} blocks");
    }
    format!(
        "the block files in {path} have {count} of {all} blocks, and not block {hash}: the node prunes, or they are another \
         node's"
    )
}
