//! A copy of the live tables of one committed state, which is an index file of its own: with the generations that it names it
//! is a whole index. It is made while the writer works, and does not disturb it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use redb::{
    Builder, Key, ReadOnlyTable, ReadableTable, ReadableTableMetadata, TableDefinition, TableHandle, Value,
    WriteTransaction,
};

use super::error::IndexError;
use super::files::remove_if_exists;
use super::hot::tables::observed::{block_observed, departed, first_seen, mempool, mempool_samples};
use super::hot::tables::{
    address_prefixes, block_files, block_filters, block_hashes, block_starts, blocks, history, meta, miner_blocks,
    op_returns, overwritten, p2pk, payouts, raw_blocks, reorgs, spends, stale_blocks, stale_transactions, transactions,
    txids, unspent, wtxids,
};
use super::open::generations_directory;
use super::snapshot::Snapshot;

/// Memory for the pages of the copy.
const CACHE_BYTES: usize = 64 << 20;
/// How many rows are copied between two calls of `progress`.
const STEP: u64 = 10_000;

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedRows {
    /// The rows that are copied.
    pub done: u64,
    /// The rows of all tables.
    pub total: u64,
}

type CopyProgress<'p> = &'p mut dyn FnMut(CopiedRows) -> ControlFlow<()>;

/// A copy under way.
struct TableCopy<'c> {
    transaction: &'c WriteTransaction,
    rows: CopiedRows,
    progress: CopyProgress<'c>,
}

impl TableCopy<'_> {
    fn table<K: Key + 'static, V: Value + 'static>(
        &mut self,
        definition: TableDefinition<'static, K, V>,
        source: Option<&ReadOnlyTable<K, V>>,
    ) -> Result<(), IndexError> {
        let Some(source) = source else { return Ok(()) };
        let mut copy = self.transaction.open_table(definition)?;
        for row in source.iter()? {
            let (key, value) = row?;
            copy.insert(key.value(), value.value())?;
            self.rows.done += 1;
            if self.rows.done.is_multiple_of(STEP) && (self.progress)(self.rows).is_break() {
                return Err(IndexError::Interrupted);
            }
        }
        if copy.len()? == source.len()? {
            Ok(())
        } else {
            Err(IndexError::corrupt("copy", format!("table {} has another number of rows", definition.name())))
        }
    }
}

impl Snapshot {
    /// Writes its live tables to a new index file at `path`, durably. `Break` ends it, and removes the file.
    ///
    /// Errors: [`IndexError::Interrupted`], `Downloading`; storage errors. The file is removed then.
    pub fn copy_to(&self, path: &Path, progress: CopyProgress<'_>) -> Result<(), IndexError> {
        // the files that the copy names are not there yet
        if self.generations.are_partial() {
            return Err(IndexError::Downloading);
        }
        remove_if_exists(path)?;
        let copied = self.write_copy(path, progress);
        if copied.is_err() {
            // the error of the copy says more
            let _ = remove_if_exists(path);
        }
        copied
    }

    fn write_copy(&self, path: &Path, progress: CopyProgress<'_>) -> Result<(), IndexError> {
        let total =
            self.tables()?.iter().filter(|table| !table.name.starts_with("frozen.")).map(|table| table.rows).sum();
        let database = Builder::new().set_cache_size(CACHE_BYTES).create(path);
        let database = database.map_err(|error| IndexError::opening(path, error))?;
        let transaction = database.begin_write()?;
        let mut copy = TableCopy { transaction: &transaction, rows: CopiedRows { done: 0, total }, progress };
        copy.table(meta::TABLE, Some(&self.meta))?;
        copy.table(blocks::TABLE, Some(&self.blocks))?;
        copy.table(block_starts::TABLE, Some(&self.block_starts))?;
        copy.table(block_hashes::TABLE, Some(&self.block_hashes))?;
        copy.table(transactions::TABLE, Some(&self.transactions))?;
        copy.table(txids::TABLE, Some(&self.txids))?;
        copy.table(spends::TABLE, Some(&self.spends))?;
        copy.table(overwritten::TABLE, Some(&self.overwritten))?;
        copy.table(history::TABLE, Some(&self.history))?;
        copy.table(unspent::TABLE, Some(&self.unspent))?;
        copy.table(payouts::TABLE, Some(&self.payouts))?;
        copy.table(p2pk::TABLE, Some(&self.p2pk))?;
        copy.table(stale_blocks::TABLE, Some(&self.stale_blocks))?;
        copy.table(stale_blocks::RAW, Some(&self.stale_raw_blocks))?;
        copy.table(stale_transactions::TABLE, Some(&self.stale_transactions))?;
        copy.table(mempool::TABLE, Some(&self.mempool))?;
        copy.table(departed::TABLE, Some(&self.departed))?;
        copy.table(block_observed::TABLE, Some(&self.block_observed))?;
        copy.table(first_seen::TABLE, Some(&self.first_seen))?;
        copy.table(reorgs::TABLE, Some(&self.reorgs))?;
        copy.table(reorgs::BLOCKS, Some(&self.reorg_blocks))?;
        copy.table(mempool_samples::TABLE, Some(&self.mempool_samples))?;
        copy.table(block_files::TABLE, self.block_files.as_ref())?;
        copy.table(raw_blocks::TABLE, self.raw_blocks.as_ref())?;
        copy.table(wtxids::TABLE, self.optional.wtxids.as_ref())?;
        copy.table(address_prefixes::TABLE, self.optional.address_prefixes.as_deref())?;
        copy.table(op_returns::TABLE, self.optional.op_returns.as_ref())?;
        copy.table(miner_blocks::TABLE, self.miner_blocks.as_ref())?;
        copy.table(block_filters::TABLE, self.block_filters.as_ref())?;
        transaction.commit()?;
        Ok(())
    }

    /// The files of the generations in force, which such a copy names.
    #[must_use]
    pub fn generation_files(&self) -> Vec<PathBuf> {
        self.generations.iter().map(|in_force| in_force.generation.path().to_path_buf()).collect()
    }

    /// The files of their optional tables. One that is gone is built again.
    #[must_use]
    pub fn optional_files(&self) -> Vec<PathBuf> {
        let directory = generations_directory(self.file());
        self.generations.derived_names().map(|name| directory.join(name.file())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bitcoin::Network;

    use super::*;
    use crate::index::{Index, IndexOptions, ObservedLimits, Salt};

    #[test]
    fn every_table_is_copied() {
        let directory = tempfile::tempdir().unwrap();
        let options = IndexOptions {
            path: directory.path().join("index.redb"),
            network: Network::Regtest,
            salt: Some(Salt([7; 16])),
            cache_bytes: 8 << 20,
            freezes: true,
            stale_blocks_kept: 10,
            observed: ObservedLimits::default(),
        };
        let index = Index::open(&options).unwrap();
        let path = directory.path().join("copy.redb");
        index.snapshot().unwrap().copy_to(&path, &mut |_| ControlFlow::Continue(())).unwrap();
        drop(index);
        let names = |path: &Path| -> BTreeSet<String> {
            let database = redb::Database::open(path).unwrap();
            let read = redb::ReadableDatabase::begin_read(&database).unwrap();
            read.list_tables().unwrap().map(|table| table.name().to_owned()).collect()
        };
        assert_eq!(names(&path), names(&options.path));
        assert!(Index::open(&IndexOptions { path, ..options }).unwrap().snapshot().unwrap().tip().is_none());
    }
}
