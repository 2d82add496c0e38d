//! Row sizes that leave no gap in the pages of redb.

/// The bytes of a leaf page that rows can use.
const LEAF: usize = 4_092;
/// What a row with a value of variable width takes besides its key and value.
const ROW: usize = 4;

/// The largest value of rows with a key of `key` bytes of which `rows` fit a leaf page.
pub(super) const fn value_bytes(rows: usize, key: usize) -> usize {
    LEAF / rows - key - ROW
}

/// A packed row: its key, and its value.
pub(in crate::index) type PackedRow<const KEY: usize> = ([u8; KEY], Vec<u8>);
