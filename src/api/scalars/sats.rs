use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use bitcoin::Amount;

use super::integer::{MAX_EXACT, exact_integer};
use crate::api::error::ApiError;

/// An amount in satoshis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sats(u64);

impl Sats {
    /// This many satoshis. Beyond 2^53 - 1, which is four times all coins there can be, it is an error and never a
    /// rounded number.
    pub(crate) fn new(sat: u64) -> Result<Self, ApiError> {
        if sat > MAX_EXACT {
            return Err(ApiError::internal(&format!("the amount {sat} sat is outside the range of Sats")));
        }
        Ok(Self(sat))
    }

    /// A sum that the coin supply does not bound, `None` beyond 2^53 - 1.
    pub(crate) fn of_sum(sat: u128) -> Option<Self> {
        u64::try_from(sat).ok().filter(|sat| *sat <= MAX_EXACT).map(Self)
    }

    /// The number.
    pub(crate) fn to_sat(self) -> u64 {
        self.0
    }

    /// This amount.
    pub(crate) fn of(amount: Amount) -> Result<Self, ApiError> {
        Self::new(amount.to_sat())
    }
}

/// An amount in satoshis, 0 to 2^53 - 1, as an exact JSON number. (The coin supply is below 2.1e15 sat.) Input may also
/// be a decimal string. A sum within a block, a transaction or a balance is an amount, too; sums over blocks are BigInt.
#[Scalar]
impl ScalarType for Sats {
    fn parse(value: Value) -> InputValueResult<Self> {
        exact_integer(&value).map(Self).ok_or_else(|| InputValueError::expected_type(value))
    }

    fn is_valid(value: &Value) -> bool {
        exact_integer(value).is_some()
    }

    fn to_value(&self) -> Value {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_beyond_exact_numbers_is_an_error() {
        assert_eq!(Sats::new(MAX_EXACT).unwrap().to_value(), Value::from(9_007_199_254_740_991_u64));
        assert_eq!(Sats::new(MAX_EXACT + 1).unwrap_err().code(), "INTERNAL_SERVER_ERROR");
    }

    #[test]
    fn a_sum_beyond_exact_numbers_is_absent() {
        assert_eq!(Sats::of_sum(MAX_EXACT.into()), Some(Sats(MAX_EXACT)));
        for sum in [u128::from(MAX_EXACT) + 1, u128::from(u64::MAX) + 1, u128::MAX] {
            assert_eq!(Sats::of_sum(sum), None);
        }
    }
}
