//! How much one answer may read and tell.
//!
//! The number of fields says little about the size of an answer: a transaction has 60 bytes or four million, and an
//! answer can come by the same one along many ways.

use std::sync::atomic::{AtomicUsize, Ordering};

/// An answer that read and told more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer may read and tell {limit} bytes of transactions, and this one comes to {actual}")]
pub struct AllowanceExceeded {
    /// How many bytes there may be.
    pub limit: usize,
    /// How many there are, as far as was counted.
    pub actual: usize,
}

/// Bytes of transactions that may be read and told from one view.
pub(super) struct Allowance {
    limit: usize,
    used: AtomicUsize,
}

impl Allowance {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// Takes this much out of what is left. After a refusal everything is refused.
    pub(super) fn take(&self, bytes: usize) -> Result<(), AllowanceExceeded> {
        let add = |used: usize| used.saturating_add(bytes);
        let (Ok(used) | Err(used)) =
            self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(add(used)));
        let actual = add(used);
        if actual > self.limit { Err(AllowanceExceeded { limit: self.limit, actual }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_can_be_used_up_and_not_passed() {
        let allowance = Allowance::new(10);
        assert_eq!(allowance.take(4), Ok(()));
        assert_eq!(allowance.take(6), Ok(()));
        assert_eq!(allowance.take(0), Ok(()));
        assert_eq!(allowance.take(1), Err(AllowanceExceeded { limit: 10, actual: 11 }));
        assert_eq!(allowance.take(0), Err(AllowanceExceeded { limit: 10, actual: 11 }), "it stays refused");
        assert_eq!(allowance.take(usize::MAX), Err(AllowanceExceeded { limit: 10, actual: usize::MAX }));
    }
}
