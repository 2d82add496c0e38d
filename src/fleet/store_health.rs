//! Whether a store answers, as those see it who wait for its objects.

use std::sync::atomic::{AtomicU64, Ordering};

/// What all objects of a store share.
#[derive(Default)]
pub(super) struct StoreHealth {
    answers: AtomicU64,
    /// One more than it had answered when the last of those began to wait who waited in vain.
    failed_after: AtomicU64,
}

impl StoreHealth {
    /// Whether someone waited in vain, and the store has not answered since.
    pub(super) fn is_failing(&self) -> bool {
        self.failed_after.load(Ordering::Relaxed) == self.answers() + 1
    }

    /// How often it answered, for [`Self::record_failure`].
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// It answered, with an object or without.
    pub(super) fn record_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Waiting was in vain since it had answered so often. It does not fail if it has answered another meanwhile.
    pub(super) fn record_failure(&self, answers: u64) {
        self.failed_after.fetch_max(answers + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_fails_until_it_answers_anyone() {
        let health = StoreHealth::default();
        let before = health.answers();
        health.record_failure(before);
        assert!(health.is_failing());
        health.record_answer();
        assert!(!health.is_failing());
        health.record_failure(before);
        assert!(!health.is_failing(), "it answered another reader meanwhile");
        health.record_failure(health.answers());
        assert!(health.is_failing());
    }
}
