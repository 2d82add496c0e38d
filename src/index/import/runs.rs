//! Temporary runs: records of one kind, put into partitions by a hash or a range.
//!
//! Producers fill a buffer for each partition, and full buffers are appended as chunks of whole records. Consecutive
//! partitions share a bundle, a file of its own, which is removed when all of them are consumed: few files, and no more
//! space than is needed. A log names partition, length and checksum of each chunk in their order; offsets follow from the lengths.
//!
//! ```text
//!   prevouts-00.run … prevouts-31.run    chunks
//!   prevouts.chunks                      id of the import (8) ‖ for each chunk: partition u32 ‖ length u32 ‖ CRC-32 u32
//! ```
//!
//! A checkpoint records the number of chunks of each kind, and the checksum of their log. Files that it needs stay until a later
//! checkpoint is durable; [`Runs::open`] cuts them to the recorded chunks. Every chunk that is read is compared with its checksum:
//! what a disk changed never becomes a row.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::super::error::IndexError;
use super::fresh_start::FreshStart;
use super::run_kinds::RunKind;
use super::space::TemporarySpace;

/// Bundles of runs whose number of partitions is known.
const BUNDLES: usize = 32;
/// Bytes of the log of chunks: the id before them, and each.
const LOG_HEAD: usize = size_of::<ImportId>();
const LOG_CHUNK: usize = size_of::<LogEntry>();

/// Bytes that a chunk takes in the lists of chunks, which may be up to half empty. Checkpoints write buffers that are not
/// full: up to twice as many chunks as full ones.
pub(super) const CHUNK_ENTRY: u64 = 2 * 2 * size_of::<RunChunk>() as u64;

/// Names the files of one import, so that those of another are not read in their place.
pub(super) type ImportId = [u8; 8];

/// A chunk in the log: partition, length and checksum.
type LogEntry = [[u8; 4]; 3];

/// A chunk behind those before it in its bundle.
#[derive(Clone, Copy)]
struct RunChunk {
    partition: u32,
    length: u32,
    /// CRC-32 of its bytes.
    checksum: u32,
}

impl RunChunk {
    fn encode(self) -> LogEntry {
        [self.partition, self.length, self.checksum].map(u32::to_be_bytes)
    }

    fn decode(entry: LogEntry) -> Self {
        let [partition, length, checksum] = entry.map(u32::from_be_bytes);
        Self { partition, length, checksum }
    }
}

/// What a checkpoint records of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordedRuns {
    pub(super) kind: RunKind,
    /// The partitions of a bundle.
    pub(super) bundle: u32,
    pub(super) chunks: u64,
    /// CRC-32 of the chunks in the log.
    pub(super) checksum: u32,
}

/// The runs of one kind of record.
pub(super) struct Runs {
    kind: RunKind,
    id: ImportId,
    directory: PathBuf,
    space: Arc<TemporarySpace>,
    /// Partitions of a bundle.
    bundle: usize,
    files: Mutex<RunFiles>,
}

#[derive(Default)]
struct RunFiles {
    bundles: Vec<Bundle>,
    log: Option<File>,
    /// The number of chunks in the log, their checksum, and the chunks that are to be appended.
    logged: u64,
    checksum: u32,
    unlogged: Vec<RunChunk>,
    /// Whether a checkpoint names these runs, durable or not.
    is_recorded: bool,
}

impl RunFiles {
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
    /// `None` before its first chunk, and when all of its partitions are consumed.
    file: Option<Arc<File>>,
    length: u64,
    chunks: Vec<RunChunk>,
    consumed: BTreeSet<usize>,
    /// Whether bytes were added since the last flush.
    is_dirty: bool,
    /// Whether a checkpoint needs it: the newest durable one, or the one that is being made durable.
    is_recorded: bool,
    /// Whether only the newest durable checkpoint needs it.
    is_removable: bool,
}

/// Where runs are, and what counts them.
#[derive(Clone)]
pub(super) struct RunDirectory {
    pub(super) id: ImportId,
    pub(super) path: PathBuf,
    pub(super) space: Arc<TemporarySpace>,
}

impl Runs {
    /// Empty runs with so many partitions in a bundle.
    pub(super) fn new(directory: &RunDirectory, kind: RunKind, bundle: usize) -> Arc<Self> {
        let RunDirectory { id, path, space } = directory.clone();
        Arc::new(Self { kind, id, directory: path, space, bundle: bundle.max(1), files: Mutex::default() })
    }

    /// The partitions of a bundle of runs that have so many in all.
    pub(super) fn bundle_of(partitions: usize) -> usize {
        partitions.div_ceil(BUNDLES).max(1)
    }

    /// Opens runs as a checkpoint recorded them, when the partitions below `consumed` were consumed. Adds their files to
    /// `paths`.
    ///
    /// Errors: [`IndexError::TemporaryRuns`] if a file cannot be read.
    pub(super) fn open(
        directory: &RunDirectory,
        recorded: RecordedRuns,
        consumed: usize,
        paths: &mut BTreeSet<PathBuf>,
    ) -> Result<Result<Arc<Self>, FreshStart>, IndexError> {
        let bundle = usize::try_from(recorded.bundle).unwrap_or(usize::MAX);
        let runs = Self::new(directory, recorded.kind, bundle);
        let opened = runs.read_files(recorded, consumed, paths).map_err(|source| runs.unreadable(source))?;
        Ok(opened.map_or(Ok(runs), Err))
    }

    fn read_files(
        &self,
        RecordedRuns { chunks, checksum, .. }: RecordedRuns,
        consumed: usize,
        paths: &mut BTreeSet<PathBuf>,
    ) -> io::Result<Option<FreshStart>> {
        let mut files = self.lock();
        let path = self.kind.log_path(&self.directory);
        let Some(mut log) = open_existing(&path)? else { return Ok(Some(FreshStart::MissingRun { path })) };
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        let logged = usize::try_from(chunks).unwrap_or(usize::MAX).saturating_mul(LOG_CHUNK).saturating_add(LOG_HEAD);
        let Some(bytes) = bytes.get(..logged) else { return Ok(Some(FreshStart::ShortRun { path })) };
        let (id, bytes) = bytes.split_at(LOG_HEAD);
        if id != self.id {
            return Ok(Some(FreshStart::OtherRun { path }));
        }
        if crc32fast::hash(bytes) != checksum {
            return Ok(Some(FreshStart::DamagedRun { path }));
        }
        log.set_len(u64::try_from(logged).unwrap_or(u64::MAX))?;
        paths.insert(path);
        for entry in bytes.as_chunks().0.as_chunks().0 {
            let chunk = RunChunk::decode(*entry);
            let bundle = files.bundle(usize::try_from(chunk.partition).unwrap_or(usize::MAX) / self.bundle);
            bundle.length += u64::from(chunk.length);
            bundle.chunks.push(chunk);
        }
        for (number, bundle) in files.bundles.iter_mut().enumerate() {
            let first = number * self.bundle;
            bundle.consumed = (first..consumed.min(first + self.bundle)).collect();
            if bundle.consumed.len() == self.bundle {
                (bundle.length, bundle.chunks) = (0, Vec::new());
            }
            if bundle.length == 0 {
                continue;
            }
            let path = self.kind.bundle_path(&self.directory, number);
            let Some(file) = open_existing(&path)? else { return Ok(Some(FreshStart::MissingRun { path })) };
            if file.metadata()?.len() < bundle.length {
                return Ok(Some(FreshStart::ShortRun { path }));
            }
            file.set_len(bundle.length)?;
            self.space.take(bundle.length);
            paths.insert(path);
            (bundle.file, bundle.is_recorded) = (Some(Arc::new(file)), true);
        }
        (files.log, files.logged, files.checksum, files.is_recorded) = (Some(log), chunks, checksum, true);
        Ok(None)
    }

    /// Visits the chunks of a partition in the order in which they were appended. The partition is empty then.
    ///
    /// Errors: [`IndexError::DamagedRun`] if bytes of the partition are not those that were appended; `TemporaryRuns` if a file is
    /// truncated or cannot be read; what `visit` returns.
    pub(super) fn consume(
        &self,
        partition: usize,
        visit: impl FnMut(&[u8]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        self.read(partition, visit)?;
        let mut files = self.lock();
        let bundle = files.bundle(partition / self.bundle);
        bundle.consumed.insert(partition);
        if bundle.consumed.len() == self.bundle && bundle.file.is_some() {
            (bundle.file, bundle.chunks) = (None, Vec::new());
            if bundle.is_recorded {
                self.space.add_consumed(bundle.length);
            } else {
                self.remove_bundle(bundle, partition / self.bundle).map_err(|source| self.unreadable(source))?;
            }
        }
        Ok(())
    }

    /// Visits the chunks of a partition in the order in which they were appended.
    ///
    /// Errors: as [`Runs::consume`].
    pub(super) fn read(
        &self,
        partition: usize,
        mut visit: impl FnMut(&[u8]) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let (file, chunks) = self.chunks(partition);
        let mut bytes = Vec::new();
        for (offset, chunk) in chunks {
            bytes.resize(usize::try_from(chunk.length).unwrap_or(usize::MAX), 0);
            let file = file.as_ref().ok_or_else(|| self.unreadable(io::ErrorKind::NotFound.into()))?;
            file.read_exact_at(&mut bytes, offset).map_err(|source| self.unreadable(source))?;
            if crc32fast::hash(&bytes) != chunk.checksum {
                let path = self.kind.bundle_path(&self.directory, partition / self.bundle);
                return Err(IndexError::DamagedRun { path });
            }
            visit(&bytes)?;
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
        self.chunks(partition).1.iter().map(|(_, chunk)| usize::try_from(chunk.length).unwrap_or(usize::MAX)).sum()
    }

    /// The file of a partition, and its chunks with their offsets there.
    fn chunks(&self, partition: usize) -> (Option<Arc<File>>, Vec<(u64, RunChunk)>) {
        let files = self.lock();
        let mut found = Vec::new();
        let bundle = files.bundles.get(partition / self.bundle).filter(|bundle| !bundle.consumed.contains(&partition));
        let (Some(bundle), Ok(partition)) = (bundle, u32::try_from(partition)) else { return (None, found) };
        let mut offset = 0;
        for chunk in &bundle.chunks {
            if chunk.partition == partition {
                found.push((offset, *chunk));
            }
            offset += u64::from(chunk.length);
        }
        (bundle.file.clone(), found)
    }

    /// Adds a chunk of whole records to a partition, behind those that it has.
    ///
    /// Errors: [`IndexError::Sorting`] if writing the file fails. The runs are unusable then: they name a chunk without its bytes.
    pub(super) fn append(&self, partition: usize, bytes: &[u8]) -> Result<(), IndexError> {
        self.append_chunk(partition, bytes).map_err(IndexError::Sorting)
    }

    fn append_chunk(&self, partition: usize, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let partition_number = u32::try_from(partition).map_err(io::Error::other)?;
        let chunk = RunChunk { partition: partition_number, length, checksum: crc32fast::hash(bytes) };
        let number = partition / self.bundle;
        // only its place is taken under the lock: the buffers of all producers are full at about the same time, and each would wait
        // for what the others write
        let (file, offset) = {
            let mut files = self.lock();
            let bundle = files.bundle(number);
            let file = match bundle.file.clone() {
                Some(file) => file,
                None => bundle.file.insert(Arc::new(create(&self.kind.bundle_path(&self.directory, number))?)).clone(),
            };
            let offset = bundle.length;
            bundle.length += u64::from(length);
            bundle.is_dirty = true;
            bundle.chunks.push(chunk);
            files.unlogged.push(chunk);
            (file, offset)
        };
        self.space.take(length.into());
        file.write_all_at(bytes, offset)
    }

    /// Writes the log of chunks, adds handles of the files that are to be flushed to the disk, and returns what a checkpoint
    /// records. All files that it needs stay from now on. No [`Runs::append`] may be at work, because it names a chunk before it
    /// writes it.
    ///
    /// Errors: [`IndexError::Sorting`] if writing the log fails.
    pub(super) fn record(&self, dirty: &mut Vec<File>) -> Result<RecordedRuns, IndexError> {
        self.write_log(dirty).map_err(IndexError::Sorting)
    }

    fn write_log(&self, dirty: &mut Vec<File>) -> io::Result<RecordedRuns> {
        let mut files = self.lock();
        files.is_recorded = true;
        let RunFiles { bundles, log, logged, checksum, unlogged, .. } = &mut *files;
        for bundle in bundles.iter_mut() {
            match &bundle.file {
                Some(file) if bundle.is_dirty => dirty.push(file.try_clone()?),
                Some(_) => {}
                None => bundle.is_removable = bundle.is_recorded,
            }
            bundle.is_recorded |= bundle.file.is_some();
            bundle.is_dirty = false;
        }
        let chunks: Vec<u8> = unlogged.iter().flat_map(|chunk| chunk.encode()).flatten().collect();
        let (is_new, log) = match log {
            Some(log) => (false, log),
            none => {
                let log = none.insert(create(&self.kind.log_path(&self.directory))?);
                log.write_all(&self.id)?;
                (true, log)
            }
        };
        if is_new || !chunks.is_empty() {
            log.seek(SeekFrom::End(0))?;
            log.write_all(&chunks)?;
            dirty.push(log.try_clone()?);
        }
        let mut hasher = crc32fast::Hasher::new_with_initial(*checksum);
        hasher.update(&chunks);
        *checksum = hasher.finalize();
        *logged += unlogged.len() as u64;
        *unlogged = Vec::new();
        let bundle = u32::try_from(self.bundle).map_err(io::Error::other)?;
        Ok(RecordedRuns { kind: self.kind, bundle, chunks: *logged, checksum: *checksum })
    }

    /// Removes the files that were consumed before [`Runs::record`]. The checkpoint that it was for must be durable.
    ///
    /// Errors: [`IndexError::TemporaryRuns`] if a file cannot be removed.
    pub(super) fn remove_consumed(&self) -> Result<(), IndexError> {
        let mut files = self.lock();
        for (number, bundle) in files.bundles.iter_mut().enumerate().filter(|(_, bundle)| bundle.is_removable) {
            self.remove_bundle(bundle, number).map_err(|source| self.unreadable(source))?;
        }
        Ok(())
    }

    /// Whether a checkpoint names these runs, durable or not.
    pub(super) fn is_recorded(&self) -> bool {
        self.lock().is_recorded
    }

    /// Removes all files.
    ///
    /// Errors: [`IndexError::TemporaryRuns`] if a file cannot be removed.
    pub(super) fn remove(&self) -> Result<(), IndexError> {
        let mut files = self.lock();
        for (number, bundle) in files.bundles.iter_mut().enumerate().filter(|(_, bundle)| bundle.length > 0) {
            self.remove_bundle(bundle, number).map_err(|source| self.unreadable(source))?;
        }
        if files.log.take().is_some() {
            let path = self.kind.log_path(&self.directory);
            fs::remove_file(path).map_err(|source| self.unreadable(source))?;
        }
        Ok(())
    }

    fn remove_bundle(&self, bundle: &mut Bundle, number: usize) -> io::Result<()> {
        fs::remove_file(self.kind.bundle_path(&self.directory, number))?;
        if bundle.is_recorded && bundle.file.is_none() {
            self.space.give_back_consumed(bundle.length);
        } else {
            self.space.give_back(bundle.length);
        }
        *bundle = Bundle { consumed: std::mem::take(&mut bundle.consumed), ..Bundle::default() };
        Ok(())
    }

    fn unreadable(&self, source: io::Error) -> IndexError {
        IndexError::TemporaryRuns { directory: self.directory.clone(), source }
    }

    fn lock(&self) -> MutexGuard<'_, RunFiles> {
        // guards the lists, not the writes and reads of chunks
        self.files.lock()
    }
}

/// A new file, in the place of one that another import left.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
}

fn open_existing(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

#[cfg(test)]
mod tests;
