//! On whose behalf a request is executed: what it may do, what it may spend, and what it is informed of that.
//!
//! The part that takes requests puts an account among the data of each. The engine's validation says what the request costs, and
//! it is paid then, before anything is executed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_graphql::{Response, Value, value};

use crate::api::context::Pinned;
use crate::api::error::BudgetExhausted;
use crate::limits::Limits;

/// What a response tells beside its data, if it is asked to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// `extensions.usage`: what the request cost.
    pub usage: bool,
    /// `extensions.snapshot`: the state that it was answered from.
    pub snapshot: bool,
}

impl Include {
    /// The names in a list that is separated by commas. Others are left alone.
    #[must_use]
    pub fn of(list: &str) -> Self {
        let names = || list.split(',').map(str::trim);
        let has = |wanted: &str| names().any(|name| name.eq_ignore_ascii_case(wanted));
        Self { usage: has("usage"), snapshot: has("snapshot") }
    }

    /// Either of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { usage: self.usage || other.usage, snapshot: self.snapshot || other.snapshot }
    }
}

/// Pays so much, and says what is left.
pub type Pay = dyn Fn(u64) -> Result<u64, BudgetExhausted> + Send + Sync;

/// The account of one request.
#[derive(Default)]
pub struct Account {
    may_broadcast: bool,
    include: Include,
    pay: Option<Box<Pay>>,
    began: Option<Instant>,
    cost: AtomicU64,
    left: AtomicU64,
    fields: AtomicU64,
}

impl Account {
    /// One that begins now. Without `pay` it may spend what it likes.
    #[must_use]
    pub fn new(may_broadcast: bool, include: Include, pay: Option<Box<Pay>>) -> Self {
        Self { may_broadcast, include, pay, began: Some(Instant::now()), ..Self::default() }
    }

    /// What the request costs; 0 until that is known.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost.load(Ordering::Relaxed)
    }

    /// Whether it may send transactions, as far as that depends on that asks.
    pub(crate) fn may_broadcast(&self) -> bool {
        self.may_broadcast
    }

    pub(crate) fn charge(&self, cost: u64) -> Result<(), BudgetExhausted> {
        self.cost.store(cost, Ordering::Relaxed);
        if let Some(pay) = &self.pay {
            self.left.store(pay(cost)?, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A field is looked up.
    pub(crate) fn count_field(&self) {
        if self.include.usage {
            self.fields.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds to a response what it is to tell.
    pub(crate) fn tell(&self, response: &mut Response, limits: &Limits, pinned: Option<&Pinned>) {
        if self.include.usage {
            let remaining = self.pay.as_ref().map(|_| self.left.load(Ordering::Relaxed));
            let usage = value!({
                "cost": self.cost(),
                "limit": limits.complexity,
                "remaining": remaining,
                "fields": self.fields.load(Ordering::Relaxed),
                "milliseconds": self.began.map(|began| began.elapsed().as_secs_f64() * 1_000.0),
            });
            response.extensions.insert("usage".to_owned(), usage);
        }
        if self.include.snapshot {
            let view = pinned.and_then(|pinned| pinned.view.as_ref());
            let snapshot = view.map_or(Value::Null, |view| {
                let tip = view.tip();
                value!({
                    "height": tip.height.to_u32(),
                    "hash": tip.hash.to_string(),
                    "mempoolSequence": view.mempool().sequence(),
                    "inSync": view.is_in_sync(),
                })
            });
            response.extensions.insert("snapshot".to_owned(), snapshot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_to_be_included_is_a_list_of_names() {
        let both = Include { usage: true, snapshot: true };
        for (list, expected) in [
            ("", Include::default()),
            ("usage", Include { usage: true, snapshot: false }),
            (" Snapshot , usage", both),
            ("snapshots, cost", Include::default()),
        ] {
            assert_eq!(Include::of(list), expected, "{list:?}");
        }
    }

    #[test]
    fn what_a_request_costs_is_known_also_if_it_cannot_be_paid() {
        let short = BudgetExhausted { limit: 5, wait: Duration::from_secs(2) };
        let poor = Account::new(false, Include::default(), Some(Box::new(move |_| Err(short))));
        assert_eq!(poor.charge(3), Err(short));
        assert_eq!(poor.cost(), 3);
        assert_eq!(Account::default().charge(u64::MAX), Ok(()));
    }
}
