use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};

use super::integer::MAX_EXACT;
use crate::api::error::ApiError;

/// A difference of two counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Int53(i64);

impl Int53 {
    /// This number. Beyond 2^53 - 1 either way, which no counter reaches, it is an error and never a rounded number.
    pub(crate) fn new(number: i64) -> Result<Self, ApiError> {
        if number.unsigned_abs() > MAX_EXACT {
            return Err(ApiError::internal(&format!("the difference {number} is outside the range of Int53")));
        }
        Ok(Self(number))
    }
}

/// An integer between -(2^53 - 1) and 2^53 - 1, as an exact JSON number: differences of counters that exceed Int.
#[Scalar(name = "Int53")]
impl ScalarType for Int53 {
    fn parse(value: Value) -> InputValueResult<Self> {
        match number(&value) {
            Some(number) => Ok(Self(number)),
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
    match value {
        Value::Number(number) => number.as_i64().filter(|number| number.unsigned_abs() <= MAX_EXACT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scalars::tests::accepts;

    #[test]
    fn a_difference_is_a_number_of_either_sign() {
        for number in [0, -1, 2_147_483_648, 9_007_199_254_740_991, -9_007_199_254_740_991] {
            assert_eq!(Int53::new(number).unwrap().to_value(), Value::from(number));
            assert_eq!(Int53::parse(Value::from(number)).unwrap(), Int53(number));
        }
        for bad in [Value::from(1_i64 << 53), Value::from(-(1_i64 << 53)), Value::from(0.5), Value::from("1")] {
            assert!(!accepts::<Int53>(&bad), "{bad}");
        }
        for too_large in [1 << 53, i64::MIN] {
            assert_eq!(Int53::new(too_large).unwrap_err().code(), "INTERNAL_SERVER_ERROR");
        }
    }
}
