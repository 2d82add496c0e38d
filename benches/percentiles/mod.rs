//! What reads or queries of one kind take.

use std::fmt;
use std::time::Duration;

/// The median of their times, and the time that one of a hundred exceeds.
pub(crate) struct Percentiles {
    pub(crate) p50: Duration,
    p99: Duration,
}

impl Percentiles {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
        Self { p50: at(50), p99: at(99) }
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1?} and {:.1?}", self.p50, self.p99)
    }
}
