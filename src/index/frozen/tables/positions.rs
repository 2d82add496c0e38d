//! `positions`: first txnum (4) → the offset of that transaction in its block «1 | whether it is the coinbase, then for
//! each transaction its length and fee. All are varints; offset and length in bytes, fee in sat (0 for a coinbase).
//!
//! A row ends at the end of a block at the latest, and blocks are not named: where they are differs from node to node.

use std::ops::Range;

use bitcoin::consensus::encode::VarInt;
use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder, put_varint, varint_size};
use super::super::super::error::IndexError;
use super::super::super::keys::TxNum;
use super::super::page::{PackedRow, value_bytes};
use super::super::table::StoredTable;
use super::super::versions::TableVersions;
use crate::chain::raw::HEADER_SIZE;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8]> = TableDefinition::new("positions");

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new("positions", 1..=1);

const ROW: usize = value_bytes(4, 4);

/// Where the bytes of a transaction are in its block, and its fee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct BlockOffset {
    /// Bytes of the block before it.
    pub(in crate::index) offset: u32,
    /// Its bytes.
    pub(in crate::index) length: u32,
    /// In sat, `None` for a coinbase.
    pub(in crate::index) fee: Option<u64>,
}

/// The bytes of a block before its first transaction: its header, and the number of its transactions.
pub(in crate::index) fn first_offset(transactions: u32) -> u32 {
    u32::try_from(HEADER_SIZE + VarInt::from(u64::from(transactions)).size()).unwrap_or(0)
}

/// Packs consecutive transactions.
pub(in crate::index) struct PositionPacker {
    /// The next transaction, and the first of the row.
    next: TxNum,
    first: TxNum,
    row: Vec<u8>,
}

impl PositionPacker {
    pub(in crate::index) fn new(first: TxNum) -> Self {
        Self { next: first, first, row: Vec::with_capacity(ROW) }
    }

    /// Adds the next transaction. One without a fee begins a block. Returns a row that is complete.
    pub(in crate::index) fn push(&mut self, position: &BlockOffset) -> Option<PackedRow<4>> {
        let (length, fee) = (u64::from(position.length), position.fee.unwrap_or(0));
        let is_coinbase = position.fee.is_none();
        let is_full = self.row.len() + varint_size(length) + varint_size(fee) > ROW;
        let complete = if is_coinbase || is_full { self.take() } else { None };
        if self.row.is_empty() {
            self.first = self.next;
            put_varint(&mut self.row, u64::from(position.offset) << 1 | u64::from(is_coinbase));
        }
        put_varint(&mut self.row, length);
        put_varint(&mut self.row, fee);
        self.next = TxNum(self.next.0.saturating_add(1));
        complete
    }

    /// Writes the entries that are in no complete row yet, for [`PositionPacker::decode_state`].
    pub(in crate::index) fn encode_state(&self, state: &mut Encoder) {
        state.u32(self.next.0).u32(self.first.0).blob(&self.row);
    }

    pub(in crate::index) fn decode_state(state: &mut Decoder<'_>) -> Result<Self, IndexError> {
        Ok(Self { next: TxNum(state.u32()?), first: TxNum(state.u32()?), row: state.blob()?.to_vec() })
    }

    /// The last row.
    pub(in crate::index) fn finish(mut self) -> Option<PackedRow<4>> {
        self.take()
    }

    fn take(&mut self) -> Option<PackedRow<4>> {
        let row = std::mem::replace(&mut self.row, Vec::with_capacity(ROW));
        (!row.is_empty()).then(|| (self.first.to_key(), row))
    }
}

/// The position of a transaction, `None` if the table does not reach it.
pub(in crate::index) fn read(
    table: &impl StoredTable<&'static [u8; 4], &'static [u8]>,
    txnum: TxNum,
) -> Result<Option<BlockOffset>, IndexError> {
    let Some(row) = table.range::<&[u8; 4]>(..=&txnum.to_key())?.next_back().transpose()? else { return Ok(None) };
    let mut at = TxNum::from_key(*row.0.value());
    let mut found = None;
    each(row.1.value(), |position| {
        found = (at == txnum).then_some(position);
        at = TxNum(at.0.saturating_add(1));
        found.is_none()
    })?;
    Ok(found)
}

/// Appends the positions of consecutive transactions to `found`, as far as the table reaches.
pub(in crate::index) fn read_consecutive(
    table: &impl StoredTable<&'static [u8; 4], &'static [u8]>,
    txnums: Range<TxNum>,
    found: &mut Vec<BlockOffset>,
) -> Result<(), IndexError> {
    let row = table.range::<&[u8; 4]>(..=&txnums.start.to_key())?.next_back().transpose()?;
    let from = row.map_or(txnums.start, |(key, _)| TxNum::from_key(*key.value()));
    for row in table.range::<&[u8; 4]>(&from.to_key()..&txnums.end.to_key())? {
        let (key, row) = row?;
        let mut at = TxNum::from_key(*key.value());
        each(row.value(), |position| {
            if txnums.contains(&at) {
                found.push(position);
            }
            at = TxNum(at.0.saturating_add(1));
            at < txnums.end
        })?;
    }
    Ok(())
}

/// Visits the transactions of a row until `visit` returns false.
pub(in crate::index) fn each(row: &[u8], mut visit: impl FnMut(BlockOffset) -> bool) -> Result<(), IndexError> {
    let mut row = Decoder::new("positions", row);
    let head: u64 = row.varint()?;
    let too_large = |row: &Decoder<'_>| row.corrupt("has an offset that is too large");
    let mut offset = u32::try_from(head >> 1).map_err(|_| too_large(&row))?;
    let mut is_coinbase = head & 1 == 1;
    while !row.is_empty() {
        let (length, fee) = (row.varint()?, row.varint()?);
        if is_coinbase && fee != 0 {
            return Err(row.corrupt("has a coinbase with a fee"));
        }
        if !visit(BlockOffset { offset, length, fee: (!is_coinbase).then_some(fee) }) {
            break;
        }
        offset = offset.checked_add(length).ok_or_else(|| too_large(&row))?;
        is_coinbase = false;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::index::frozen::tables::tests::table_of;

    proptest! {
        #[test]
        fn every_transaction_is_read_at_its_number(
            blocks in prop::collection::vec(
                (80_u32..90, prop::collection::vec((60_u32..100_000, 0_u64..1 << 50), 0..900)), 1..8,
            ),
        ) {
            let mut expected = Vec::new();
            for (start, transactions) in blocks {
                expected.push(BlockOffset { offset: start, length: 100, fee: None });
                let mut offset = start + 100;
                for (length, fee) in transactions {
                    expected.push(BlockOffset { offset, length, fee: Some(fee) });
                    offset += length;
                }
            }
            let mut packer = PositionPacker::new(TxNum(7));
            let mut rows: Vec<_> = expected.iter().filter_map(|position| packer.push(position)).collect();
            rows.extend(packer.finish());
            prop_assert!(rows.iter().all(|(_, row)| row.len() <= ROW));
            let table = table_of(TABLE, &rows);
            for (txnum, position) in (7..).map(TxNum).zip(&expected) {
                prop_assert_eq!(read(&*table, txnum).unwrap(), Some(*position));
            }
            let end = TxNum(7 + u32::try_from(expected.len()).unwrap());
            let middle = TxNum(7 + (end.0 - 7) / 3);
            for txnums in [TxNum(7)..end, middle..end, TxNum(7)..middle, middle..TxNum(end.0 + 9), end..end] {
                let mut found = Vec::new();
                read_consecutive(&*table, txnums.clone(), &mut found).unwrap();
                let at = |txnum: TxNum| usize::try_from(txnum.0 - 7).unwrap().min(expected.len());
                prop_assert_eq!(&found, &expected[at(txnums.start)..at(txnums.end)]);
            }
            prop_assert_eq!(read(&*table, end).unwrap(), None);
            prop_assert_eq!(read(&*table, TxNum(6)).unwrap(), None);
        }

        #[test]
        fn a_damaged_row_is_an_error_or_has_other_entries(row in prop::collection::vec(any::<u8>(), 0..50)) {
            let _ = each(&row, |_| true);
        }
    }
}
