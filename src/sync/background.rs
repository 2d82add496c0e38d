//! A thread that works on the index while the loop follows the node.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::warn;

use super::error::SyncError;
use crate::index::IndexError;

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_mins(10);

/// When work that failed may begin again.
#[derive(Default)]
pub(super) struct Retry {
    at: Option<Instant>,
}

impl Retry {
    /// Whether the pause after a failure has not passed.
    pub(super) fn is_waiting(&self) -> bool {
        self.at.is_some_and(|at| Instant::now() < at)
    }

    /// Whether a failure was not followed by another try.
    pub(super) fn has_failed(&self) -> bool {
        self.at.is_some()
    }

    /// Logs a failure and begins the pause. `consequence` says what cannot be done, and what that means.
    pub(super) fn postpone(&mut self, error: &dyn Display, consequence: &str) {
        warn!(%error, again_in = ?RETRY_PAUSE, "{consequence}");
        self.at = Some(Instant::now() + RETRY_PAUSE);
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
        work: impl FnOnce(&Arc<AtomicBool>) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<Self, SyncError> {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.into()).spawn(move || work(&stopped));
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
