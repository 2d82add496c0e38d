//! The pauses between tries to reach the node, after failures.

use std::time::Duration;

/// The first pause after a failure of the node; only the stop flag ends it early.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The pause before the next try, after so many consecutive failures before the last one: doubles up to a bound.
pub(super) fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_with_each_failure_up_to_a_bound() {
        let pauses: Vec<_> = (0..8).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }
}
