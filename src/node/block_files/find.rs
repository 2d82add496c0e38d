//! Finds given blocks in all files, several files at once.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use bitcoin::BlockHash;

use super::positions::WantedBlocks;
use super::{BlockFileError, BlockFileReader, BlockPosition};
use crate::node::StopFlag;

/// Threads that scan: a disk without moving parts answers several reads at once.
const THREADS: usize = 4;

/// How far a scan of block files is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanProgress {
    /// Files that are scanned.
    pub files_done: usize,
    /// Files to scan.
    pub files: usize,
}

/// Which of the blocks were found.
pub(in crate::node) struct FoundBlocks {
    /// The position of each block, in the order of their hashes.
    pub(in crate::node) positions: Vec<Option<BlockPosition>>,
    /// The transactions of those that were found.
    pub(in crate::node) transactions: u64,
    /// The number of those that were found.
    pub(in crate::node) count: usize,
}

/// A block that was found: its index among the hashes, its position, and the number of its transactions.
type FoundBlock = (usize, BlockPosition, u64);

/// Scans these files for blocks. It ends early when all are found, or the flag is raised. A file that disappears while a node
/// prunes has no blocks.
///
/// Errors: a file cannot be read.
pub(in crate::node) fn find(
    reader: &BlockFileReader,
    files: &[u32],
    hashes: &[BlockHash],
    stop: &StopFlag,
    watch: &mut dyn FnMut(ScanProgress),
) -> Result<FoundBlocks, BlockFileError> {
    let wanted = WantedBlocks::new(hashes);
    let mut found = FoundBlocks { positions: vec![None; hashes.len()], transactions: 0, count: 0 };
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let is_stopped = || is_over.load(Ordering::Relaxed) || stop.is_raised();
    let (sender, scanned) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..THREADS.min(files.len()) {
            let (sender, wanted, next, is_stopped) = (sender.clone(), &wanted, &next, &is_stopped);
            scope.spawn(move || {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if is_stopped() || sender.send(scan(reader, *file, wanted, is_stopped)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut outcome = Ok(());
        for (done, blocks) in (1..).zip(scanned) {
            match blocks {
                Ok(blocks) => found.add(blocks),
                Err(error) => outcome = Err(error),
            }
            watch(ScanProgress { files_done: done, files: files.len() });
            if outcome.is_err() || found.count == hashes.len() {
                // the other threads end at their next block
                is_over.store(true, Ordering::Relaxed);
                break;
            }
        }
        outcome
    })?;
    Ok(found)
}

/// The wanted blocks of one file.
fn scan(
    reader: &BlockFileReader,
    file: u32,
    wanted: &WantedBlocks<'_>,
    is_stopped: impl Fn() -> bool,
) -> Result<Vec<FoundBlock>, BlockFileError> {
    let records = match reader.scan(file, 0) {
        Err(BlockFileError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        records => records?,
    };
    let mut found = Vec::new();
    for record in records {
        let record = record?;
        if is_stopped() {
            break;
        }
        let position = wanted.index_of(&record.hash).zip(BlockPosition::of(&record));
        found.extend(position.map(|(at, position)| (at, position, record.transactions)));
    }
    Ok(found)
}

impl FoundBlocks {
    /// The index of the first block that was not found.
    pub(in crate::node) fn first_missing(&self) -> Option<usize> {
        self.positions.iter().position(Option::is_none)
    }

    fn add(&mut self, blocks: Vec<FoundBlock>) {
        for (at, position, transactions) in blocks {
            // a block that was stored twice counts once
            if self.positions[at].is_none() {
                self.positions[at] = Some(position);
                self.transactions = self.transactions.saturating_add(transactions);
                self.count += 1;
            }
        }
    }
}
