//! Builds the file of a generation: appends rows in the order of their keys, which leaves every page full.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    Builder, CursorError, Database, Durability, Key, Table, TableDefinition, TableHandle, Value, WriteTransaction,
};

use super::super::error::IndexError;
use super::super::open::file;
use super::super::sorter::Sorter;
use super::super::tables::meta;
use super::tables::create_all;

/// Bytes that one commit writes. Dirty pages beyond half of redb's cache are written twice.
const COMMIT: u64 = 48 << 20;
/// Rows that are appended at once.
const ROWS: usize = 4_096;
/// redb's cache while a generation is built.
pub(in crate::index) const CACHE: usize = 128 << 20;

/// A generation that is being written. Its file is removed if the builder is dropped before
/// [`GenerationBuilder::finish`] returns success.
pub(in crate::index) struct GenerationBuilder {
    database: Database,
    /// `None` only after an error.
    transaction: Option<WriteTransaction>,
    uncommitted: u64,
    counts: BTreeMap<String, Count>,
    /// Raised to stop it.
    stop: Arc<AtomicBool>,
    /// Last, because fields are dropped in this order: the database is closed before its file is removed.
    file: UnfinishedFile,
}

/// A file that is removed when this is dropped before [`UnfinishedFile::keep`].
struct UnfinishedFile(Option<PathBuf>);

impl UnfinishedFile {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // an error that is reported already may be why it cannot be removed
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What a table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::index) struct Count {
    pub(in crate::index) rows: u64,
    /// Bytes of keys and values.
    pub(in crate::index) bytes: u64,
}

impl GenerationBuilder {
    /// A new file, which must not exist.
    ///
    /// Errors: [`IndexError::File`] if it exists or cannot be made; storage errors.
    pub(in crate::index) fn create(path: &Path) -> Result<Self, IndexError> {
        // redb would open one that exists, and rows would be added to it
        File::create_new(path).map_err(file("make", path))?;
        let file = UnfinishedFile(Some(path.to_path_buf()));
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE);
        let database = builder.create(path).map_err(|error| IndexError::opening(path, error))?;
        let transaction = Some(database.begin_write()?);
        let stop = Arc::default();
        Ok(Self { database, transaction, uncommitted: 0, counts: BTreeMap::new(), stop, file })
    }

    /// The same, which ends with an error once the flag is raised.
    pub(in crate::index) fn stopped_by(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Appends rows to a table, whose keys must be above all it has.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a key is not above the one before; `Interrupted` once the flag is
    /// raised.
    pub(in crate::index) fn append<const KEY: usize, V: Value + 'static, R>(
        &mut self,
        table: TableDefinition<'static, &'static [u8; KEY], V>,
        rows: &[([u8; KEY], R)],
        value: impl for<'r> Fn(&'r R) -> V::SelfType<'r>,
    ) -> Result<(), IndexError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(IndexError::Interrupted);
        }
        let transaction = self.transaction.as_ref().ok_or(IndexError::Broken)?;
        let mut appended = Count::default();
        {
            let mut open = transaction.open_table(table)?;
            let mut end = open.upper_bound_mut(Bound::<&[u8; KEY]>::Unbounded)?;
            for (key, row) in rows {
                let row = value(row);
                appended.rows += 1;
                appended.bytes += u64::try_from(KEY + V::as_bytes(&row).as_ref().len()).unwrap_or(u64::MAX);
                end.insert_before(key, row).map_err(|error| match error {
                    CursorError::Storage(error) => error.into(),
                    error => IndexError::corrupt("generation", format!("table {}: {error}", table.name())),
                })?;
            }
        }
        let count = self.counts.entry(table.name().to_owned()).or_default();
        (count.rows, count.bytes) = (count.rows + appended.rows, count.bytes + appended.bytes);
        self.uncommitted += appended.bytes;
        if self.uncommitted >= COMMIT {
            self.commit(Durability::None)?;
        }
        Ok(())
    }

    /// Appends sorted records, each a key and its value, as rows; of equal keys the first.
    ///
    /// Errors: as [`GenerationBuilder::append`]; [`IndexError::Sorting`] if the records cannot be read.
    pub(in crate::index) fn append_sorted<const KEY: usize, const VALUE: usize>(
        &mut self,
        table: TableDefinition<'static, &'static [u8; KEY], &'static [u8; VALUE]>,
        records: Sorter,
    ) -> Result<(), IndexError> {
        let mut rows: Vec<([u8; KEY], [u8; VALUE])> = Vec::with_capacity(ROWS);
        let mut before = None;
        for record in records.sorted().map_err(IndexError::Sorting)? {
            let record = record.map_err(IndexError::Sorting)?;
            let row = record.split_first_chunk().and_then(|(key, value)| Some((*key, value.try_into().ok()?)));
            let row = row.ok_or_else(|| IndexError::corrupt("generation", "a sorted record has another length"))?;
            if before.replace(row.0) != Some(row.0) {
                rows.push(row);
            }
            if rows.len() == ROWS {
                self.append(table, &rows, |row| row)?;
                rows.clear();
            }
        }
        self.append(table, &rows, |row| row)
    }

    /// Reads a table as it is so far.
    ///
    /// Errors: storage errors; what `read` returns.
    pub(in crate::index) fn with_table<K: Key + 'static, V: Value + 'static, T>(
        &self,
        table: TableDefinition<'static, K, V>,
        read: impl FnOnce(&Table<'_, K, V>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let transaction = self.transaction.as_ref().ok_or(IndexError::Broken)?;
        let table = transaction.open_table(table)?;
        read(&table)
    }

    fn commit(&mut self, durability: Durability) -> Result<(), IndexError> {
        let mut transaction = self.transaction.take().ok_or(IndexError::Broken)?;
        transaction.set_durability(durability)?;
        transaction.commit()?;
        self.uncommitted = 0;
        self.transaction = Some(self.database.begin_write()?);
        Ok(())
    }

    /// What was appended to each table so far.
    pub(in crate::index) fn counts(&self) -> &BTreeMap<String, Count> {
        &self.counts
    }

    /// Writes the facts about the whole generation, and closes the file. It is on the disk then.
    ///
    /// Errors: storage errors. The file is removed then.
    pub(in crate::index) fn finish(mut self, facts: &[(String, Vec<u8>)]) -> Result<(), IndexError> {
        {
            let transaction = self.transaction.as_ref().ok_or(IndexError::Broken)?;
            create_all(transaction)?;
            let mut table = transaction.open_table(meta::TABLE)?;
            for (name, value) in facts {
                table.insert(name.as_str(), value.as_slice())?;
            }
        }
        self.commit(Durability::Immediate)?;
        if let Some(transaction) = self.transaction.take() {
            transaction.abort()?;
        }
        self.file.keep();
        Ok(())
    }
}
