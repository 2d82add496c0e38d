//! `address_prefixes` (optional, in a file of its own): the first 16 characters of an address (12) → first transaction of the
//! generation that pays it (4), then further entries as in `entries.rs`. One entry for each script.

use redb::TableDefinition;

use super::super::super::hot::tables::address_prefixes::{AddressKey, NAME, keys_of};
use super::super::super::keys::TxNum;
use super::super::super::optional::RowContext;
use super::super::page::PackedRow;
use super::super::versions::TableVersions;
use super::derived_form::DerivedForm;
use super::entries::EntryPacker;
use crate::chain::raw::RawTransaction;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 12], &[u8]> = TableDefinition::new(NAME);

pub(in crate::index) const VERSIONS: TableVersions = TableVersions::new(NAME, 1..=1);

/// Bytes of a record, which is a live key.
const RECORD: usize = size_of::<AddressKey>();

/// Makes the table of one generation.
pub(in crate::index) struct AddressPrefixesForm {
    context: RowContext,
    /// Address and script of the record before.
    before: Option<[u8; 22]>,
    packer: EntryPacker<12, 4>,
}

impl AddressPrefixesForm {
    pub(in crate::index) fn new(context: RowContext) -> Self {
        Self { context, before: None, packer: EntryPacker::new() }
    }
}

/// The entry of a record, and what it is the first record of: the address and its script.
pub(in crate::index) fn entry_of(record: &AddressKey) -> ([u8; 22], ([u8; 12], [u8; 4])) {
    let (mut script, mut address, mut txnum) = ([0; 22], [0; 12], [0; 4]);
    script.copy_from_slice(&record[..22]);
    address.copy_from_slice(&record[..12]);
    txnum.copy_from_slice(&record[22..]);
    (script, (address, txnum))
}

impl DerivedForm<RECORD, 12> for AddressPrefixesForm {
    const TABLE: TableDefinition<'static, &'static [u8; 12], &'static [u8]> = TABLE;

    fn each_record(&self, txnum: TxNum, transaction: &RawTransaction<'_>, visit: &mut dyn FnMut([u8; RECORD])) {
        keys_of(self.context, txnum, transaction).into_iter().for_each(visit);
    }

    fn push(&mut self, record: &[u8; RECORD]) -> Option<PackedRow<12>> {
        let (script, (address, txnum)) = entry_of(record);
        if self.before.replace(script) == Some(script) {
            return None;
        }
        self.packer.push(address, txnum)
    }

    fn finish(self) -> Option<PackedRow<12>> {
        self.packer.finish()
    }
}
