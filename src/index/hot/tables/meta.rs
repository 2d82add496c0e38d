//! `meta`: name → value. The identity of the file and its tip; stored when the file is created, and `tip` with every
//! change of the chain.
//!
//! | name | value |
//! |---|---|
//! | `format` | u32, [`FORMAT_VERSION`] |
//! | `network` | its name as the settings spell it, UTF-8 |
//! | `genesis` | 32 bytes, internal order |
//! | `salt` | 16 bytes |
//! | `tip` | height u32 ‖ block hash 32; absent in an empty index |
//! | `generations` | for each in force, the oldest first: varint of the length of its file name ‖ the name ‖ its last
//! |  | block that counts (as `tip`) ‖ the number after its last transaction, u32; absent if there are none |
//! | `derived` | for each of their tables in a file of its own: varint of the length of the file name ‖ the name; absent if
//! |  | there are none |
//! | the name of an optional table | version of the live table u32 ‖ 1 on, 0 rows are being deleted, 2 they are and it is on afterwards ‖ the
//! |  | first transaction from which on it is complete u32; absent while it is off |
//! | `miners` | what the rows of `miner_blocks` are: version u32 ‖ 1 derived, 0 being deleted ‖ fingerprint of the table of
//! |  | pools 32 ‖ the height below which they are complete u32; absent while there are none |
//! | `block_filters` | version of the rows u32 ‖ 1 on, 0 they are being deleted, 2 they are and the table is on afterwards ‖ the height
//! |  | below which they are complete u32; absent while it is off |
//! | `shadowed` | empty; present while there may be live rows that a generation has too, which are to be deleted |
//! | `raw_transactions` | `node` or `index`: where the bytes of frozen blocks are stored; absent before the first choice |
//! | `raw_read_back` | as `tip`: the block up to which all were read back from the node, before raw files are removed |

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use redb::TableDefinition;

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use crate::chain::Height;

pub(in crate::index) const TABLE: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

/// The format of all tables together. Raised with every change of the content of rows.
pub const FORMAT_VERSION: u32 = 6;

pub(in crate::index) const FORMAT: &str = "format";
pub(in crate::index) const NETWORK: &str = "network";
pub(in crate::index) const GENESIS: &str = "genesis";
pub(in crate::index) const SALT: &str = "salt";
pub(in crate::index) const TIP: &str = "tip";
pub(in crate::index) const GENERATIONS: &str = "generations";
pub(in crate::index) const DERIVED: &str = "derived";
pub(in crate::index) const MINERS: &str = "miners";
pub(in crate::index) const SHADOWED: &str = "shadowed";
pub(in crate::index) const RAW_STORAGE: &str = "raw_transactions";
pub(in crate::index) const RAW_READ_BACK: &str = "raw_read_back";

pub(in crate::index) fn encode_tip(height: Height, hash: BlockHash) -> Vec<u8> {
    let mut row = Encoder::default();
    row.u32(height.to_u32()).bytes(hash.as_byte_array());
    row.finish()
}

pub(in crate::index) fn decode_tip(row: &[u8]) -> Result<(Height, BlockHash), IndexError> {
    let mut row = Decoder::new("meta", row);
    let tip = (Height::from(row.u32()?), BlockHash::from_byte_array(row.array()?));
    row.finish()?;
    Ok(tip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tip_survives_its_encoding() {
        let tip = (Height::from(840_000), BlockHash::from_byte_array([7; 32]));
        assert_eq!(decode_tip(&encode_tip(tip.0, tip.1)).unwrap(), tip);
        assert!(decode_tip(&[0; 35]).is_err());
    }
}
