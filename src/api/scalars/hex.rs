use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use bitcoin::hex::{DisplayHex, FromHex};

/// Bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hex(Vec<u8>);

impl Hex {
    /// These bytes, in the order given.
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Bytes in hexadecimal, two digits per byte, without a 0x prefix. Output is lower case; input may be either.
#[Scalar]
impl ScalarType for Hex {
    fn parse(value: Value) -> InputValueResult<Self> {
        match bytes(&value) {
            Some(bytes) => Ok(Self(bytes)),
            None => Err(InputValueError::expected_type(value)),
        }
    }

    fn is_valid(value: &Value) -> bool {
        bytes(value).is_some()
    }

    fn to_value(&self) -> Value {
        self.0.to_lower_hex_string().into()
    }
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Vec::from_hex(text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scalars::tests::accepts;

    #[test]
    fn bytes_are_written_in_lower_case_and_read_in_either() {
        assert_eq!(Hex::new([0xde, 0xad, 0x00]).to_value(), Value::from("dead00"));
        assert_eq!(Hex::parse(Value::from("DEad00")).unwrap(), Hex::new([0xde, 0xad, 0x00]));
        assert!(accepts::<Hex>(&Value::from("")));
        for bad in [Value::from("0x00"), Value::from("abc"), Value::from("zz"), Value::from("é"), Value::from(12)] {
            assert!(!accepts::<Hex>(&bad), "{bad}");
        }
    }
}
