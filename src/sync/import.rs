//! Builds the first generation of an empty index from the node's blocks, many times as fast as connecting them one by
//! one. Until it is complete the index is empty.

use std::ops::ControlFlow;
use std::path::PathBuf;

use tracing::{info, warn};

use super::background::Freezing;
use super::error::SyncError;
use super::import_progress::BulkImportProgress;
use super::sync_loop::SyncLoop;
use crate::chain::{Height, network, wide};
use crate::index::{FreshStart, Import, ImportEstimate, ImportOptions, Index, IndexError, RawStorage, Tip};
use crate::node::{BlockSource, BlockSourceStatus, ChainInfo, NodeError};
use crate::view::SyncState;

/// Checks that the node has kept all blocks from this height on.
///
/// Errors: [`SyncError::BlocksPruned`].
pub(super) fn check_kept(info: &ChainInfo, next: Height) -> Result<(), SyncError> {
    match info.prune_height {
        Some(kept_from) if kept_from > next => Err(SyncError::BlocksPruned { kept_from }),
        _ => Ok(()),
    }
}

impl SyncLoop<'_> {
    /// Imports the blocks up to this height into the empty index. An import that was interrupted is continued. `info` is the state
    /// of the node's chain.
    ///
    /// Errors: the node fails; [`SyncError::BlocksPruned`] if the import needs more blocks than the node has;
    /// [`IndexError::ImportSpace`], `ImportMemory`; writing the index fails; the service stops.
    pub(super) fn import(&mut self, freezing: &Freezing, last: Height, info: &ChainInfo) -> Result<(), SyncError> {
        let node = self.follow.node;
        let building = self.follow.index.building_path();
        match self.follow.index.last_block_of(&building) {
            // the process ended right after it was complete
            Ok(last) => {
                match Import::remove_runs(&self.runs_dir(freezing)) {
                    // another index of this network is imported with this directory, and removed them
                    Ok(()) | Err(IndexError::TemporaryDirectoryInUse { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                return self.put_into_force(last);
            }
            Err(error @ (IndexError::WrongSalt { .. } | IndexError::WrongVersion { .. })) => {
                warn!(%error, "removing a complete import that does not belong to the index");
                Index::remove_unused(&building)?;
            }
            // there is none, or it is not complete
            Err(_) => {}
        }
        if !building.exists() {
            check_kept(info, Height::GENESIS)?;
        }
        let hashes = node.active_hashes(last)?;
        let count = hashes.len();
        let mut progress = BulkImportProgress::new(count);
        let source =
            BlockSource::choose(node, freezing.blocks_dir.as_deref(), hashes, &mut |scan| progress.scanned(scan))?;
        // with undo data the estimate is a seventh too large
        let raw_bytes = source.bytes().unwrap_or(info.size_on_disk);
        let raw = (wide(count), raw_bytes);
        let options = self.import_options(freezing, source.transactions()?, raw, &source.status())?;
        let mut import = self.begin_import(&options, info)?;
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
        let positions = (0..).map(Height::from).zip(source.positions().iter().copied());
        freezing.blocks.add(positions.clone());
        self.record_positions(positions)?;
        self.put_into_force(imported.range.last)
    }

    /// The directory for temporary runs. Indexes of several networks may share the one above it.
    fn runs_dir(&self, freezing: &Freezing) -> PathBuf {
        freezing.temporary_dir.join(format!("import-{}", network::name(self.follow.node.options().network)))
    }

    /// An import at the newest checkpoint, if the chain of the node has all its blocks.
    ///
    /// Errors: [`SyncError::BlocksPruned`] if it needs blocks that the node has deleted. A checkpoint stays for another node.
    fn begin_import(&self, options: &ImportOptions, info: &ChainInfo) -> Result<Import, SyncError> {
        let import = Import::begin(options.clone())?;
        match import.fresh_start() {
            None | Some(FreshStart::NoCheckpoint) => {}
            Some(reason) => warn!(%reason, "the import that was interrupted starts again"),
        }
        if !import.has_all_blocks() {
            check_kept(info, import.next_height())?;
        }
        let Some(tip) = import.tip() else { return Ok(import) };
        if self.follow.node.block_hash(tip.height)? == Some(tip.hash) {
            info!(height = %tip.height, "continuing the import that was interrupted");
            return Ok(import);
        }
        check_kept(info, Height::GENESIS)?;
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
        let mut batches = source.blocks(first, self.follow.connections, wide(freezing.memory / 8))?;
        while let Some(batch) = batches.next() {
            let batch = batch?;
            import.push(&batch)?;
            progress.read(&batch, import.temporary_bytes());
            batches.recycle(batch);
            self.follow.published.change_state(|state| SyncState { speed: progress.speed(), ..state });
        }
        Ok(())
    }

    /// How to import about so many transactions, in so many blocks with so many bytes, after a check that there is space for them.
    fn import_options(
        &self,
        freezing: &Freezing,
        transactions: u64,
        (blocks, raw_bytes): (u64, u64),
        source: &BlockSourceStatus,
    ) -> Result<ImportOptions, SyncError> {
        let Freezing { temporary_dir, memory, threads, .. } = freezing;
        let raw_files = match self.raw_mover.storage {
            Some(RawStorage::Index) => Some(self.follow.index.raw_files()),
            Some(RawStorage::Node) | None => None,
        };
        let estimate = ImportEstimate::of(transactions, *memory, threads.get());
        let estimate = if raw_files.is_some() { estimate.with_raw_blocks(blocks, raw_bytes) } else { estimate };
        let options = self.follow.index.import_options(self.runs_dir(freezing), *memory, threads.get(), transactions);
        let options = ImportOptions { raw_files, ..options };
        estimate.check_memory()?;
        // an import that is continued has a part of the space already
        if !options.path.exists() {
            estimate.check(self.follow.index.directory(), temporary_dir)?;
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        info!(
            transactions,
            index_mib = mib(estimate.index_bytes),
            raw_mib = mib(estimate.raw_bytes),
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
        let path = self.follow.index.building_path();
        if self.follow.node.block_hash(last.height)? != Some(last.hash) {
            warn!(height = %last.height, hash = %last.hash, "the node disconnected the last imported block: importing again");
            return Ok(Index::remove_unused(&path)?);
        }
        let tip = self.follow.index.adopt(&path)?;
        info!(height = %tip.height, hash = %tip.hash, "the imported blocks are in the index");
        self.publish_chain()
    }
}
