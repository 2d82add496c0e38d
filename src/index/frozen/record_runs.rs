//! Runs of sorted records of a fixed size, which a build leaves on the disk and merges at its end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::super::error::IndexError;
use super::super::files::{file, flush_directory, remove_if_exists};
use super::super::keys::TxNum;

/// Bytes of a run that are read at once.
const READ: usize = 1 << 16;

/// A file of sorted records, `<first txnum>-<txnum behind the last>-<records>.run`.
pub(super) struct RecordRun<const RECORD: usize> {
    path: PathBuf,
    pub(super) txnums: (TxNum, TxNum),
    pub(super) records: u64,
}

impl<const RECORD: usize> RecordRun<RECORD> {
    /// The complete runs of an earlier attempt, which follow each other from the first transaction on. Removes all others.
    pub(super) fn find(directory: &Path, txnums: (TxNum, TxNum)) -> Result<Vec<Self>, IndexError> {
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
    pub(super) fn write(
        directory: &Path,
        txnums: (TxNum, TxNum),
        records: &mut Vec<[u8; RECORD]>,
    ) -> Result<Self, IndexError> {
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
        flush_directory(directory)?;
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        records.clear();
        Ok(Self { path, txnums, records: count })
    }
}

/// The records of all runs in their order.
pub(super) struct MergedRuns<'r, const RECORD: usize> {
    runs: Vec<(&'r RecordRun<RECORD>, BufReader<File>, u64)>,
    fronts: BinaryHeap<Reverse<([u8; RECORD], usize)>>,
}

impl<'r, const RECORD: usize> MergedRuns<'r, RECORD> {
    pub(super) fn open(runs: &'r [RecordRun<RECORD>]) -> Result<Self, IndexError> {
        let open = |run: &'r RecordRun<RECORD>| {
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

impl<const RECORD: usize> Iterator for MergedRuns<'_, RECORD> {
    type Item = Result<[u8; RECORD], IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((record, at)) = self.fronts.pop()?;
        Some(self.read(at).map(|()| record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(runs: &[RecordRun<10>]) -> Vec<(u32, u32)> {
        runs.iter().map(|run| (run.txnums.0.0, run.txnums.1.0)).collect()
    }

    #[test]
    fn runs_are_merged_in_order_and_continued_behind_the_last_complete_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let write = |first: u32, end: u32, hashes: &[u64]| {
            let mut records: Vec<[u8; 10]> = hashes
                .iter()
                .zip(first..)
                .map(|(hash, txnum)| [&hash.to_be_bytes()[2..], &txnum.to_be_bytes()].concat().try_into().unwrap())
                .collect();
            RecordRun::write(path, (TxNum(first), TxNum(end)), &mut records).unwrap()
        };
        let all = (TxNum(5), TxNum(20));
        assert_eq!(numbers(&RecordRun::find(path, all).unwrap()), []);
        write(5, 8, &[30, 10, 20]);
        write(8, 12, &[]);
        write(12, 15, &[10, 5]);
        fs::write(path.join("run.new"), "unfinished").unwrap();
        let runs = RecordRun::find(path, all).unwrap();
        assert_eq!(numbers(&runs), [(5, 8), (8, 12), (12, 15)]);
        assert!(!path.join("run.new").exists());
        let merged: Vec<_> = MergedRuns::open(&runs)
            .unwrap()
            .map(|record| u32::from_be_bytes(*record.unwrap().last_chunk().unwrap()))
            .collect();
        assert_eq!(merged, [13, 6, 12, 7, 5]);
        // a generation that ends before one of them, and a run that is short
        assert_eq!(numbers(&RecordRun::find(path, (TxNum(5), TxNum(14))).unwrap()), [(5, 8), (8, 12)]);
        assert!(!path.join("12-15-2.run").exists());
        fs::write(path.join("5-8-3.run"), [0; 29]).unwrap();
        assert_eq!(numbers(&RecordRun::find(path, all).unwrap()), []);
        assert_eq!(fs::read_dir(path).unwrap().count(), 0);
    }
}
