//! Tables of generations, and files of them that are open for reading: complete ones, and those of which bytes may be missing.
//!
//! redb refuses all reads of a file after one that failed. What cannot be fetched now may be there soon, so such a failure is not
//! reported to redb: it unwinds through it up to the table, where it becomes the error of this one read. redb holds no lock
//! while it reads. Outside of tables, as while a file is opened, redb gets the error.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    AccessGuard, Builder, Database, DatabaseError, Key, Range, ReadOnlyDatabase, ReadOnlyTable, ReadTransaction,
    ReadableDatabase, ReadableTableMetadata, StorageBackend, StorageError, TableDefinition, TableHandle, Value,
};

use super::super::damage::catch_damage;
use super::super::error::IndexError;
use super::super::partial::{PartialFile, Unfetched};
use super::super::unchanged::Unchanged;

thread_local! {
    /// Whether this thread is reading a table.
    static IS_IN_TABLE: Cell<bool> = const { Cell::new(false) };
}

/// A row of a table: its key and its value.
pub(in crate::index) type StoredRow<K, V> = (AccessGuard<'static, K>, AccessGuard<'static, V>);

/// A table that is read the same way whether it is live or frozen.
pub(in crate::index) trait StoredTable<K: Key + 'static, V: Value + 'static> {
    /// Some of its rows, in the order of their keys.
    type Rows: DoubleEndedIterator<Item = Result<StoredRow<K, V>, StorageError>>;

    /// The value of a key.
    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<AccessGuard<'static, V>>, StorageError>;

    /// The rows whose keys are in a range.
    fn range<'a, KR: Borrow<K::SelfType<'a>> + 'a>(
        &self,
        range: impl RangeBounds<KR> + 'a,
    ) -> Result<Self::Rows, StorageError>;
}

impl<K: Key + 'static, V: Value + 'static> StoredTable<K, V> for ReadOnlyTable<K, V> {
    type Rows = Range<'static, K, V>;

    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<AccessGuard<'static, V>>, StorageError> {
        ReadOnlyTable::get(self, key)
    }

    fn range<'a, KR: Borrow<K::SelfType<'a>> + 'a>(
        &self,
        range: impl RangeBounds<KR> + 'a,
    ) -> Result<Self::Rows, StorageError> {
        ReadOnlyTable::range(self, range)
    }
}

/// An open file of packed tables.
pub(in crate::index) struct PackedFile {
    file: Arc<OpenFile>,
    transaction: ReadTransaction,
}

impl PackedFile {
    /// Opens a file, of which at most `cache_bytes` of pages are kept in memory. Repairs a complete file that was not closed.
    ///
    /// Errors: storage errors.
    pub(super) fn open(path: &Path, cache_bytes: usize) -> Result<Self, IndexError> {
        let mut builder = Builder::new();
        builder.set_cache_size(cache_bytes);
        let opened = match builder.open_read_only(path) {
            // it is complete, and the process that built it was killed before it closed the file
            Err(DatabaseError::RepairAborted) => {
                builder.open(path).map(drop).and_then(|()| builder.open_read_only(path))
            }
            opened => opened,
        };
        let database = opened.map_err(|error| IndexError::opening(path, error))?;
        let transaction = database.begin_read()?;
        Ok(Self { file: Arc::new(OpenFile::Whole { _database: database }), transaction })
    }

    /// Opens a file of which bytes may be missing; `path` is its place once it is complete, for errors.
    ///
    /// Errors: what is missing for that cannot be fetched; storage errors.
    pub(super) fn open_partial(
        path: &Path,
        partial: &Arc<dyn PartialFile>,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        let is_closing = Arc::<AtomicBool>::default();
        let backend = PartialBackend { file: Arc::clone(partial), is_closing: Arc::clone(&is_closing) };
        let opening = |error: DatabaseError| match error {
            DatabaseError::Storage(error) => error.into(),
            error => IndexError::opening(path, error),
        };
        let unchanged =
            Unchanged::new(backend, |_, _| Ok(())).map_err(|error| opening(StorageError::Io(error).into()))?;
        let database = Builder::new().set_cache_size(cache_bytes).create_with_backend(unchanged).map_err(opening)?;
        let database = PartialDatabase { database: Some(database), is_closing };
        let transaction = database.begin_read()?;
        Ok(Self { file: Arc::new(OpenFile::Partial { _database: database }), transaction })
    }

    /// A snapshot of it, to read what is not in tables of rows.
    pub(super) fn transaction(&self) -> &ReadTransaction {
        &self.transaction
    }

    /// Opens a table.
    ///
    /// Errors: storage errors.
    pub(super) fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<FrozenTable<K, V>, IndexError> {
        Ok(FrozenTable { table: self.transaction.open_table(table)?, file: Arc::clone(&self.file) })
    }
}

/// What keeps a file open.
enum OpenFile {
    Whole { _database: ReadOnlyDatabase },
    Partial { _database: PartialDatabase },
}

impl OpenFile {
    /// Runs a read of a table of it.
    fn read<T>(&self, read: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
        match self {
            Self::Whole { .. } => read(),
            Self::Partial { .. } => in_table(read),
        }
    }
}

/// Runs a read of a table; what it cannot fetch is its error.
fn in_table<T>(read: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
    let before = IS_IN_TABLE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    IS_IN_TABLE.set(before);
    result.unwrap_or_else(|payload| match payload.downcast::<Unfetched>() {
        Ok(unfetched) => Err(StorageError::Io(io::Error::other(*unfetched))),
        Err(payload) => resume_unwind(payload),
    })
}

/// A file of which bytes may be missing, as redb opened it. What redb would write to it stays in memory.
struct PartialDatabase {
    /// `None` once it is dropped.
    database: Option<Database>,
    is_closing: Arc<AtomicBool>,
}

impl PartialDatabase {
    fn begin_read(&self) -> Result<ReadTransaction, IndexError> {
        Ok(self.database.as_ref().ok_or(IndexError::Broken)?.begin_read()?)
    }
}

impl Drop for PartialDatabase {
    fn drop(&mut self) {
        // redb would read pages, and write to memory which of them are free
        self.is_closing.store(true, Ordering::Relaxed);
        let database = self.database.take();
        let _ = catch_damage::<_, IndexError>(|| {
            drop(database);
            Ok(())
        });
    }
}

/// Reads of redb from a file of which bytes may be missing.
struct PartialBackend {
    file: Arc<dyn PartialFile>,
    is_closing: Arc<AtomicBool>,
}

impl fmt::Debug for PartialBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialBackend").field("file", &self.file).finish_non_exhaustive()
    }
}

impl StorageBackend for PartialBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.bytes())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(io::Error::other("the file is being closed"));
        }
        self.file.read(offset, out).map_err(|unfetched| {
            if IS_IN_TABLE.get() {
                resume_unwind(Box::new(unfetched));
            }
            io::Error::other(unfetched)
        })
    }

    fn set_len(&self, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

/// A table of a file of packed tables.
pub(in crate::index) struct FrozenTable<K: Key + 'static, V: Value + 'static> {
    table: ReadOnlyTable<K, V>,
    /// Keeps the file open.
    file: Arc<OpenFile>,
}

impl<K: Key + 'static, V: Value + 'static> FrozenTable<K, V> {
    /// The value of a key.
    ///
    /// Errors: storage errors.
    pub(in crate::index) fn get<'a>(
        &self,
        key: impl Borrow<K::SelfType<'a>>,
    ) -> Result<Option<AccessGuard<'static, V>>, StorageError> {
        self.file.read(|| self.table.get(key))
    }

    /// The rows whose keys are in a range, read lazily from either end.
    ///
    /// Errors: storage errors, also of each row.
    pub(in crate::index) fn range<'a, KR: Borrow<K::SelfType<'a>> + 'a>(
        &self,
        range: impl RangeBounds<KR> + 'a,
    ) -> Result<FrozenRows<K, V>, StorageError> {
        let rows = self.file.read(|| self.table.range(range))?;
        Ok(FrozenRows { rows: Some(rows), file: Arc::clone(&self.file) })
    }

    pub(in crate::index) fn name(&self) -> &str {
        self.table.name()
    }

    /// The number of rows.
    ///
    /// Errors: storage errors.
    pub(in crate::index) fn len(&self) -> Result<u64, StorageError> {
        self.file.read(|| self.table.len())
    }
}

impl<K: Key + 'static, V: Value + 'static> StoredTable<K, V> for FrozenTable<K, V> {
    type Rows = FrozenRows<K, V>;

    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<AccessGuard<'static, V>>, StorageError> {
        Self::get(self, key)
    }

    fn range<'a, KR: Borrow<K::SelfType<'a>> + 'a>(
        &self,
        range: impl RangeBounds<KR> + 'a,
    ) -> Result<Self::Rows, StorageError> {
        Self::range(self, range)
    }
}

/// Rows of a table. They end behind an error.
pub(in crate::index) struct FrozenRows<K: Key + 'static, V: Value + 'static> {
    /// `None` behind an error.
    rows: Option<Range<'static, K, V>>,
    /// Keeps the file open.
    file: Arc<OpenFile>,
}

impl<K: Key + 'static, V: Value + 'static> FrozenRows<K, V> {
    fn step(
        &mut self,
        step: impl FnOnce(&mut Range<'static, K, V>) -> Option<Result<StoredRow<K, V>, StorageError>>,
    ) -> Option<Result<StoredRow<K, V>, StorageError>> {
        let rows = self.rows.as_mut()?;
        let row = self.file.read(|| step(rows).transpose()).transpose();
        if matches!(row, Some(Err(_))) {
            self.rows = None;
        }
        row
    }
}

impl<K: Key + 'static, V: Value + 'static> Iterator for FrozenRows<K, V> {
    type Item = Result<StoredRow<K, V>, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Iterator::next)
    }
}

impl<K: Key + 'static, V: Value + 'static> DoubleEndedIterator for FrozenRows<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(DoubleEndedIterator::next_back)
    }
}
