//! A thread that works on the index while the loop follows the node, and the pause after it failed.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::warn;

use super::super::error::SyncError;
use crate::index::IndexError;

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_mins(10);
/// How often the pause is doubled at most: to some 21 hours.
const MOST_DOUBLINGS: u32 = 7;

/// When work that failed may begin again.
#[derive(Default)]
pub(in crate::sync) struct Retry {
    at: Option<Instant>,
    /// Failures that followed each other after much work.
    costly_failures: u32,
}

impl Retry {
    /// Whether the pause after a failure has not passed.
    pub(in crate::sync) fn is_waiting(&self) -> bool {
        self.at.is_some_and(|at| Instant::now() < at)
    }

    /// Whether the work has failed since this was made.
    pub(super) fn has_failed(&self) -> bool {
        self.at.is_some()
    }

    /// Logs a failure and begins the pause. `consequence` says what cannot be done, and what that means.
    pub(in crate::sync) fn postpone(&mut self, error: &dyn Display, consequence: &str) {
        self.postpone_by(RETRY_PAUSE, error, consequence);
    }

    /// Begins the pause although nothing failed: the work is not possible now.
    pub(super) fn pause(&mut self) {
        self.at = Some(Instant::now() + RETRY_PAUSE);
    }

    /// The same after much work that was in vain: the pause doubles each time, as the next try may fail likewise.
    pub(super) fn postpone_longer(&mut self, error: &dyn Display, consequence: &str) {
        let pause = RETRY_PAUSE * (1 << self.costly_failures.min(MOST_DOUBLINGS));
        self.costly_failures += 1;
        self.postpone_by(pause, error, consequence);
    }

    /// The work was done.
    pub(super) fn succeed(&mut self) {
        *self = Self::default();
    }

    fn postpone_by(&mut self, pause: Duration, error: &dyn Display, consequence: &str) {
        warn!(%error, again_in = ?pause, "{consequence}");
        self.at = Some(Instant::now() + pause);
    }
}

/// Whether a thread takes part in the processors like the others, or takes what blocks and clients leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    Normal,
    /// On Linux alone: elsewhere niceness is that of the whole process.
    Low,
}

impl Priority {
    /// Sets it for the thread that calls this.
    fn apply(self) {
        #[cfg(target_os = "linux")]
        {
            /// What is added to the niceness of the process.
            const NICENESS: i32 = 10;
            if self == Self::Low
                && let Err(error) = rustix::process::nice(NICENESS)
            {
                tracing::debug!(%error, "a thread in the background has the priority of the others");
            }
        }
    }
}

/// A running thread. Dropping it stops the work and waits for its end.
pub(super) struct BackgroundJob<T> {
    stop: Arc<AtomicBool>,
    /// `None` once it is joined.
    thread: Option<JoinHandle<Result<T, IndexError>>>,
}

impl<T: Send + 'static> BackgroundJob<T> {
    /// Starts `work`, which must end soon after its flag is raised.
    ///
    /// Errors: [`SyncError::Threads`].
    pub(super) fn start(
        name: &str,
        priority: Priority,
        work: impl FnOnce(&Arc<AtomicBool>) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<Self, SyncError> {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            priority.apply();
            work(&stopped)
        });
        Ok(Self { stop, thread: Some(thread.map_err(SyncError::Threads)?) })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the result.
    pub(super) fn join(mut self) -> Result<T, IndexError> {
        self.thread.take().map_or(Err(IndexError::Broken), |thread| thread.join().unwrap_or(Err(IndexError::Broken)))
    }
}

impl<T> Drop for BackgroundJob<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // what it leaves has no name in the index, and the next job replaces it
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_after_work_in_vain_doubles_up_to_a_day() {
        let mut retry = Retry::default();
        assert!(!retry.is_waiting() && !retry.has_failed());
        let mut pause = |is_costly| {
            let now = Instant::now();
            if is_costly {
                retry.postpone_longer(&"error", "");
            } else {
                retry.postpone(&"error", "");
            }
            assert!(retry.is_waiting() && retry.has_failed());
            retry.at.unwrap().duration_since(now).as_secs() / 60
        };
        assert_eq!([true, true, true, false, true].map(&mut pause), [10, 20, 40, 10, 80]);
        assert_eq!((0..9).map(|_| pause(true)).last(), Some(1_280));
        retry.succeed();
        assert!(!retry.is_waiting() && !retry.has_failed());
    }
}
