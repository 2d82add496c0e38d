//! What a bitcoin costs in other currencies, from a table that the operator provides: the chain does not know it.
//!
//! ```text
//!   file or URL ──► follow.rs ──► table.rs: one line a rate ──► Rates: the newest table ──► the API
//! ```

mod follow;
mod price;
mod table;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

pub use follow::{FetchPauses, changed_at, follow_file, follow_url};
pub use price::{InvalidPrice, Price};
pub use table::{InvalidTable, Rate, RateTable};

/// The newest table. All clones are one.
#[derive(Clone, Debug)]
pub struct Rates(Arc<State>);

#[derive(Debug)]
struct State {
    table: ArcSwap<RateTable>,
    longest: Duration,
}

impl Rates {
    /// A table whose rates hold for at most `longest`.
    #[must_use]
    pub fn new(table: RateTable, longest: Duration) -> Self {
        Self(Arc::new(State { table: ArcSwap::from_pointee(table), longest }))
    }

    /// Replaces the table.
    pub fn set(&self, table: RateTable) {
        self.0.table.store(Arc::new(table));
    }

    /// The currencies that have rates, in alphabetical order.
    #[must_use]
    pub fn currencies(&self) -> Vec<String> {
        self.0.table.load().currencies().map(str::to_owned).collect()
    }

    /// The rate that holds at a time in seconds since 1970: the newest until then, unless it is too old. `None` for a currency
    /// without one.
    #[must_use]
    pub fn at(&self, currency: &str, time: u32) -> Option<Rate> {
        let rate = self.0.table.load().at(currency, time)?;
        let age = Duration::from_secs(time.saturating_sub(rate.time).into());
        (age <= self.0.longest).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_until_the_next_or_until_it_is_too_old() {
        let table: RateTable = "100,EUR,50\n200,EUR,60\n".parse().unwrap();
        let rates = Rates::new(table, Duration::from_secs(50));
        let at = |time| rates.at("EUR", time).map(|rate| rate.time);
        let found = [99, 100, 150, 151, 199, 200, 250, 251].map(at);
        assert_eq!(found, [None, Some(100), Some(100), None, None, Some(200), Some(200), None]);
        assert_eq!((rates.at("USD", 200), rates.currencies()), (None, vec!["EUR".to_owned()]));
        rates.clone().set("300,USD,1\n".parse().unwrap());
        assert_eq!(rates.currencies(), ["USD"]);
    }
}
