//! The packed tables, one per file: the layout of a row, a packer that makes rows of entries in order, and the reads.
//!
//! `late_spends` is as plain as a live table; `overwritten`, `unspent`, `payouts`, `p2pk`, `block_starts` and
//! `block_hashes` have their live form.

pub(in crate::index) mod address_prefixes;
pub(in crate::index) mod all;
pub(in crate::index) mod blocks;
pub(in crate::index) mod derived_form;
pub(in crate::index) mod entries;
pub(in crate::index) mod filters;
pub(in crate::index) mod history;
pub(in crate::index) mod late_spends;
pub(in crate::index) mod op_returns;
pub(in crate::index) mod positions;
pub(in crate::index) mod spends;
pub(in crate::index) mod txid_prefixes;
pub(in crate::index) mod txids;
pub(in crate::index) mod wtxids;

#[cfg(test)]
mod tests {
    use std::borrow::Borrow;
    use std::ops::{Deref, RangeBounds};

    use redb::backends::InMemoryBackend;
    use redb::{AccessGuard, Database, Range, ReadOnlyTable, ReadableDatabase, StorageError, TableDefinition};

    use super::super::page::PackedRow;
    use super::super::table::StoredTable;

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

    impl<const KEY: usize> StoredTable<&'static [u8; KEY], &'static [u8]> for Stored<KEY> {
        type Rows = Range<'static, &'static [u8; KEY], &'static [u8]>;

        fn get<'a>(
            &self,
            key: impl Borrow<&'a [u8; KEY]>,
        ) -> Result<Option<AccessGuard<'static, &'static [u8]>>, StorageError> {
            self.table.get(key)
        }

        fn range<'a, KR: Borrow<&'a [u8; KEY]> + 'a>(
            &self,
            range: impl RangeBounds<KR> + 'a,
        ) -> Result<Self::Rows, StorageError> {
            self.table.range(range)
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
