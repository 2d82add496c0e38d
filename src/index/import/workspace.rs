//! The file under construction and the runs of an import, and their checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bitcoin::BlockHash;

use super::super::codec::Encoder;
use super::super::error::IndexError;
use super::super::files::file;
use super::super::frozen::builder::{self, Count, GenerationBuilder};
use super::super::frozen::tables::txids::TxidPacker;
use super::super::keys::TxNum;
use super::chain::ImportedChain;
use super::checkpoint::{Checkpoint, ImportPlan, ImportStage};
use super::fresh_start::FreshStart;
use super::options::ImportOptions;
use super::partitions::partition_bits;
use super::run_kinds::{RunKind, remove_files};
use super::runs::{ImportId, RunDirectory, Runs};
use super::space::TemporarySpace;
use super::stages::READING;

/// Files that are flushed at a time.
const FLUSHES: usize = 8;

/// The files of an import, and what its phases share.
pub(super) struct Workspace {
    pub(super) chain: ImportedChain,
    pub(super) builder: GenerationBuilder,
    plan: ImportPlan,
    directory: RunDirectory,
    _lock: DirectoryLock,
    runs: BTreeMap<RunKind, Arc<Runs>>,
    /// Runs that the newest durable checkpoint needs, and no later one.
    retired: Vec<Arc<Runs>>,
    /// When the newest checkpoint was begun.
    checkpointed: Instant,
    unfinished: Option<UnfinishedCheckpoint>,
}

impl Workspace {
    /// Opens the checkpoint of an import with these options, or removes everything and begins without blocks, for the
    /// reason that is returned.
    ///
    /// Errors: [`IndexError::File`] if the file is none of an unfinished import; storage errors.
    pub(super) fn open(options: ImportOptions) -> Result<(Self, ImportStage, Option<FreshStart>), IndexError> {
        let exists = options.path.try_exists().map_err(file("look for", &options.path))?;
        // the process before ended between making the file and its first write
        let is_empty = exists && fs::metadata(&options.path).map_err(file("look for", &options.path))?.len() == 0;
        let reason = if is_empty {
            fs::remove_file(&options.path).map_err(file("remove", &options.path))?;
            FreshStart::Damaged { what: "it is empty".to_owned() }
        } else if exists {
            match Self::resume(&options) {
                Ok(Ok((resumed, stage))) => {
                    keep_raw_blocks(&options, &resumed.chain.hashes)?;
                    return Ok((resumed, stage, None));
                }
                Ok(Err(reason)) => reason,
                Err(IndexError::Damaged { what }) => FreshStart::Damaged { what },
                Err(IndexError::DamagedRun { path }) => FreshStart::DamagedRun { path },
                Err(IndexError::Corrupt { table, what }) => {
                    FreshStart::Damaged { what: format!("table {table}: {what}") }
                }
                Err(error) => return Err(error),
            }
        } else {
            FreshStart::NoCheckpoint
        };
        let lock = DirectoryLock::of(&options.directory)?;
        remove(&options)?;
        keep_raw_blocks(&options, &[])?;
        let (fresh, stage) = Self::create(options, lock)?;
        Ok((fresh, stage, Some(reason)))
    }

    fn create(options: ImportOptions, lock: DirectoryLock) -> Result<(Self, ImportStage), IndexError> {
        let mut id = ImportId::default();
        getrandom::fill(&mut id)?;
        let plan = ImportPlan {
            id,
            network: options.network,
            salt: options.salt,
            partition_bits: partition_bits(options.transactions, options.memory, options.threads),
            range: options.range,
        };
        let packer = TxidPacker::new(TxNum(0));
        let checkpoint = Checkpoint { plan, peak: 0, runs: Vec::new(), overwritten: Vec::new() };
        let mut row = checkpoint.encode();
        packer.encode_state(row.bytes(&[READING]));
        let builder =
            GenerationBuilder::create_resumable(&options.path, builder::cache_of(options.memory), &row.finish())?;
        let directory = RunDirectory { id, path: options.directory.clone(), space: Arc::default() };
        let chain = ImportedChain::new(options, &checkpoint.plan, Arc::clone(&directory.space));
        Ok((Self::of(chain, builder, checkpoint.plan, directory, lock), ImportStage::Reading(packer)))
    }

    fn of(
        chain: ImportedChain,
        builder: GenerationBuilder,
        plan: ImportPlan,
        directory: RunDirectory,
        lock: DirectoryLock,
    ) -> Self {
        let checkpointed = Instant::now();
        Self {
            chain,
            builder,
            plan,
            directory,
            _lock: lock,
            runs: BTreeMap::new(),
            retired: Vec::new(),
            checkpointed,
            unfinished: None,
        }
    }

    fn resume(options: &ImportOptions) -> Result<Result<(Self, ImportStage), FreshStart>, IndexError> {
        let (mut builder, row) = GenerationBuilder::open_resumable(&options.path, builder::cache_of(options.memory))?;
        let (checkpoint, stage) = match Checkpoint::decode(&row, options)? {
            Ok(checkpoint) => checkpoint,
            Err(reason) => return Ok(Err(reason)),
        };
        if checkpoint.runs.is_empty() {
            return Ok(Err(FreshStart::NoCheckpoint));
        }
        let lock = DirectoryLock::of(&options.directory)?;
        let space = Arc::<TemporarySpace>::default();
        let directory =
            RunDirectory { id: checkpoint.plan.id, path: options.directory.clone(), space: Arc::clone(&space) };
        let (mut runs, mut paths) = (BTreeMap::new(), BTreeSet::new());
        for recorded in checkpoint.runs {
            match Runs::open(&directory, recorded, stage.consumed(recorded.kind), &mut paths)? {
                Ok(opened) => runs.insert(recorded.kind, opened),
                Err(reason) => return Ok(Err(reason)),
            };
        }
        space.set_least_peak(checkpoint.peak);
        remove_files(&directory.path, &paths)?;
        builder.truncate()?;
        let mut chain = ImportedChain::new(options.clone(), &checkpoint.plan, space);
        chain.overwritten = checkpoint.overwritten.into_iter().collect();
        if let Some(blocks) = runs.get(&RunKind::Blocks) {
            chain.read_blocks(blocks)?;
        }
        let mut resumed = Self::of(chain, builder, checkpoint.plan, directory, lock);
        resumed.runs = runs;
        Ok(Ok((resumed, stage)))
    }

    /// The runs of a kind, which are made with so many partitions in a bundle if there are none yet.
    pub(super) fn runs(&mut self, kind: RunKind, bundle: usize) -> Arc<Runs> {
        let made = || Runs::new(&self.directory, kind, bundle);
        Arc::clone(self.runs.entry(kind).or_insert_with(made))
    }

    /// Removes runs that no later phase reads, as soon as no checkpoint needs them.
    ///
    /// Errors: [`IndexError::TemporaryRuns`].
    pub(super) fn retire(&mut self, kind: RunKind) -> Result<(), IndexError> {
        let Some(runs) = self.runs.remove(&kind) else { return Ok(()) };
        if runs.is_recorded() {
            self.retired.push(runs);
            Ok(())
        } else {
            runs.remove()
        }
    }

    /// What says when the next checkpoint is due.
    pub(super) fn clock(&self) -> CheckpointClock {
        CheckpointClock {
            begun: self.checkpointed,
            is_flushed: self.unfinished.as_ref().map(|unfinished| Arc::clone(&unfinished.is_flushed)),
        }
    }

    /// Finishes the file of the generation with these facts, and removes all runs.
    ///
    /// Errors: storage errors.
    pub(super) fn finish(mut self, facts: &[(String, Vec<u8>)]) -> Result<(), IndexError> {
        if let Some(unfinished) = self.unfinished.take() {
            unfinished.wait()?;
        }
        self.builder.finish(facts)?;
        remove_files(&self.directory.path, &BTreeSet::new())
    }

    /// Completes the checkpoint that is being flushed, and begins another if it is time for one, with the stage that
    /// `encode` writes. The buffers of all producers must be flushed.
    ///
    /// Errors: storage errors. The checkpoint before it stays.
    pub(super) fn checkpoint(&mut self, encode: impl FnOnce(&mut Encoder)) -> Result<(), IndexError> {
        self.complete_checkpoint()?;
        if self.clock().is_due(&self.chain) { self.begin_checkpoint(encode) } else { Ok(()) }
    }

    /// Records rows, runs and the stage that `encode` writes, and begins to flush them. The buffers of all producers must be
    /// flushed.
    ///
    /// Errors: storage errors.
    pub(super) fn begin_checkpoint(&mut self, encode: impl FnOnce(&mut Encoder)) -> Result<(), IndexError> {
        self.complete_checkpoint()?;
        let mut dirty = Vec::new();
        let runs = self.runs.values().map(|runs| runs.record(&mut dirty)).collect::<Result<Vec<_>, _>>()?;
        let mut overwritten: Vec<_> = self.chain.overwritten.iter().map(|(one, other)| (*one, *other)).collect();
        overwritten.sort_unstable();
        let checkpoint = Checkpoint { plan: self.plan.clone(), peak: self.chain.space.peak(), runs, overwritten };
        let mut row = checkpoint.encode();
        encode(&mut row);
        for path in [&self.directory.path, &self.chain.options.path] {
            dirty.push(File::open(path).map_err(file("open", path))?);
        }
        if let Some(raw_files) = &self.chain.options.raw_files {
            dirty.extend(raw_files.take_dirty()?);
        }
        let is_flushed = Arc::new(AtomicBool::new(false));
        let flushed = Arc::clone(&is_flushed);
        let flush = move || {
            let result = flush(&dirty);
            flushed.store(true, Ordering::Release);
            result
        };
        let thread =
            thread::Builder::new().name("import-checkpoint".into()).spawn(flush).map_err(IndexError::Threads)?;
        self.unfinished = Some(UnfinishedCheckpoint {
            is_flushed,
            thread,
            recorded: RecordedState {
                row: row.finish(),
                counts: self.builder.counts().clone(),
                retired: std::mem::take(&mut self.retired),
            },
        });
        self.checkpointed = Instant::now();
        Ok(())
    }

    /// Waits for the checkpoint that is being flushed, makes it durable, and removes what only earlier ones need.
    ///
    /// Errors: storage errors. The checkpoint before it stays.
    pub(super) fn complete_checkpoint(&mut self) -> Result<(), IndexError> {
        let Some(unfinished) = self.unfinished.take() else { return Ok(()) };
        let RecordedState { row, counts, retired } = unfinished.wait()?;
        self.builder.commit_checkpoint(&row, &counts)?;
        self.runs.values().chain(&self.retired).try_for_each(|runs| runs.remove_consumed())?;
        retired.iter().try_for_each(|runs| runs.remove())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // the error that is reported already may be why this fails; the checkpoint before it stays then
        let _ = self.complete_checkpoint();
    }
}

/// A lock on the directory of temporary runs, so that two imports do not write each other's files. Systems that do not lock
/// directories have none.
struct DirectoryLock {
    _directory: Option<File>,
}

impl DirectoryLock {
    /// Makes the directory if it does not exist.
    ///
    /// Errors: [`IndexError::TemporaryDirectoryInUse`], `File`.
    fn of(directory: &Path) -> Result<Self, IndexError> {
        fs::create_dir_all(directory).map_err(file("make the directory", directory))?;
        let open = File::open(directory).ok();
        match open.as_ref().map(File::try_lock) {
            Some(Err(TryLockError::WouldBlock)) => {
                Err(IndexError::TemporaryDirectoryInUse { directory: directory.to_path_buf() })
            }
            _ => Ok(Self { _directory: open }),
        }
    }
}

/// A checkpoint while the files that it needs are flushed. Rows and runs grow meanwhile: what is behind the recorded
/// numbers of rows and chunks is removed when the import is resumed.
struct UnfinishedCheckpoint {
    is_flushed: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<()>>,
    recorded: RecordedState,
}

/// What a checkpoint makes durable when its files are flushed.
struct RecordedState {
    row: Vec<u8>,
    /// The rows of each table.
    counts: BTreeMap<String, Count>,
    /// Runs that this checkpoint does not need, and an earlier one does.
    retired: Vec<Arc<Runs>>,
}

impl UnfinishedCheckpoint {
    /// Waits until all files are flushed.
    fn wait(self) -> Result<RecordedState, IndexError> {
        let flushed =
            self.thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that flushes panicked")));
        flushed.map_err(IndexError::Sorting)?;
        Ok(self.recorded)
    }
}

/// Says when the next checkpoint is due.
#[derive(Clone)]
pub(super) struct CheckpointClock {
    begun: Instant,
    /// Of the checkpoint that is being flushed.
    is_flushed: Option<Arc<AtomicBool>>,
}

impl CheckpointClock {
    /// Whether a checkpoint is to be completed or begun: after the interval of the options, or when runs take too much
    /// space.
    pub(super) fn is_due(&self, chain: &ImportedChain) -> bool {
        let is_due = match &self.is_flushed {
            Some(is_flushed) => is_flushed.load(Ordering::Acquire),
            None => self.begun.elapsed() >= chain.options.checkpoint_interval,
        };
        is_due || chain.space.is_exceeded(self.is_flushed.is_some())
    }

    /// [`ControlFlow::Break`] when a checkpoint is due.
    pub(super) fn flow(&self, chain: &ImportedChain) -> ControlFlow<()> {
        if self.is_due(chain) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Flushes files to the disk, several at a time: a file system writes them together.
fn flush(files: &[File]) -> std::io::Result<()> {
    thread::scope(|scope| {
        let flush = |files: &[File]| files.iter().try_for_each(File::sync_data);
        let threads: Vec<_> = files
            .chunks(files.len().div_ceil(FLUSHES).max(1))
            .map(|files| thread::Builder::new().name("import-flush".into()).spawn_scoped(scope, move || flush(files)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let flushed = thread?.join();
            flushed.unwrap_or_else(|_| Err(std::io::Error::other("the thread that flushes files panicked")))
        })
    })
}

/// Cuts the raw files behind those of these blocks that they begin with. Blocks that they lack are copied from the node when the
/// import is in force.
fn keep_raw_blocks(options: &ImportOptions, hashes: &[BlockHash]) -> Result<(), IndexError> {
    options.raw_files.as_ref().map_or(Ok(()), |raw_files| raw_files.keep_tail(hashes))
}

/// Removes all files of an unfinished import. Unlike a finished generation, it can be made again.
///
/// Errors: [`IndexError::File`], also if the file is a finished generation.
pub(super) fn discard(options: &ImportOptions) -> Result<(), IndexError> {
    if options.path.try_exists().map_err(file("look for", &options.path))? {
        drop(GenerationBuilder::open_resumable(&options.path, builder::cache_of(options.memory))?);
    }
    remove(options)
}

/// Removes the runs in a directory that no import uses.
///
/// Errors: [`IndexError::File`], `TemporaryDirectoryInUse`.
pub(super) fn remove_runs(directory: &Path) -> Result<(), IndexError> {
    if !directory.exists() {
        return Ok(());
    }
    let _lock = DirectoryLock::of(directory)?;
    remove_files(directory, &BTreeSet::new())
}

/// Removes all files of an import.
pub(super) fn remove(options: &ImportOptions) -> Result<(), IndexError> {
    builder::remove_resumable(&options.path)?;
    remove_files(&options.directory, &BTreeSet::new())
}
