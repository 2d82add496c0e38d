//! The packed tables, one per file: the layout of a row, a packer that makes rows of entries in order, and the reads.
//!
//! `late_spends` is as plain as a live table; `overwritten`, `unspent`, `payouts`, `p2pk`, `block_starts` and
//! `block_hashes` have their live form.

pub(in crate::index) mod blocks;
pub(in crate::index) mod history;
pub(in crate::index) mod late_spends;
pub(in crate::index) mod positions;
pub(in crate::index) mod spends;
pub(in crate::index) mod txid_prefixes;
pub(in crate::index) mod txids;

use redb::{Key, TableDefinition, Value, WriteTransaction};

use super::super::error::IndexError;
use super::super::tables::{block_hashes, block_starts, overwritten, p2pk, payouts, unspent};

/// Creates every table of a generation, so that those without rows exist.
pub(super) fn create_all(transaction: &WriteTransaction) -> Result<(), IndexError> {
    fn create<K: Key + 'static, V: Value + 'static>(
        transaction: &WriteTransaction,
        table: TableDefinition<'static, K, V>,
    ) -> Result<(), IndexError> {
        transaction.open_table(table)?;
        Ok(())
    }
    create(transaction, blocks::TABLE)?;
    create(transaction, block_starts::TABLE)?;
    create(transaction, block_hashes::TABLE)?;
    create(transaction, txids::TABLE)?;
    create(transaction, txid_prefixes::TABLE)?;
    create(transaction, positions::TABLE)?;
    create(transaction, spends::TABLE)?;
    create(transaction, late_spends::TABLE)?;
    create(transaction, overwritten::TABLE)?;
    create(transaction, history::TABLE)?;
    create(transaction, unspent::TABLE)?;
    create(transaction, payouts::TABLE)?;
    create(transaction, p2pk::TABLE)
}

#[cfg(test)]
mod tests {
    use std::ops::Deref;

    use redb::backends::InMemoryBackend;
    use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};

    use super::super::page::PackedRow;

    /// A table in memory.
    pub(super) struct Stored<const KEY: usize> {
        _database: Database,
        table: ReadOnlyTable<&'static [u8; KEY], &'static [u8]>,
    }

    impl<const KEY: usize> Deref for Stored<KEY> {
        type Target = ReadOnlyTable<&'static [u8; KEY], &'static [u8]>;

        fn deref(&self) -> &Self::Target {
            &self.table
        }
    }

    /// A table with these rows, whose keys must ascend.
    pub(super) fn table_of<const KEY: usize>(
        definition: TableDefinition<'static, &'static [u8; KEY], &'static [u8]>,
        rows: &[PackedRow<KEY>],
    ) -> Stored<KEY> {
        assert!(rows.is_sorted_by(|one, other| one.0 < other.0), "the keys of rows ascend");
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut table = transaction.open_table(definition).unwrap();
            for (key, row) in rows {
                table.insert(key, row.as_slice()).unwrap();
            }
        }
        transaction.commit().unwrap();
        let table = database.begin_read().unwrap().open_table(definition).unwrap();
        Stored { _database: database, table }
    }
}
