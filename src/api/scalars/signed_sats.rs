use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};

use super::integer::MAX_EXACT;
use crate::api::error::ApiError;

/// A change of an amount in satoshis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignedSats(i64);

impl SignedSats {
    /// This many satoshis more or less. Beyond 2^53 - 1 either way it is an error and never a rounded number.
    pub(crate) fn new(sat: i128) -> Result<Self, ApiError> {
        let exact = i64::try_from(sat).ok().filter(|sat| sat.unsigned_abs() <= MAX_EXACT);
        exact
            .map(Self)
            .ok_or_else(|| ApiError::internal(&format!("the change of {sat} sat is outside the range of SignedSats")))
    }

    /// The number.
    pub(crate) fn to_sat(self) -> i128 {
        self.0.into()
    }
}

/// A change of an amount in satoshis, negative for a decrease, between -(2^53 - 1) and 2^53 - 1, as an exact JSON
/// number. Input may also be a decimal string.
#[Scalar]
impl ScalarType for SignedSats {
    fn parse(value: Value) -> InputValueResult<Self> {
        match number(&value) {
            Some(sat) => Ok(Self(sat)),
            None => Err(InputValueError::expected_type(value)),
        }
    }

    fn is_valid(value: &Value) -> bool {
        number(value).is_some()
    }

    fn to_value(&self) -> Value {
        self.0.into()
    }
}

fn number(value: &Value) -> Option<i64> {
    let sat = match value {
        Value::Number(number) => number.as_i64()?,
        Value::String(text) => text.parse().ok().filter(|sat: &i64| sat.to_string() == *text)?,
        _ => return None,
    };
    (sat.unsigned_abs() <= MAX_EXACT).then_some(sat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scalars::tests::accepts;

    #[test]
    fn a_change_is_exact_in_both_directions() {
        for sat in [0_i64, 1, -1, 9_007_199_254_740_991, -9_007_199_254_740_991] {
            assert_eq!(SignedSats::new(sat.into()).unwrap().to_value(), Value::from(sat));
            assert!(accepts::<SignedSats>(&Value::from(sat)) && accepts::<SignedSats>(&Value::from(sat.to_string())));
        }
        for bad in [
            Value::Null,
            Value::from(1.5),
            Value::from(9_007_199_254_740_992_i64),
            Value::from("-9007199254740992"),
            Value::from("+1"),
            Value::from("-0"),
            Value::from("01"),
            Value::from(""),
        ] {
            assert!(!accepts::<SignedSats>(&bad), "{bad}");
        }
        assert_eq!(SignedSats::new(1 << 53).unwrap_err().code(), "INTERNAL_SERVER_ERROR");
    }
}
