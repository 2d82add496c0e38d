//! The three 32-byte hashes, kept apart so that one is never taken for another.

use std::str::FromStr;

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};

/// The hash of a block header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHash(pub(crate) bitcoin::BlockHash);

impl From<bitcoin::BlockHash> for BlockHash {
    fn from(hash: bitcoin::BlockHash) -> Self {
        Self(hash)
    }
}

/// The hash of a transaction without its witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Txid(pub(crate) bitcoin::Txid);

/// The hash of a transaction with its witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wtxid(pub(crate) bitcoin::Wtxid);

/// A block hash: the double SHA-256 of the header, as 64 hexadecimal digits in display (reversed) byte order. Output is
/// lower case; input may be either.
#[Scalar]
impl ScalarType for BlockHash {
    fn parse(value: Value) -> InputValueResult<Self> {
        hash(&value).map(Self).ok_or_else(|| InputValueError::expected_type(value))
    }

    fn is_valid(value: &Value) -> bool {
        hash::<bitcoin::BlockHash>(value).is_some()
    }

    fn to_value(&self) -> Value {
        self.0.to_string().into()
    }
}

/// A transaction id: the double SHA-256 of the serialisation without witness, as 64 hexadecimal digits in display
/// (reversed) byte order. Outpoints reference transactions by it. Output is lower case; input may be either.
#[Scalar(specified_by_url = "https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki#transaction-id")]
impl ScalarType for Txid {
    fn parse(value: Value) -> InputValueResult<Self> {
        hash(&value).map(Self).ok_or_else(|| InputValueError::expected_type(value))
    }

    fn is_valid(value: &Value) -> bool {
        hash::<bitcoin::Txid>(value).is_some()
    }

    fn to_value(&self) -> Value {
        self.0.to_string().into()
    }
}

/// A witness transaction id: the double SHA-256 of the full serialisation, as 64 hexadecimal digits in display
/// (reversed) byte order. Equals the txid if there is no witness. Output is lower case; input may be either.
#[Scalar(specified_by_url = "https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki#transaction-id")]
impl ScalarType for Wtxid {
    fn parse(value: Value) -> InputValueResult<Self> {
        hash(&value).map(Self).ok_or_else(|| InputValueError::expected_type(value))
    }

    fn is_valid(value: &Value) -> bool {
        hash::<bitcoin::Wtxid>(value).is_some()
    }

    fn to_value(&self) -> Value {
        self.0.to_string().into()
    }
}

fn hash<H: FromStr>(value: &Value) -> Option<H> {
    match value {
        Value::String(text) if text.len() == 64 => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scalars::tests::accepts;

    #[test]
    fn a_hash_is_64_hexadecimal_digits() {
        let text = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin).block_hash();
        assert_eq!(BlockHash(genesis).to_value(), Value::from(text));
        for good in [text.to_owned(), text.to_uppercase()] {
            assert_eq!(BlockHash::parse(Value::from(good)).unwrap(), BlockHash(genesis));
        }
        for bad in [&text[1..], &format!("{text}0"), &format!("0x{}", &text[2..]), &"z".repeat(64), ""] {
            let bad = Value::from(bad);
            assert!(!accepts::<BlockHash>(&bad) && !accepts::<Txid>(&bad) && !accepts::<Wtxid>(&bad), "{bad}");
        }
        assert!(!accepts::<BlockHash>(&Value::from(0)) && !accepts::<Txid>(&Value::Null));
    }
}
