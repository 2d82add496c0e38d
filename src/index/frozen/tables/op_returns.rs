//! `op_returns` (optional, in a file of its own): first 3 bytes of data ‖ txnum (4) ‖ vout (3) → the next 5 bytes of the data,
//! then further entries as in `entries.rs`.

use redb::TableDefinition;

use super::super::super::hot::tables::op_returns::{NAME, OpReturnKey, keys_of, split_key};
use super::super::super::keys::TxNum;
use super::super::page::PackedRow;
use super::super::versions::TableVersions;
use super::derived_form::DerivedForm;
use super::entries::EntryPacker;
use crate::chain::raw::RawTransaction;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 10], &[u8]> = TableDefinition::new(NAME);

pub(in crate::index) const VERSIONS: TableVersions = TableVersions::new(NAME, 1..=1);

/// Bytes of a record, which is a live key.
const RECORD: usize = size_of::<OpReturnKey>();

/// Makes the table of one generation.
pub(in crate::index) struct OpReturnsForm(EntryPacker<10, 5>);

impl OpReturnsForm {
    pub(in crate::index) fn new() -> Self {
        Self(EntryPacker::new())
    }
}

impl DerivedForm<RECORD, 10> for OpReturnsForm {
    const TABLE: TableDefinition<'static, &'static [u8; 10], &'static [u8]> = TABLE;

    fn each_record(&self, txnum: TxNum, transaction: &RawTransaction<'_>, visit: &mut dyn FnMut([u8; RECORD])) {
        keys_of(txnum, transaction).for_each(visit);
    }

    fn push(&mut self, record: &[u8; RECORD]) -> Option<PackedRow<10>> {
        let (key, rest) = split_key(record);
        self.0.push(key, rest)
    }

    fn finish(self) -> Option<PackedRow<10>> {
        self.0.finish()
    }
}
