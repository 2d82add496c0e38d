use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};

use super::integer::{MAX_EXACT, exact_integer};
use crate::api::error::ApiError;

/// A counter or a 32-bit field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UInt53(u64);

impl UInt53 {
    /// This counter. Beyond 2^53 - 1 it is an error and never a rounded number.
    pub(crate) fn new(value: u64) -> Result<Self, ApiError> {
        if value > MAX_EXACT {
            return Err(ApiError::internal(&format!("the counter {value} is larger than an exact JSON number")));
        }
        Ok(Self(value))
    }

    /// A count of items in memory.
    pub(crate) fn count(items: usize) -> Result<Self, ApiError> {
        Self::new(u64::try_from(items).unwrap_or(u64::MAX))
    }

    /// A bound: one that cannot be reached is reported as 2^53 - 1.
    pub(crate) fn bound(value: usize) -> Self {
        Self(u64::try_from(value).map_or(MAX_EXACT, |value| value.min(MAX_EXACT)))
    }

    /// The number.
    pub(crate) fn to_u64(self) -> u64 {
        self.0
    }
}

impl From<u32> for UInt53 {
    fn from(value: u32) -> Self {
        Self(value.into())
    }
}

/// An integer from 0 to 2^53 - 1, as an exact JSON number: unsigned 32-bit fields (version, time, bits, nonce,
/// sequence, lock time) and counters that exceed Int.
#[Scalar(name = "UInt53")]
impl ScalarType for UInt53 {
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

fn number(value: &Value) -> Option<u64> {
    if matches!(value, Value::Number(_)) { exact_integer(value) } else { None }
}
