//! Wakes the loop before its next poll, when the node announces a block.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::node::StopFlag;

/// The interval between checks of the stop flag during a pause.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Ends the current pause of the loop, or the next one. Calls before that pause count as one, and none is lost. Clones
/// share their state.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<WakeState>);

#[derive(Debug, Default)]
struct WakeState {
    woken: Mutex<bool>,
    changed: Condvar,
}

/// Why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PauseEnd {
    /// It took as long as it may.
    Elapsed,
    Woken,
    /// The stop flag is raised.
    Stopped,
}

impl Wake {
    /// Ends the pause. Never blocks, and may be called without a reason.
    pub fn wake(&self) {
        *self.woken() = true;
        self.0.changed.notify_all();
    }

    /// Waits for this long, until the next wake, or until at most 100 ms after the stop flag is raised.
    pub(super) fn pause(&self, pause: Duration, stop: &StopFlag) -> PauseEnd {
        let started = Instant::now();
        let mut woken = self.woken();
        loop {
            if stop.is_raised() {
                return PauseEnd::Stopped;
            }
            let remaining = pause.saturating_sub(started.elapsed());
            if std::mem::take(&mut *woken) {
                return PauseEnd::Woken;
            }
            if remaining.is_zero() {
                return PauseEnd::Elapsed;
            }
            self.0.changed.wait_for(&mut woken, remaining.min(STOP_CHECK_INTERVAL));
        }
    }

    fn woken(&self) -> MutexGuard<'_, bool> {
        self.0.woken.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOR_EVER: Duration = Duration::from_hours(1_000_000);

    #[test]
    fn a_wake_ends_the_current_pause() {
        let wake = Wake::default();
        let paused = std::thread::spawn({
            let wake = wake.clone();
            move || wake.pause(FOR_EVER, &StopFlag::new())
        });
        wake.wake();
        assert_eq!(paused.join().unwrap(), PauseEnd::Woken);
    }

    #[test]
    fn many_wakes_before_a_pause_end_one_pause() {
        let (wake, stop) = (Wake::default(), StopFlag::new());
        for _ in 0..1_000 {
            wake.wake();
        }
        assert_eq!(wake.pause(FOR_EVER, &stop), PauseEnd::Woken);
        assert!(!*wake.woken(), "nothing is remaining of it");
    }

    #[test]
    fn the_stop_flag_ends_a_pause_even_if_it_is_woken() {
        let (wake, parent) = (Wake::default(), StopFlag::new());
        let paused = std::thread::spawn({
            let (wake, stop) = (wake.clone(), parent.child());
            move || wake.pause(FOR_EVER, &stop)
        });
        parent.raise();
        assert_eq!(paused.join().unwrap(), PauseEnd::Stopped);
        wake.wake();
        assert_eq!(wake.pause(FOR_EVER, &parent), PauseEnd::Stopped);
    }

    #[test]
    fn a_pause_ends_after_its_duration() {
        assert_eq!(Wake::default().pause(Duration::from_millis(1), &StopFlag::new()), PauseEnd::Elapsed);
    }
}
