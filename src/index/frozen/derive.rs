//! Builds a table of a generation in a file of its own, from the bytes of its blocks.
//!
//! ```text
//!   blocks ─► records of a fixed size ─► sorted runs on the disk ─► merged ─► rows ─► <generation>.<table>-<version>.redb
//! ```
//!
//! Each run has the transactions of consecutive blocks, and has its name only when it is durable: a build that is
//! interrupted continues behind its last run. Merging them, which takes a small part of the time, begins anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bitcoin::block::Header;
use bitcoin::consensus::deserialize;
use bitcoin::{BlockHash, merkle_tree};

use super::super::error::IndexError;
use super::super::files::{bytes_below, file, flush_directory, remove_directory_if_exists, remove_if_exists};
use super::super::hot::tip::Tip;
use super::super::keys::TxNum;
use super::super::optional::{OptionalTable, RowContext};
use super::super::raw::RawSources;
use super::super::witnesses::commits_to_witnesses;
use super::builder::GenerationBuilder;
use super::derived::{DerivedFile, DerivedName};
use super::facts::{GenerationRange, facts};
use super::generation::Generation;
use super::generations::Generations;
use super::in_force::InForce;
use super::record_runs::{MergedRuns, RecordRun};
use super::tables::address_prefixes::AddressPrefixesForm;
use super::tables::derived_form::DerivedForm;
use super::tables::op_returns::OpReturnsForm;
use super::tables::txid_prefixes::CutBits;
use super::tables::wtxids::WtxidsForm;
use crate::chain::Height;
use crate::chain::raw::{RawBlock, RawTransaction};

/// Rows that are appended at once.
const ROWS: usize = 256;
/// Bytes of the records of a run in memory, 40 MiB: mainnet has a few hundred runs.
const RUN_BYTES: usize = 40 << 20;

/// A table that a generation lacks, or has in an older version.
pub struct DueTable {
    pub(super) generations: Arc<Generations>,
    pub(super) in_force: InForce,
    table: OptionalTable,
    pub(super) name: DerivedName,
    /// Where files of generations are.
    pub(super) directory: PathBuf,
    /// Where the files of this build are.
    pub(super) temporary: PathBuf,
    context: RowContext,
    run_records: usize,
}

/// The progress of building a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildProgress {
    /// What is being done.
    pub phase: BuildPhase,
    /// Transactions or records that are done.
    pub done: u64,
    /// All of them.
    pub total: u64,
    /// Those of `done` that were done before this process.
    pub before: u64,
}

/// A phase of building a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildPhase {
    /// Blocks are read.
    Reading,
    /// Rows are written.
    Writing,
}

/// The counter of transactions that the table under construction has, back at 0 when the build ends.
struct BuiltTransactions<'c>(&'c AtomicU64);

impl Drop for BuiltTransactions<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl DueTable {
    pub(in crate::index) fn new(
        generations: Arc<Generations>,
        in_force: InForce,
        (table, name): (OptionalTable, DerivedName),
        (directory, temporary): (PathBuf, &Path),
        context: RowContext,
    ) -> Self {
        let temporary = temporary.join(name.to_string());
        let run_records = RUN_BYTES / table.key_bytes();
        Self { generations, in_force, table, name, directory, temporary, context, run_records }
    }

    /// The name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.name.table
    }

    /// The table.
    #[must_use]
    pub fn optional(&self) -> OptionalTable {
        self.table
    }

    /// The version in which it is built.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.name.version
    }

    /// The blocks and transactions that it covers.
    #[must_use]
    pub fn range(&self) -> GenerationRange {
        let InForce { generation, last, end, .. } = &self.in_force;
        let range = generation.range();
        GenerationRange { last: *last, txnums: (range.txnums.0, *end), ..range }
    }

    /// About the bytes that the build takes on the disk of the index, beside what it has read so far.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let all = u64::from(self.range().transactions()).saturating_mul(self.table.build_bytes_per_transaction());
        // unknown counts as nothing: more space than needed is asked for
        all.saturating_sub(bytes_below(&self.temporary).unwrap_or_default())
    }

    /// Writes so many records into a run. An interruption loses at most one run.
    #[must_use]
    pub fn with_run_records(self, run_records: usize) -> Self {
        Self { run_records, ..self }
    }

    /// Builds an older version, as an older program does.
    #[must_use]
    pub fn in_version(mut self, version: u32) -> Self {
        self.name = self.name.with_version(version);
        self.temporary.set_file_name(self.name.to_string());
        self
    }

    pub(in crate::index) fn name(&self) -> &DerivedName {
        &self.name
    }

    /// Builds the file and moves it to the files of generations, or continues a build that was interrupted. Nothing reads
    /// it before [`Index::name_table`](super::super::Index::name_table). Reports its progress on this thread, and ends
    /// when `stop` is raised.
    ///
    /// Errors: [`IndexError::RawUnavailable`] if a block cannot be read or is another; `Interrupted`; `File`; storage errors.
    pub fn build(&self, stop: &Arc<AtomicBool>, watch: &mut dyn FnMut(BuildProgress)) -> Result<(), IndexError> {
        let placed = self.directory.join(self.name.file());
        if placed.try_exists().map_err(file("look for", &placed))? {
            // an earlier build ended right then, or the file was damaged since it was named
            if self.is_complete() {
                return self.remove_temporary();
            }
            remove_if_exists(&placed)?;
        }
        fs::create_dir_all(&self.temporary).map_err(file("make the directory", &self.temporary))?;
        let packed = self.temporary.join("packed.redb");
        remove_if_exists(&packed)?;
        let (context, version) = (self.context, self.name.version);
        match self.table {
            OptionalTable::Wtxids => {
                self.build_form(WtxidsForm::new(context, version, self.cut_bits()), &packed, stop, watch)?;
            }
            OptionalTable::OpReturns => self.build_form(OpReturnsForm::new(), &packed, stop, watch)?,
            OptionalTable::AddressPrefixes => {
                self.build_form(AddressPrefixesForm::new(context), &packed, stop, watch)?;
            }
        }
        fs::rename(&packed, &placed).map_err(file("move the table to", &placed))?;
        flush_directory(&self.directory)?;
        self.remove_temporary()
    }

    fn build_form<const RECORD: usize, const KEY: usize>(
        &self,
        form: impl DerivedForm<RECORD, KEY>,
        packed: &Path,
        stop: &Arc<AtomicBool>,
        watch: &mut dyn FnMut(BuildProgress),
    ) -> Result<(), IndexError> {
        let counter = BuiltTransactions(self.generations.building_counter(self.table));
        let runs = self.read_blocks(&form, stop, watch, &counter)?;
        self.write_rows(form, packed, &runs, stop, watch)
    }

    fn remove_temporary(&self) -> Result<(), IndexError> {
        remove_directory_if_exists(&self.temporary)
    }

    /// Whether the file is there, and can be named.
    fn is_complete(&self) -> bool {
        let RowContext { network, salt } = self.context;
        let found = DerivedFile::open(&self.directory, &self.name, network, salt, 0);
        found.and_then(|found| found.is_of(&self.in_force)).unwrap_or(false)
    }

    fn read_blocks<const RECORD: usize, const KEY: usize>(
        &self,
        form: &impl DerivedForm<RECORD, KEY>,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(BuildProgress),
        BuiltTransactions(counter): &BuiltTransactions<'_>,
    ) -> Result<Vec<RecordRun<RECORD>>, IndexError> {
        let range = self.range();
        let mut runs = RecordRun::find(&self.temporary, range.txnums)?;
        let first = runs.last().map_or(range.txnums.0, |run| run.txnums.1);
        let (before, total) = (u64::from(first.0 - range.txnums.0.0), range.transactions().into());
        let height = match self.in_force.generation.occurrence(first)? {
            Some(block) => block.height,
            // all blocks are read
            None => range.last.height.next(),
        };
        let (mut txnum, mut run) = (first, first);
        let mut records: Vec<[u8; RECORD]> = Vec::new();
        for height in (height.to_u32()..=range.last.height.to_u32()).map(Height::from) {
            if stop.load(Ordering::Relaxed) {
                return Err(IndexError::Interrupted);
            }
            with_block(&self.in_force.generation, self.generations.raw(), height, |block| {
                for transaction in &block.transactions {
                    form.each_record(txnum, transaction, &mut |record| records.push(record));
                    txnum = TxNum(txnum.0.saturating_add(1));
                }
            })?;
            if records.len() >= self.run_records || height == range.last.height {
                runs.push(RecordRun::write(&self.temporary, (run, txnum), &mut records)?);
                run = txnum;
            }
            let done = u64::from(txnum.0 - range.txnums.0.0);
            counter.store(done, Ordering::Relaxed);
            watch(BuildProgress { phase: BuildPhase::Reading, done, total, before });
        }
        if txnum == range.txnums.1 {
            return Ok(runs);
        }
        let what = format!("the blocks up to height {} have transactions up to {txnum}", range.last.height);
        Err(IndexError::corrupt("blocks", what))
    }

    /// Of all blocks of the generation, also if it is shortened between two attempts.
    fn cut_bits(&self) -> CutBits {
        self.in_force.generation.range().cut_bits()
    }

    /// Merges the runs into the rows of the table.
    fn write_rows<const RECORD: usize, const KEY: usize, F: DerivedForm<RECORD, KEY>>(
        &self,
        mut form: F,
        path: &Path,
        runs: &[RecordRun<RECORD>],
        stop: &Arc<AtomicBool>,
        watch: &mut dyn FnMut(BuildProgress),
    ) -> Result<(), IndexError> {
        let mut builder = GenerationBuilder::create(path)?.stopped_by(Arc::clone(stop));
        let (total, mut done) = (runs.iter().map(|run| run.records).sum(), 0_u64);
        let mut rows = Vec::with_capacity(ROWS);
        // a table without rows is made all the same
        builder.append(F::TABLE, &rows, Vec::as_slice)?;
        for record in MergedRuns::open(runs)? {
            rows.extend(form.push(&record?));
            done += 1;
            if rows.len() == ROWS {
                builder.append(F::TABLE, &rows, Vec::as_slice)?;
                rows.clear();
                watch(BuildProgress { phase: BuildPhase::Writing, done, total, before: 0 });
            }
        }
        rows.extend(form.finish());
        builder.append(F::TABLE, &rows, Vec::as_slice)?;
        let versions = [(self.table.name(), self.name.version)];
        let RowContext { network, salt } = self.context;
        let facts = facts(&self.range(), (network, salt), self.cut_bits(), versions, builder.counts());
        builder.finish_file(&facts)
    }
}

/// Reads a block of a generation and checks every byte of it.
///
/// Errors: [`IndexError::RawUnavailable`] if it cannot be read or is another; storage errors.
pub(super) fn with_block(
    generation: &Generation,
    raw: &RawSources,
    height: Height,
    visit: impl FnOnce(&RawBlock<'_>),
) -> Result<(), IndexError> {
    let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
    let row = generation.block(height)?.ok_or_else(missing)?;
    let (hash, tip) = (row.hash, Tip { height, hash: row.hash });
    let check = |bytes: Vec<u8>| match RawBlock::parse(&bytes) {
        Ok(block) if is_block(&block, hash) => Ok(bytes),
        _ => Err("the bytes that were returned are another block's".to_owned()),
    };
    let bytes = raw.read(tip, 0, row.size, check)?;
    visit(&RawBlock::parse(&bytes).map_err(|source| IndexError::Malformed { hash, source })?);
    Ok(())
}

/// Whether these are the bytes of this block, witnesses included.
fn is_block(block: &RawBlock<'_>, hash: BlockHash) -> bool {
    let Ok(header) = deserialize::<Header>(block.header) else { return false };
    let txids = block.transactions.iter().map(|transaction| transaction.txid().to_raw_hash());
    header.block_hash() == hash
        && merkle_tree::calculate_root(txids) == Some(header.merkle_root.to_raw_hash())
        && (!block.transactions.iter().any(RawTransaction::has_witness) || commits_to_witnesses(&block.transactions))
}
