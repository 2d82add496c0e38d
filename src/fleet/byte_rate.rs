//! A bound on how fast a publication reads and uploads, so that it takes little from the server beside it.

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// How long a thread that waits may take to notice that it is stopped.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
const NANOSECONDS: u64 = 1_000_000_000;

/// Bytes a second, shared by all that reads. What was not used is not made up for.
pub(super) struct ByteRate {
    /// Without one nothing waits.
    bytes_per_second: Option<NonZeroU64>,
    /// When the next bytes are due.
    next: Mutex<Instant>,
}

impl ByteRate {
    pub(super) fn new(bytes_per_second: Option<NonZeroU64>) -> Self {
        Self { bytes_per_second, next: Mutex::new(Instant::now()) }
    }

    /// How long to wait before so many bytes more.
    pub(super) fn wait_for(&self, bytes: u64) -> Duration {
        self.wait_at(Instant::now(), bytes)
    }

    /// Waits before so many bytes more, unless this is cancelled.
    pub(super) fn wait(&self, bytes: u64, stop: &CancellationToken) {
        let until = Instant::now() + self.wait_for(bytes);
        while !stop.is_cancelled() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(BETWEEN_LOOKS));
        }
    }

    fn wait_at(&self, now: Instant, bytes: u64) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        let mut next = self.next.lock();
        let due = now.max(*next);
        let nanoseconds = u128::from(bytes) * u128::from(NANOSECONDS) / u128::from(rate.get());
        *next = due + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        due - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_due_at_the_rate_and_a_pause_is_not_made_up_for() {
        let limit = ByteRate::new(NonZeroU64::new(1_000));
        let start = *limit.next.lock();
        let wait_at =
            |milliseconds, bytes| limit.wait_at(start + Duration::from_millis(milliseconds), bytes).as_millis();
        assert_eq!([wait_at(0, 500), wait_at(0, 100), wait_at(550, 50)], [0, 500, 50]);
        assert_eq!([wait_at(5_000, 200), wait_at(5_000, 1)], [0, 200]);
        let stopped = CancellationToken::new();
        stopped.cancel();
        limit.wait(u64::MAX, &stopped);
        let unlimited = ByteRate::new(None);
        assert_eq!([unlimited.wait_for(u64::MAX), unlimited.wait_for(1)], [Duration::ZERO; 2]);
    }
}
