//! `stale_transactions`: 6 bytes of the keyed hash of the txid ‖ block hash (32) ‖ index in block (4) → (). Finds the
//! stale blocks that contain a transaction. The index is part of the key, so that two transactions of one block with
//! one prefix have a row each.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;
use redb::TableDefinition;

use super::super::super::keys::TxidPrefix;
use super::{join, split};

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 42], ()> = TableDefinition::new("stale_transactions");

pub(in crate::index) type StaleTransactionKey = [u8; 42];

pub(in crate::index) fn key(prefix: TxidPrefix, block: BlockHash, index: u32) -> StaleTransactionKey {
    join(prefix.0, join::<32, 4, 36>(block.to_byte_array(), index.to_be_bytes()))
}

pub(in crate::index) fn split_key(key: &StaleTransactionKey) -> (TxidPrefix, BlockHash, u32) {
    let (prefix, place): ([u8; 6], [u8; 36]) = split(key);
    let (block, index): ([u8; 32], [u8; 4]) = split(&place);
    (TxidPrefix(prefix), BlockHash::from_byte_array(block), u32::from_be_bytes(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_encoding() {
        let row = (TxidPrefix([1; 6]), BlockHash::from_byte_array([2; 32]), 3_000);
        assert_eq!(split_key(&key(row.0, row.1, row.2)), row);
    }
}
