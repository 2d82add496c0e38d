//! Rows of entries with keys and values of fixed sizes, in the order of the keys: value of the first, then of each further
//! entry the difference of its key (varint) ‖ its value. Several entries may have one key.

use super::super::super::codec::{Decoder, put_varint_128};
use super::super::super::error::IndexError;
use super::super::page::{PackedRow, value_bytes};
use super::super::table::StoredTable;

/// Packs entries in the order of their keys, which have at most 16 bytes.
pub(in crate::index) struct EntryPacker<const KEY: usize, const VALUE: usize> {
    /// First and last key of the row.
    keys: Option<([u8; KEY], [u8; KEY])>,
    row: Vec<u8>,
}

impl<const KEY: usize, const VALUE: usize> EntryPacker<KEY, VALUE> {
    const ROW: usize = value_bytes(4, KEY);

    pub(in crate::index) fn new() -> Self {
        Self { keys: None, row: Vec::new() }
    }

    /// Adds the next entry. Returns a row that is full.
    pub(in crate::index) fn push(&mut self, key: [u8; KEY], value: [u8; VALUE]) -> Option<PackedRow<KEY>> {
        let mut entry = Vec::new();
        if let Some((_, last)) = self.keys {
            put_varint_128(&mut entry, number(key) - number(last));
        }
        entry.extend(value);
        let full = match self.keys {
            // one row has all entries of a key that begins it: that key is there once
            Some((first, _)) if key != first && self.row.len() + entry.len() > Self::ROW => self.take(),
            _ => None,
        };
        match &mut self.keys {
            Some((_, last)) => {
                self.row.extend(entry);
                *last = key;
            }
            none => {
                *none = Some((key, key));
                self.row.extend(value);
            }
        }
        full
    }

    /// The last row.
    pub(in crate::index) fn finish(mut self) -> Option<PackedRow<KEY>> {
        self.take()
    }

    fn take(&mut self) -> Option<PackedRow<KEY>> {
        let (first, _) = self.keys.take()?;
        Some((first, std::mem::take(&mut self.row)))
    }
}

fn number<const KEY: usize>(key: [u8; KEY]) -> u128 {
    const { assert!(KEY <= 16) };
    key.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn key_of<const KEY: usize>(number: u128) -> Option<[u8; KEY]> {
    let bytes = number.to_be_bytes();
    let (high, low) = bytes.split_at_checked(16 - KEY)?;
    high.iter().all(|byte| *byte == 0).then(|| low.try_into().ok()).flatten()
}

/// Visits the entries of a row of a table of this name.
pub(in crate::index) fn each<const KEY: usize, const VALUE: usize>(
    name: &'static str,
    first: [u8; KEY],
    row: &[u8],
    mut visit: impl FnMut([u8; KEY], [u8; VALUE]),
) -> Result<(), IndexError> {
    let mut row = Decoder::new(name, row);
    let mut key = first;
    loop {
        visit(key, row.array()?);
        if row.is_empty() {
            return Ok(());
        }
        let next = number(key).checked_add(row.varint()?).and_then(key_of);
        key = next.ok_or_else(|| row.corrupt("has a key that is too large"))?;
    }
}

/// An entry: its key and its value.
pub(in crate::index) type PackedEntry<const KEY: usize, const VALUE: usize> =
    Result<([u8; KEY], [u8; VALUE]), IndexError>;

/// The entries with keys from `low` to `high`, read lazily from either end.
pub(in crate::index) fn within<
    const KEY: usize,
    const VALUE: usize,
    T: StoredTable<&'static [u8; KEY], &'static [u8]>,
>(
    name: &'static str,
    table: &T,
    (low, high): ([u8; KEY], [u8; KEY]),
) -> Result<impl DoubleEndedIterator<Item = PackedEntry<KEY, VALUE>> + use<KEY, VALUE, T>, IndexError> {
    // the row before may end with entries of the range
    let before = table.range::<&[u8; KEY]>(..&low)?.next_back().transpose()?;
    let begin = before.map_or(low, |(key, _)| *key.value());
    Ok(table.range::<&[u8; KEY]>(&begin..=&high)?.flat_map(move |row| {
        let mut found = Vec::new();
        let decoded = row.map_err(IndexError::from).and_then(|(key, row)| {
            each(name, *key.value(), row.value(), |key, value| {
                if low <= key && key <= high {
                    found.push((key, value));
                }
            })
        });
        found.into_iter().map(Ok).chain(decoded.err().map(Err))
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redb::TableDefinition;

    use super::*;
    use crate::index::frozen::tables::tests::table_of;

    const TABLE: TableDefinition<'static, &[u8; 12], &[u8]> = TableDefinition::new("entries");

    fn key(number: u128) -> [u8; 12] {
        key_of(number).unwrap()
    }

    proptest! {
        #[test]
        fn entries_within_a_range_are_found_from_both_ends(
            // few keys and many entries, so that equal ones fill rows
            mut entries in prop::collection::vec((prop_oneof![0_u128..4, 0_u128..1 << 96], any::<u32>()), 1..2_000),
            bounds in (prop_oneof![0_u128..4, 0_u128..1 << 96], prop_oneof![0_u128..4, 0_u128..1 << 96]),
        ) {
            entries.sort_unstable();
            let mut packer = EntryPacker::<12, 4>::new();
            let mut rows = Vec::new();
            for (number, value) in &entries {
                rows.extend(packer.push(key(*number), value.to_be_bytes()));
            }
            rows.extend(packer.finish());
            prop_assert!(rows.len() < 2 + entries.len() / 40);
            let table = table_of(TABLE, &rows);
            let (low, high) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
            let expected: Vec<_> = entries
                .iter()
                .filter(|(number, _)| (low..=high).contains(number))
                .map(|(number, value)| (key(*number), value.to_be_bytes()))
                .collect();
            let found = || within::<12, 4, _>("entries", &table, (key(low), key(high))).unwrap();
            prop_assert_eq!(&found().collect::<Result<Vec<_>, _>>().unwrap(), &expected);
            let mut backwards: Vec<_> = found().rev().collect::<Result<_, _>>().unwrap();
            backwards.reverse();
            prop_assert_eq!(backwards, expected);
        }

        #[test]
        fn a_damaged_row_is_an_error_or_has_other_entries(row in prop::collection::vec(any::<u8>(), 0..50)) {
            let _ = each::<12, 4>("entries", [0; 12], &row, |_, _| {});
        }
    }
}
