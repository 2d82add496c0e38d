//! `wtxids` (optional, in a file of its own): cut hash of a wtxid (6) → txnum (4), then further transactions, as in
//! `txid_prefixes`. Version 2 has only transactions with a witness, as the live table; version 1 has all.

use redb::TableDefinition;

use super::super::super::keys::TxNum;
use super::super::super::optional::RowContext;
use super::super::page::PackedRow;
use super::super::versions::TableVersions;
use super::derived_form::DerivedForm;
use super::txid_prefixes::{CutBits, CutHash, TxidPrefixPacker};
use crate::chain::raw::RawTransaction;

pub(in crate::index) const NAME: &str = "wtxids";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 6], &[u8]> = TableDefinition::new(NAME);

pub(in crate::index) const VERSIONS: TableVersions = TableVersions::new(NAME, 1..=2);

/// Whether a version has the transactions whose wtxid is their txid.
pub(in crate::index) fn has_transactions_without_witness(version: u32) -> bool {
    version == 1
}

/// Bytes of a record: cut hash (6) ‖ txnum (4).
const RECORD: usize = 10;

/// Makes the table of one generation.
pub(in crate::index) struct WtxidsForm {
    context: RowContext,
    with_all: bool,
    cut_bits: CutBits,
    packer: TxidPrefixPacker,
}

impl WtxidsForm {
    pub(in crate::index) fn new(context: RowContext, version: u32, cut_bits: CutBits) -> Self {
        let with_all = has_transactions_without_witness(version);
        Self { context, with_all, cut_bits, packer: TxidPrefixPacker::default() }
    }
}

impl DerivedForm<RECORD, 6> for WtxidsForm {
    const TABLE: TableDefinition<'static, &'static [u8; 6], &'static [u8]> = TABLE;

    fn each_record(&self, txnum: TxNum, transaction: &RawTransaction<'_>, visit: &mut dyn FnMut([u8; RECORD])) {
        if self.with_all || transaction.has_witness() {
            let hash = self.cut_bits.cut(self.context.salt.wtxid_prefix(&transaction.wtxid()));
            let mut record = [0; RECORD];
            record[..6].copy_from_slice(&hash.to_key());
            record[6..].copy_from_slice(&txnum.to_key());
            visit(record);
        }
    }

    fn push(&mut self, record: &[u8; RECORD]) -> Option<PackedRow<6>> {
        let (mut hash, mut txnum) = ([0; 6], [0; 4]);
        hash.copy_from_slice(&record[..6]);
        txnum.copy_from_slice(&record[6..]);
        self.packer.push(CutHash::from_key(hash), TxNum::from_key(txnum))
    }

    fn finish(self) -> Option<PackedRow<6>> {
        self.packer.finish()
    }
}
