//! When the block files are scanned again because a block is not where it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::warn;

use super::PartReader;
use crate::chain::Height;

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
    /// Starts a scan for the block at this height and all others, on a thread of its own, unless one runs or the last is
    /// recent.
    pub(super) fn begin(parts: &Arc<PartReader>, height: Height) {
        if !parts.relocation.schedule().begin(Instant::now()) {
            return;
        }
        let scanned = Arc::clone(parts);
        let scan = move || {
            let before = scanned.located().positions.get(height);
            let outcome = scanned.relocate();
            let after = scanned.located().positions.get(height);
            if let Err(error) = &outcome {
                warn!(%error, "cannot find out where the blocks are in the block files");
            }
            scanned.relocation.schedule().end(Instant::now(), after.is_some() && after != before);
            scanned.relocation.is_finished.fetch_or(outcome.is_ok(), Ordering::Release);
        };
        if let Err(error) = thread::Builder::new().name("relocate".into()).spawn(scan) {
            warn!(%error, "cannot start a thread for scanning the block files");
            parts.relocation.schedule().end(Instant::now(), false);
        }
    }

    /// Whether a scan ended since the last call.
    pub(super) fn take_finished(&self) -> bool {
        self.is_finished.swap(false, Ordering::Acquire)
    }

    fn schedule(&self) -> parking_lot::MutexGuard<'_, Schedule> {
        self.schedule.lock()
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
