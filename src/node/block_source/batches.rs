//! Reads blocks in batches, on a thread of its own.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use bitcoin::BlockHash;
use parking_lot::Mutex;
use tracing::warn;

use super::super::block_files::{BlockFileError, BlockPosition};
use super::super::error::NodeError;
use super::super::fetcher::BlockFetcher;
use super::super::node::Node;
use super::super::retry::StopFlag;
use super::located::LocatedBlocks;
use super::spans::spans;
use super::status::BlockSourceStatus;

/// The most bytes of a batch, unless one block has more: so many blocks that threads which share them seldom wait for the last of
/// them.
const BATCH: u64 = 32 << 20;
/// Batches that wait for the consumer.
const QUEUE: usize = 1;
/// Batches that the buffers have room for: the one that waits, one that is being read with its span, and as much again for the
/// requests in flight, or for memory of earlier ones and what it has beyond the blocks that it is used for.
const BATCHES: u64 = 6;
/// How often a consumer that waits for a batch checks the stop flag.
const STOP_CHECK: Duration = Duration::from_millis(100);

type Batch = Vec<(BlockHash, Vec<u8>)>;

/// Memory of blocks that the consumer is done with, for later ones: the system clears every page that it hands out anew.
#[derive(Clone, Default)]
struct SpareMemory(Arc<Mutex<Vec<Vec<u8>>>>);

impl SpareMemory {
    /// Some bytes of this length, to be overwritten.
    fn take(&self, length: usize) -> Vec<u8> {
        let spare = self.0.lock().pop().filter(|spare| (length..=2 * length).contains(&spare.capacity()));
        let Some(mut spare) = spare else { return vec![0; length] };
        spare.resize(length, 0);
        spare
    }

    /// Replaces what is left of an earlier batch, which nothing took.
    fn replace(&self, batch: Batch) {
        *self.0.lock() = batch.into_iter().map(|(_, bytes)| bytes).collect();
    }
}

/// An iterator over blocks in batches of up to 32 MiB, in the order of the hashes. An error is returned after the blocks
/// before it and ends the iteration. Dropping it ends its thread.
pub struct BlockBatches {
    batches: Receiver<Result<Batch, NodeError>>,
    spare: SpareMemory,
    stop: StopFlag,
    is_over: bool,
}

impl BlockBatches {
    pub(super) fn start(mut reader: BatchReader) -> Result<Self, NodeError> {
        let stop = reader.node.stop().child();
        reader.node = reader.node.with_stop(stop.clone());
        let (sender, batches) = mpsc::sync_channel(QUEUE);
        let spare = SpareMemory::default();
        let read_into = spare.clone();
        let thread = thread::Builder::new().name("blocks".into());
        thread.spawn(move || reader.run(&sender, &read_into)).map_err(NodeError::Threads)?;
        Ok(Self { batches, spare, stop, is_over: false })
    }

    /// Takes a batch back that the consumer is done with, so that its memory is used for a later one.
    pub fn recycle(&self, batch: Vec<(BlockHash, Vec<u8>)>) {
        self.spare.replace(batch);
    }
}

impl Iterator for BlockBatches {
    type Item = Result<Batch, NodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            // raising the stop flag does not wake a waiting thread, so the flag is polled
            let batch = match self.batches.recv_timeout(STOP_CHECK) {
                _ if self.stop.is_raised() => Err(NodeError::Stopped),
                Ok(batch) => batch,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    Err(NodeError::Threads(io::Error::other("it ended before it read all blocks")))
                }
            };
            // the last batch is empty
            self.is_over = !matches!(&batch, Ok(blocks) if !blocks.is_empty());
            return Some(batch).filter(|batch| batch.as_ref().map_or(true, |blocks| !blocks.is_empty()));
        }
        None
    }
}

impl Drop for BlockBatches {
    fn drop(&mut self) {
        self.stop.raise();
    }
}

/// What the thread reads.
pub(super) struct BatchReader {
    pub(super) node: Node,
    pub(super) hashes: Arc<[BlockHash]>,
    pub(super) files: Option<LocatedBlocks>,
    pub(super) status: Arc<Mutex<BlockSourceStatus>>,
    pub(super) connections: NonZeroUsize,
    pub(super) buffer_bytes: u64,
}

/// Why block files are not read to the end.
enum FilesEnd {
    /// They were.
    Done,
    /// The consumer dropped the iterator, or the flag is raised.
    Closed,
    /// They failed at the block of this index.
    Failed(usize, BlockFileError),
}

impl BatchReader {
    fn run(&self, batches: &SyncSender<Result<Batch, NodeError>>, spare: &SpareMemory) {
        let from = match self.files.as_ref().map(|files| self.read_files(files, batches, spare)) {
            None => 0,
            Some(FilesEnd::Done) => self.hashes.len(),
            Some(FilesEnd::Closed) => return,
            Some(FilesEnd::Failed(at, error)) => {
                let status = BlockSourceStatus::from_node(&self.node, error.to_string());
                warn!(%error, blocks_left = self.hashes.len() - at, "reading the other blocks from the node");
                *self.status.lock() = status;
                at
            }
        };
        // the consumer may have dropped the iterator
        let _ = match self.fetch(from, batches) {
            Ok(()) => batches.send(Ok(Batch::new())),
            Err(error) => batches.send(Err(error)),
        };
    }

    /// The most bytes of a batch.
    fn batch_bytes(&self) -> u64 {
        BATCH.min(self.buffer_bytes / BATCHES)
    }

    fn read_files(
        &self,
        files: &LocatedBlocks,
        batches: &SyncSender<Result<Batch, NodeError>>,
        spare: &SpareMemory,
    ) -> FilesEnd {
        let (most, mut buffer, mut next) = (self.batch_bytes(), Vec::new(), 0);
        while next < files.positions.len() {
            if self.node.stop().is_raised() {
                return FilesEnd::Closed;
            }
            let end = batch_end(&files.positions, next, most);
            let (hashes, positions) = (&self.hashes[next..end], &files.positions[next..end]);
            let batch = match read_batch(files, hashes, positions, most, &mut buffer, spare) {
                Ok(batch) => batch,
                Err(error) => return FilesEnd::Failed(next, error),
            };
            if batches.send(Ok(batch)).is_err() {
                return FilesEnd::Closed;
            }
            next = end;
        }
        FilesEnd::Done
    }

    /// Requests the blocks from this index on from the node.
    fn fetch(&self, from: usize, batches: &SyncSender<Result<Batch, NodeError>>) -> Result<(), NodeError> {
        let hashes = Arc::clone(&self.hashes);
        let left = (from..hashes.len()).map(move |at| hashes[at]);
        if left.len() == 0 {
            return Ok(());
        }
        let (most, mut batch, mut bytes) = (self.batch_bytes(), Batch::new(), 0);
        let mut outcome = Ok(());
        for block in BlockFetcher::new(&self.node, left, self.connections, self.buffer_bytes / 2)? {
            let block = match block {
                Ok(block) => block,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            let length = u64::try_from(block.bytes.len()).unwrap_or(u64::MAX);
            if !batch.is_empty() && bytes + length > most {
                bytes = 0;
                if batches.send(Ok(std::mem::take(&mut batch))).is_err() {
                    return Ok(());
                }
            }
            bytes += length;
            batch.push((block.hash, block.bytes));
        }
        if !batch.is_empty() {
            // the consumer may have dropped the iterator
            let _ = batches.send(Ok(batch));
        }
        outcome
    }
}

/// The end of the batch that begins with the block of this index.
fn batch_end(positions: &[BlockPosition], from: usize, most: u64) -> usize {
    let (mut end, mut bytes) = (from + 1, u64::from(positions[from].length));
    while let Some(position) = positions.get(end) {
        bytes += u64::from(position.length);
        if bytes > most {
            break;
        }
        end += 1;
    }
    end
}

/// Reads blocks in the order in which they lie in the files, and returns them in the order of their hashes.
fn read_batch(
    files: &LocatedBlocks,
    hashes: &[BlockHash],
    positions: &[BlockPosition],
    most: u64,
    buffer: &mut Vec<u8>,
    spare: &SpareMemory,
) -> Result<Batch, BlockFileError> {
    let mut order: Vec<usize> = (0..hashes.len()).collect();
    order.sort_unstable_by_key(|at| positions[*at]);
    let sorted: Vec<_> = order.iter().map(|at| positions[*at]).collect();
    let mut batch: Batch = hashes.iter().map(|hash| (*hash, Vec::new())).collect();
    for span in spans(&sorted, most) {
        let blocks: Vec<_> = order[span.clone()].iter().map(|at| (hashes[*at], positions[*at])).collect();
        let memory = |length| spare.take(length);
        files.reader.read_span(&blocks, buffer, memory, |at, bytes| batch[order[span.start + at]].1 = bytes)?;
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn memory_of_a_batch_is_used_for_blocks_that_fill_half_of_it() {
        let spare = SpareMemory::default();
        assert_eq!(spare.take(10), [0; 10]);
        for (length, is_same) in [(100, true), (60, true), (50, true), (49, false), (101, false)] {
            let bytes = vec![1; 100];
            let address = bytes.as_ptr();
            spare.replace(vec![(BlockHash::all_zeros(), bytes)]);
            let taken = spare.take(length);
            assert_eq!((taken.len(), taken.as_ptr() == address), (length, is_same));
            assert_eq!(taken.iter().sum::<u8>(), if is_same { u8::try_from(length).unwrap() } else { 0 });
        }
    }
}
