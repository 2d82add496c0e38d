//! External merge sort of byte strings: runs are sorted in memory, spilled to a temporary file, and merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The most bytes read from a run at once while merging; fewer when there are many runs for the memory.
const READ: usize = 1 << 16;
/// The fewest, which bounds the memory of some `memory² / 1,500` bytes of records: 3 GB with 2 MiB.
const LEAST_READ: usize = 512;

/// Collects records in any order.
pub(super) struct Sorter {
    directory: PathBuf,
    memory: usize,
    /// Concatenated records, and the start and end of each.
    bytes: Vec<u8>,
    records: Vec<(usize, usize)>,
    spilled: Option<Spilled>,
}

struct Spilled {
    file: BufWriter<File>,
    length: u64,
    /// The start and end of each sorted run.
    runs: Vec<(u64, u64)>,
}

impl Sorter {
    /// A sorter that uses about `memory` bytes, and an unnamed file in `directory` that disappears when it is closed.
    pub(super) fn new(directory: &Path, memory: usize) -> Self {
        let directory = directory.to_path_buf();
        Self { directory, memory, bytes: Vec::new(), records: Vec::new(), spilled: None }
    }

    /// An empty sorter of the same memory and directory.
    pub(super) fn like(&self) -> Self {
        Self::new(&self.directory, self.memory)
    }

    /// Adds the record that the concatenated parts form.
    pub(super) fn push(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let start = self.bytes.len();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.records.push((start, self.bytes.len()));
        // vectors double when they grow, so they may use half of the memory at most
        if 2 * (self.bytes.len() + self.records.len() * size_of::<(usize, usize)>()) > self.memory {
            self.spill()?;
        }
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.records.sort_unstable_by(|one, other| bytes[one.0..one.1].cmp(&bytes[other.0..other.1]));
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => {
                let file = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(&self.directory)?);
                none.insert(Spilled { file, length: 0, runs: Vec::new() })
            }
        };
        let start = spilled.length;
        for (from, to) in &self.records {
            let length = u32::try_from(to - from).map_err(io::Error::other)?;
            spilled.file.write_all(&length.to_le_bytes())?;
            spilled.file.write_all(&self.bytes[*from..*to])?;
            spilled.length += 4 + u64::from(length);
        }
        spilled.runs.push((start, spilled.length));
        self.bytes.clear();
        self.records.clear();
        Ok(())
    }

    /// All records in the order of their bytes.
    pub(super) fn sorted(mut self) -> io::Result<SortedRecords> {
        if self.spilled.is_some() {
            self.spill()?;
        }
        let Some(spilled) = self.spilled.take() else {
            self.sort();
            return Ok(SortedRecords::Memory { bytes: self.bytes, records: self.records.into_iter() });
        };
        let mut file = spilled.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let mut runs = Vec::with_capacity(spilled.runs.len());
        let mut heap = BinaryHeap::with_capacity(spilled.runs.len());
        // the buffer is spilled: free its memory for the runs
        (self.bytes, self.records) = (Vec::new(), Vec::new());
        let at_once = (self.memory / spilled.runs.len().max(1)).clamp(LEAST_READ, READ);
        for (at, end) in spilled.runs {
            let mut run = SortedRun { at, end, at_once, buffer: Vec::new(), read: 0 };
            if let Some(record) = run.next(&mut file)? {
                heap.push(Reverse((record, runs.len())));
            }
            runs.push(run);
        }
        Ok(SortedRecords::Merge { file, runs, heap })
    }
}

/// Records in order.
pub(super) enum SortedRecords {
    Memory { bytes: Vec<u8>, records: std::vec::IntoIter<(usize, usize)> },
    Merge { file: File, runs: Vec<SortedRun>, heap: BinaryHeap<Reverse<(Vec<u8>, usize)>> },
}

/// A sorted run in the file.
pub(super) struct SortedRun {
    at: u64,
    end: u64,
    /// Bytes to read at once, or more for a larger record.
    at_once: usize,
    buffer: Vec<u8>,
    read: usize,
}

impl SortedRun {
    fn next(&mut self, file: &mut File) -> io::Result<Option<Vec<u8>>> {
        if !self.fill(file, 4)? {
            return Ok(None);
        }
        let mut length = [0; 4];
        length.copy_from_slice(&self.buffer[self.read..self.read + 4]);
        let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
        if !self.fill(file, 4 + length)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let record = self.buffer[self.read + 4..self.read + 4 + length].to_vec();
        self.read += 4 + length;
        Ok(Some(record))
    }

    /// Makes `count` bytes readable in the buffer; false at the end of the run.
    fn fill(&mut self, file: &mut File, count: usize) -> io::Result<bool> {
        if self.buffer.len() - self.read >= count {
            return Ok(true);
        }
        self.buffer.drain(..self.read);
        self.read = 0;
        let wanted = u64::try_from(count.max(self.at_once) - self.buffer.len()).map_err(io::Error::other)?;
        let taken = wanted.min(self.end - self.at);
        file.seek(SeekFrom::Start(self.at))?;
        Read::take(&mut *file, taken).read_to_end(&mut self.buffer)?;
        self.at += taken;
        Ok(self.buffer.len() >= count)
    }
}

impl Iterator for SortedRecords {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Memory { bytes, records } => records.next().map(|(from, to)| Ok(bytes[from..to].to_vec())),
            Self::Merge { file, runs, heap } => {
                let Reverse((record, run)) = heap.pop()?;
                match runs[run].next(file) {
                    Ok(Some(next)) => heap.push(Reverse((next, run))),
                    Ok(None) => {}
                    Err(error) => return Some(Err(error)),
                }
                Some(Ok(record))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_records_come_back_in_order_with_and_without_memory(
            mut records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..200),
            memory in 1_usize..20_000,
        ) {
            let mut sorter = Sorter::new(&std::env::temp_dir(), memory);
            for record in &records {
                let (first, second) = record.split_at(record.len() / 2);
                sorter.push(&[first, second]).unwrap();
            }
            let found = sorter.sorted().unwrap().collect::<io::Result<Vec<_>>>().unwrap();
            records.sort();
            prop_assert_eq!(found, records);
        }
    }

    #[test]
    fn a_record_larger_than_one_read_survives() {
        let mut sorter = Sorter::new(&std::env::temp_dir(), 1);
        let large = vec![7; 3 * READ];
        sorter.push(&[&large]).unwrap();
        sorter.push(&[b"small"]).unwrap();
        let found = sorter.sorted().unwrap().collect::<io::Result<Vec<_>>>().unwrap();
        assert_eq!(found, [large, b"small".to_vec()]);
    }
}
