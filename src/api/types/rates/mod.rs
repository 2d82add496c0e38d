//! What a bitcoin costs in other currencies, as the operator's table says.

pub(crate) mod rate;
mod value;

pub(crate) use rate::RateObject;
pub(crate) use value::CurrencyValue;
