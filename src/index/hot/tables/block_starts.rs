//! `block_starts`: first txnum (4) → height u32 ‖ median time past u32. Finds the block of a transaction. The row has
//! the time as well, because the age of every spent output needs it and a `blocks` row has a thousand bytes.

use redb::TableDefinition;

use super::super::super::keys::TxNum;
use super::{join, split};
use crate::chain::Height;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8; 8]> = TableDefinition::new("block_starts");

/// The first transaction, height and median time past of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) struct BlockStart {
    pub(in crate::index) first: TxNum,
    pub(in crate::index) height: Height,
    /// Median time past of the block, seconds since 1970.
    pub(in crate::index) median_time: u32,
}

impl BlockStart {
    pub(in crate::index) fn key(&self) -> [u8; 4] {
        self.first.to_key()
    }

    pub(in crate::index) fn value(&self) -> [u8; 8] {
        join(self.height.to_u32().to_be_bytes(), self.median_time.to_be_bytes())
    }

    pub(in crate::index) fn decode(key: &[u8; 4], value: &[u8; 8]) -> Self {
        let (height, median_time): ([u8; 4], [u8; 4]) = split(value);
        Self {
            first: TxNum::from_key(*key),
            height: u32::from_be_bytes(height).into(),
            median_time: u32::from_be_bytes(median_time),
        }
    }
}

/// The block of the active chain that contains a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The height of its block.
    pub height: Height,
    /// Its index in that block.
    pub index: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_its_encoding() {
        let start = BlockStart { first: TxNum(1_000_000), height: 170.into(), median_time: 1_231_731_025 };
        assert_eq!(BlockStart::decode(&start.key(), &start.value()), start);
    }
}
