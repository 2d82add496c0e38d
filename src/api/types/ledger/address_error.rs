//! Why a text is not an address of the network.

use async_graphql::{Enum, SimpleObject};

use crate::api::costs;
use crate::api::error::{ApiError, shown};
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::int_of;
use crate::chain::AddressError;

/// Why a text is not an address of this network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum AddressErrorCode {
    /// The text is empty, or has a length that no address has.
    WrongLength,
    /// A character that no address of this encoding has.
    InvalidCharacter,
    /// Upper and lower case in one bech32 address.
    MixedCase,
    /// The checksum does not match: the address is mistyped.
    WrongChecksum,
    /// The witness version or the witness program does not exist (BIP141, BIP350).
    InvalidWitnessProgram,
    /// The checksum matches, and the content is not an address.
    NotAnAddress,
    /// A private key. Anyone who has seen it can spend its coins.
    PrivateKey,
    /// An extended key (BIP32), which stands for many addresses.
    ExtendedKey,
    /// An address of another network.
    WrongNetwork,
}

impl From<&AddressError> for AddressErrorCode {
    fn from(error: &AddressError) -> Self {
        match error {
            AddressError::Empty | AddressError::TooLong { .. } | AddressError::TooShort { .. } => Self::WrongLength,
            AddressError::Character { .. } => Self::InvalidCharacter,
            AddressError::MixedCase { .. } => Self::MixedCase,
            AddressError::Checksum { .. } | AddressError::ChecksumVariant { .. } => Self::WrongChecksum,
            AddressError::WitnessVersion { .. } | AddressError::ProgramLength { .. } | AddressError::Padding => {
                Self::InvalidWitnessProgram
            }
            AddressError::Payload { .. } | AddressError::Prefix { .. } => Self::NotAnAddress,
            AddressError::PrivateKey => Self::PrivateKey,
            AddressError::ExtendedKey => Self::ExtendedKey,
            AddressError::Network { .. } => Self::WrongNetwork,
        }
    }
}

/// Why an entry is not an address of this network.
#[derive(Clone, SimpleObject)]
#[graphql(name = "AddressError")]
pub(crate) struct AddressErrorObject {
    /// The kind of fault.
    code: AddressErrorCode,
    /// The fault in words, with the text as given unless it is a key.
    message: String,
    /// The position of the first wrong character, from 0. Null if it is not known.
    position: Option<i32>,
    /// The positions of all characters that are likely to be wrong, ascending, from 0. Empty if they are not known. A bech32
    /// checksum locates up to two mistyped characters; with more of them it locates none, or now and then the wrong ones. A
    /// base58 checksum locates none.
    #[graphql(complexity = "costs::list(costs::ADDRESS_LETTERS, 0)")]
    positions: Vec<i32>,
}

impl FieldCacheability for AddressErrorObject {
    const IMMUTABLE: &'static str = "code message position positions";
}

impl AddressErrorObject {
    pub(crate) fn new(error: &AddressError, text: &str) -> Result<Self, ApiError> {
        let positions: Vec<_> = error.positions(text).into_iter().map(int_of).collect::<Result<_, _>>()?;
        let position = positions.first().copied();
        Ok(Self { code: error.into(), message: refusal(error, text), position, positions })
    }
}

/// The text as messages may quote it, `None` for a secret that was sent by mistake: logs would keep it.
fn quotable(error: &AddressError, text: &str) -> Option<String> {
    (!matches!(error, AddressError::PrivateKey | AddressError::ExtendedKey)).then(|| shown(text))
}

/// The fault in words.
fn refusal(error: &AddressError, text: &str) -> String {
    quotable(error, text).map_or_else(|| error.to_string(), |text| format!("{text}: {error}"))
}

/// The refusal of an argument that is not an address: BAD_USER_INPUT, with the position of the fault where there is one.
pub(crate) fn refuse(argument: &str, error: &AddressError, text: &str) -> ApiError {
    let fault = quotable(error, text)
        .map_or_else(|| format!("is not an address: {error}"), |text| format!("is {text}: {error}"));
    ApiError::bad_argument(argument, fault).at(error.positions(text).first().copied())
}

#[cfg(test)]
mod tests {
    use bitcoin::Network;

    use super::*;
    use crate::chain::parse_address;

    #[test]
    fn every_wrong_address_has_a_code_and_a_position() {
        for (text, code, position) in [
            ("", AddressErrorCode::WrongLength, None),
            ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3tb", AddressErrorCode::InvalidCharacter, Some(41)),
            ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3T4", AddressErrorCode::MixedCase, Some(40)),
            ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", AddressErrorCode::WrongChecksum, None),
            ("bc1zw508d6qejxtdg4y5r3zarvaryvqyzf3du", AddressErrorCode::WrongChecksum, None),
            ("tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", AddressErrorCode::WrongNetwork, None),
        ] {
            let error = parse_address(text, Network::Bitcoin).unwrap_err();
            let found = AddressErrorObject::new(&error, text).unwrap();
            assert_eq!((found.code, found.position), (code, position), "{text}: {error:?}");
            assert_eq!(found.message, format!("{text:?}: {error}"));
        }
    }
}
