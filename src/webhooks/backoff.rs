//! The pauses between attempts: each twice as long as the one before, up to the longest, and half of it at random, so that
//! hooks of many servers do not come back to a receiver at the same moment.

use std::time::Duration;

/// How long to wait between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// After the first failure.
    pub(crate) first: Duration,
    /// At most.
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The pause after so many failures, at least one, and not shorter than the receiver requests (`Retry-After`). Of all
    /// `random` numbers, the lowest gives half of the longest pause.
    pub(crate) fn pause(self, failures: u32, requested: Option<Duration>, random: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(31));
        let pause = self.first.saturating_mul(doubled).min(self.longest);
        let half = pause / 2;
        let jitter = half.mul_f64(f64::from(random) / f64::from(u32::MAX));
        (half + jitter).max(requested.unwrap_or_default().min(self.longest))
    }

    /// The pause after so many failures, with a random number of the operating system.
    pub(crate) fn random_pause(self, failures: u32, requested: Option<Duration>) -> Duration {
        let mut bytes = [0; 4];
        // without random numbers the pause is the shortest of its kind
        let _ = getrandom::fill(&mut bytes);
        self.pause(failures, requested, u32::from_be_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_hours(1) };

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = (1..=14).map(|failures| BACKOFF.pause(failures, None, u32::MAX).as_secs()).collect::<Vec<_>>();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]);
        assert_eq!(BACKOFF.pause(u32::MAX, None, u32::MAX), BACKOFF.longest);
        assert_eq!(BACKOFF.pause(3, None, 0), Duration::from_secs(2));
    }

    #[test]
    fn the_receiver_can_request_a_longer_pause_up_to_the_longest() {
        let requested = |seconds| BACKOFF.pause(3, Some(Duration::from_secs(seconds)), u32::MAX).as_secs();
        assert_eq!([requested(1), requested(60), requested(1_000_000)], [4, 60, 3600]);
    }

    proptest! {
        #[test]
        fn a_pause_is_between_half_and_all_of_its_time(failures in 1_u32.., random: u32) {
            let longest = BACKOFF.pause(failures, None, u32::MAX);
            let pause = BACKOFF.pause(failures, None, random);
            prop_assert!(longest / 2 <= pause && pause <= longest);
        }
    }

    #[test]
    fn pauses_differ() {
        let pauses = (0..20).map(|_| BACKOFF.random_pause(12, None)).collect::<std::collections::BTreeSet<_>>();
        assert!(pauses.len() > 15, "{pauses:?}");
    }
}
