//! Integers that every JSON reader keeps exact, and the rule for the built-in `Int`.

use crate::api::error::ApiError;

/// The largest integer that every JSON reader keeps exact: 2^53 - 1.
pub(crate) const MAX_EXACT: u64 = (1 << 53) - 1;

/// A number that fits the built-in `Int` by its nature: heights, counts within a block, positions.
pub(crate) fn int(value: u32) -> Result<i32, ApiError> {
    i32::try_from(value).map_err(|_| ApiError::internal(&format!("{value} does not fit the GraphQL type Int")))
}

/// The same for a count or size that is held wider than it can be.
pub(crate) fn int_of(value: impl TryInto<u32>) -> Result<i32, ApiError> {
    value.try_into().map_err(|_| ApiError::internal("a count does not fit 32 bits")).and_then(int)
}

/// A JSON number, or a decimal string, from 0 to [`MAX_EXACT`].
pub(crate) fn exact_integer(value: &async_graphql::Value) -> Option<u64> {
    let number = match value {
        async_graphql::Value::Number(number) => number.as_u64()?,
        async_graphql::Value::String(text) => canonical_decimal(text)?.parse().ok()?,
        _ => return None,
    };
    (number <= MAX_EXACT).then_some(number)
}

/// The text, if it is a decimal number as it would be printed: digits without sign and without leading zeros.
pub(crate) fn canonical_decimal(text: &str) -> Option<&str> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (text == "0" || !text.starts_with('0'))).then_some(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use async_graphql::{Name, ScalarType, Value};

    use super::*;
    use crate::api::scalars::{Sats, UInt53};

    /// What every scalar must hold: `is_valid` and `parse` agree on every input.
    pub(crate) fn accepts<T: ScalarType>(value: &Value) -> bool {
        let (valid, parsed) = (T::is_valid(value), T::parse(value.clone()).is_ok());
        assert_eq!(valid, parsed, "is_valid and parse disagree on {value}");
        valid
    }

    #[test]
    fn numbers_are_exact_integers_and_strings_are_canonical() {
        for good in [Value::from(0), Value::from(MAX_EXACT), Value::from("0"), Value::from("9007199254740991")] {
            assert!(accepts::<Sats>(&good), "{good}");
        }
        for bad in [
            Value::Null,
            Value::from(-1),
            Value::from(1.5),
            Value::from(MAX_EXACT + 1),
            Value::from("9007199254740992"),
            Value::from(""),
            Value::from("-1"),
            Value::from("+1"),
            Value::from("01"),
            Value::from("1.0"),
            Value::from(" 1"),
            Value::from(true),
            Value::from(vec![1]),
            Value::Enum(Name::new("ONE")),
        ] {
            assert!(!accepts::<Sats>(&bad) && !accepts::<UInt53>(&bad), "{bad}");
        }
        assert!(!accepts::<UInt53>(&Value::from("1")), "a counter is a number");
    }

    #[test]
    fn int_takes_what_fits_and_nothing_else() {
        assert_eq!(int(2_147_483_647), Ok(i32::MAX));
        assert_eq!(int(2_147_483_648).unwrap_err().code(), "INTERNAL_SERVER_ERROR");
        assert_eq!(int_of(7_u64), Ok(7));
        assert_eq!(int_of(1_u64 << 32).unwrap_err().code(), "INTERNAL_SERVER_ERROR");
    }
}
