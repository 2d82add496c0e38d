//! Why a text is not a descriptor of the network.

use async_graphql::{Enum, SimpleObject};

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::int_of;
use crate::chain::AddressError;
use crate::chain::descriptor::DescriptorError;

/// Why a text is not a descriptor of this network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum DescriptorErrorCode {
    /// The text is empty, or longer than what the server parses.
    WrongLength,
    /// A character that no descriptor has.
    InvalidCharacter,
    /// The checksum does not match (BIP380). The message has the right one.
    WrongChecksum,
    /// A private key. Anyone who has seen it can spend its coins.
    PrivateKey,
    /// A form of descriptor that the server does not know, or a text that is neither a descriptor nor an extended key.
    Unsupported,
    /// A key that is mistyped, or of a kind that the script does not allow.
    InvalidKey,
    /// Extended keys, or the address of `addr()`, of another network.
    WrongNetwork,
    /// A hardened step behind an extended public key, which needs the private key.
    HardenedDerivation,
    /// Multipath steps that have different numbers of paths, or one path twice (BIP389).
    InvalidMultipath,
    /// More paths, or longer ones, than the server derives.
    TooLarge,
    /// A script whose coins could be lost or stolen.
    UnsafeScript,
    /// Any other fault of the text.
    Malformed,
}

impl From<&DescriptorError> for DescriptorErrorCode {
    fn from(error: &DescriptorError) -> Self {
        match error {
            DescriptorError::Empty | DescriptorError::TooLong { .. } => Self::WrongLength,
            DescriptorError::Character { .. } | DescriptorError::Space { .. } => Self::InvalidCharacter,
            DescriptorError::ChecksumLength { .. } | DescriptorError::Checksum { .. } => Self::WrongChecksum,
            DescriptorError::PrivateKey => Self::PrivateKey,
            DescriptorError::Unsupported { .. } | DescriptorError::NotADescriptor { .. } => Self::Unsupported,
            DescriptorError::Key { .. }
            | DescriptorError::KeyAt { .. }
            | DescriptorError::MultisigKey { .. }
            | DescriptorError::AccountKeyInside { .. }
            | DescriptorError::NoKey { .. } => Self::InvalidKey,
            DescriptorError::Network { .. }
            | DescriptorError::MixedNetworks
            | DescriptorError::Address(AddressError::Network { .. }) => Self::WrongNetwork,
            DescriptorError::Hardened => Self::HardenedDerivation,
            DescriptorError::BranchMismatch { .. } | DescriptorError::RepeatedBranch => Self::InvalidMultipath,
            DescriptorError::TooMany { .. } => Self::TooLarge,
            DescriptorError::Unsafe { .. } => Self::UnsafeScript,
            DescriptorError::PathOfAccountKey
            | DescriptorError::Address(_)
            | DescriptorError::RawScript
            | DescriptorError::Malformed { .. } => Self::Malformed,
        }
    }
}

/// Why a text is not a descriptor of this network.
#[derive(Clone, SimpleObject)]
#[graphql(name = "DescriptorError")]
pub(crate) struct DescriptorErrorObject {
    /// The kind of fault.
    code: DescriptorErrorCode,
    /// The fault in words. It never contains a private key.
    message: String,
    /// The position of the first wrong character, from 0. Null if it is not known.
    position: Option<i32>,
}

impl FieldCacheability for DescriptorErrorObject {
    const IMMUTABLE: &'static str = "code message position";
}

impl DescriptorErrorObject {
    pub(crate) fn new(error: &DescriptorError) -> Result<Self, ApiError> {
        let position = error.position().map(int_of).transpose()?;
        Ok(Self { code: error.into(), message: error.to_string(), position })
    }
}

/// The refusal of an argument `text` that is not a descriptor: BAD_USER_INPUT. It does not quote the text, which is not for
/// everyone who reads a log: who knows the extended key of a wallet sees all its payments.
pub(crate) fn refuse(error: &DescriptorError) -> ApiError {
    refuse_named("text".to_owned(), error)
}

/// The refusal of a descriptor in the list of an argument: BAD_USER_INPUT. It does not quote the text either.
pub(crate) fn refuse_listed(argument: &str, number: usize, error: &DescriptorError) -> ApiError {
    refuse_named(format!("{argument}.descriptors[{number}].text"), error)
}

fn refuse_named(argument: String, error: &DescriptorError) -> ApiError {
    ApiError::bad_argument(argument, format!("is not a descriptor of this network: {error}")).at(error.position())
}
