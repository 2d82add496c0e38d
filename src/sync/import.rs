//! Builds the first generation of an empty index from the node's blocks, many times as fast as connecting them one by
//! one. Until it is complete the index is empty.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;

use tracing::{info, warn};

use super::error::SyncError;
use super::follow::SyncLoop;
use super::freeze::remove;
use super::import_progress::BulkImportProgress;
use crate::chain::{Height, network};
use crate::index::{FreshStart, Import, ImportEstimate, ImportOptions, IndexError, Tip};
use crate::node::{BlockSource, BlockSourceStatus, NodeBlocks, NodeError};
use crate::view::SyncState;

/// Which blocks are frozen, and what building a generation may use.
#[derive(Clone)]
pub struct Freezing {
    /// When blocks are frozen.
    pub bounds: FreezeBounds,
    /// Whether blocks are frozen if the node prunes, whose bytes are not available then.
    pub if_pruned: bool,
    /// Reads the bytes of frozen blocks.
    pub blocks: NodeBlocks,
    /// The node's `blocks` directory, if it is known.
    pub blocks_dir: Option<PathBuf>,
    /// The directory for temporary files.
    pub temporary_dir: PathBuf,
    /// Memory for buffers and partitions, in bytes.
    pub memory: usize,
    /// Threads that parse and sort.
    pub threads: NonZeroUsize,
}

/// When blocks are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreezeBounds {
    /// How many of the newest blocks are not frozen.
    pub depth: u32,
    /// How many blocks are frozen at a time, at least.
    pub every: u32,
}

impl FreezeBounds {
    /// The highest block to freeze in a chain with this tip whose blocks up to `frozen` are frozen; `None` while there are
    /// too few others.
    #[must_use]
    pub(super) fn due(&self, tip: Height, frozen: Option<Height>) -> Option<Height> {
        let first = frozen.map_or(0, |frozen| frozen.to_u32().saturating_add(1));
        let live = tip.to_u32().saturating_add(1).saturating_sub(first);
        let is_due = live >= self.depth.saturating_add(self.every).max(1);
        tip.to_u32().checked_sub(self.depth).filter(|last| is_due && *last >= first).map(Height::from)
    }
}

impl SyncLoop<'_> {
    /// Imports the blocks up to this height into the empty index. An import that was interrupted is continued.
    ///
    /// Errors: the node fails; [`IndexError::ImportSpace`], `ImportMemory`; the index cannot be written; the service stops.
    pub(super) fn import(&mut self, freezing: &Freezing, last: Height) -> Result<(), SyncError> {
        let node = self.follow.node;
        let building = self.follow.index.building_path();
        match self.follow.index.last_block_of(&building) {
            // the process ended right after it was complete
            Ok(last) => return self.put_into_force(last),
            Err(error @ (IndexError::WrongSalt { .. } | IndexError::WrongVersion { .. })) => {
                warn!(%error, "removing a complete import that does not belong to the index");
                remove(&building)?;
            }
            // there is none, or it is not complete
            Err(_) => {}
        }
        let hashes = node.active_hashes(last)?;
        let mut progress = BulkImportProgress::new(hashes.len());
        let source =
            BlockSource::choose(node, freezing.blocks_dir.as_deref(), hashes, &mut |scan| progress.scanned(scan))?;
        let options = self.import_options(freezing, source.transactions()?, &source.status())?;
        let mut import = self.begin_import(&options)?;
        if !import.has_all_blocks() {
            let read = self.read_blocks(&mut import, &source, freezing, &mut progress);
            if read.is_err() {
                // an error that is reported already may be why there is no newer one
                let _ = import.checkpoint();
            }
            read?;
        }
        let (published, stop) = (self.follow.published, node.stop());
        let imported = import.finish(&mut |phase| {
            progress.advance(phase);
            published.change_state(|state| SyncState { speed: progress.speed(), ..state });
            if stop.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let imported = match imported {
            Err(IndexError::Interrupted) => return Err(NodeError::Stopped.into()),
            imported => imported?,
        };
        let Some(imported) = imported else { return Ok(()) };
        progress.finish(&imported);
        let heights = (0..).map(Height::from);
        self.add_positions(&freezing.blocks, heights.zip(source.positions().iter().copied()))?;
        self.put_into_force(imported.range.last)
    }

    /// An import at the newest checkpoint, if the chain of the node has all its blocks.
    fn begin_import(&self, options: &ImportOptions) -> Result<Import, SyncError> {
        let import = Import::begin(options.clone())?;
        match import.fresh_start() {
            None | Some(FreshStart::NoCheckpoint) => {}
            Some(reason) => warn!(%reason, "the import that was interrupted starts again"),
        }
        let Some(tip) = import.tip() else { return Ok(import) };
        if self.follow.node.block_hash(tip.height)? == Some(tip.hash) {
            info!(height = %tip.height, "continuing the import that was interrupted");
            return Ok(import);
        }
        warn!(height = %tip.height, hash = %tip.hash, "the node disconnected a block of the import that was interrupted: it starts again");
        drop(import);
        Import::discard(options)?;
        Ok(Import::begin(options.clone())?)
    }

    fn read_blocks(
        &self,
        import: &mut Import,
        source: &BlockSource,
        freezing: &Freezing,
        progress: &mut BulkImportProgress,
    ) -> Result<(), SyncError> {
        let first = usize::try_from(import.next_height().to_u32()).unwrap_or(usize::MAX);
        progress.continue_at(first);
        for batch in source.blocks(first, self.follow.connections, wide(freezing.memory / 8))? {
            let batch = batch?;
            import.push(&batch)?;
            progress.read(&batch);
            self.follow.published.change_state(|state| SyncState { speed: progress.speed(), ..state });
        }
        Ok(())
    }

    /// How to import about so many transactions, after a check that there is space for them.
    fn import_options(
        &self,
        freezing: &Freezing,
        transactions: u64,
        source: &BlockSourceStatus,
    ) -> Result<ImportOptions, SyncError> {
        let Freezing { temporary_dir, memory, threads, .. } = freezing;
        let estimate = ImportEstimate::of(transactions, *memory, threads.get());
        // indexes of several networks may share the directory
        let runs = format!("import-{}", network::name(self.follow.node.options().network));
        let path = temporary_dir.clone();
        std::fs::create_dir_all(&path).map_err(|source| IndexError::File {
            doing: "make the directory",
            path,
            source,
        })?;
        let options = self.follow.index.import_options(temporary_dir.join(runs), *memory, threads.get(), transactions);
        estimate.check_memory()?;
        // an import that is continued has a part of the space already
        if !options.path.exists() {
            estimate.check(self.follow.index.directory(), temporary_dir)?;
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        info!(
            transactions,
            index_mib = mib(estimate.index_bytes),
            temporary_mib = mib(estimate.temporary_bytes),
            memory_mib = mib(estimate.memory_bytes),
            temporary_dir = %temporary_dir.display(),
            %source,
            "the index is empty: importing in bulk"
        );
        Ok(options)
    }

    /// Names the generation that was built, if its last block is still in the node's chain.
    fn put_into_force(&mut self, last: Tip) -> Result<(), SyncError> {
        let Self { follow, .. } = self;
        let path = follow.index.building_path();
        if follow.node.block_hash(last.height)? != Some(last.hash) {
            warn!(height = %last.height, hash = %last.hash, "the node disconnected the last imported block: importing again");
            return remove(&path);
        }
        let tip = follow.index.adopt(&path)?;
        info!(height = %tip.height, hash = %tip.hash, "the imported blocks are in the index");
        self.publish_chain()
    }
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_newest_blocks_are_frozen_once_there_are_enough() {
        let due = |depth, every, tip: u32, frozen: Option<u32>| {
            FreezeBounds { depth, every }.due(Height::from(tip), frozen.map(Height::from)).map(Height::to_u32)
        };
        // heights 0 to 9 are ten blocks
        assert_eq!(due(4, 6, 8, None), None);
        assert_eq!(due(4, 6, 9, None), Some(5));
        assert_eq!(due(4, 6, 14, Some(5)), None);
        assert_eq!(due(4, 6, 15, Some(5)), Some(11));
        assert_eq!(due(0, 1, 0, None), Some(0));
        assert_eq!(due(0, 1, 7, Some(6)), Some(7));
        assert_eq!(due(0, 1, 7, Some(7)), None);
        assert_eq!(due(u32::MAX, u32::MAX, 9, None), None);
    }
}
