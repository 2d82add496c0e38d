//! When the block files are scanned again because a block is not where it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The interval between two scans, at first.
const FIRST_INTERVAL: Duration = Duration::from_mins(1);
/// The longest interval: it doubles with each scan that does not find the block, as with a node that prunes.
const LONGEST_INTERVAL: Duration = Duration::from_hours(1);

/// The state of scanning again.
#[derive(Default)]
pub(super) struct Relocation {
    schedule: Mutex<Schedule>,
    is_finished: AtomicBool,
}

/// When the next scan may begin.
#[derive(Debug, Default)]
struct Schedule {
    is_running: bool,
    /// When the last scan ended, and the interval after it.
    last: Option<(Instant, Duration)>,
}

impl Schedule {
    /// Whether a scan begins now.
    fn begin(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|(ended, interval)| now.saturating_duration_since(ended) >= interval);
        let begins = is_due && !self.is_running;
        self.is_running |= begins;
        begins
    }

    fn end(&mut self, now: Instant, found: bool) {
        let doubled = self.last.map_or(FIRST_INTERVAL, |(_, interval)| interval.saturating_mul(2));
        let interval = if found { FIRST_INTERVAL } else { doubled.min(LONGEST_INTERVAL) };
        *self = Self { is_running: false, last: Some((now, interval)) };
    }
}

impl Relocation {
    /// Whether a scan begins now: none runs, and the last is not recent.
    pub(super) fn begin(&self) -> bool {
        self.schedule.lock().begin(Instant::now())
    }

    /// Notes that the scan that began has ended, or could not begin, and whether it found its block.
    pub(super) fn end(&self, found: bool) {
        self.schedule.lock().end(Instant::now(), found);
    }

    /// Notes that a scan has replaced the positions.
    pub(super) fn set_finished(&self) {
        self.is_finished.store(true, Ordering::Release);
    }

    /// Whether a scan ended since the last call.
    pub(super) fn take_finished(&self) -> bool {
        self.is_finished.swap(false, Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_without_success_doubles_the_interval() {
        let mut schedule = Schedule::default();
        let mut now = Instant::now();
        assert!(schedule.begin(now));
        assert!(!schedule.begin(now + LONGEST_INTERVAL), "one at a time");
        for (found, minutes) in
            [(false, 1), (false, 2), (false, 4), (true, 1), (false, 2), (true, 1), (true, 1), (false, 2), (false, 4)]
        {
            schedule.end(now, found);
            let almost = Duration::from_mins(minutes).saturating_sub(Duration::from_millis(1));
            assert!(!schedule.begin(now + almost), "{minutes}");
            now += Duration::from_mins(minutes);
            assert!(schedule.begin(now), "{minutes}");
        }
        for _ in 0..10 {
            schedule.end(now, false);
            now += LONGEST_INTERVAL;
            assert!(schedule.begin(now));
        }
    }
}
