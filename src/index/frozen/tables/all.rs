//! All tables of a generation: their versions, and what is done with every one.

use redb::{Key, ReadableTableMetadata, TableDefinition, TableHandle, Value, WriteTransaction};

use super::super::super::error::IndexError;
use super::super::super::hot::tables::{block_hashes, block_starts, overwritten, p2pk, payouts, unspent};
use super::super::versions::TableVersions;
use super::{blocks, filters, history, late_spends, positions, spends, txid_prefixes, txids};

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
pub(in crate::index) fn create_all(transaction: &WriteTransaction) -> Result<(), IndexError> {
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
pub(in crate::index) fn truncate_all(
    transaction: &WriteTransaction,
    rows: impl Fn(&str) -> u64,
) -> Result<(), IndexError> {
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
    use super::super::super::super::optional::OptionalTable;
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
}
