//! Transactions of the node's mempool that cannot be added: an input spends an unknown output, or the node sends
//! invalid bytes or another transaction.
//!
//! One whose prevouts cannot be read now does not count: it waits among the orphans, and each list requests it again.
//!
//! This does not happen while the mempool is equal to the node's, and ends when it becomes equal again. A transaction
//! that keeps failing is skipped, with one warning, so that it is not requested for ever. It is tried again when the
//! node signals it again, and when the chain changes.

use std::collections::HashMap;

use bitcoin::Txid;
use tracing::warn;

/// A transaction is skipped after this number of failed tries.
const MAX_TRIES: u32 = 5;

/// The number of failed tries of each transaction.
#[derive(Default)]
pub(super) struct Unresolved {
    tries: HashMap<Txid, u32>,
}

impl Unresolved {
    /// Counts a failed try.
    pub(super) fn record_failure(&mut self, txid: Txid) {
        let tries = self.tries.entry(txid).or_default();
        *tries = tries.saturating_add(1);
        if *tries == MAX_TRIES {
            warn!(%txid, "a transaction of the node's mempool cannot be resolved and is skipped");
        }
    }

    pub(super) fn is_skipped(&self, txid: &Txid) -> bool {
        self.tries.get(txid).is_some_and(|tries| *tries >= MAX_TRIES)
    }

    /// Whether a try failed, and none succeeded since.
    pub(super) fn contains(&self, txid: &Txid) -> bool {
        self.tries.contains_key(txid)
    }

    /// Forgets the failed tries of a transaction.
    pub(super) fn reset(&mut self, txid: &Txid) {
        self.tries.remove(txid);
    }

    /// Forgets all failed tries.
    pub(super) fn clear(&mut self) {
        self.tries.clear();
    }

    /// Keeps only the transactions that are still unresolved.
    pub(super) fn retain(&mut self, is_unresolved: impl Fn(&Txid) -> bool) {
        self.tries.retain(|txid, _| is_unresolved(txid));
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn a_failing_transaction_is_skipped_until_reset_or_removed() {
        let mut unresolved = Unresolved::default();
        let [fails, once] = [1, 2].map(|byte| Txid::from_byte_array([byte; 32]));
        unresolved.record_failure(once);
        for _ in 0..MAX_TRIES {
            assert!(!unresolved.is_skipped(&fails));
            unresolved.record_failure(fails);
        }
        unresolved.record_failure(fails);
        assert_eq!([fails, once].map(|txid| unresolved.is_skipped(&txid)), [true, false]);
        unresolved.retain(|txid| *txid == fails);
        assert!(unresolved.is_skipped(&fails));
        unresolved.reset(&fails);
        assert!(!unresolved.is_skipped(&fails) && unresolved.tries.is_empty());
        unresolved.record_failure(once);
        assert!(unresolved.contains(&once));
        unresolved.clear();
        assert!(!unresolved.contains(&once));
    }
}
