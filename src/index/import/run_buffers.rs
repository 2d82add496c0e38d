//! Buffers in memory before temporary runs: one for each partition, which becomes a chunk when it is full.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::error::IndexError;
use super::runs::Runs;

/// Bytes of a buffer before it becomes a chunk, if those of all partitions share so much memory.
pub(super) fn chunk_size(memory: usize, partitions: usize) -> usize {
    (memory / partitions.max(1)).clamp(1 << 10, 1 << 17)
}

/// No record has more bytes. A buffer has room for one beyond its chunk, or it would grow to twice the size.
const RECORD: usize = 64;

/// What one producer adds to runs.
pub(super) struct RunBuffers {
    runs: Arc<Runs>,
    /// Bytes of a buffer before it becomes a chunk.
    chunk: usize,
    buffers: Vec<Vec<u8>>,
}

impl Runs {
    /// Buffers for one producer of records in so many partitions, which take `memory` bytes in all.
    pub(super) fn buffers(self: &Arc<Self>, partitions: usize, memory: usize) -> RunBuffers {
        let buffers = vec![Vec::new(); partitions];
        RunBuffers { runs: Arc::clone(self), chunk: chunk_size(memory, partitions), buffers }
    }
}

impl RunBuffers {
    /// The buffer of a partition, to which a record is appended.
    ///
    /// Errors: [`IndexError::Sorting`] if writing the file fails, or there is no such partition.
    pub(super) fn record(&mut self, partition: usize) -> Result<&mut Vec<u8>, IndexError> {
        let Some(buffer) = self.buffers.get_mut(partition) else {
            return Err(IndexError::Sorting(io::ErrorKind::InvalidInput.into()));
        };
        if buffer.len() >= self.chunk {
            self.runs.append(partition, buffer)?;
            buffer.clear();
        } else if buffer.capacity() == 0 {
            buffer.reserve_exact(self.chunk + RECORD);
        }
        Ok(buffer)
    }

    /// Writes the records in the buffers.
    ///
    /// Errors: as [`RunBuffers::record`].
    pub(super) fn flush(&mut self) -> Result<(), IndexError> {
        for (partition, buffer) in self.buffers.iter_mut().enumerate().filter(|(_, buffer)| !buffer.is_empty()) {
            self.runs.append(partition, buffer)?;
            buffer.clear();
        }
        Ok(())
    }
}

/// Buffers for runs of several kinds, one set for each thread that works at a time. They keep their memory and what is in them from
/// one item of work to the next.
pub(super) struct ThreadBuffers<const KINDS: usize>(Mutex<Vec<[RunBuffers; KINDS]>>);

impl<const KINDS: usize> ThreadBuffers<KINDS> {
    /// A set for each of so many threads.
    pub(super) fn new(threads: usize, set: impl Fn() -> [RunBuffers; KINDS]) -> Self {
        Self(Mutex::new((0..threads).map(|_| set()).collect()))
    }

    /// Lends `add` a set that no other thread uses meanwhile.
    ///
    /// Errors: what `add` returns; [`IndexError::Broken`] if more threads are at work than there are sets.
    pub(super) fn with<T>(
        &self,
        add: impl FnOnce(&mut [RunBuffers; KINDS]) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut set = self.0.lock().pop().ok_or(IndexError::Broken)?;
        let added = add(&mut set);
        self.0.lock().push(set);
        added
    }

    /// Writes the records in the buffers of all threads, none of which may be at work: before every checkpoint, and before these runs are
    /// read.
    ///
    /// Errors: as [`RunBuffers::record`].
    pub(super) fn flush(&self) -> Result<(), IndexError> {
        self.0.lock().iter_mut().flatten().try_for_each(RunBuffers::flush)
    }
}
