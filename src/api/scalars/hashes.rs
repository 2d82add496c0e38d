//! The hashes of 32 bytes in display byte order, kept apart so that one is never taken for another.

use std::str::FromStr;

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use bitcoin::hashes::{Hash, sha256d};

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

/// Any other hash that is shown byte-reversed: of a merkle tree, or of a script in the Electrum protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash256(sha256d::Hash);

impl Hash256 {
    /// Of a hash in the byte order in which it was computed.
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(sha256d::Hash::from_byte_array(bytes))
    }

    /// The hash in the byte order in which it was computed.
    pub(crate) fn to_byte_array(self) -> [u8; 32] {
        self.0.to_byte_array()
    }
}

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

/// A hash of 32 bytes other than a block hash or a txid, as 64 hexadecimal digits in display (reversed) byte order. Output is
/// lower case; input may be either.
#[Scalar]
impl ScalarType for Hash256 {
    fn parse(value: Value) -> InputValueResult<Self> {
        hash(&value).map(Self).ok_or_else(|| InputValueError::expected_type(value))
    }

    fn is_valid(value: &Value) -> bool {
        hash::<sha256d::Hash>(value).is_some()
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
            assert!(!accepts::<Hash256>(&bad), "{bad}");
        }
        let root = Hash256::parse(Value::from(text)).unwrap();
        assert_eq!((root.to_value(), root.to_byte_array()), (Value::from(text), genesis.to_byte_array()));
        assert!(!accepts::<BlockHash>(&Value::from(0)) && !accepts::<Txid>(&Value::Null));
    }
}
