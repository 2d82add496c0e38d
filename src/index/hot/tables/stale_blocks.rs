//! `stale_blocks`: height (4) ‖ block hash (32) → its `blocks` row (fixed width) ‖ serialised coinbase. Blocks that
//! were disconnected from the active chain; the highest are kept, up to the number in the settings.
//!
//! `stale_raw_blocks`: the same key → raw block. It is a table of its own because a page is read with its whole values, and
//! stale blocks are listed and counted without their bytes.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use redb::{ReadableTable, TableDefinition};

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use super::blocks::BlockRow;
use super::{join, split};
use crate::chain::Height;
use crate::chain::raw::RawBlock;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 36], &[u8]> = TableDefinition::new("stale_blocks");
pub(in crate::index) const RAW: TableDefinition<'static, &[u8; 36], &[u8]> = TableDefinition::new("stale_raw_blocks");

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
    /// The value of its row in `stale_blocks`.
    ///
    /// Errors: [`IndexError::Corrupt`] if its bytes do not begin with a header and a coinbase.
    pub(in crate::index) fn encode_row(&self) -> Result<Vec<u8>, IndexError> {
        let coinbase = RawBlock::coinbase(&self.raw).map_err(|error| {
            IndexError::corrupt("stale_blocks", format!("{} does not begin with a coinbase: {error}", self.row.hash))
        })?;
        let (row, mut encoder) = (self.row.encode(), Encoder::default());
        encoder.bytes(&row).bytes(coinbase.bytes());
        Ok(encoder.finish())
    }

    /// The `blocks` row in a row of `stale_blocks`.
    pub(in crate::index) fn decode_row(value: &[u8]) -> Result<BlockRow, IndexError> {
        BlockRow::decode_from(&mut Decoder::new("stale_blocks", value))
    }

    /// The serialised coinbase in a row of `stale_blocks`.
    pub(in crate::index) fn decode_coinbase(value: &[u8]) -> Result<Vec<u8>, IndexError> {
        let mut decoder = Decoder::new("stale_blocks", value);
        BlockRow::decode_from(&mut decoder)?;
        Ok(decoder.rest().to_vec())
    }

    /// The block at a key of both tables, `None` if they do not have it.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if one of them has it alone.
    pub(in crate::index) fn read(
        rows: &impl ReadableTable<&'static StaleBlockKey, &'static [u8]>,
        raw: &impl ReadableTable<&'static StaleBlockKey, &'static [u8]>,
        key: &StaleBlockKey,
    ) -> Result<Option<Self>, IndexError> {
        let Some(row) = rows.get(key)? else { return Ok(None) };
        let raw = raw.get(key)?.ok_or_else(|| {
            IndexError::corrupt("stale_raw_blocks", format!("the bytes of {} are missing", split_key(key).1))
        })?;
        Ok(Some(Self { row: Self::decode_row(row.value())?, raw: raw.value().to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::consensus::serialize;

    use super::*;

    #[test]
    fn a_row_survives_its_encoding() {
        let block = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
        let (coinbase, row) = (serialize(&block.txdata[0]), BlockRow::example());
        let stale = StaleBlock { row, raw: [serialize(&block), b"no transaction".to_vec()].concat() };
        let value = stale.encode_row().unwrap();
        assert_eq!(StaleBlock::decode_row(&value).unwrap(), stale.row);
        assert_eq!(StaleBlock::decode_coinbase(&value).unwrap(), coinbase);
        let cut = StaleBlock { raw: stale.raw[..100].to_vec(), ..stale };
        let error = cut.encode_row().unwrap_err().to_string();
        assert!(error.contains("does not begin with a coinbase: the bytes end early"), "{error}");
        let place = (Height::from(5), BlockHash::from_byte_array([4; 32]));
        assert_eq!(split_key(&key(place.0, place.1)), place);
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
