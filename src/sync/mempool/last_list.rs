//! The last list of the node's mempool, and how long it stays valid.

use std::time::{Duration, Instant};

/// The interval after lost signals, or while the node loads its mempool.
const REPEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A list stays valid for at least this multiple of the time it took.
const COST_FACTOR: u32 = 10;

/// The last list.
pub(super) struct LastList {
    pub(super) at: Instant,
    pub(super) took: Duration,
    /// Whether to request another one soon.
    pub(super) repeat_soon: bool,
    /// Whether to request another one as soon as the cost of this one allows.
    pub(super) is_stale: bool,
}

impl LastList {
    /// Requests the next list early.
    pub(super) fn mark_stale(&mut self) {
        self.is_stale = true;
    }

    /// How long it stays valid; `usual` is the interval between lists.
    pub(super) fn valid_for(&self, usual: Duration) -> Duration {
        let interval = match self {
            Self { is_stale: true, .. } => Duration::ZERO,
            Self { repeat_soon: true, .. } => usual.min(REPEAT_INTERVAL),
            _ => usual,
        };
        interval.max(self.took.saturating_mul(COST_FACTOR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_stays_valid_for_ten_times_its_duration() {
        let listed = |took, repeat_soon, is_stale| {
            let listed = LastList { at: Instant::now(), took: Duration::from_millis(took), repeat_soon, is_stale };
            [100, 30_000].map(|usual| listed.valid_for(Duration::from_millis(usual)).as_millis())
        };
        assert_eq!(listed(5, false, false), [100, 30_000]);
        assert_eq!(listed(5, true, false), [100, 1_000]);
        assert_eq!(listed(5, false, true), [50, 50]);
        assert_eq!(listed(5_000, true, true), [50_000, 50_000]);
    }
}
