//! Transactions of generations that were read lately. Their bytes without witnesses were checked against the txid, and neither they
//! nor what the generations have of them changes, so that they are not looked up, read, hashed and decoded again.

use bitcoin::Txid;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::super::snapshot::StoredTransaction;

/// What an entry takes beside its transaction.
const ENTRY_BYTES: usize = 288;
/// The usual size of an entry.
const USUAL_BYTES: usize = 1_400;

/// A transaction of the active chain, which may repeat its txid later (BIP30).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::index) struct TransactionCopy {
    pub(in crate::index) stored: StoredTransaction,
    /// Whether it is known that no later transaction of the generations has its txid.
    pub(in crate::index) is_newest: bool,
}

/// Transactions of one list of generations, at most one with each txid, bounded by their bytes.
pub(super) struct RecentTransactions(Cache<Txid, TransactionCopy, ByBytes>);

#[derive(Clone)]
struct ByBytes;

impl Weighter<Txid, TransactionCopy> for ByBytes {
    fn weight(&self, _: &Txid, copy: &TransactionCopy) -> u64 {
        u64::try_from(copy.stored.parts.memory().saturating_add(ENTRY_BYTES)).unwrap_or(u64::MAX)
    }
}

impl Default for RecentTransactions {
    fn default() -> Self {
        Self::new(0)
    }
}

impl RecentTransactions {
    /// At most so many bytes of them.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(bytes / USUAL_BYTES, u64::try_from(bytes).unwrap_or(u64::MAX), ByBytes))
    }

    /// The copy with this txid that was read last.
    pub(super) fn get(&self, txid: &Txid) -> Option<TransactionCopy> {
        self.0.get(txid)
    }

    pub(super) fn insert(&self, copy: TransactionCopy) {
        self.0.insert(copy.stored.txid, copy);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bitcoin::hashes::Hash;
    use bitcoin::{TxIn, TxOut};

    use super::super::super::hot::tables::block_starts::Occurrence;
    use super::super::super::keys::TxNum;
    use super::*;
    use crate::chain::TransactionParts;

    fn copy(number: u32, script_bytes: usize) -> TransactionCopy {
        let mut txid = [7; 32];
        txid[..4].copy_from_slice(&number.to_be_bytes());
        let input = TxIn { script_sig: vec![0; script_bytes].into(), ..TxIn::default() };
        let transaction = bitcoin::Transaction {
            version: bitcoin::transaction::Version::ONE,
            lock_time: bitcoin::absolute::LockTime::ZERO,
            input: vec![input],
            output: vec![TxOut { value: bitcoin::Amount::ZERO, script_pubkey: bitcoin::ScriptBuf::new() }],
        };
        let raw = bitcoin::consensus::serialize(&transaction);
        let parts = Arc::new(TransactionParts::of(raw).unwrap());
        let at = Occurrence { height: 1.into(), index: number };
        let txid = Txid::from_byte_array(txid);
        let stored = StoredTransaction { txnum: TxNum(number), txid, at, fee: None, parts };
        TransactionCopy { stored, is_newest: true }
    }

    #[test]
    fn as_many_are_kept_as_fit() {
        let recent = RecentTransactions::new(100_000);
        let copies: Vec<_> = (0..1_000).map(|number| copy(number, 300)).collect();
        for copy in &copies {
            recent.insert(copy.clone());
        }
        let kept = copies.iter().filter(|copy| recent.get(&copy.stored.txid).as_ref() == Some(copy));
        let kept: usize = kept.map(|copy| copy.stored.parts.memory() + ENTRY_BYTES).sum();
        assert!((50_000..=100_000).contains(&kept), "{kept}");
        let none = RecentTransactions::new(0);
        none.insert(copies[0].clone());
        assert_eq!(none.get(&copies[0].stored.txid), None);
    }
}
