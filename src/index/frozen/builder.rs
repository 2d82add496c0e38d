//! Builds the file of a generation: appends rows in the order of their keys, which leaves every page full.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    Builder, CursorError, Database, Durability, Key, ReadableDatabase, ReadableTable, Table, TableDefinition,
    TableHandle, Value, WriteTransaction,
};

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::files::{file, flush_name, remove_if_exists};
use super::super::hot::tables::meta;
use super::super::sorter::Sorter;
use super::tables::all::{create_all, truncate_all};
use crate::chain::wide;

/// Rows that are appended at once.
const ROWS: usize = 4_096;
/// Packed rows that are appended at once: one has many entries.
const PACKED_ROWS: usize = 256;
/// redb's cache while a generation is built, in bytes, if there is no reason for less.
pub(in crate::index) const CACHE: usize = 128 << 20;
/// The smallest such cache, in bytes.
const LEAST_CACHE: usize = 32 << 20;

/// redb's cache while a generation is built with so many bytes for everything.
pub(in crate::index) fn cache_of(memory: usize) -> usize {
    (memory / 8).clamp(LEAST_CACHE, CACHE)
}

/// Bytes that one commit writes with such a cache. redb writes dirty pages beyond half of it twice.
fn commit_size_of(cache: usize) -> u64 {
    wide(cache / 8 * 3)
}

/// How far an unfinished generation is built, and what its builder appended: there until it is finished.
const CHECKPOINT: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("checkpoint");
const CHECKPOINT_STATE: &str = "state";
const CHECKPOINT_COUNTS: &str = "counts";

/// A generation under construction. The file of [`GenerationBuilder::create`] is removed if the builder is dropped
/// before [`GenerationBuilder::finish`] returns success; one with checkpoints is kept.
pub(in crate::index) struct GenerationBuilder {
    database: Database,
    /// `None` only after an error.
    transaction: Option<WriteTransaction>,
    uncommitted: u64,
    /// Bytes that one commit writes.
    commit_size: u64,
    counts: BTreeMap<String, Count>,
    /// Raised to stop it.
    stop: Arc<AtomicBool>,
    /// Last, because fields are dropped in this order: the database is closed before its file is removed.
    file: UnfinishedFile,
}

/// A file that is removed when this is dropped before [`UnfinishedFile::keep`].
struct UnfinishedFile(Option<PathBuf>);

impl UnfinishedFile {
    fn keep(&mut self) {
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
        Self::create_with(path, CACHE)
    }

    fn create_with(path: &Path, cache: usize) -> Result<Self, IndexError> {
        // redb would open one that exists, and rows would be added to it
        File::create_new(path).map_err(file("make", path))?;
        let file = UnfinishedFile(Some(path.to_path_buf()));
        let mut builder = Builder::new();
        builder.set_cache_size(cache);
        let database = builder.create(path).map_err(|error| IndexError::opening(path, error))?;
        let transaction = Some(database.begin_write()?);
        let stop = Arc::default();
        let (commit_size, counts) = (commit_size_of(cache), BTreeMap::new());
        Ok(Self { database, transaction, uncommitted: 0, commit_size, counts, stop, file })
    }

    /// The same, which ends with an error once the flag is raised.
    pub(in crate::index) fn stopped_by(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// A new file with checkpoints, which must not exist, with so many bytes for redb's cache. It has its name only when the
    /// first checkpoint is durable.
    ///
    /// Errors: [`IndexError::File`] if it exists or cannot be made; storage errors.
    pub(in crate::index) fn create_resumable(path: &Path, cache: usize, checkpoint: &[u8]) -> Result<Self, IndexError> {
        let unfinished = unnamed(path);
        remove_if_exists(&unfinished)?;
        let mut builder = Self::create_with(&unfinished, cache)?;
        builder.commit_checkpoint(checkpoint, &BTreeMap::new())?;
        // a rename would replace a file
        if path.try_exists().map_err(file("look for", path))? {
            return Err(file("make", path)(std::io::ErrorKind::AlreadyExists.into()));
        }
        std::fs::rename(&unfinished, path).map_err(file("make", path))?;
        builder.file.keep();
        flush_name(path)?;
        Ok(builder)
    }

    /// Opens an unfinished file, with its newest checkpoint and so many bytes for redb's cache. Its tables may have rows that
    /// were appended after that, until [`GenerationBuilder::truncate`].
    ///
    /// Errors: [`IndexError::File`] if it has no checkpoint: it is a finished generation or something else; storage errors.
    pub(in crate::index) fn open_resumable(path: &Path, cache: usize) -> Result<(Self, Vec<u8>), IndexError> {
        let mut builder = Builder::new();
        builder.set_cache_size(cache);
        let exists = || file("make", path)(std::io::ErrorKind::AlreadyExists.into());
        // opening for writing changes the file; what a killed process had open cannot be opened only for reading
        if let Ok(database) = builder.open_read_only(path)
            && !database.begin_read()?.list_tables()?.any(|table| table.name() == CHECKPOINT.name())
        {
            return Err(exists());
        }
        let database = builder.open(path).map_err(|error| IndexError::opening(path, error))?;
        let transaction = database.begin_write()?;
        let is_unfinished = transaction.list_tables()?.any(|table| table.name() == CHECKPOINT.name());
        if !is_unfinished {
            return Err(exists());
        }
        let (mut checkpoint, mut counts) = (Vec::new(), BTreeMap::new());
        {
            let table = transaction.open_table(CHECKPOINT)?;
            if let Some(row) = table.get(CHECKPOINT_STATE)? {
                checkpoint.extend_from_slice(row.value());
            }
            if let Some(row) = table.get(CHECKPOINT_COUNTS)? {
                counts = decode_counts(row.value())?;
            }
        }
        let file = UnfinishedFile(None);
        let (transaction, stop) = (Some(transaction), Arc::default());
        let commit_size = commit_size_of(cache);
        Ok((Self { database, transaction, uncommitted: 0, commit_size, counts, stop, file }, checkpoint))
    }

    /// Removes the rows that were appended after the newest checkpoint.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if a table has fewer rows than that recorded.
    pub(in crate::index) fn truncate(&mut self) -> Result<(), IndexError> {
        let transaction = self.transaction.as_ref().ok_or(IndexError::Broken)?;
        truncate_all(transaction, |name| self.counts.get(name).map_or(0, |count| count.rows))
    }

    /// Makes all rows durable together with a checkpoint, which [`GenerationBuilder::open_resumable`] returns, and with the
    /// number of rows that each table had at the checkpoint: [`GenerationBuilder::truncate`] removes the later ones.
    ///
    /// Errors: storage errors.
    pub(in crate::index) fn commit_checkpoint(
        &mut self,
        checkpoint: &[u8],
        counts: &BTreeMap<String, Count>,
    ) -> Result<(), IndexError> {
        let transaction = self.transaction.as_mut().ok_or(IndexError::Broken)?;
        // opening after a kill would otherwise read the whole file
        transaction.set_quick_repair(true);
        {
            let mut table = transaction.open_table(CHECKPOINT)?;
            table.insert(CHECKPOINT_STATE, checkpoint)?;
            table.insert(CHECKPOINT_COUNTS, encode_counts(counts).as_slice())?;
        }
        self.commit(Durability::Immediate)
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
        if self.uncommitted >= self.commit_size {
            self.commit(Durability::None)?;
        }
        Ok(())
    }

    /// Appends the rows of a list, and empties it, if it has enough of them to do so at once.
    ///
    /// Errors: as [`GenerationBuilder::append`].
    pub(in crate::index) fn append_if_full<const KEY: usize, V: Value + 'static, R>(
        &mut self,
        table: TableDefinition<'static, &'static [u8; KEY], V>,
        rows: &mut Vec<([u8; KEY], R)>,
        value: impl for<'r> Fn(&'r R) -> V::SelfType<'r>,
    ) -> Result<(), IndexError> {
        if rows.len() >= PACKED_ROWS {
            self.append(table, rows, value)?;
            rows.clear();
        }
        Ok(())
    }

    /// Appends rows as they come, in the order of their keys.
    ///
    /// Errors: as [`GenerationBuilder::append`]; that of a row.
    pub(in crate::index) fn append_all<const KEY: usize, V: Value + 'static, R>(
        &mut self,
        table: TableDefinition<'static, &'static [u8; KEY], V>,
        rows: impl IntoIterator<Item = Result<([u8; KEY], R), IndexError>>,
        value: impl for<'r> Fn(&'r R) -> V::SelfType<'r>,
    ) -> Result<(), IndexError> {
        let mut batch = Vec::new();
        for row in rows {
            batch.push(row?);
            if batch.len() == ROWS {
                self.append(table, &batch, &value)?;
                batch.clear();
            }
        }
        self.append(table, &batch, value)
    }

    /// Appends sorted records, each a key and its value, as rows; of equal keys the first.
    ///
    /// Errors: as [`GenerationBuilder::append`]; [`IndexError::Sorting`] if the records cannot be read.
    pub(in crate::index) fn append_sorted<const KEY: usize, const VALUE: usize>(
        &mut self,
        table: TableDefinition<'static, &'static [u8; KEY], &'static [u8; VALUE]>,
        records: Sorter,
    ) -> Result<(), IndexError> {
        let mut before = None;
        let is_new = |row: &SortedRow<KEY, VALUE>| match row {
            Ok((key, _)) => before.replace(*key) != Some(*key),
            Err(_) => true,
        };
        self.append_all(table, sorted_rows(records)?.filter(is_new), |row| row)
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

    /// Writes the facts about the whole generation. It is on the disk then, and closed when the builder is dropped.
    ///
    /// Errors: storage errors. The file is removed then, unless it has checkpoints.
    pub(in crate::index) fn finish(&mut self, facts: &[(String, Vec<u8>)]) -> Result<(), IndexError> {
        create_all(self.transaction.as_ref().ok_or(IndexError::Broken)?)?;
        self.finish_file(facts)
    }

    /// Writes the facts about a file that need not have all tables of a generation.
    ///
    /// Errors: as [`GenerationBuilder::finish`].
    pub(super) fn finish_file(&mut self, facts: &[(String, Vec<u8>)]) -> Result<(), IndexError> {
        {
            let transaction = self.transaction.as_mut().ok_or(IndexError::Broken)?;
            // opening it after a kill would otherwise read the whole file
            transaction.set_quick_repair(true);
            transaction.delete_table(CHECKPOINT)?;
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

/// A key and its value, unless the record cannot be read.
type SortedRow<const KEY: usize, const VALUE: usize> = Result<([u8; KEY], [u8; VALUE]), IndexError>;

/// Sorted records, each as a key and its value.
///
/// Errors: [`IndexError::Sorting`] if the records cannot be read.
pub(super) fn sorted_rows<const KEY: usize, const VALUE: usize>(
    records: Sorter,
) -> Result<impl Iterator<Item = SortedRow<KEY, VALUE>>, IndexError> {
    Ok(records.sorted().map_err(IndexError::Sorting)?.map(|record| {
        let record = record.map_err(IndexError::Sorting)?;
        let row = record.split_first_chunk().and_then(|(key, value)| Some((*key, value.try_into().ok()?)));
        row.ok_or_else(|| IndexError::corrupt("generation", "a sorted record has another length"))
    }))
}

/// The name of a file before its first checkpoint is durable.
fn unnamed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Removes an unfinished file with checkpoints.
///
/// Errors: [`IndexError::File`].
pub(in crate::index) fn remove_resumable(path: &Path) -> Result<(), IndexError> {
    remove_if_exists(path)?;
    remove_if_exists(&unnamed(path))
}

fn encode_counts(counts: &BTreeMap<String, Count>) -> Vec<u8> {
    let mut row = Encoder::default();
    for (name, count) in counts {
        row.blob(name.as_bytes()).varint(count.rows).varint(count.bytes);
    }
    row.finish()
}

fn decode_counts(row: &[u8]) -> Result<BTreeMap<String, Count>, IndexError> {
    let (mut row, mut counts) = (Decoder::new("checkpoint", row), BTreeMap::new());
    while !row.is_empty() {
        let name = String::from_utf8_lossy(row.blob()?).into_owned();
        counts.insert(name, Count { rows: row.varint()?, bytes: row.varint()? });
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::super::tables::{spends, txids};
    use super::*;

    fn append(builder: &mut GenerationBuilder, keys: std::ops::Range<u32>) {
        let rows: Vec<_> = keys.map(|key| (key.to_be_bytes(), vec![7; 100])).collect();
        builder.append(txids::TABLE, &rows, Vec::as_slice).unwrap();
    }

    fn keys(builder: &GenerationBuilder) -> Vec<u32> {
        let read = |table: &Table<'_, &[u8; 4], &[u8]>| {
            Ok(table.iter()?.map(|row| u32::from_be_bytes(*row.unwrap().0.value())).collect())
        };
        builder.with_table(txids::TABLE, read).unwrap()
    }

    #[test]
    fn rows_behind_the_checkpoint_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("building.redb");
        let mut builder = GenerationBuilder::create_resumable(&path, CACHE, b"begun").unwrap();
        append(&mut builder, 0..300);
        let counts = builder.counts().clone();
        append(&mut builder, 300..400);
        builder.commit_checkpoint(b"300", &counts).unwrap();
        builder.append(spends::TABLE, &[([1; 7], vec![1])], Vec::as_slice).unwrap();
        // closing the file makes such a commit durable
        builder.commit(Durability::None).unwrap();
        append(&mut builder, 400..500);
        drop(builder);
        for _ in 0..2 {
            let (mut builder, checkpoint) = GenerationBuilder::open_resumable(&path, CACHE).unwrap();
            assert_eq!(checkpoint, b"300");
            builder.truncate().unwrap();
            assert_eq!(keys(&builder), (0..300).collect::<Vec<_>>());
            assert_eq!(builder.counts().get("txids"), Some(&Count { rows: 300, bytes: 300 * 104 }));
            assert_eq!(builder.counts().len(), 1);
            builder.append(spends::TABLE, &[([0; 7], vec![1])], Vec::as_slice).unwrap();
            append(&mut builder, 300..302);
            assert_eq!(keys(&builder).len(), 302);
        }
        let (mut builder, _) = GenerationBuilder::open_resumable(&path, CACHE).unwrap();
        builder.counts.insert("txids".into(), Count { rows: 401, bytes: 0 });
        assert!(matches!(builder.truncate(), Err(IndexError::Corrupt { .. })));
    }

    #[test]
    fn a_file_has_its_name_only_with_a_checkpoint_and_a_finished_one_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("building.redb");
        // what a kill before the first checkpoint leaves
        std::fs::write(unnamed(&path), "not a database").unwrap();
        let builder = GenerationBuilder::create_resumable(&path, CACHE, b"begun").unwrap();
        assert!(!unnamed(&path).exists());
        assert!(matches!(GenerationBuilder::create_resumable(&path, CACHE, b"another"), Err(IndexError::File { .. })));
        drop(builder);
        let (mut builder, checkpoint) = GenerationBuilder::open_resumable(&path, CACHE).unwrap();
        assert_eq!(checkpoint, b"begun");
        builder.finish(&[]).unwrap();
        drop(builder);
        let bytes = std::fs::read(&path).unwrap();
        assert!(matches!(GenerationBuilder::open_resumable(&path, CACHE), Err(IndexError::File { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        remove_resumable(&path).unwrap();
        assert!(!path.exists());
    }
}
