//! The packed tables, one per file: the layout of a row, a packer that makes rows of entries in order, and the reads.
//!
//! `late_spends` is as plain as a live table; `overwritten`, `unspent`, `payouts`, `p2pk`, `block_starts` and
//! `block_hashes` have their live form.

pub(in crate::index) mod address_prefixes;
pub(in crate::index) mod blocks;
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

use redb::{Key, ReadableTableMetadata, TableDefinition, TableHandle, Value, WriteTransaction};

use super::super::error::IndexError;
use super::super::hot::tables::{block_hashes, block_starts, overwritten, p2pk, payouts, unspent};
use super::versions::TableVersions;

/// The versions of the tables of a generation; that of a table with a file here stands in that file. The version of a table is
/// raised with every change of its rows. A program that still reads the version before has it rebuilt in the background, into a
/// file of its own (`derived.rs`).
pub(in crate::index) const VERSIONS: [TableVersions; 13] = [
    blocks::VERSIONS,
    TableVersions::new("block_starts", 1..=1),
    TableVersions::new("block_hashes", 1..=1),
    txids::VERSIONS,
    txid_prefixes::VERSIONS,
    positions::VERSIONS,
    spends::VERSIONS,
    late_spends::VERSIONS,
    TableVersions::new("overwritten", 1..=1),
    history::VERSIONS,
    TableVersions::new("unspent", 1..=1),
    TableVersions::new("payouts", 1..=1),
    TableVersions::new("p2pk", 1..=1),
];

/// The version of the table that a later generation has, too, if a program that makes filters built it.
pub(in crate::index) const FILTERS: TableVersions = filters::VERSIONS;

/// What is done with every table of a generation.
trait TableVisitor {
    fn visit<K: Key + 'static, V: Value + 'static>(
        &mut self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<(), IndexError>;
}

fn visit_all(visitor: &mut impl TableVisitor) -> Result<(), IndexError> {
    visitor.visit(blocks::TABLE)?;
    visitor.visit(block_starts::TABLE)?;
    visitor.visit(block_hashes::TABLE)?;
    visitor.visit(txids::TABLE)?;
    visitor.visit(txid_prefixes::TABLE)?;
    visitor.visit(positions::TABLE)?;
    visitor.visit(spends::TABLE)?;
    visitor.visit(late_spends::TABLE)?;
    visitor.visit(overwritten::TABLE)?;
    visitor.visit(history::TABLE)?;
    visitor.visit(unspent::TABLE)?;
    visitor.visit(payouts::TABLE)?;
    visitor.visit(p2pk::TABLE)
}

/// Creates every table of a generation, so that those without rows exist.
pub(super) fn create_all(transaction: &WriteTransaction) -> Result<(), IndexError> {
    struct Create<'t>(&'t WriteTransaction);

    impl TableVisitor for Create<'_> {
        fn visit<K: Key + 'static, V: Value + 'static>(
            &mut self,
            table: TableDefinition<'static, K, V>,
        ) -> Result<(), IndexError> {
            self.0.open_table(table)?;
            Ok(())
        }
    }

    visit_all(&mut Create(transaction))
}

/// Removes the last rows of each table until it has as many as `rows` says of its name.
pub(super) fn truncate_all(transaction: &WriteTransaction, rows: impl Fn(&str) -> u64) -> Result<(), IndexError> {
    struct Truncate<'t, F>(&'t WriteTransaction, F);

    impl<F: Fn(&str) -> u64> TableVisitor for Truncate<'_, F> {
        fn visit<K: Key + 'static, V: Value + 'static>(
            &mut self,
            table: TableDefinition<'static, K, V>,
        ) -> Result<(), IndexError> {
            let (Self(transaction, rows), name) = (self, table.name());
            let expected = rows(name);
            let mut table = transaction.open_table(table)?;
            let found = table.len()?;
            if found < expected {
                let what = format!("table {name} of an unfinished import has {found} rows instead of {expected}");
                return Err(IndexError::corrupt("import", what));
            }
            for _ in expected..found {
                table.pop_last()?;
            }
            Ok(())
        }
    }

    visit_all(&mut Truncate(transaction, rows))
}

#[cfg(test)]
mod tests {
    use std::borrow::Borrow;
    use std::ops::{Deref, RangeBounds};

    use redb::backends::InMemoryBackend;
    use redb::{AccessGuard, Database, Range, ReadOnlyTable, ReadableDatabase, StorageError};

    use super::super::super::optional::OptionalTable;
    use super::super::page::PackedRow;
    use super::super::table::StoredTable;
    use super::*;

    #[test]
    fn every_table_of_a_generation_has_a_version() {
        struct Names(Vec<String>);

        impl TableVisitor for Names {
            fn visit<K: Key + 'static, V: Value + 'static>(
                &mut self,
                table: TableDefinition<'static, K, V>,
            ) -> Result<(), IndexError> {
                self.0.push(table.name().to_owned());
                Ok(())
            }
        }

        let mut names = Names(Vec::new());
        visit_all(&mut names).unwrap();
        assert_eq!(names.0, VERSIONS.map(|table| table.name));
    }

    #[test]
    fn the_page_of_the_format_names_the_tables_that_are_not_in_their_first_version() {
        let optional = OptionalTable::ALL.map(OptionalTable::versions);
        let later = VERSIONS.iter().chain([&FILTERS]).chain(&optional).filter(|table| table.newest() > 1);
        let later: Vec<_> = later.map(|table| format!("`{}` **{}**", table.name, table.newest())).collect();
        let sentence = format!("all are **1** but {}.\n", later.join(", "));
        assert!(
            include_str!("../../../../docs/index-format.md").contains(&sentence),
            "docs/index-format.md: {sentence}"
        );
    }

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
