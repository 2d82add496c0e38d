//! Integers that every JSON reader keeps exact, and the rule for the built-in `Int`.

use crate::api::error::ApiError;

/// The largest integer that every JSON reader keeps exact: 2^53 - 1.
pub(crate) const MAX_EXACT: u64 = (1 << 53) - 1;

/// A number that fits the built-in `Int` by its nature: heights, counts within a block, positions.
pub(crate) fn int(value: u32) -> Result<i32, ApiError> {
    i32::try_from(value).map_err(|_| ApiError::internal(&format!("{value} does not fit the GraphQL type Int")))
}

/// A count or size of a wider type that fits the built-in `Int` by its nature.
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
