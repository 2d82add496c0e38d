//! Transactions of a generation that were read lately. Their bytes without witnesses were checked against the txid, and neither
//! they nor what the generation has of them changes, so that they are not looked up, read and hashed again.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::super::keys::TxNum;
use super::super::snapshot::StoredTransaction;

/// What an entry takes beside the bytes of its transaction.
const ENTRY_BYTES: usize = 192;
/// The usual size of an entry.
const USUAL_BYTES: usize = 600;

/// The transactions of one generation, bounded by their bytes.
pub(super) struct RecentTransactions(Cache<TxNum, Arc<StoredTransaction>, ByBytes>);

#[derive(Clone)]
struct ByBytes;

impl Weighter<TxNum, Arc<StoredTransaction>> for ByBytes {
    fn weight(&self, _: &TxNum, transaction: &Arc<StoredTransaction>) -> u64 {
        u64::try_from(transaction.raw.len().saturating_add(ENTRY_BYTES)).unwrap_or(u64::MAX)
    }
}

impl RecentTransactions {
    /// At most so many bytes of them.
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cache::with_weighter(bytes / USUAL_BYTES, u64::try_from(bytes).unwrap_or(u64::MAX), ByBytes))
    }

    pub(super) fn get(&self, txnum: TxNum) -> Option<Arc<StoredTransaction>> {
        self.0.get(&txnum)
    }

    pub(super) fn insert(&self, transaction: Arc<StoredTransaction>) {
        self.0.insert(transaction.txnum, transaction);
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::Txid;
    use bitcoin::hashes::Hash;

    use super::super::super::snapshot::Occurrence;
    use super::*;

    fn transaction(txnum: u32, bytes: usize) -> Arc<StoredTransaction> {
        let at = Occurrence { height: 1.into(), index: txnum };
        let txid = Txid::from_byte_array([7; 32]);
        Arc::new(StoredTransaction { txnum: TxNum(txnum), txid, at, fee: None, raw: vec![0; bytes] })
    }

    #[test]
    fn as_many_are_kept_as_fit() {
        let recent = RecentTransactions::new(100_000);
        (0..1_000).for_each(|txnum| recent.insert(transaction(txnum, 808)));
        let kept = (0..1_000).filter(|txnum| recent.get(TxNum(*txnum)).is_some()).count();
        assert!((50..=100).contains(&kept), "{kept}");
        let none = RecentTransactions::new(0);
        none.insert(transaction(1, 100));
        assert!(none.get(TxNum(1)).is_none());
    }
}
