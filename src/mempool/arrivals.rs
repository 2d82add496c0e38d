//! The rate at which transactions arrive.

use imbl::OrdMap;

use crate::chain::float::to_f64;

/// The number of seconds over which arrivals are averaged.
pub const RATE_WINDOW: u32 = 60;
/// The number of seconds with arrivals that are kept: the window, and a margin for arrivals out of order or a clock that
/// is set back.
const KEPT_SECONDS: usize = 120;

/// Mean arrivals per second over the last [`RATE_WINDOW`] seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArrivalRate {
    /// Transactions per second.
    pub transactions: f64,
    /// Virtual bytes per second.
    pub vsize: f64,
}

/// The arrivals of the last seconds that had any.
#[derive(Clone, Default)]
pub(super) struct Arrivals {
    /// Second since 1970 → (transactions, vbytes).
    seconds: OrdMap<u64, (u64, u64)>,
}

impl Arrivals {
    pub(super) fn count(&mut self, second: u64, vsize: u64) {
        let (transactions, vbytes) = self.seconds.get(&second).copied().unwrap_or_default();
        self.seconds.insert(second, (transactions + 1, vbytes.saturating_add(vsize)));
        while self.seconds.len() > KEPT_SECONDS {
            let Some(oldest) = self.seconds.get_min().map(|(second, _)| *second) else { break };
            self.seconds.remove(&oldest);
        }
    }

    /// The rate in the seconds up to and with `now`.
    pub(super) fn rate(&self, now: u64) -> ArrivalRate {
        let from = (now + 1).saturating_sub(u64::from(RATE_WINDOW));
        let (mut transactions, mut vbytes) = (0_u64, 0_u64);
        for (_, (count, vsize)) in self.seconds.range(from..=now) {
            transactions += count;
            vbytes = vbytes.saturating_add(*vsize);
        }
        let window = f64::from(RATE_WINDOW);
        ArrivalRate { transactions: to_f64(transactions) / window, vsize: to_f64(vbytes) / window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arrivals: &Arrivals, now: u64) -> (f64, f64) {
        let rate = arrivals.rate(now);
        (rate.transactions * 60.0, rate.vsize * 60.0)
    }

    #[test]
    fn only_the_last_minute_counts() {
        let mut arrivals = Arrivals::default();
        for (second, vsize) in [(1_000, 100), (1_000, 50), (1_030, 200), (1_059, 7)] {
            arrivals.count(second, vsize);
        }
        for (now, expected) in [
            (999, (0.0, 0.0)),
            (1_000, (2.0, 150.0)),
            (1_059, (4.0, 357.0)),
            (1_060, (2.0, 207.0)),
            (1_118, (1.0, 7.0)),
            (1_119, (0.0, 0.0)),
        ] {
            let (transactions, vsize) = shown(&arrivals, now);
            assert!((transactions - expected.0).abs() < 1e-9 && (vsize - expected.1).abs() < 1e-9, "at {now}");
        }
    }

    #[test]
    fn old_seconds_are_evicted() {
        let mut arrivals = Arrivals::default();
        (0..10_000).for_each(|second| arrivals.count(second, 1));
        assert_eq!(arrivals.seconds.len(), KEPT_SECONDS);
        assert!((shown(&arrivals, 9_999).0 - 60.0).abs() < 1e-9);
    }
}
