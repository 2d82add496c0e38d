//! What each hook counts.

use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::now;

/// The counters of a hook since the start of the server.
#[derive(Debug, Default)]
pub struct HookMetrics {
    delivered: AtomicU64,
    failures: AtomicU64,
    retries: AtomicU64,
    dead_letters: AtomicU64,
    /// Since when an event has been waiting, in seconds since 1970; 0 while none is.
    behind_since: AtomicU64,
}

impl HookMetrics {
    /// Messages that the receiver has acknowledged.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Attempts that failed.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Attempts after the first of a message.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Messages that became dead letters.
    #[must_use]
    pub fn dead_letters(&self) -> u64 {
        self.dead_letters.load(Ordering::Relaxed)
    }

    /// For how many seconds there has been an event that is not delivered; 0 while there is none.
    #[must_use]
    pub fn lag_seconds(&self) -> u64 {
        match self.behind_since.load(Ordering::Relaxed) {
            0 => 0,
            since => now().saturating_sub(since),
        }
    }

    pub(crate) fn count_delivered(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_dead_letter(&self) {
        self.dead_letters.fetch_add(1, Ordering::Relaxed);
    }

    /// An event of this time waits, unless an older one does.
    pub(crate) fn fall_behind(&self, since: u64) {
        // the number is not zero: that is 1970
        let _ = self.behind_since.compare_exchange(0, since.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// No event waits.
    pub(crate) fn catch_up(&self) {
        self.behind_since.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.behind_since.load(Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_that_of_the_oldest_event() {
        let metrics = HookMetrics::default();
        assert_eq!(metrics.lag_seconds(), 0);
        metrics.fall_behind(now() - 100);
        metrics.fall_behind(now() - 10);
        assert!((100..110).contains(&metrics.lag_seconds()), "{}", metrics.lag_seconds());
        metrics.catch_up();
        assert_eq!((metrics.lag_seconds(), metrics.is_behind()), (0, false));
    }
}
