use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};

use super::integer::canonical_decimal;

/// A sum without an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BigInt(u128);

impl From<u128> for BigInt {
    fn from(value: u128) -> Self {
        Self(value)
    }
}

/// A non-negative integer of any size, as a decimal string: a sum of amounts over blocks, or over the lifetime of a
/// ledger, in satoshis. Only types named `…Totals` have such sums.
#[Scalar]
impl ScalarType for BigInt {
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
        self.0.to_string().into()
    }
}

fn number(value: &Value) -> Option<u128> {
    match value {
        Value::String(text) => canonical_decimal(text)?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scalars::tests::accepts;

    #[test]
    fn a_big_integer_is_a_decimal_string_both_ways() {
        let large = "340282366920938463463374607431768211455";
        assert_eq!(BigInt::from(u128::MAX).to_value(), Value::from(large));
        assert_eq!(BigInt::parse(Value::from(large)).unwrap(), BigInt(u128::MAX));
        for bad in [Value::from(1), Value::from("-1"), Value::from("00"), Value::from("1e3"), Value::Null] {
            assert!(!accepts::<BigInt>(&bad), "{bad}");
        }
    }
}
