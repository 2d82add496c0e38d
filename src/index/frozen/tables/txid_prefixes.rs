//! `txid_prefixes`: cut hash of a txid (6) → txnum (4), then for each further transaction in the order of its cut hash:
//! the difference of the hash (varint) ‖ txnum (4).
//!
//! The hash is the keyed one of the live `txids`, cut to ten bits more than the number of transactions has: one look-up
//! in about 1,024 meets a foreign transaction, and all compare the full txid.

use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder, put_varint, varint_size};
use super::super::super::error::IndexError;
use super::super::super::keys::{TxNum, TxidPrefix};
use super::super::page::{PackedRow, value_bytes};
use super::super::table::StoredTable;
use super::super::versions::TableVersions;

pub(in crate::index) const NAME: &str = "txid_prefixes";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 6], &[u8]> = TableDefinition::new(NAME);

/// Raised with every change of a row.
pub(super) const VERSIONS: TableVersions = TableVersions::new(NAME, 1..=1);

const ROW: usize = value_bytes(4, 6);
/// Bits of a hash beyond those that number all transactions.
const SPARE_BITS: u32 = 10;
/// Bits of the hashes that are cut.
const PREFIX_BITS: u32 = 48;

/// How many bits the cut hashes of a generation have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct CutBits(u32);

/// The first bits of a keyed hash, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::index) struct CutHash(u64);

impl CutBits {
    /// For so many transactions.
    pub(in crate::index) fn of(transactions: u32) -> Self {
        Self(u32::BITS - transactions.saturating_sub(1).leading_zeros() + SPARE_BITS)
    }

    /// `None` unless hashes have so many bits.
    pub(in crate::index) fn new(bits: u32) -> Option<Self> {
        (1..=PREFIX_BITS).contains(&bits).then_some(Self(bits))
    }

    pub(in crate::index) fn to_u32(self) -> u32 {
        self.0
    }

    pub(in crate::index) fn cut(self, TxidPrefix(prefix): TxidPrefix) -> CutHash {
        CutHash(CutHash::from_key(prefix).0 >> (PREFIX_BITS - self.0))
    }
}

impl CutHash {
    pub(in crate::index) fn to_key(self) -> [u8; 6] {
        let mut key = [0; 6];
        key.copy_from_slice(&self.0.to_be_bytes()[2..]);
        key
    }

    pub(in crate::index) fn from_key(key: [u8; 6]) -> Self {
        Self(key.iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte)))
    }
}

/// Packs transactions in the order of (cut hash, txnum).
#[derive(Default)]
pub(in crate::index) struct TxidPrefixPacker {
    /// First and last hash of the row.
    hashes: Option<(CutHash, CutHash)>,
    row: Vec<u8>,
}

impl TxidPrefixPacker {
    /// Adds the next transaction. Returns a row that is full.
    pub(in crate::index) fn push(&mut self, hash: CutHash, txnum: TxNum) -> Option<PackedRow<6>> {
        let full = match self.hashes {
            // one row has all of a hash that begins it: its key is there once
            Some((first, last)) if hash != first => {
                let size = self.row.len() + varint_size(hash.0 - last.0) + 4;
                if size > ROW { self.take() } else { None }
            }
            _ => None,
        };
        match &mut self.hashes {
            Some((_, last)) => {
                put_varint(&mut self.row, hash.0 - last.0);
                *last = hash;
            }
            none => *none = Some((hash, hash)),
        }
        self.row.extend(txnum.to_key());
        full
    }

    /// Writes the entries that are in no complete row yet, for [`TxidPrefixPacker::decode_state`].
    pub(in crate::index) fn encode_state(&self, state: &mut Encoder) {
        let hashes = self.hashes.map(|(first, last)| [first.to_key(), last.to_key()].concat());
        state.blob(&hashes.unwrap_or_default()).blob(&self.row);
    }

    pub(in crate::index) fn decode_state(state: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let hashes = state
            .optional_key::<12>()?
            .map(|[a, b, c, d, e, f, last @ ..]| (CutHash::from_key([a, b, c, d, e, f]), CutHash::from_key(last)));
        Ok(Self { hashes, row: state.blob()?.to_vec() })
    }

    /// The last row.
    pub(in crate::index) fn finish(mut self) -> Option<PackedRow<6>> {
        self.take()
    }

    fn take(&mut self) -> Option<PackedRow<6>> {
        let (first, _) = self.hashes.take()?;
        Some((first.to_key(), std::mem::replace(&mut self.row, Vec::with_capacity(ROW))))
    }
}

/// The transactions with this hash in a table of this name, oldest first.
pub(in crate::index) fn read(
    name: &'static str,
    table: &impl StoredTable<&'static [u8; 6], &'static [u8]>,
    hash: CutHash,
) -> Result<Vec<TxNum>, IndexError> {
    let mut found = Vec::new();
    // equal hashes may straddle rows, the first of which begins below them
    for row in table.range::<&[u8; 6]>(..=&hash.to_key())?.rev() {
        let (key, row) = row?;
        let first = CutHash::from_key(*key.value());
        each(name, first, row.value(), |at, txnum| {
            if at == hash {
                found.push(txnum);
            }
            at <= hash
        })?;
        if first < hash {
            break;
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Visits the transactions of a row of a table of this name until `visit` returns false.
pub(in crate::index) fn each(
    name: &'static str,
    first: CutHash,
    row: &[u8],
    mut visit: impl FnMut(CutHash, TxNum) -> bool,
) -> Result<(), IndexError> {
    let mut row = Decoder::new(name, row);
    let mut at = first;
    while visit(at, TxNum::from_key(row.array()?)) && !row.is_empty() {
        let hash = at.0.checked_add(row.varint()?);
        at = CutHash(hash.ok_or_else(|| row.corrupt("has a hash that is too large"))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::index::frozen::tables::tests::table_of;

    #[test]
    fn hashes_have_ten_bits_more_than_the_number_of_transactions() {
        let bits = |transactions| CutBits::of(transactions).to_u32();
        assert_eq!([1, 2, 3, 1_024, 1_025, u32::MAX].map(bits), [10, 11, 12, 20, 21, 42]);
        assert_eq!(CutBits(12).cut(TxidPrefix([0xab, 0xcd, 0xef, 1, 2, 3])), CutHash(0xabc));
        assert_eq!((CutBits::new(0), CutBits::new(49), CutBits::new(48)), (None, None, Some(CutBits(48))));
    }

    proptest! {
        #[test]
        fn all_transactions_of_a_hash_are_found_also_across_rows(
            // few hashes and many transactions, so that equal ones fill rows
            mut entries in prop::collection::vec((prop_oneof![0_u64..4, 0_u64..1 << 42], any::<u32>()), 1..2_000),
        ) {
            entries.sort_unstable();
            let mut packer = TxidPrefixPacker::default();
            let (mut rows, mut expected) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
            for (hash, txnum) in entries {
                rows.extend(packer.push(CutHash(hash), TxNum(txnum)));
                expected.entry(hash).or_default().push(TxNum(txnum));
            }
            rows.extend(packer.finish());
            let table = table_of(TABLE, &rows);
            for (hash, txnums) in &expected {
                prop_assert_eq!(&read(NAME, &*table, CutHash(*hash)).unwrap(), txnums);
            }
            let absent = (0..1 << 48).find(|hash| !expected.contains_key(hash)).unwrap();
            prop_assert_eq!(read(NAME, &*table, CutHash(absent)).unwrap(), []);
        }

        #[test]
        fn a_damaged_row_is_an_error_or_has_other_entries(row in prop::collection::vec(any::<u8>(), 0..50)) {
            let _ = each(NAME, CutHash(1), &row, |_, _| true);
        }
    }
}
