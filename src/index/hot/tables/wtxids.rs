//! `wtxids` (optional): 6 bytes of the keyed hash of the wtxid ‖ txnum (4) → (). Only transactions with a witness: the wtxid
//! of all others is their txid. Readers compare the full wtxid.
//!
//! Its row in `meta` says whether the table is on, and from which transaction on it is complete.

use redb::TableDefinition;

use super::super::super::keys::{Salt, TxNum, TxidPrefix};
use super::{join, split};
use crate::chain::raw::RawTransaction;

pub(in crate::index) const NAME: &str = "wtxids";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 10], ()> = TableDefinition::new(NAME);

/// The version of the rows. Rows of another version are deleted and made again.
pub(in crate::index) const VERSION: u32 = 1;

/// Where the transaction stands in a key.
pub(in crate::index) const TXNUM_AT: usize = 6;

pub(in crate::index) type WtxidKey = [u8; 10];

pub(in crate::index) fn key(prefix: TxidPrefix, txnum: TxNum) -> WtxidKey {
    join(prefix.0, txnum.to_key())
}

/// The key of a transaction with a witness; of any other it is no row.
pub(in crate::index) fn key_of(salt: Salt, txnum: TxNum, transaction: &RawTransaction<'_>) -> WtxidKey {
    key(salt.wtxid_prefix(&transaction.wtxid()), txnum)
}

pub(in crate::index) fn split_key(key: &WtxidKey) -> (TxidPrefix, TxNum) {
    let (prefix, txnum) = split(key);
    (TxidPrefix(prefix), TxNum::from_key(txnum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_encoding() {
        let prefix = TxidPrefix([1, 2, 3, 4, 5, 6]);
        assert_eq!(split_key(&key(prefix, TxNum(142_572))), (prefix, TxNum(142_572)));
    }
}
