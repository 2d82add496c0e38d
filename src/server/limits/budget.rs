//! What one client may spend: so many units of cost a minute, all of them at once if it likes.
//!
//! The same algorithm as for requests in `rate.rs`, with a weight: what was spent is paid for by time, at the sixtieth part
//! of a minute's budget each second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue};

use crate::api::BudgetExhausted;
use crate::server::middleware::rate_limit::{LEFT, POLICY};

/// In which a client may spend so much.
const WINDOW: Duration = Duration::from_mins(1);

/// A budget, and when what was spent of it is paid for.
pub(crate) struct Budget {
    limit: u32,
    paid: Mutex<Instant>,
}

impl Budget {
    /// So much a minute, which must not be 0.
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit: limit.max(1), paid: Mutex::new(Instant::now()) }
    }

    /// Spends so much, and says what is left; or how long it takes until there is enough.
    pub(crate) fn pay(&self, cost: u64, now: Instant) -> Result<u64, BudgetExhausted> {
        let limit = u64::from(self.limit);
        // a moment is whole at any time
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let debt = paid.saturating_duration_since(now);
        let with_this = debt.saturating_add(self.time_of(cost));
        if with_this > WINDOW {
            return Err(BudgetExhausted { limit, wait: with_this.saturating_sub(WINDOW) });
        }
        *paid = now + with_this;
        Ok(self.left_after(with_this))
    }

    /// How long it takes until so much is paid for.
    fn time_of(&self, cost: u64) -> Duration {
        let nanoseconds = u128::from(cost).saturating_mul(WINDOW.as_nanos()) / u128::from(self.limit);
        u64::try_from(nanoseconds).map_or(Duration::MAX, Duration::from_nanos)
    }

    fn left_after(&self, debt: Duration) -> u64 {
        let left = WINDOW.saturating_sub(debt).as_nanos() * u128::from(self.limit) / WINDOW.as_nanos();
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// Tells a client what it may spend and what is left of that, in the headers that `rate.rs` tells of requests in.
    pub(crate) fn tell(&self, headers: &mut HeaderMap, now: Instant) {
        let debt = self.paid.lock().unwrap_or_else(PoisonError::into_inner).saturating_duration_since(now);
        let seconds = debt.as_secs() + u64::from(debt.subsec_nanos() > 0);
        let policy = format!("\"cost\";q={};w={}", self.limit, WINDOW.as_secs());
        let left = format!("\"cost\";r={};t={seconds}", self.left_after(debt));
        for (name, value) in [(POLICY, policy), (LEFT, left)] {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.append(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_at_once_or_bit_by_bit_and_comes_back_with_time() {
        let (budget, now) = (Budget::new(600), Instant::now());
        assert_eq!(budget.pay(400, now), Ok(200));
        assert_eq!(budget.pay(200, now), Ok(0));
        assert_eq!(budget.pay(10, now), Err(BudgetExhausted { limit: 600, wait: Duration::from_secs(1) }));
        assert_eq!(budget.pay(10, now + Duration::from_secs(1)), Ok(0));
        assert_eq!(budget.pay(600, now + Duration::from_mins(10)), Ok(0));
    }

    #[test]
    fn what_cannot_be_paid_costs_nothing() {
        let (budget, now) = (Budget::new(60), Instant::now());
        assert!(budget.pay(61, now).is_err() && budget.pay(u64::MAX, now).is_err());
        assert_eq!(budget.pay(60, now), Ok(0));
    }

    #[test]
    fn clients_are_told_what_is_left() {
        let (budget, now, mut headers) = (Budget::new(600), Instant::now(), HeaderMap::new());
        budget.pay(150, now).unwrap();
        budget.tell(&mut headers, now);
        assert_eq!(headers[POLICY], "\"cost\";q=600;w=60");
        assert_eq!(headers[LEFT], "\"cost\";r=450;t=15");
    }
}
