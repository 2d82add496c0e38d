//! `stale_blocks`: height (4) ‖ block hash (32) → its `blocks` row (fixed width) ‖ raw block. Blocks that
//! were disconnected from the active chain; the highest are kept, up to the number in the settings.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use super::blocks::BlockRow;
use super::{join, split};
use crate::chain::Height;
use crate::chain::raw::RawBlock;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 36], &[u8]> = TableDefinition::new("stale_blocks");

pub(in crate::index) type StaleBlockKey = [u8; 36];

/// A disconnected block with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleBlock {
    /// Its row from the time when it was connected; the running totals are those of its own chain.
    pub row: BlockRow,
    /// The serialised block.
    pub raw: Vec<u8>,
}

pub(in crate::index) fn key(height: Height, hash: BlockHash) -> StaleBlockKey {
    join(height.to_u32().to_be_bytes(), hash.to_byte_array())
}

pub(in crate::index) fn split_key(key: &StaleBlockKey) -> (Height, BlockHash) {
    let (height, hash) = split(key);
    (u32::from_be_bytes(height).into(), BlockHash::from_byte_array(hash))
}

/// The first eight bytes of a key as a number: the order of these numbers is the order of the rows.
pub(in crate::index) fn position(key: &StaleBlockKey) -> u64 {
    let (position, _): ([u8; 8], [u8; 28]) = split(key);
    u64::from_be_bytes(position)
}

/// The lowest key with this [`position`].
pub(in crate::index) fn first_key(position: u64) -> StaleBlockKey {
    join(position.to_be_bytes(), [0; 28])
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

    /// The serialised coinbase of the block in a row, without a copy of the other transactions.
    pub(in crate::index) fn decode_coinbase(value: &[u8]) -> Result<Vec<u8>, IndexError> {
        let mut decoder = Decoder::new("stale_blocks", value);
        let row = BlockRow::decode_from(&mut decoder)?;
        let coinbase = RawBlock::coinbase(decoder.rest()).map_err(|error| {
            IndexError::corrupt("stale_blocks", format!("row {} does not begin with a coinbase: {error}", row.hash))
        })?;
        Ok(coinbase.bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::consensus::serialize;

    use super::*;

    #[test]
    fn a_row_survives_its_encoding() {
        let stale = StaleBlock { row: BlockRow::example(), raw: b"raw block".to_vec() };
        assert_eq!(StaleBlock::decode(&stale.encode()).unwrap(), stale);
        let place = (Height::from(5), BlockHash::from_byte_array([4; 32]));
        assert_eq!(split_key(&key(place.0, place.1)), place);
    }

    #[test]
    fn the_coinbase_is_read_without_what_is_behind_it() {
        let block = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
        let (coinbase, row) = (serialize(&block.txdata[0]), BlockRow::example());
        let stale = StaleBlock { row, raw: [serialize(&block), b"no transaction".to_vec()].concat() };
        assert_eq!(StaleBlock::decode_coinbase(&stale.encode()).unwrap(), coinbase);
        let cut = StaleBlock { raw: stale.raw[..100].to_vec(), ..stale };
        let error = StaleBlock::decode_coinbase(&cut.encode()).unwrap_err().to_string();
        assert!(error.contains("does not begin with a coinbase: the bytes end early"), "{error}");
    }

    #[test]
    fn positions_order_rows_by_height_and_then_by_hash() {
        let key = |height: u32, byte| key(Height::from(height), BlockHash::from_byte_array([byte; 32]));
        assert_eq!(position(&key(5, 4)), 5 << 32 | 0x0404_0404);
        for (low, high) in [(key(5, 4), key(5, 5)), (key(5, 255), key(6, 0))] {
            assert!(low < high && position(&low) < position(&high));
        }
        assert!(first_key(position(&key(5, 4))) <= key(5, 4));
        assert!(first_key(position(&key(5, 4)) + 1) > key(5, 4));
    }
}
