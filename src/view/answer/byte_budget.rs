//! The byte budget of one answer.
//!
//! The number of fields does not bound the size of an answer: a transaction has 60 bytes or four million, and an answer
//! can contain the same one many times.

use std::sync::atomic::{AtomicUsize, Ordering};

/// An answer exceeds its byte budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer may read and return {limit} bytes of transactions, and this one has {actual}")]
pub struct BudgetExceeded {
    /// The budget in bytes.
    pub limit: usize,
    /// The bytes counted so far.
    pub actual: usize,
}

/// The bytes of transactions that one view may read and return.
pub(in crate::view) struct ByteBudget {
    limit: usize,
    used: AtomicUsize,
}

impl ByteBudget {
    pub(in crate::view) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// The bytes that are left.
    pub(in crate::view) fn left(&self) -> usize {
        self.limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Spends bytes of the budget. After a refusal everything is refused.
    pub(in crate::view) fn spend(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        let add = |used: usize| used.saturating_add(bytes);
        let (Ok(used) | Err(used)) =
            self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(add(used)));
        let actual = add(used);
        if actual > self.limit { Err(BudgetExceeded { limit: self.limit, actual }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_budget_refuses_everything() {
        let budget = ByteBudget::new(10);
        assert_eq!(budget.spend(4), Ok(()));
        assert_eq!(budget.left(), 6);
        assert_eq!(budget.spend(6), Ok(()));
        assert_eq!(budget.spend(0), Ok(()));
        assert_eq!(budget.spend(1), Err(BudgetExceeded { limit: 10, actual: 11 }));
        assert_eq!(budget.spend(0), Err(BudgetExceeded { limit: 10, actual: 11 }), "it stays refused");
        assert_eq!(budget.spend(usize::MAX), Err(BudgetExceeded { limit: 10, actual: usize::MAX }));
    }
}
