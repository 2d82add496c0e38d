//! What is said of many durations.

use std::fmt;
use std::time::Duration;

/// Durations, the shortest first.
pub(crate) struct Figures(Vec<Duration>);

impl Figures {
    pub(crate) fn of(durations: impl IntoIterator<Item = Duration>) -> Self {
        let mut durations: Vec<_> = durations.into_iter().collect();
        durations.sort_unstable();
        Self(durations)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The duration that so many of 100 do not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        let place = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(place).copied().unwrap_or_default()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [50, 99, 100].map(|percent| self.percentile(percent));
        write!(f, "p50 {p50:.1?}, p99 {p99:.1?}, at most {max:.1?} ({} frames)", self.count())
    }
}
