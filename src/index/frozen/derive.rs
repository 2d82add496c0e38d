//! Builds a table of a generation in a file of its own, from the bytes of its blocks.
//!
//! ```text
//!   blocks ─► records (cut hash ‖ txnum) ─► sorted runs on the disk ─► merged ─► rows ─► <generation>.<table>-<version>.redb
//! ```
//!
//! Each run has the transactions of consecutive blocks, and has its name only when it is durable: a build that is
//! interrupted continues behind its last run. Merging them, which takes a small part of the time, begins anew.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bitcoin::block::Header;
use bitcoin::consensus::deserialize;
use bitcoin::{BlockHash, Network, merkle_tree};

use super::super::error::IndexError;
use super::super::keys::{Salt, TxNum};
use super::super::open::file;
use super::super::update::Tip;
use super::super::witnesses::commits_to_witnesses;
use super::builder::{GenerationBuilder, remove_if_exists};
use super::derived::{DerivedName, WtxidsFile};
use super::facts::{GenerationRange, facts};
use super::generations::{Generations, InForce};
use super::tables::txid_prefixes::{CutBits, CutHash, TxidPrefixPacker};
use super::tables::wtxids;
use crate::chain::Height;
use crate::chain::raw::{RawBlock, RawTransaction};

/// Bytes of a record: cut hash (6) ‖ txnum (4).
const RECORD: usize = 10;
/// Rows that are appended at once.
const ROWS: usize = 256;
/// Records of a run, 40 MiB in memory: mainnet has a few hundred runs.
const RUN_RECORDS: usize = 4 << 20;
/// Bytes of a run that are read at once.
const READ: usize = 1 << 16;
/// About the bytes on the disk for each transaction: a record, and its part of a row.
const BYTES_PER_TRANSACTION: u64 = 17;

type HashRecord = [u8; RECORD];

/// A table that a generation lacks, or has in an older version.
pub struct DueTable {
    pub(super) generations: Arc<Generations>,
    pub(super) in_force: InForce,
    pub(super) name: DerivedName,
    /// Where files of generations are.
    pub(super) directory: PathBuf,
    /// Where the files of this build are.
    pub(super) temporary: PathBuf,
    pub(super) network: Network,
    pub(super) salt: Salt,
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
        name: DerivedName,
        (directory, temporary): (PathBuf, &Path),
        (network, salt): (Network, Salt),
    ) -> Self {
        let temporary = temporary.join(name.to_string());
        Self { generations, in_force, name, directory, temporary, network, salt, run_records: RUN_RECORDS }
    }

    /// The name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.name.table
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

    /// About the bytes that the build takes on the disk of the index.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        u64::from(self.range().transactions()).saturating_mul(BYTES_PER_TRANSACTION)
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
        let counter = BuiltTransactions(&self.generations.building);
        fs::create_dir_all(&self.temporary).map_err(file("make the directory", &self.temporary))?;
        let runs = self.read_blocks(stop, watch, &counter)?;
        let packed = self.temporary.join("packed.redb");
        remove_if_exists(&packed)?;
        self.write_rows(&packed, &runs, stop, watch)?;
        fs::rename(&packed, &placed).map_err(file("move the table to", &placed))?;
        flush(&self.directory)?;
        self.remove_temporary()
    }

    fn remove_temporary(&self) -> Result<(), IndexError> {
        match fs::remove_dir_all(&self.temporary) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(file("remove", &self.temporary)),
        }
    }

    /// Whether the file is there, and can be named.
    fn is_complete(&self) -> bool {
        let found = WtxidsFile::open(&self.directory, &self.name, self.network, self.salt, 0);
        found.and_then(|found| found.is_of(&self.in_force)).unwrap_or(false)
    }

    fn read_blocks(
        &self,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(BuildProgress),
        BuiltTransactions(counter): &BuiltTransactions<'_>,
    ) -> Result<Vec<Run>, IndexError> {
        let range = self.range();
        let mut runs = Run::find(&self.temporary, range.txnums)?;
        let first = runs.last().map_or(range.txnums.0, |run| run.txnums.1);
        let (before, total) = (u64::from(first.0 - range.txnums.0.0), range.transactions().into());
        let height = match self.in_force.generation.occurrence(first)? {
            Some(block) => block.height,
            // all blocks are read
            None => range.last.height.next(),
        };
        let cut_bits = self.cut_bits();
        let with_all = wtxids::has_transactions_without_witness(self.name.version);
        let (mut txnum, mut run) = (first, first);
        let mut records: Vec<HashRecord> = Vec::new();
        for height in (height.to_u32()..=range.last.height.to_u32()).map(Height::from) {
            if stop.load(Ordering::Relaxed) {
                return Err(IndexError::Interrupted);
            }
            self.with_block(height, |block| {
                for transaction in &block.transactions {
                    if with_all || transaction.has_witness() {
                        let hash = cut_bits.cut(self.salt.wtxid_prefix(&transaction.wtxid()));
                        records.push(record(hash, txnum));
                    }
                    txnum = TxNum(txnum.0.saturating_add(1));
                }
            })?;
            if records.len() >= self.run_records || height == range.last.height {
                runs.push(Run::write(&self.temporary, (run, txnum), &mut records)?);
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

    /// Reads a block and checks every byte of it.
    fn with_block(&self, height: Height, visit: impl FnOnce(&RawBlock<'_>)) -> Result<(), IndexError> {
        let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
        let row = self.in_force.generation.block(height)?.ok_or_else(missing)?;
        let (hash, tip) = (row.hash, Tip { height, hash: row.hash });
        let check = |bytes: Vec<u8>| match RawBlock::parse(&bytes) {
            Ok(block) if is_block(&block, hash) => Ok(bytes),
            _ => Err("the bytes that were returned are another block's".to_owned()),
        };
        let bytes = self.generations.raw().read(tip, 0, row.size, check)?;
        visit(&RawBlock::parse(&bytes).map_err(|source| IndexError::Malformed { hash, source })?);
        Ok(())
    }

    /// Merges the runs into the rows of the table.
    fn write_rows(
        &self,
        path: &Path,
        runs: &[Run],
        stop: &Arc<AtomicBool>,
        watch: &mut dyn FnMut(BuildProgress),
    ) -> Result<(), IndexError> {
        let mut builder = GenerationBuilder::create(path)?.stopped_by(Arc::clone(stop));
        let (total, mut done) = (runs.iter().map(|run| run.records).sum(), 0_u64);
        let (mut packer, mut rows) = (TxidPrefixPacker::default(), Vec::with_capacity(ROWS));
        // a table without rows is made all the same
        builder.append(wtxids::TABLE, &rows, Vec::as_slice)?;
        for record in MergedRuns::open(runs)? {
            let (hash, txnum) = split(&record?);
            rows.extend(packer.push(hash, txnum));
            done += 1;
            if rows.len() == ROWS {
                builder.append(wtxids::TABLE, &rows, Vec::as_slice)?;
                rows.clear();
                watch(BuildProgress { phase: BuildPhase::Writing, done, total, before: 0 });
            }
        }
        rows.extend(packer.finish());
        builder.append(wtxids::TABLE, &rows, Vec::as_slice)?;
        let versions = [(wtxids::NAME, self.name.version)];
        let facts = facts(&self.range(), (self.network, self.salt), self.cut_bits(), versions, builder.counts());
        builder.finish_file(&facts)
    }
}

/// Whether these are the bytes of this block, witnesses included.
fn is_block(block: &RawBlock<'_>, hash: BlockHash) -> bool {
    let Ok(header) = deserialize::<Header>(block.header) else { return false };
    let txids = block.transactions.iter().map(|transaction| transaction.txid().to_raw_hash());
    header.block_hash() == hash
        && merkle_tree::calculate_root(txids) == Some(header.merkle_root.to_raw_hash())
        && (!block.transactions.iter().any(RawTransaction::has_witness) || commits_to_witnesses(&block.transactions))
}

fn record(hash: CutHash, txnum: TxNum) -> HashRecord {
    let mut record = [0; RECORD];
    record[..6].copy_from_slice(&hash.to_key());
    record[6..].copy_from_slice(&txnum.to_key());
    record
}

fn split(record: &HashRecord) -> (CutHash, TxNum) {
    let (mut hash, mut txnum) = ([0; 6], [0; 4]);
    hash.copy_from_slice(&record[..6]);
    txnum.copy_from_slice(&record[6..]);
    (CutHash::from_key(hash), TxNum::from_key(txnum))
}

fn flush(directory: &Path) -> Result<(), IndexError> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(file("flush", directory))
}

/// A file of sorted records, `<first txnum>-<txnum behind the last>-<records>.run`.
struct Run {
    path: PathBuf,
    txnums: (TxNum, TxNum),
    records: u64,
}

impl Run {
    /// The complete runs of an earlier attempt, which follow each other from the first transaction on. Removes all others.
    fn find(directory: &Path, txnums: (TxNum, TxNum)) -> Result<Vec<Self>, IndexError> {
        let (mut found, mut others) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(directory).map_err(file("read", directory))? {
            let entry = entry.map_err(file("read", directory))?;
            let bytes = entry.metadata().map_err(file("read", directory))?.len();
            match Self::of(entry.path()) {
                Some(run) if bytes == run.records.saturating_mul(RECORD as u64) => found.push(run),
                _ => others.push(entry.path()),
            }
        }
        found.sort_unstable_by_key(|run| run.txnums);
        let (mut runs, mut next) = (Vec::new(), txnums.0);
        for run in found {
            // a generation that was shortened since has other blocks behind its end
            if run.txnums.0 == next && run.txnums.1 <= txnums.1 {
                next = run.txnums.1;
                runs.push(run);
            } else {
                others.push(run.path);
            }
        }
        others.iter().try_for_each(|path| remove_if_exists(path))?;
        Ok(runs)
    }

    fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".run")?;
        let mut numbers = name.split('-').map(|number| number.parse::<u32>().ok());
        let (first, end, records) = (numbers.next()??, numbers.next()??, numbers.next()??);
        (numbers.next().is_none() && first < end).then(|| Self {
            txnums: (TxNum(first), TxNum(end)),
            records: records.into(),
            path,
        })
    }

    /// Makes a run of these records durable, and removes them from the list.
    fn write(directory: &Path, txnums: (TxNum, TxNum), records: &mut Vec<HashRecord>) -> Result<Self, IndexError> {
        records.sort_unstable();
        let unnamed = directory.join("run.new");
        let write = || {
            let mut run = BufWriter::new(File::create(&unnamed)?);
            records.iter().try_for_each(|record| run.write_all(record))?;
            run.into_inner()?.sync_all()
        };
        write().map_err(file("write", &unnamed))?;
        let path = directory.join(format!("{}-{}-{}.run", txnums.0, txnums.1, records.len()));
        fs::rename(&unnamed, &path).map_err(file("make", &path))?;
        flush(directory)?;
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        records.clear();
        Ok(Self { path, txnums, records: count })
    }
}

/// The records of all runs in their order.
struct MergedRuns<'r> {
    runs: Vec<(&'r Run, BufReader<File>, u64)>,
    fronts: BinaryHeap<Reverse<(HashRecord, usize)>>,
}

impl<'r> MergedRuns<'r> {
    fn open(runs: &'r [Run]) -> Result<Self, IndexError> {
        let open = |run: &'r Run| {
            let opened = File::open(&run.path).map_err(file("open", &run.path))?;
            Ok((run, BufReader::with_capacity(READ, opened), run.records))
        };
        let runs = runs.iter().map(open).collect::<Result<Vec<_>, IndexError>>()?;
        let mut merged = Self { fronts: BinaryHeap::with_capacity(runs.len()), runs };
        for at in 0..merged.runs.len() {
            merged.read(at)?;
        }
        Ok(merged)
    }

    fn read(&mut self, at: usize) -> Result<(), IndexError> {
        let (run, reader, left) = &mut self.runs[at];
        if let Some(after) = left.checked_sub(1) {
            let mut record = [0; RECORD];
            reader.read_exact(&mut record).map_err(file("read", &run.path))?;
            *left = after;
            self.fronts.push(Reverse((record, at)));
        }
        Ok(())
    }
}

impl Iterator for MergedRuns<'_> {
    type Item = Result<HashRecord, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((record, at)) = self.fronts.pop()?;
        Some(self.read(at).map(|()| record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(runs: &[Run]) -> Vec<(u32, u32)> {
        runs.iter().map(|run| (run.txnums.0.0, run.txnums.1.0)).collect()
    }

    #[test]
    fn runs_are_merged_in_order_and_continued_behind_the_last_complete_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let write = |first: u32, end: u32, hashes: &[u64]| {
            let mut records: Vec<_> = hashes
                .iter()
                .zip(first..)
                .map(|(hash, txnum)| record(CutHash::from_number(*hash), TxNum(txnum)))
                .collect();
            Run::write(path, (TxNum(first), TxNum(end)), &mut records).unwrap()
        };
        let all = (TxNum(5), TxNum(20));
        assert_eq!(numbers(&Run::find(path, all).unwrap()), []);
        write(5, 8, &[30, 10, 20]);
        write(8, 12, &[]);
        write(12, 15, &[10, 5]);
        fs::write(path.join("run.new"), "unfinished").unwrap();
        let runs = Run::find(path, all).unwrap();
        assert_eq!(numbers(&runs), [(5, 8), (8, 12), (12, 15)]);
        assert!(!path.join("run.new").exists());
        let merged: Vec<_> = MergedRuns::open(&runs).unwrap().map(|record| split(&record.unwrap()).1.0).collect();
        assert_eq!(merged, [13, 6, 12, 7, 5]);
        // a generation that ends before one of them, and a run that is short
        assert_eq!(numbers(&Run::find(path, (TxNum(5), TxNum(14))).unwrap()), [(5, 8), (8, 12)]);
        assert!(!path.join("12-15-2.run").exists());
        fs::write(path.join("5-8-3.run"), [0; 29]).unwrap();
        assert_eq!(numbers(&Run::find(path, all).unwrap()), []);
        assert_eq!(fs::read_dir(path).unwrap().count(), 0);
    }
}
