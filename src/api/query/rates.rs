//! What a bitcoin costs.

use std::time::SystemTime;

use async_graphql::{Context, Object};

use crate::api::context::rates;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::DateTime;
use crate::api::types::rates::{RateObject, rate};
use crate::rates::Rates;

/// Tells what a bitcoin costs, from the operator's table.
pub(crate) struct RateQuery;

impl FieldCacheability for RateQuery {
    const NEVER: &'static str = "rate currencies";
}

#[Object]
impl RateQuery {
    /// The price of a bitcoin in a currency: the newest rate until a time. Null if there is none, or if it is older than the
    /// operator permits. Rates come from a table of the operator, who vouches for them; without one this fails with
    /// FEATURE_DISABLED.
    /// Example: `{ rate(currency: "EUR") { price quotedAt } }`.
    async fn rate(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The code of the currency (ISO 4217), such as EUR.")] currency: String,
        #[graphql(desc = "The time; now if not given.")] at: Option<DateTime>,
    ) -> Option<Result<RateObject, ApiError>> {
        let at = at.unwrap_or_else(|| DateTime::from_system(SystemTime::now()));
        let found = rate::find(ctx, &currency, at);
        found.map(|found| found.map(|rate| RateObject::new(&currency, rate))).transpose()
    }

    /// The codes of the currencies that have rates, in alphabetical order. Fails with FEATURE_DISABLED if the operator has no
    /// table of rates. As many as the table has, at most some 200.
    /// Example: `{ currencies }`.
    #[graphql(complexity = "costs::list(costs::CURRENCIES, 0)")]
    async fn currencies(&self, ctx: &Context<'_>) -> Option<Result<Vec<String>, ApiError>> {
        Some(rates(ctx).map(Rates::currencies))
    }
}
