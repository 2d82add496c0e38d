//! `txids`: 6 bytes of the keyed hash of the txid ‖ txnum (4) → (). Several transactions may share a prefix, and a
//! duplicated transaction (BIP30) has two rows; readers compare the full txid.

use redb::TableDefinition;

use super::super::super::keys::{TxNum, TxidPrefix};
use super::{join, split};

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 10], ()> = TableDefinition::new("txids");

pub(in crate::index) type TxidKey = [u8; 10];

pub(in crate::index) fn key(prefix: TxidPrefix, txnum: TxNum) -> TxidKey {
    join(prefix.0, txnum.to_key())
}

pub(in crate::index) fn split_key(key: &TxidKey) -> (TxidPrefix, TxNum) {
    let (prefix, txnum) = split(key);
    (TxidPrefix(prefix), TxNum::from_key(txnum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_encoding_and_later_copies_sort_behind() {
        let prefix = TxidPrefix([1, 2, 3, 4, 5, 6]);
        assert_eq!(split_key(&key(prefix, TxNum(142_572))), (prefix, TxNum(142_572)));
        assert!(key(prefix, TxNum(255)) < key(prefix, TxNum(256)));
    }
}
