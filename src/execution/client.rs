//! The client of a request: its name, what it may do, and the budget that its requests are charged to.

use std::sync::Arc;
use std::time::Instant;

use super::gcra::Gcra;
use crate::api::{Account, Budget, BudgetExhausted, Include, StreamBudget};

/// A client with its rights and its budget, as authentication finds it.
pub(crate) struct Client {
    /// The name of its token.
    pub(crate) name: Option<Arc<str>>,
    broadcast: bool,
    budget: Option<Arc<Gcra>>,
    /// Whether it may send requests. On a websocket it can still authenticate with its first message.
    pub(crate) is_admitted: bool,
}

impl Client {
    /// A client that may spend a cost of so much a minute, 0 for any. `broadcast` is whether it may send transactions, if that is
    /// enabled at all.
    pub(crate) fn new(name: Option<Arc<str>>, cost_per_minute: u32, broadcast: bool, is_admitted: bool) -> Self {
        let budget = (cost_per_minute > 0).then(|| Arc::new(Gcra::new(cost_per_minute, Instant::now())));
        Self { name, broadcast, budget, is_admitted }
    }

    /// The account of a request of this client, which is charged to its budget.
    pub(crate) fn account(&self, include: Include) -> Account {
        Account::new(self.broadcast, include, self.stream_budget().0)
    }

    /// What it may spend, for a stream that is charged as it runs.
    pub(crate) fn stream_budget(&self) -> StreamBudget {
        StreamBudget(self.budget.clone().map(|budget| -> Arc<dyn Budget> { budget }))
    }

    /// Spends from the budget for something other than a request.
    ///
    /// Errors: the cost exceeds the rest of the budget.
    pub(crate) fn pay(&self, cost: u64) -> Result<(), BudgetExhausted> {
        self.budget.as_ref().map_or(Ok(()), |budget| Budget::take(&**budget, cost).map(drop))
    }

    /// The limiter of its costs, if they are limited.
    pub(crate) fn budget(&self) -> Option<&Gcra> {
        self.budget.as_deref()
    }
}

impl Budget for Gcra {
    fn take(&self, cost: u64) -> Result<u64, BudgetExhausted> {
        let limit = self.limit().into();
        let allowance = Gcra::take(self, cost, Instant::now())
            .map_err(|exceeded| BudgetExhausted { limit, wait: exceeded.wait })?;
        Ok(allowance.remaining)
    }

    fn give_back(&self, cost: u64) -> u64 {
        Gcra::give_back(self, cost, Instant::now()).remaining
    }

    fn charge(&self, cost: u64) -> u64 {
        Gcra::charge(self, cost, Instant::now()).remaining
    }
}
