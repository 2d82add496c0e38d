//! `txids`: first txnum (4) → 127 txids of 32 bytes, which fill a page. The last row of a generation may have fewer.

use std::ops::Range;

use bitcoin::Txid;
use bitcoin::hashes::Hash;
use redb::{ReadableTable, TableDefinition};

use super::super::super::codec::small;
use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use super::super::super::keys::TxNum;
use super::super::page::{PackedRow, value_bytes};
use super::super::table::StoredTable;
use super::super::versions::TableVersions;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8]> = TableDefinition::new("txids");

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new("txids", 1..=1);

pub(in crate::index) const TXID: usize = 32;
const ROW: usize = value_bytes(1, 4) / TXID * TXID;
/// The txids of a full row.
const ROW_TXIDS: usize = ROW / TXID;

/// Packs the txids of consecutive transactions.
pub(in crate::index) struct TxidPacker {
    first: TxNum,
    row: Vec<u8>,
}

impl TxidPacker {
    pub(in crate::index) fn new(first: TxNum) -> Self {
        Self { first, row: Vec::with_capacity(ROW) }
    }

    /// Adds the txid of the next transaction. Returns a row that is full.
    pub(in crate::index) fn push(&mut self, txid: &Txid) -> Option<PackedRow<4>> {
        self.row.extend_from_slice(txid.as_byte_array());
        if self.row.len() == ROW { self.take() } else { None }
    }

    /// Writes the entries that are in no complete row yet, for [`TxidPacker::decode_state`].
    pub(in crate::index) fn encode_state(&self, state: &mut Encoder) {
        state.u32(self.first.0).blob(&self.row);
    }

    pub(in crate::index) fn decode_state(state: &mut Decoder<'_>) -> Result<Self, IndexError> {
        Ok(Self { first: TxNum(state.u32()?), row: state.blob()?.to_vec() })
    }

    /// The last row.
    pub(in crate::index) fn finish(mut self) -> Option<PackedRow<4>> {
        self.take()
    }

    fn take(&mut self) -> Option<PackedRow<4>> {
        let row = std::mem::replace(&mut self.row, Vec::with_capacity(ROW));
        let count = u32::try_from(row.len() / TXID).ok().filter(|count| *count > 0)?;
        let first = self.first;
        self.first = TxNum(first.0.saturating_add(count));
        Some((first.to_key(), row))
    }
}

/// The txid of a transaction, `None` if the table does not reach it.
pub(in crate::index) fn read(
    table: &impl ReadableTable<&'static [u8; 4], &'static [u8]>,
    txnum: TxNum,
) -> Result<Option<Txid>, IndexError> {
    let Some(row) = table.range::<&[u8; 4]>(..=&txnum.to_key())?.next_back().transpose()? else { return Ok(None) };
    let first = TxNum::from_key(*row.0.value());
    Ok(txid_in(row.1.value(), usize::try_from(txnum.0 - first.0).unwrap_or(usize::MAX)))
}

/// The txid of a transaction at or above the first of the table, `None` if the table does not reach it. As all rows but the last
/// are full, the key of its row is known.
pub(in crate::index) fn read_row_of(
    table: &impl StoredTable<&'static [u8; 4], &'static [u8]>,
    first: TxNum,
    txnum: TxNum,
) -> Result<Option<Txid>, IndexError> {
    let index = usize::try_from(txnum.0 - first.0).unwrap_or(usize::MAX) % ROW_TXIDS;
    let row = table.get(&TxNum(txnum.0 - small(index)).to_key())?;
    Ok(row.and_then(|row| txid_in(row.value(), index)))
}

/// Appends the txids of consecutive transactions to `found`, as far as the table reaches.
pub(in crate::index) fn read_consecutive(
    table: &impl StoredTable<&'static [u8; 4], &'static [u8]>,
    first: TxNum,
    txnums: Range<TxNum>,
    found: &mut Vec<Txid>,
) -> Result<(), IndexError> {
    let mut skipped = usize::try_from(txnums.start.0 - first.0).unwrap_or(usize::MAX) % ROW_TXIDS;
    let from = TxNum(txnums.start.0 - small(skipped));
    for row in table.range::<&[u8; 4]>(&from.to_key()..&txnums.end.to_key())? {
        let (key, row) = row?;
        let wanted = usize::try_from(txnums.end.0 - TxNum::from_key(*key.value()).0).unwrap_or(usize::MAX);
        let (txids, _) = row.value().as_chunks::<TXID>();
        found.extend(txids.iter().take(wanted).skip(skipped).map(|txid| Txid::from_byte_array(*txid)));
        skipped = 0;
    }
    Ok(())
}

/// Whether a row may begin with this transaction: all rows before it are full.
pub(in crate::index) fn is_row_key(first: TxNum, txnum: TxNum) -> bool {
    txnum.0.checked_sub(first.0).and_then(|index| usize::try_from(index).ok()).is_some_and(|at| at % ROW_TXIDS == 0)
}

fn txid_in(row: &[u8], index: usize) -> Option<Txid> {
    let txid = row.chunks_exact(TXID).nth(index);
    txid.and_then(|txid| Txid::from_slice(txid).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::frozen::tables::tests::table_of;

    #[test]
    fn every_txid_is_read_at_its_number_and_rows_fill_pages() {
        let txids: Vec<_> = (0..300_u32)
            .map(|number| {
                let mut txid = [7; 32];
                txid[..4].copy_from_slice(&number.to_be_bytes());
                Txid::from_byte_array(txid)
            })
            .collect();
        let mut packer = TxidPacker::new(TxNum(1_000));
        let mut rows: Vec<_> = txids.iter().filter_map(|txid| packer.push(txid)).collect();
        rows.extend(packer.finish());
        let sizes: Vec<_> = rows.iter().map(|(_, row)| row.len() / TXID).collect();
        assert_eq!(sizes, [127, 127, 46]);
        let table = table_of(TABLE, &rows);
        let read = |number| read(&*table, TxNum(number)).unwrap();
        assert!((1_000..).zip(&txids).all(|(number, txid)| read(number) == Some(*txid)));
        assert_eq!((read(999), read(1_300), read(u32::MAX)), (None, None, None));
        let read = |number| read_row_of(&*table, TxNum(1_000), TxNum(number)).unwrap();
        assert!((1_000..).zip(&txids).all(|(number, txid)| read(number) == Some(*txid)));
        assert_eq!((read(1_300), read(u32::MAX)), (None, None));
        for (from, end) in
            [(1_000, 1_300), (1_000, 1_127), (1_126, 1_128), (1_200, 1_400), (1_299, 1_300), (1_050, 1_050)]
        {
            let mut found = Vec::new();
            read_consecutive(&*table, TxNum(1_000), TxNum(from)..TxNum(end), &mut found).unwrap();
            let at = |number: u32| usize::try_from(number - 1_000).unwrap().min(txids.len());
            assert_eq!(found, txids[at(from)..at(end)], "{from} to {end}");
        }
    }
}
