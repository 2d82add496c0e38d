//! Transactions of the node's mempool that cannot be made sense of: what they spend is nowhere, or what the node gives for
//! them is none or another one.
//!
//! In step with the node this does not happen, and while the two are not in step it passes. One with which it goes on is
//! left out, so that it is not asked for for ever, and said so once; it is tried again when the node tells of it anew,
//! and when the chain changed.

use std::collections::HashMap;

use bitcoin::Txid;
use tracing::warn;

/// It is left out after so many tries that failed.
const TRIES: u32 = 5;

/// How many tries failed, by transaction.
#[derive(Default)]
pub(super) struct Unresolved {
    tries: HashMap<Txid, u32>,
}

impl Unresolved {
    /// A try failed.
    pub(super) fn record_failure(&mut self, txid: Txid) {
        let tries = self.tries.entry(txid).or_default();
        *tries = tries.saturating_add(1);
        if *tries == TRIES {
            warn!(%txid, "a transaction of the node's mempool cannot be made sense of, and is left out");
        }
    }

    pub(super) fn is_skipped(&self, txid: &Txid) -> bool {
        self.tries.get(txid).is_some_and(|tries| *tries >= TRIES)
    }

    /// Whether a try failed, and none since did better.
    pub(super) fn contains(&self, txid: &Txid) -> bool {
        self.tries.contains_key(txid)
    }

    /// Tries it as if it were new.
    pub(super) fn reset(&mut self, txid: &Txid) {
        self.tries.remove(txid);
    }

    /// Tries all as if they were new.
    pub(super) fn clear(&mut self) {
        self.tries.clear();
    }

    /// Forgets all but those that are still unresolved.
    pub(super) fn retain(&mut self, is_missed: impl Fn(&Txid) -> bool) {
        self.tries.retain(|txid, _| is_missed(txid));
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn one_that_fails_again_and_again_is_left_out_until_it_is_gone_or_told_anew() {
        let mut unresolved = Unresolved::default();
        let [fails, once] = [1, 2].map(|byte| Txid::from_byte_array([byte; 32]));
        unresolved.record_failure(once);
        for _ in 0..TRIES {
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
