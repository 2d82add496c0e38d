//! Temporary runs: records of one kind, put into partitions by a hash or a range.
//!
//! Producers fill a buffer for each partition, and full buffers are appended as chunks of whole records. Consecutive
//! partitions share a bundle, an unnamed file, which is given back to the disk when all of them are consumed: few files,
//! and no more space than is needed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::error::IndexError;

/// Bundles of runs whose number of partitions is known.
const BUNDLES: usize = 32;

/// Bytes that a chunk takes in the lists of chunks, which may be up to half empty.
pub(super) const CHUNK_ENTRY: u64 = 2 * size_of::<RunChunk>() as u64;

/// Bytes of a buffer before it becomes a chunk, if those of all partitions share so much memory.
pub(super) fn chunk_size(memory: usize, partitions: usize) -> usize {
    (memory / partitions.max(1)).clamp(1 << 10, 1 << 18)
}

/// Bytes of all runs of an import.
#[derive(Debug, Default)]
pub(super) struct TemporarySpace {
    now: AtomicU64,
    peak: AtomicU64,
}

impl TemporarySpace {
    fn take(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes there are.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The most bytes there were at a time.
    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// A chunk: where it is in its bundle, and its bytes.
#[derive(Clone, Copy)]
struct RunChunk {
    offset: u64,
    length: usize,
}

/// The runs of one kind of record.
pub(super) struct Runs {
    directory: PathBuf,
    space: Arc<TemporarySpace>,
    /// Partitions of a bundle.
    bundle: usize,
    /// Bytes of a buffer before it becomes a chunk.
    chunk: usize,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    bundles: Vec<Bundle>,
    partitions: Vec<Vec<RunChunk>>,
}

impl Files {
    /// A bundle, which is made if it is not there yet.
    fn bundle(&mut self, at: usize) -> &mut Bundle {
        if self.bundles.len() <= at {
            self.bundles.resize_with(at + 1, Bundle::default);
        }
        &mut self.bundles[at]
    }
}

#[derive(Default)]
struct Bundle {
    file: Option<File>,
    length: u64,
    consumed: usize,
}

impl Runs {
    /// Empty runs in so many partitions, whose buffers take `memory` bytes in all for each producer.
    pub(super) fn new(directory: &Path, space: &Arc<TemporarySpace>, partitions: usize, memory: usize) -> Arc<Self> {
        let files = Files { bundles: Vec::new(), partitions: vec![Vec::new(); partitions] };
        Arc::new(Self {
            directory: directory.to_path_buf(),
            space: Arc::clone(space),
            bundle: partitions.div_ceil(BUNDLES).max(1),
            chunk: chunk_size(memory, partitions),
            files: Mutex::new(files),
        })
    }

    /// Empty runs whose partitions are made one after the other, `bundle` to a file, by [`Runs::append`].
    pub(super) fn growing(directory: &Path, space: &Arc<TemporarySpace>, bundle: usize) -> Arc<Self> {
        let (directory, space, files) = (directory.to_path_buf(), Arc::clone(space), Mutex::default());
        Arc::new(Self { directory, space, bundle, chunk: 0, files })
    }

    /// Buffers for one producer.
    pub(super) fn buffers(self: &Arc<Self>) -> RunBuffers {
        let buffers = vec![Vec::new(); self.lock().partitions.len()];
        RunBuffers { runs: Arc::clone(self), buffers }
    }

    /// Visits the chunks of a partition in the order in which they were appended. The partition is empty then.
    ///
    /// Errors: [`IndexError::TemporaryRuns`] if a file is truncated or cannot be read; what `visit` returns.
    pub(super) fn consume(
        &self,
        partition: usize,
        mut visit: impl FnMut(&[u8]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let chunks = self.lock().partitions.get_mut(partition).map(std::mem::take).unwrap_or_default();
        let mut bytes = Vec::new();
        for chunk in chunks {
            bytes.resize(chunk.length, 0);
            self.read(partition, chunk.offset, &mut bytes)
                .map_err(|source| IndexError::TemporaryRuns { directory: self.directory.clone(), source })?;
            visit(&bytes)?;
        }
        let mut files = self.lock();
        let bundle = files.bundle(partition / self.bundle);
        bundle.consumed += 1;
        if bundle.consumed == self.bundle {
            self.space.give_back(bundle.length);
            *bundle = Bundle::default();
        }
        Ok(())
    }

    /// All bytes of a partition, which is empty then.
    ///
    /// Errors: as [`Runs::consume`].
    pub(super) fn consume_whole(&self, partition: usize) -> Result<Vec<u8>, IndexError> {
        let mut bytes = Vec::with_capacity(self.partition_bytes(partition));
        self.consume(partition, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Bytes of the records of a partition.
    pub(super) fn partition_bytes(&self, partition: usize) -> usize {
        self.lock().partitions.get(partition).map_or(0, |chunks| chunks.iter().map(|chunk| chunk.length).sum())
    }

    fn read(&self, partition: usize, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut files = self.lock();
        let file = files.bundles.get_mut(partition / self.bundle).and_then(|bundle| bundle.file.as_mut());
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(bytes)
    }

    /// Adds a chunk of whole records to a partition, behind those that it has.
    ///
    /// Errors: [`IndexError::Sorting`] if the file cannot be written.
    pub(super) fn append(&self, partition: usize, bytes: &[u8]) -> Result<(), IndexError> {
        self.append_chunk(partition, bytes).map_err(IndexError::Sorting)
    }

    fn append_chunk(&self, partition: usize, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.lock();
        if files.partitions.len() <= partition {
            files.partitions.resize(partition + 1, Vec::new());
        }
        let bundle = files.bundle(partition / self.bundle);
        let offset = bundle.length;
        let file = match &mut bundle.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.directory)?),
        };
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)?;
        let length = u64::try_from(bytes.len()).map_err(io::Error::other)?;
        bundle.length += length;
        self.space.take(length);
        files.partitions[partition].push(RunChunk { offset, length: bytes.len() });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        // a panic in between leaves bytes that no chunk names
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let bytes = self.lock().bundles.iter().map(|bundle| bundle.length).sum();
        self.space.give_back(bytes);
    }
}

/// What one producer adds to runs.
pub(super) struct RunBuffers {
    runs: Arc<Runs>,
    buffers: Vec<Vec<u8>>,
}

impl RunBuffers {
    /// The buffer of a partition, to which a record is appended.
    ///
    /// Errors: [`IndexError::Sorting`] if the file cannot be written, or there is no such partition.
    pub(super) fn record(&mut self, partition: usize) -> Result<&mut Vec<u8>, IndexError> {
        let Some(buffer) = self.buffers.get_mut(partition) else {
            return Err(IndexError::Sorting(io::ErrorKind::InvalidInput.into()));
        };
        if buffer.len() >= self.runs.chunk {
            self.runs.append(partition, buffer)?;
            buffer.clear();
        }
        Ok(buffer)
    }

    /// Writes what is left in the buffers.
    ///
    /// Errors: as [`RunBuffers::record`].
    pub(super) fn finish(self) -> Result<(), IndexError> {
        for (partition, buffer) in self.buffers.into_iter().enumerate().filter(|(_, buffer)| !buffer.is_empty()) {
            self.runs.append(partition, &buffer)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_are_read_in_their_partition_and_space_is_returned(
            records in prop::collection::vec((0_usize..70, any::<[u8; 12]>()), 0..2_000), memory in 1_usize..300_000,
        ) {
            let (directory, space) = (tempfile::tempdir().unwrap(), Arc::default());
            let runs = Runs::new(directory.path(), &space, 70, memory);
            let mut buffers = [runs.buffers(), runs.buffers()];
            for (number, (partition, record)) in records.iter().enumerate() {
                buffers[number % 2].record(*partition).unwrap().extend(record);
            }
            for buffers in buffers {
                buffers.finish().unwrap();
            }
            prop_assert_eq!(space.peak(), 12 * u64::try_from(records.len()).unwrap());
            for partition in 0..71 {
                let mut expected: Vec<_> =
                    records.iter().filter(|(other, _)| *other == partition).map(|(_, record)| record.to_vec()).collect();
                prop_assert_eq!(runs.partition_bytes(partition), 12 * expected.len());
                let mut found: Vec<_> = runs.consume_whole(partition).unwrap().chunks(12).map(<[u8]>::to_vec).collect();
                found.sort();
                expected.sort();
                prop_assert_eq!(found, expected);
                prop_assert_eq!(runs.partition_bytes(partition), 0);
            }
            drop(runs);
            prop_assert_eq!(space.now(), 0);
        }
    }

    #[test]
    fn a_truncated_run_is_an_error_that_names_the_directory() {
        let (directory, space) = (tempfile::tempdir().unwrap(), Arc::default());
        let runs = Runs::growing(directory.path(), &space, 2);
        runs.append(0, b"chunk").unwrap();
        runs.append(1, b"chunk").unwrap();
        runs.lock().bundles[0].file.as_ref().unwrap().set_len(9).unwrap();
        assert_eq!(runs.consume_whole(0).unwrap(), b"chunk");
        let error = runs.consume_whole(1).unwrap_err();
        assert!(matches!(error, IndexError::TemporaryRuns { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&directory.path().display().to_string()), "{text}");
        assert!(text.contains("start the import again"), "{text}");
    }

    #[test]
    fn a_bundle_is_given_back_when_its_partitions_are_consumed() {
        let (directory, space) = (tempfile::tempdir().unwrap(), Arc::default());
        let runs = Runs::growing(directory.path(), &space, 2);
        for partition in [0, 0, 1, 2] {
            runs.append(partition, b"chunk").unwrap();
        }
        let left = || space.now();
        let mut seen = Vec::new();
        for partition in 0..3 {
            let bytes = runs.consume_whole(partition).unwrap();
            seen.push((bytes.len(), left()));
        }
        assert_eq!(seen, [(10, 20), (5, 5), (5, 5)]);
        drop(runs);
        assert_eq!((left(), space.peak()), (0, 20));
    }
}
