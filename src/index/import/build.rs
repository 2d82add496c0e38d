//! An import from its first block to the generation of all: the phases, one after the other.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bitcoin::BlockHash;

use super::super::codec::Decoder;
use super::super::error::IndexError;
use super::super::frozen::{GenerationRange, generation_facts};
use super::super::hot::tables::{block_hashes, p2pk};
use super::super::hot::tip::Tip;
use super::super::keys::TxNum;
use super::checkpoint::ImportStage;
use super::fresh_start::FreshStart;
use super::join::{self, JoinState};
use super::options::ImportOptions;
use super::progress::{ImportPhase, ImportProgress, ImportWatch, ReportedProgress};
use super::read::{BlockReader, P2PK, P2PK_PARTITIONS};
use super::run_kinds::RunKind;
use super::workspace::{self, Workspace};
use super::{outputs, scripts};
use crate::chain::Height;

/// An import that is given the blocks of the chain, in order.
///
/// Its progress is made durable by checkpoints, each of which records the blocks before it. When the import is dropped
/// before [`Import::finish`] returns success, or the process is killed, the files that the newest checkpoint needs stay,
/// and [`Import::begin`] continues there.
pub struct Import {
    work: Workspace,
    step: ImportStep,
    fresh_start: Option<FreshStart>,
    /// Whether a push began and did not succeed: some of its blocks may be counted without their rows.
    is_broken: bool,
}

/// What is done next. The stages after reading are those of a resumed import.
enum ImportStep {
    Reading(Box<BlockReader>),
    Later(ImportStage),
}

impl Import {
    /// Continues the import whose checkpoint is in these places, with the plan of that: `transactions` and `range` of the
    /// options are not used then. Otherwise removes what is left of it, and begins without blocks; see
    /// [`Import::fresh_start`].
    ///
    /// Errors: [`IndexError::File`] if the file exists and is none of an unfinished import (it is a complete generation, say,
    /// whose process ended right then: see [`Import::remove_runs`]), or the files cannot be made; [`IndexError::InUse`];
    /// `TemporaryDirectoryInUse`; `TemporaryRuns` if a run cannot be read; `Threads`; storage errors.
    pub fn begin(options: ImportOptions) -> Result<Self, IndexError> {
        let (mut work, stage, fresh_start) = Workspace::open(options)?;
        let step = match stage {
            ImportStage::Reading(txids) => ImportStep::Reading(Box::new(BlockReader::new(&mut work, txids)?)),
            stage => ImportStep::Later(stage),
        };
        Ok(Self { work, step, fresh_start, is_broken: false })
    }

    /// Removes all files of an interrupted import with these options, for one that the chain of the node has left.
    ///
    /// Errors: [`IndexError::File`], also if the file is none of an unfinished import; [`IndexError::InUse`]; storage
    /// errors.
    pub fn discard(options: &ImportOptions) -> Result<(), IndexError> {
        workspace::discard(options)
    }

    /// Removes the temporary runs in the directory of an import that is complete: its process ended before it removed them.
    ///
    /// Errors: [`IndexError::File`]; `TemporaryDirectoryInUse`: another import has removed them already.
    pub fn remove_runs(directory: &Path) -> Result<(), IndexError> {
        workspace::remove_runs(directory)
    }

    /// Why the import begins without blocks; `None` if it continues an interrupted import.
    #[must_use]
    pub fn fresh_start(&self) -> Option<&FreshStart> {
        self.fresh_start.as_ref()
    }

    /// The last block that was pushed, in this process or before the import was interrupted. The chain of the node may have
    /// left it since: [`Import::discard`] the import then, and begin another.
    #[must_use]
    pub fn tip(&self) -> Option<Tip> {
        self.work.chain.tip()
    }

    /// The height of the block that [`Import::push`] must receive next.
    #[must_use]
    pub fn next_height(&self) -> Height {
        self.work.chain.tip().map_or(Height::GENESIS, |tip| tip.height.next())
    }

    /// The bytes of temporary files on the disk.
    #[must_use]
    pub fn temporary_bytes(&self) -> u64 {
        self.work.chain.space.now()
    }

    /// Whether the import was interrupted after its last block: [`Import::finish`] must be called without further blocks.
    #[must_use]
    pub fn has_all_blocks(&self) -> bool {
        matches!(self.step, ImportStep::Later(_))
    }

    /// Adds the next blocks of the chain, each with its hash. Many at once keep all threads busy. Begins a
    /// checkpoint afterwards if it is time for one, and completes it in a later call or when the import is dropped.
    ///
    /// Errors: [`IndexError::Malformed`], `InvalidBlock`, `NotOnTip`; `Broken` if the import
    /// [has all blocks](Import::has_all_blocks); storage errors. Every later call then fails with [`IndexError::Broken`]:
    /// drop the import, and begin it again to continue at its newest checkpoint.
    pub fn push(&mut self, blocks: &[(BlockHash, Vec<u8>)]) -> Result<(), IndexError> {
        if self.is_broken {
            return Err(IndexError::Broken);
        }
        let ImportStep::Reading(reader) = &mut self.step else { return Err(IndexError::Broken) };
        self.is_broken = true;
        reader.push(&mut self.work, blocks)?;
        if let Some(raw_files) = &self.work.chain.options.raw_files {
            blocks.iter().try_for_each(|(hash, bytes)| raw_files.append(*hash, bytes))?;
        }
        if self.work.clock().is_due(&self.work.chain) {
            self.work.complete_checkpoint()?;
        }
        if self.work.clock().is_due(&self.work.chain) {
            reader.begin_checkpoint(&mut self.work)?;
        }
        self.is_broken = false;
        Ok(())
    }

    /// Makes all blocks durable that were pushed, for an import that is about to be dropped and continued later.
    ///
    /// Errors: `Broken` after a failed push; storage errors, after which the checkpoint before it stays.
    pub fn checkpoint(&mut self) -> Result<(), IndexError> {
        if self.is_broken {
            return Err(IndexError::Broken);
        }
        match &mut self.step {
            ImportStep::Reading(reader) => {
                self.is_broken = true;
                reader.begin_checkpoint(&mut self.work)?;
                self.work.complete_checkpoint()?;
                self.is_broken = false;
                Ok(())
            }
            // nothing was done since it was resumed
            ImportStep::Later(_) => Ok(()),
        }
    }

    /// Builds the generation of all blocks, and returns what it is. `None`, and no file, if there are none.
    ///
    /// `watch` receives the progress on this thread: as each phase begins, and after each partition or range, of which
    /// each thread may be two ahead. After [`ControlFlow::Break`] each thread ends its partition and begins no other. A
    /// resumed import reports no phases before the one in which it was interrupted, and begins that with what is done.
    ///
    /// Errors: [`IndexError::InvalidBlock`] if an input spends what does not exist or is spent, or amounts are impossible,
    /// [`IndexError::DamagedRun`] and `Corrupt`: all files are removed then, because another attempt would fail as well.
    /// [`IndexError::Interrupted`] if `watch` stops the import, `TemporaryRuns`, storage errors: [`Import::begin`]
    /// continues at the newest checkpoint. `Broken` after a failed push.
    pub fn finish(
        self,
        watch: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    ) -> Result<Option<Imported>, IndexError> {
        if self.is_broken {
            return Err(IndexError::Broken);
        }
        let options = self.work.chain.options.clone();
        // closes the file
        let finished = self.finish_phases(watch);
        let is_final = match &finished {
            Ok(imported) => imported.is_none(),
            Err(error) => matches!(
                error,
                IndexError::InvalidBlock { .. } | IndexError::DamagedRun { .. } | IndexError::Corrupt { .. }
            ),
        };
        if is_final {
            workspace::remove(&options)?;
        }
        finished
    }

    fn finish_phases(self, watch: &mut ImportWatch<'_>) -> Result<Option<Imported>, IndexError> {
        let Self { mut work, step, .. } = self;
        let mut next = match step {
            ImportStep::Reading(reader) => {
                reader.finish(&mut work)?;
                ImportStage::Joining(JoinState::default())
            }
            ImportStep::Later(stage) => stage,
        };
        let Some(last) = work.chain.tip() else { return Ok(None) };
        let range = GenerationRange { first: Height::GENESIS, last, txnums: (TxNum(0), work.chain.next) };
        let mut progress = ReportedProgress::new(watch, Arc::clone(&work.chain.space));
        loop {
            next = match next {
                ImportStage::Reading(_) => return Err(IndexError::Broken),
                ImportStage::Joining(state) => {
                    join::join(&mut work, state, &mut progress)?;
                    ImportStage::Outputs(Box::default())
                }
                ImportStage::Outputs(state) => {
                    outputs::outputs(&mut work, *state, &mut progress)?;
                    ImportStage::Scripts(Box::default())
                }
                ImportStage::Scripts(state) => {
                    scripts::scripts(&mut work, *state, &mut progress)?;
                    break;
                }
            };
        }
        progress.begin(ImportPhase::Flushing, 0, 1)?;
        small_tables(&mut work)?;
        let temporary_bytes = work.chain.space.peak();
        if let Some(raw_files) = &work.chain.options.raw_files {
            // a complete generation may be put into force
            raw_files.sync()?;
        }
        let facts =
            generation_facts(&range, work.chain.options.network, work.chain.options.salt, work.builder.counts());
        work.finish(&facts)?;
        Ok(Some(Imported { range, temporary_bytes }))
    }
}

/// Writes `block_hashes` and `p2pk`.
fn small_tables(work: &mut Workspace) -> Result<(), IndexError> {
    work.builder.append(block_hashes::TABLE, &work.chain.block_hashes(), |row| row)?;
    let scripts = work.runs(RunKind::P2pk, P2PK_PARTITIONS);
    for partition in 0..P2PK_PARTITIONS {
        let mut rows: Vec<(p2pk::P2pkKey, [u8; 4])> = Vec::with_capacity(scripts.partition_bytes(partition) / P2PK);
        scripts.read(partition, |chunk| {
            let mut chunk = Decoder::new("import", chunk);
            while !chunk.is_empty() {
                rows.push((chunk.array()?, chunk.array()?));
            }
            Ok(())
        })?;
        // of each script the first transaction
        rows.sort_unstable();
        rows.dedup_by_key(|row| row.0);
        work.builder.append(p2pk::TABLE, &rows, |row| row)?;
    }
    Ok(())
}

/// What was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The blocks and transactions of the generation.
    pub range: GenerationRange,
    /// The most bytes that temporary runs had at a time.
    pub temporary_bytes: u64,
}
