//! A minimum transfer rate: whether a client reads its responses, or sends the body of its request, fast enough. Judged by
//! the bytes that pass, and not by their total.
//!
//! ```text
//!   bytes wait ──► none passes for the timeout ────────────────────────────────────────► too slow
//!             └──► each second uses up one of the patience, each byte returns    ──► none left: too slow
//!                  back its time at the minimum rate
//! ```
//!
//! Pure: the time is an argument. While nothing is transferred no client is slow.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::Limits;

/// How fast a client must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MinRate {
    /// The longest time without a byte.
    pub(crate) timeout: Duration,
    /// Bytes a second; 0 for any rate.
    pub(crate) rate: u32,
    /// The time over which the rate is an average.
    pub(crate) patience: Duration,
}

impl MinRate {
    /// For the body of a request.
    pub(crate) fn of_bodies(limits: &Limits) -> Self {
        Self { timeout: limits.body_timeout, rate: limits.min_rate, patience: Duration::from_secs(10) }
    }

    /// For what is sent to a client.
    pub(crate) fn of_responses(limits: &Limits) -> Self {
        Self { timeout: limits.write_timeout, rate: limits.min_rate, patience: Duration::from_mins(1) }
    }
}

/// The transfer of one client.
#[derive(Debug)]
pub(crate) struct TransferMonitor {
    min_rate: MinRate,
    /// `None` while nothing waits to be sent.
    waiting: Option<PendingTransfer>,
    /// What is left of the patience at the time up to which it is counted.
    left: Duration,
}

#[derive(Debug)]
struct PendingTransfer {
    /// When a byte passed, or the first began to wait.
    progress: Instant,
    /// Up to when the wait is counted.
    counted: Instant,
}

impl TransferMonitor {
    pub(crate) fn new(min_rate: MinRate) -> Self {
        Self { min_rate, waiting: None, left: min_rate.patience }
    }

    /// Bytes have to wait.
    pub(crate) fn wait(&mut self, now: Instant) {
        self.waiting.get_or_insert(PendingTransfer { progress: now, counted: now });
    }

    /// So many bytes pass.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) {
        if bytes == 0 {
            return;
        }
        self.count(now);
        if let Some(waiting) = &mut self.waiting {
            waiting.progress = now;
        }
        let nanoseconds = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(1_000_000_000);
        let worth =
            nanoseconds.checked_div(self.min_rate.rate.into()).map_or(self.min_rate.patience, Duration::from_nanos);
        self.left = self.left.saturating_add(worth).min(self.min_rate.patience);
    }

    /// Nothing waits.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.count(now);
        self.waiting = None;
    }

    /// Whether something waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// When the client is too slow, unless bytes pass before.
    pub(crate) fn due(&self) -> Option<Instant> {
        let waiting = self.waiting.as_ref()?;
        let stuck = waiting.progress + self.min_rate.timeout;
        if self.min_rate.rate == 0 { Some(stuck) } else { Some(stuck.min(waiting.counted + self.left)) }
    }

    fn count(&mut self, now: Instant) {
        if let Some(waiting) = &mut self.waiting {
            self.left = self.left.saturating_sub(now.saturating_duration_since(waiting.counted));
            waiting.counted = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEAST: MinRate = MinRate { timeout: seconds(10), rate: 1_000, patience: seconds(60) };

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// After how many seconds a client is too slow that takes so many bytes every so many seconds, of bytes that always
    /// wait. `None`: not within an hour.
    fn slow_after(bytes: usize, every: u64) -> Option<u64> {
        let (mut pace, begin) = (TransferMonitor::new(LEAST), Instant::now());
        pace.wait(begin);
        for time in 0..3_600 {
            let now = begin + seconds(time);
            if pace.due().is_some_and(|due| due <= now) {
                return Some(time);
            }
            if time % every == 0 {
                pace.take(bytes, now);
            }
        }
        None
    }

    #[test]
    fn no_bytes_or_too_few_in_a_minute_are_too_slow() {
        assert_eq!(slow_after(1 << 20, 11), Some(10));
        assert_eq!(slow_after(1 << 20, 9), None);
        assert_eq!(slow_after(1, 1), Some(61));
        assert_eq!(slow_after(500, 1), Some(119));
        assert_eq!(slow_after(1_000, 1), None);
        assert_eq!(slow_after(9_000, 9), None);
    }

    #[test]
    fn no_client_is_slow_while_nothing_waits() {
        let (mut pace, begin) = (TransferMonitor::new(LEAST), Instant::now());
        assert_eq!(pace.due(), None);
        pace.wait(begin);
        assert_eq!(pace.due(), Some(begin + seconds(10)));
        pace.rest(begin + seconds(9));
        assert_eq!(pace.due(), None);
        // the second wait is another
        pace.wait(begin + seconds(100));
        assert_eq!(pace.due(), Some(begin + seconds(110)));
    }

    #[test]
    fn answers_in_many_parts_are_no_way_around_the_rate() {
        let (mut pace, mut now) = (TransferMonitor::new(LEAST), Instant::now());
        for part in 0..100 {
            pace.wait(now);
            if pace.due().is_some_and(|due| due <= now + seconds(2)) {
                assert!((28..=31).contains(&part), "{part}");
                return;
            }
            now += seconds(2);
            pace.take(10, now);
            pace.rest(now);
        }
        panic!("it takes five bytes a second");
    }

    #[test]
    fn without_a_rate_only_the_timeout_counts() {
        let (mut pace, begin) = (TransferMonitor::new(MinRate { rate: 0, ..LEAST }), Instant::now());
        pace.wait(begin);
        for time in 1..1_000 {
            pace.take(1, begin + seconds(time));
            assert_eq!(pace.due(), Some(begin + seconds(time + 10)));
        }
    }

    proptest! {
        /// Whatever else happens, a client with at least the rate in every five seconds is never too slow.
        #[test]
        fn a_client_at_the_minimum_rate_is_never_too_slow(takes in prop::collection::vec((0..5_u64, 0..2_000_usize, any::<bool>()), 1..200)) {
            let (mut pace, mut now) = (TransferMonitor::new(LEAST), Instant::now());
            for (pause, more, rests) in takes {
                pace.wait(now);
                let then = now + seconds(pause);
                prop_assert!(pace.due().is_some_and(|due| due > then));
                now = then;
                pace.take(usize::try_from(pause).unwrap() * 1_000 + more, now);
                if rests {
                    pace.rest(now);
                }
            }
        }
    }
}
