//! Logs the progress of a long list.

use std::time::{Duration, Instant};

use tracing::info;

/// The interval between log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The progress of a list that takes a while to fetch.
pub(super) struct LoadProgress {
    total: usize,
    started: Instant,
    last_line: Instant,
}

impl LoadProgress {
    pub(super) fn start(total: usize) -> Self {
        let now = Instant::now();
        Self { total, started: now, last_line: now }
    }

    /// Records how many transactions remain. Returns `None` when none does.
    pub(super) fn advance(mut self, remaining: usize) -> Option<Self> {
        let done = self.total.saturating_sub(remaining);
        if remaining == 0 {
            let seconds = self.started.elapsed().as_secs_f64();
            info!(transactions = done, seconds = format_args!("{seconds:.1}"), "loaded the mempool");
            return None;
        }
        if self.last_line.elapsed() >= LOG_INTERVAL {
            self.last_line = Instant::now();
            info!(transactions = done, of = self.total, "loading the mempool");
        }
        Some(self)
    }
}
