//! The account of a request: what the client may do, what the answer costs, and what the response says about that.
//!
//! ```text
//!   server: Account of the client ──► data of the request
//!   validation   reserve   the worst case, or the limit if that is less, must be in the budget of the client
//!   each field   spend     refused beyond the limit
//!   the end      settle    returns to the budget what was reserved and not spent
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_graphql::{Response, Value, value};

use crate::api::context::Pinned;
use crate::api::error::{ApiError, BudgetExhausted};
use crate::limits::Limits;

/// What a response includes beside its data, if it is asked to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// `extensions.usage`: what the request costs.
    pub usage: bool,
    /// `extensions.snapshot`: the state that it is answered from.
    pub snapshot: bool,
}

impl Include {
    /// The names in a list that is separated by commas. Others are ignored.
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

/// What a client may spend.
pub trait Budget: Send + Sync {
    /// Takes this cost, and returns the rest.
    ///
    /// Errors: the rest is less; nothing is taken.
    fn take(&self, cost: u64) -> Result<u64, BudgetExhausted>;

    /// Gives a part back of what was taken, and returns the rest.
    fn give_back(&self, cost: u64) -> u64;

    /// Takes this cost also if the rest is less, and returns the rest.
    fn charge(&self, cost: u64) -> u64;
}

/// What the client of a stream may spend on what the stream derives, beside its events. By default unlimited.
#[derive(Clone, Default)]
pub struct StreamBudget(pub Option<Arc<dyn Budget>>);

impl StreamBudget {
    /// Takes this cost from the budget.
    ///
    /// Errors: RESOURCE_EXHAUSTED if the budget has less; QUERY_LIMIT_EXCEEDED if it never has as much.
    pub(crate) fn take(&self, cost: u64) -> Result<(), ApiError> {
        let Some(budget) = &self.0 else { return Ok(()) };
        budget.take(cost).map(drop).map_err(|short| ApiError::over_budget(short, cost))
    }
}

/// The account of one request, or of one subscription, whose events are counted one by one.
#[derive(Default)]
pub struct Account {
    may_broadcast: bool,
    include: Include,
    budget: Option<Arc<dyn Budget>>,
    began: Option<Instant>,
    /// Of the document if every page were full.
    worst_case: AtomicU64,
    /// Taken from the budget and not settled.
    reserved: AtomicU64,
    /// What the answer may cost.
    limit: AtomicU64,
    spent: AtomicU64,
    /// Where the limit was passed.
    refused: OnceLock<String>,
    /// The rest of the budget.
    remaining: AtomicU64,
    fields: AtomicU64,
}

impl Account {
    /// An account that begins now, with the budget of the client; `None` is unlimited.
    #[must_use]
    pub fn new(may_broadcast: bool, include: Include, budget: Option<Arc<dyn Budget>>) -> Self {
        let mut account = Self::default();
        (account.may_broadcast, account.include) = (may_broadcast, include);
        (account.budget, account.began) = (budget, Some(Instant::now()));
        account
    }

    /// What the answer, or the newest event of a subscription, costs so far.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// What the document costs at most, 0 before it is validated.
    #[must_use]
    pub fn worst_case(&self) -> u64 {
        self.worst_case.load(Ordering::Relaxed)
    }

    /// Whether the client may send transactions, where the server may.
    pub(crate) fn may_broadcast(&self) -> bool {
        self.may_broadcast
    }

    /// Reserves what the answer may cost: the worst case of its document, or the limit if that is less.
    ///
    /// Errors: RESOURCE_EXHAUSTED if the budget has less; QUERY_LIMIT_EXCEEDED if it never has as much.
    pub(crate) fn reserve(&self, worst_case: u64, limit: u64) -> Result<(), ApiError> {
        self.worst_case.store(worst_case, Ordering::Relaxed);
        let Some(budget) = &self.budget else { return Ok(()) };
        let cost = worst_case.min(limit);
        let remaining = budget.take(cost).map_err(|short| ApiError::over_budget(short, cost))?;
        self.remaining.store(remaining, Ordering::Relaxed);
        self.reserved.store(cost, Ordering::Relaxed);
        Ok(())
    }

    /// Begins an answer, or the next event of a subscription, that may cost so much.
    pub(crate) fn begin(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.spent.store(0, Ordering::Relaxed);
    }

    /// Counts what a field costs.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED beyond the limit.
    pub(crate) fn spend(&self, cost: u64, field: impl FnOnce() -> String) -> Result<(), ApiError> {
        let spent = self.spent.fetch_add(cost, Ordering::Relaxed).saturating_add(cost);
        if spent <= self.limit.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(self.refusal(self.refused.get_or_init(field)))
    }

    /// Whether the answer costs more than it may. A subscription stays refused with the event that does.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.get().is_some()
    }

    /// Why the answer is refused; `None` if it is not.
    pub(crate) fn reason(&self) -> Option<ApiError> {
        self.refused.get().map(|field| self.refusal(field))
    }

    fn refusal(&self, field: &str) -> ApiError {
        ApiError::too_costly(self.limit.load(Ordering::Relaxed), self.cost(), field)
    }

    /// Counts a field for `extensions.usage`.
    pub(crate) fn count_field(&self) {
        if self.include.usage {
            self.fields.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns to the budget what was reserved and not spent, or takes what was spent beyond it, as lists may be longer than they
    /// usually are. An answer costs at least 1.
    pub(crate) fn settle(&self) {
        let (Some(budget), reserved) = (&self.budget, self.reserved.swap(0, Ordering::Relaxed)) else { return };
        let cost = self.cost().max(1);
        if reserved > 0 && reserved != cost {
            let remaining =
                if reserved > cost { budget.give_back(reserved - cost) } else { budget.charge(cost - reserved) };
            self.remaining.store(remaining, Ordering::Relaxed);
        }
    }

    /// Adds to a response what it is asked to include.
    pub(crate) fn add_included(&self, response: &mut Response, limits: &Limits, pinned: Option<&Pinned>) {
        if self.include.usage {
            let remaining = self.budget.as_ref().map(|_| self.remaining.load(Ordering::Relaxed));
            let usage = value!({
                "cost": self.cost(),
                "limit": limits.complexity,
                "worstCase": self.worst_case.load(Ordering::Relaxed),
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
                    "isInSync": view.is_in_sync(),
                })
            });
            response.extensions.insert("snapshot".to_owned(), snapshot);
        }
    }
}

/// A request that ends before its answer is complete pays for what was resolved.
impl Drop for Account {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    /// A budget that does not grow.
    struct Purse(Mutex<u64>);

    impl Budget for Purse {
        fn take(&self, cost: u64) -> Result<u64, BudgetExhausted> {
            let mut rest = self.0.lock();
            *rest = rest.checked_sub(cost).ok_or(BudgetExhausted { limit: 1_000, wait: Duration::from_secs(2) })?;
            Ok(*rest)
        }

        fn give_back(&self, cost: u64) -> u64 {
            let mut rest = self.0.lock();
            *rest += cost;
            *rest
        }

        fn charge(&self, cost: u64) -> u64 {
            let mut rest = self.0.lock();
            *rest = rest.saturating_sub(cost);
            *rest
        }
    }

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
    fn the_budget_pays_for_what_is_resolved_and_must_hold_the_worst_case_up_to_the_limit() {
        let purse = Arc::new(Purse(Mutex::new(100)));
        let account = || Account::new(false, Include::default(), Some(purse.clone()));
        let rest = || *purse.0.lock();
        let answer = account();
        answer.reserve(5_000, 80).unwrap();
        assert_eq!(rest(), 20);
        answer.begin(80);
        for spent in 1..=80 {
            answer.spend(1, String::new).unwrap();
            assert_eq!(answer.cost(), spent);
        }
        assert!(!answer.is_refused());
        assert_eq!(answer.spend(2, || "Block.fees".into()), Err(ApiError::too_costly(80, 82, "Block.fees")));
        assert_eq!(answer.reason(), Some(ApiError::too_costly(80, 82, "Block.fees")));
        drop(answer);
        assert_eq!(rest(), 18, "it costs more than was reserved");
        // less than the worst case is left
        assert!(account().reserve(21, 80).is_err());
        assert_eq!(rest(), 18);
        // it is settled once, and nothing costs less than 1
        let cheap = account();
        cheap.reserve(18, 80).unwrap();
        cheap.begin(80);
        cheap.spend(7, String::new).unwrap();
        cheap.settle();
        drop(cheap);
        assert_eq!(rest(), 11);
        let dropped = account();
        dropped.reserve(10, 80).unwrap();
        drop(dropped);
        assert_eq!(rest(), 10);
        assert_eq!(Account::default().reserve(u64::MAX, 80), Ok(()));
    }
}
