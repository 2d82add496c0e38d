use async_graphql::{Context, SimpleObject};

use super::rate::{RateObject, find};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, Decimal};

/// The value of an amount in a currency.
#[derive(SimpleObject)]
pub(crate) struct CurrencyValue {
    /// The amount times the price, rounded to eight digits behind the point.
    amount: Decimal,
    /// The rate by which it was found.
    rate: RateObject,
}

impl FieldCacheability for CurrencyValue {
    const NEVER: &'static str = "amount rate";
}

impl CurrencyValue {
    /// The value of an amount in sat at a time. `None` if there is no rate of that time.
    ///
    /// Errors: as those of [`find`].
    pub(crate) fn of(ctx: &Context<'_>, sat: i128, currency: &str, time: DateTime) -> Result<Option<Self>, ApiError> {
        let found = find(ctx, currency, time)?;
        Ok(found
            .map(|rate| Self { amount: Decimal::new(rate.price.value_of(sat)), rate: RateObject::new(currency, rate) }))
    }
}
