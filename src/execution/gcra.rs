//! The one rate limiter of the server, for requests and for their costs: so many units a minute, all at once if the
//! client likes.
//!
//! The generic cell rate algorithm (ITU-T I.371): a client has one instant, when everything it has taken is paid for at
//! the sixtieth part of a minute's units each second. It may take more if that instant is then at most a minute away.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time in which the units of a limit are available again.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);

/// How long a client may have to wait for what it took too much.
const LONGEST_DEBT: Duration = Duration::from_hours(1);

/// How many clients are counted apart. Beyond that the least active are forgotten and start anew; a client that keeps
/// asking is not, however many others ask once.
pub(crate) const MAX_CLIENTS: usize = 50_000;

/// The limiter of one client.
pub(crate) struct Gcra {
    limit: u32,
    paid: Mutex<Instant>,
}

/// What a client may still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Units that it may take at once.
    pub(crate) remaining: u64,
    /// The time until it may take as many as the limit.
    pub(crate) full_in: Duration,
}

/// The units exceed the allowance; nothing is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateExceeded {
    /// The time until they no longer do.
    pub(crate) wait: Duration,
    /// What the client may take now.
    pub(crate) allowance: Allowance,
}

impl Gcra {
    /// `limit` units a minute. A limit of 0 counts as 1: for unlimited there is no limiter.
    pub(crate) fn new(limit: u32, now: Instant) -> Self {
        Self { limit: limit.max(1), paid: Mutex::new(now) }
    }

    /// Units a minute.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Takes some units.
    ///
    /// Errors: there are fewer.
    pub(crate) fn take(&self, units: u64, now: Instant) -> Result<Allowance, RateExceeded> {
        let mut paid = self.paid.lock();
        let debt = paid.saturating_duration_since(now);
        let new_debt = debt.saturating_add(self.time_of(units));
        if new_debt > WINDOW {
            return Err(RateExceeded { wait: new_debt.saturating_sub(WINDOW), allowance: self.allowance_at(debt) });
        }
        *paid = now + new_debt;
        Ok(self.allowance_at(new_debt))
    }

    /// Gives units back that were taken and are not needed.
    pub(crate) fn give_back(&self, units: u64, now: Instant) -> Allowance {
        let mut paid = self.paid.lock();
        let debt = paid.saturating_duration_since(now).saturating_sub(self.time_of(units));
        *paid = now + debt;
        self.allowance_at(debt)
    }

    /// Takes units that may be more than are left: the client waits longer then.
    pub(crate) fn charge(&self, units: u64, now: Instant) -> Allowance {
        let mut paid = self.paid.lock();
        let debt = paid.saturating_duration_since(now).saturating_add(self.time_of(units)).min(LONGEST_DEBT);
        *paid = now + debt;
        self.allowance_at(debt)
    }

    /// What may be taken at this instant.
    pub(crate) fn allowance(&self, now: Instant) -> Allowance {
        self.allowance_at(self.paid.lock().saturating_duration_since(now))
    }

    /// The time in which some units are paid for.
    fn time_of(&self, units: u64) -> Duration {
        let nanoseconds = u128::from(units).saturating_mul(WINDOW.as_nanos()) / u128::from(self.limit);
        u64::try_from(nanoseconds).map_or(Duration::MAX, Duration::from_nanos)
    }

    fn allowance_at(&self, debt: Duration) -> Allowance {
        let remaining = WINDOW.saturating_sub(debt).as_nanos() * u128::from(self.limit) / WINDOW.as_nanos();
        Allowance { remaining: u64::try_from(remaining).unwrap_or(u64::MAX), full_in: debt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_taken_at_once_or_one_by_one_and_return_with_time() {
        let now = Instant::now();
        let gcra = Gcra::new(600, now);
        let remaining = |units, now| gcra.take(units, now).map(|allowance| allowance.remaining);
        assert_eq!(remaining(400, now), Ok(200));
        assert_eq!(remaining(200, now), Ok(0));
        assert_eq!(remaining(10, now).unwrap_err().wait, Duration::from_secs(1));
        assert_eq!(remaining(10, now + Duration::from_secs(1)), Ok(0));
        assert_eq!(remaining(600, now + Duration::from_mins(10)), Ok(0));
    }

    #[test]
    fn the_number_of_a_minute_may_be_taken_at_once_and_then_as_paid() {
        let now = Instant::now();
        let gcra = Gcra::new(6, now);
        let taken: Vec<_> = (0..6).map(|_| gcra.take(1, now).unwrap()).collect();
        assert_eq!(taken.iter().map(|allowance| allowance.remaining).collect::<Vec<_>>(), [5, 4, 3, 2, 1, 0]);
        assert_eq!(taken[5].full_in.as_secs(), 60);
        let wait =
            |seconds| gcra.take(1, now + Duration::from_secs(seconds)).map_or_else(|full| full.wait.as_secs(), |_| 0);
        assert_eq!([wait(0), wait(9), wait(10), wait(10)], [10, 1, 0, 10]);
        assert_eq!(gcra.take(1, now + Duration::from_mins(10)).unwrap().remaining, 5);
    }

    #[test]
    fn what_exceeds_the_allowance_takes_nothing() {
        let now = Instant::now();
        let gcra = Gcra::new(60, now);
        assert!(gcra.take(61, now).is_err() && gcra.take(u64::MAX, now).is_err());
        assert_eq!(gcra.take(60, now).unwrap().remaining, 0);
        let exceeded = gcra.take(1, now).unwrap_err();
        assert_eq!((exceeded.allowance.remaining, exceeded.allowance.full_in), (0, Duration::from_mins(1)));
    }

    #[test]
    fn what_is_given_back_may_be_taken_again_and_never_more_than_the_limit() {
        let now = Instant::now();
        let gcra = Gcra::new(60, now);
        gcra.take(60, now).unwrap();
        assert_eq!(gcra.give_back(45, now).remaining, 45);
        assert_eq!(gcra.take(40, now).unwrap().remaining, 5);
        // most of it is paid for by now
        let later = now + Duration::from_secs(50);
        assert_eq!(gcra.give_back(40, later).remaining, 60);
        assert!(gcra.take(61, later).is_err());
    }

    #[test]
    fn what_is_charged_beyond_the_allowance_is_waited_for() {
        let now = Instant::now();
        let gcra = Gcra::new(60, now);
        assert_eq!(gcra.charge(90, now).remaining, 0);
        assert!(gcra.take(1, now + Duration::from_secs(30)).is_err());
        assert!(gcra.take(1, now + Duration::from_secs(31)).is_ok());
        gcra.charge(u64::MAX, now);
        assert!(gcra.take(1, now + LONGEST_DEBT).is_ok());
    }
}
