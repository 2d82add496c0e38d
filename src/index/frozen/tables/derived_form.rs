//! How a table of a generation that is built in a file of its own is made of its transactions.

use redb::TableDefinition;

use super::super::super::keys::TxNum;
use super::super::page::PackedRow;
use crate::chain::raw::RawTransaction;

/// How a table of a generation is made: from records of `RECORD` bytes, which are sorted, to rows with keys of `KEY` bytes.
pub(in crate::index) trait DerivedForm<const RECORD: usize, const KEY: usize> {
    /// The packed table.
    const TABLE: TableDefinition<'static, &'static [u8; KEY], &'static [u8]>;

    /// Visits the records of a transaction.
    fn each_record(&self, txnum: TxNum, transaction: &RawTransaction<'_>, visit: &mut dyn FnMut([u8; RECORD]));

    /// Adds the next record. Returns a row that is full.
    fn push(&mut self, record: &[u8; RECORD]) -> Option<PackedRow<KEY>>;

    /// The last row.
    fn finish(self) -> Option<PackedRow<KEY>>;
}
