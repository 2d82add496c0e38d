//! The client of a request: its name, what it may do, and the budget that its requests are charged to.

use std::sync::Arc;
use std::time::Instant;

use super::gcra::Gcra;
use crate::api::{Account, Budget, BudgetExhausted, Include, StreamBudget};

/// A client with its rights and its budget. Whoever authenticates makes it.
pub(crate) struct Client {
    /// The name of its token.
    pub(crate) name: Option<Arc<str>>,
    /// Whether it may send transactions, if that is enabled at all.
    pub(crate) broadcast: bool,
    /// The limiter of its costs, if they are limited.
    pub(crate) budget: Option<Arc<Gcra>>,
    /// Whether it may send requests. On a websocket it can still authenticate with its first message.
    pub(crate) is_admitted: bool,
}

impl Client {
    /// The account of a request of this client, which is charged to its budget.
    pub(crate) fn account(&self, include: Include) -> Account {
        Account::new(self.broadcast, include, self.stream_budget().0)
    }

    /// What it may spend, for a stream that is charged as it goes on.
    pub(crate) fn stream_budget(&self) -> StreamBudget {
        StreamBudget(self.budget.clone().map(|budget| -> Arc<dyn Budget> { budget }))
    }

    /// Spends from the budget for something other than a request.
    ///
    /// Errors: the cost exceeds the rest of the budget.
    pub(crate) fn pay(&self, cost: u64) -> Result<(), BudgetExhausted> {
        self.budget.as_ref().map_or(Ok(()), |budget| Budget::take(&**budget, cost).map(drop))
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
