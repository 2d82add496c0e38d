use async_graphql::{Context, SimpleObject};

use crate::api::context::rates;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, Decimal};
use crate::rates::Rate;

/// The price of a bitcoin in a currency.
#[derive(Clone, SimpleObject)]
#[graphql(name = "Rate")]
pub(crate) struct RateObject {
    /// The code of the currency (ISO 4217), such as EUR.
    currency: String,
    /// The price of a bitcoin in the currency.
    price: Decimal,
    /// The time of the rate in the operator's table.
    quoted_at: DateTime,
}

impl FieldCacheability for RateObject {
    const NEVER: &'static str = "currency price quotedAt";
}

impl RateObject {
    pub(crate) fn new(currency: &str, rate: Rate) -> Self {
        let (price, quoted_at) = (Decimal::new(rate.price.to_string()), DateTime::from_unix(rate.time));
        Self { currency: currency.to_owned(), price, quoted_at }
    }
}

/// The rate of a currency at a time; `None` if there is none so late.
///
/// Errors: FEATURE_DISABLED; BAD_USER_INPUT for a currency that has no rates at all while others have.
pub(crate) fn find(ctx: &Context<'_>, currency: &str, time: DateTime) -> Result<Option<Rate>, ApiError> {
    let rates = rates(ctx)?;
    let found = rates.at(currency, time.to_unix());
    if found.is_none() {
        let currencies = rates.currencies();
        // a table that is not fetched yet has none
        if !currencies.is_empty() && !currencies.iter().any(|known| known == currency) {
            let shown = crate::api::error::shown(currency);
            let message = format!("is {shown}, and there are only rates of {}", currencies.join(", "));
            return Err(ApiError::bad_argument("currency", message));
        }
    }
    Ok(found)
}
