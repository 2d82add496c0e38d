//! `stale_blocks`: height (4) ‖ block hash (32) → its `blocks` row (fixed width) ‖ raw block. Blocks that
//! left the active chain while this index followed it; the highest are kept, as many as the setting says.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use redb::TableDefinition;

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::blocks::BlockRow;
use super::{join, split};
use crate::chain::Height;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 36], &[u8]> = TableDefinition::new("stale_blocks");

pub(in crate::index) type Key = [u8; 36];

/// A block that was disconnected, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleBlock {
    /// Its row as it was while it was connected; running totals are those of its own chain.
    pub row: BlockRow,
    /// The serialised block.
    pub raw: Vec<u8>,
}

pub(in crate::index) fn key(height: Height, hash: BlockHash) -> Key {
    join(height.to_u32().to_be_bytes(), hash.to_byte_array())
}

pub(in crate::index) fn split_key(key: &Key) -> (Height, BlockHash) {
    let (height, hash) = split(key);
    (u32::from_be_bytes(height).into(), BlockHash::from_byte_array(hash))
}

impl StaleBlock {
    pub(in crate::index) fn encode(&self) -> Vec<u8> {
        let (row, mut encoder) = (self.row.encode(), Encoder::default());
        encoder.bytes(&row).bytes(&self.raw);
        encoder.finish()
    }

    pub(in crate::index) fn decode(value: &[u8]) -> Result<Self, IndexError> {
        let mut decoder = Decoder::new("stale_blocks", value);
        let row = BlockRow::decode_from(&mut decoder)?;
        Ok(Self { row, raw: decoder.rest().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_its_encoding() {
        let stale = StaleBlock { row: super::super::blocks::tests::example(), raw: b"raw block".to_vec() };
        assert_eq!(StaleBlock::decode(&stale.encode()).unwrap(), stale);
        let place = (Height::from(5), BlockHash::from_byte_array([4; 32]));
        assert_eq!(split_key(&key(place.0, place.1)), place);
    }
}
