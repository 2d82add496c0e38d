//! The files of the index: every page matches its checksum.
//!
//! Each page of a redb file has a checksum, which its parent keeps. Reading does not compare them; this does, before
//! anything else is checked. The file does not change: what redb writes when it opens a file (after a crash, what it
//! works out anew) stays in memory, so that a check neither hides damage nor adds to it, and can be repeated.
//!
//! ```text
//!   redb ── read ───► the file ◄── over it what was written, in memory
//!        ── write ──────────────────────────────────────► ┘
//! ```

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageBackend, StorageError};

use super::super::damage::catch_damage;
use super::super::error::IndexError;
use super::super::hot::tables::meta;
use super::super::hot::tip::Tip;
use super::super::hot::tip_record::{read_derived, read_generations};
use super::super::keys::Salt;
use super::super::open::{Index, IndexOptions, cache_of_generation, check, generations_directory};
use super::super::snapshot::Snapshot;
use super::super::unchanged::Unchanged;
use super::progress::VerifyProgress;
use crate::chain::pools::Pools;

/// Progress is reported each time after this many reads.
const READS: u64 = 256;

/// Receives how much of a file was read, in bytes, and may stop the check.
pub type WatchFile = dyn Fn(VerifyProgress) -> ControlFlow<()> + Send + Sync;

/// An index that is opened for a check, and not checked yet. Neither this nor the checked index changes the file, which is
/// locked against writers.
pub struct IndexFile {
    options: IndexOptions,
    database: Database,
    /// The result of reading the header of the index, which counts only if the file is undamaged.
    salt: Result<Salt, IndexError>,
    reading: Arc<Reading>,
}

impl IndexFile {
    /// Opens an existing index. `watch` receives how much of the file was read, in bytes, and may stop the check.
    ///
    /// Errors: [`IndexError::Absent`], `InUse`, `File`, `Damaged`, `NotADatabase`, `Interrupted`.
    pub fn open(options: IndexOptions, watch: Box<WatchFile>) -> Result<Self, IndexError> {
        let path = &options.path;
        let reading = Arc::new(Reading::new(Arc::from(watch)));
        let database = open(path, options.cache_bytes, &reading).map_err(|error| match error {
            IndexError::File { source, .. } if source.kind() == ErrorKind::NotFound => {
                IndexError::Absent { path: path.clone() }
            }
            other => other,
        })?;
        let salt = reading
            .unless_ended(catch_damage(|| check(&options, &database.begin_read()?).map_err(IndexError::of_reading)));
        Ok(Self { options, database, salt, reading })
    }

    /// The newest block, if it can be read. The file may be damaged.
    #[must_use]
    pub fn tip(&self) -> Option<Tip> {
        let salt = *self.salt.as_ref().ok()?;
        let (network, path) = (self.options.network, Arc::from(self.options.path.as_path()));
        let tip = catch_damage::<_, IndexError>(|| {
            Ok(Snapshot::open(
                &self.database.begin_read()?,
                network,
                salt,
                path,
                Arc::default(),
                Arc::new(Pools::known(network)),
            )?
            .tip())
        });
        tip.ok().flatten()
    }

    /// Reads every page of the file and of the generations that it names, and returns the index if all match their
    /// checksums.
    ///
    /// Errors: [`IndexError::Damaged`], `NotADatabase`, `GenerationMissing`, `File`, `Interrupted`; of undamaged files `Foreign`,
    /// `WrongVersion`, `WrongNetwork`, `WrongGenesis`, `WrongSalt`.
    pub fn check(self) -> Result<Index, IndexError> {
        let Self { options, database, salt, reading } = self;
        let database = check_pages(&options.path, database, &reading)?;
        reading.is_watched.store(false, Ordering::Relaxed);
        let named = salt.and_then(|salt| {
            let meta = database.begin_read()?.open_table(meta::TABLE)?;
            Ok((salt, read_generations(&meta)?, read_derived(&meta)?))
        });
        let checked = named.and_then(|(salt, records, derived)| {
            let directory = generations_directory(&options.path);
            for (at, record) in records.iter().enumerate() {
                let reading = Arc::new(Reading::new(Arc::clone(&reading.watch)));
                let (path, cache) = (directory.join(&record.name), cache_of_generation(options.cache_bytes, at));
                let generation = open(&path, cache, &reading).map_err(|error| match error {
                    IndexError::File { source, path, .. } if source.kind() == ErrorKind::NotFound => {
                        IndexError::GenerationMissing { path }
                    }
                    other => other,
                })?;
                close(check_pages(&path, generation, &reading)?);
            }
            for name in derived {
                let (path, reading) = (directory.join(name.file()), Arc::new(Reading::new(Arc::clone(&reading.watch))));
                // a table whose file is missing is built again
                if path.exists() {
                    let table = open(&path, cache_of_generation(options.cache_bytes, 1), &reading)?;
                    close(check_pages(&path, table, &reading)?);
                }
            }
            Ok(salt)
        });
        match checked {
            Ok(salt) => catch_damage(|| Index::of(&options, database, salt).map_err(IndexError::of_reading)),
            Err(error) => {
                close(database);
                Err(error)
            }
        }
    }
}

/// Opens a file without changing it.
fn open(path: &Path, cache_bytes: usize, reading: &Arc<Reading>) -> Result<Database, IndexError> {
    let file = File::open(path).map_err(|source| IndexError::File { doing: "open", path: path.into(), source })?;
    let opening = |error: DatabaseError| IndexError::opening(path, error);
    let unchanged = watched(file, reading).map_err(opening)?;
    if unchanged.len().is_ok_and(|bytes| bytes == 0) {
        return Err(IndexError::NotADatabase { path: path.into(), reason: "it is empty".to_owned() });
    }
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    let opened = catch_damage(|| builder.create_with_backend(unchanged).map_err(opening));
    reading.unless_ended(opened)
}

/// A file that stays as it is, and whose reads are counted.
fn watched(file: File, reading: &Arc<Reading>) -> Result<Unchanged<FileBackend>, DatabaseError> {
    let reading = Arc::clone(reading);
    Ok(Unchanged::new(FileBackend::new(file)?, move |bytes, length| reading.count(bytes, length))?)
}

/// Compares every page with its checksum.
///
/// Errors: [`IndexError::Damaged`], `Interrupted`.
fn check_pages(path: &Path, mut database: Database, reading: &Reading) -> Result<Database, IndexError> {
    let checked = match catch_damage::<_, IndexError>(|| Ok(database.check_integrity())) {
        Ok(checked) => checked.map_err(|error| match error {
            DatabaseError::Storage(StorageError::Corrupted(reason)) => IndexError::Damaged {
                what: format!("{} has pages that do not match their checksums ({reason})", path.display()),
            },
            other => IndexError::opening(path, other),
        }),
        Err(panicked) => {
            // to close it would read the damage again, and a panic during a panic ends the process
            std::mem::forget(database);
            return reading.unless_ended(Err(panicked));
        }
    };
    let error = match reading.unless_ended(checked) {
        Ok(true) => return Ok(database),
        Ok(false) => IndexError::Damaged {
            what: format!("{} records pages as used that its tables do not use, or the reverse", path.display()),
        },
        Err(error) => error,
    };
    reading.is_watched.store(false, Ordering::Relaxed);
    close(database);
    Err(error)
}

/// An error of closing a damaged file adds no information.
fn close(database: Database) {
    let _ = catch_damage::<_, IndexError>(|| {
        drop(database);
        Ok(())
    });
}

/// Counts the bytes read and reports them.
struct Reading {
    watch: Arc<WatchFile>,
    is_watched: AtomicBool,
    is_ended: AtomicBool,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl Reading {
    fn new(watch: Arc<WatchFile>) -> Self {
        let (is_watched, is_ended) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { watch, is_watched, is_ended, reads: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// The result, or [`IndexError::Interrupted`] if the watcher stopped the check.
    fn unless_ended<T>(&self, result: Result<T, IndexError>) -> Result<T, IndexError> {
        if self.is_ended.load(Ordering::Relaxed) { Err(IndexError::Interrupted) } else { result }
    }

    /// Counts a read of a file of this length. Errors: the watcher stopped the check.
    fn count(&self, bytes: usize, length: u64) -> io::Result<()> {
        if !self.is_watched.load(Ordering::Relaxed) {
            return Ok(());
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let done = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(READS) {
            // the pages are read once for their checksums, and once for which of them are in use
            let total = length.saturating_mul(2);
            let progress = VerifyProgress { phase: "reading the file", done: done.min(total), total };
            if (self.watch)(progress).is_break() {
                self.is_ended.store(true, Ordering::Relaxed);
            }
        }
        if self.is_ended.load(Ordering::Relaxed) { Err(io::Error::other("the check was stopped")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_watcher_can_stop_the_reading() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 8]).unwrap();
        let reading = Arc::new(Reading::new(Arc::new(|_| ControlFlow::Break(()))));
        let unchanged = watched(File::open(file.path()).unwrap(), &reading).unwrap();
        assert!(unchanged.read(0, &mut [0; 8]).is_err());
        assert!(reading.is_ended.load(Ordering::Relaxed));
    }
}
