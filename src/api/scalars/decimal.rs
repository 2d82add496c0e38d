use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};

/// A decimal number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal(String);

impl Decimal {
    /// A number that is written so.
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

/// A decimal number as a string, exact and with at least two digits behind the point: a price or a value in a currency other than
/// bitcoin.
#[Scalar]
impl ScalarType for Decimal {
    fn parse(value: Value) -> InputValueResult<Self> {
        match &value {
            Value::String(text) if is_decimal(text) => Ok(Self(text.clone())),
            _ => Err(InputValueError::expected_type(value)),
        }
    }

    fn is_valid(value: &Value) -> bool {
        matches!(value, Value::String(text) if is_decimal(text))
    }

    fn to_value(&self) -> Value {
        self.0.as_str().into()
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, part].iter().all(|part| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scalars::tests::accepts;

    #[test]
    fn a_decimal_number_is_a_string() {
        for good in ["0.00", "-1.5", "63000", "00.10"] {
            assert_eq!(Decimal::parse(Value::from(good)).unwrap().to_value(), Value::from(good));
        }
        for bad in [Value::from("1."), Value::from(".5"), Value::from("1e3"), Value::from("--1"), Value::from(1)] {
            assert!(!accepts::<Decimal>(&bad), "{bad}");
        }
    }
}
