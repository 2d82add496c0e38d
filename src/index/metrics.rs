//! Counts of the changes of the index.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts since the index was opened, of committed changes only. Cheap to clone; all clones share one set of counts.
#[derive(Clone, Default)]
pub struct IndexMetrics {
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    commits: AtomicU64,
    microseconds: AtomicU64,
    connected: AtomicU64,
    disconnected: AtomicU64,
    reorgs: AtomicU64,
}

/// The changes of an update that is not committed yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UpdateCounts {
    pub(super) connected: u64,
    pub(super) disconnected: u64,
    pub(super) reorgs: u64,
}

impl IndexMetrics {
    /// Commits, including those of observations of the mempool.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.counts.commits.load(Ordering::Relaxed)
    }

    /// The total time of the commits. Commits that do not wait for the disk take little.
    #[must_use]
    pub fn committing(&self) -> Duration {
        Duration::from_micros(self.counts.microseconds.load(Ordering::Relaxed))
    }

    /// Blocks that were connected.
    #[must_use]
    pub fn connected(&self) -> u64 {
        self.counts.connected.load(Ordering::Relaxed)
    }

    /// Blocks that were disconnected.
    #[must_use]
    pub fn disconnected(&self) -> u64 {
        self.counts.disconnected.load(Ordering::Relaxed)
    }

    /// Reorganisations that were recorded.
    #[must_use]
    pub fn reorgs(&self) -> u64 {
        self.counts.reorgs.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, took: Duration, changed: UpdateCounts) {
        let counts = &self.counts;
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        for (count, more) in [
            (&counts.commits, 1),
            (&counts.microseconds, took),
            (&counts.connected, changed.connected),
            (&counts.disconnected, changed.disconnected),
            (&counts.reorgs, changed.reorgs),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }
}
