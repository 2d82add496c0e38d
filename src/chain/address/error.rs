//! Why a text is not an address.

use bitcoin::Network;

use crate::chain::network;

/// Why a text is not an address of the network.
///
/// A position counts characters from 0. Messages never repeat the whole text, which may be a
/// private key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is no text.
    #[error("the address is empty")]
    Empty,
    /// Longer than any address.
    #[error("an address has at most {longest} characters, this text has {length} bytes")]
    TooLong {
        /// Bytes in the text.
        length: usize,
        /// The most that an address of this encoding has.
        longest: usize,
    },
    /// The text ends before an address of its encoding could be complete.
    #[error("the address is cut short: it ends after {length} of its characters")]
    TooShort {
        /// Characters in the text.
        length: usize,
    },
    /// A character that its encoding does not have.
    #[error("the character {character:?} at position {position} (counted from 0) occurs in no {encoding} address")]
    Character {
        /// The character.
        character: char,
        /// Where it stands.
        position: usize,
        /// The encoding that the text's beginning asks for.
        encoding: AddressEncoding,
    },
    /// A bech32 address mixes both cases.
    #[error(
        "a bech32 address is all lower or all upper case, but the case changes at position {position} (counted from 0)"
    )]
    MixedCase {
        /// The first character in the other case.
        position: usize,
    },
    /// The checksum does not match. If replacing one or two characters corrects it, the error names their positions.
    #[error("the checksum does not match: the address is mistyped{}", at(positions))]
    Checksum {
        /// The positions of the mistyped characters, ascending; empty if they are not known. The right characters are
        /// never suggested: a wrong suggestion pays a stranger.
        positions: Vec<usize>,
    },
    /// The checksum is the one of the other bech32 variant.
    #[error("{}", wrong_variant(*version))]
    ChecksumVariant {
        /// The witness version.
        version: u8,
    },
    /// Witness versions end at 16.
    #[error(
        "the character at position {position} (counted from 0) stands for witness version {version}, the highest is 16"
    )]
    WitnessVersion {
        /// The version.
        version: u8,
        /// The character that stands for it.
        position: usize,
    },
    /// A witness program of a length that its version does not allow.
    #[error("a witness program of version {version} must have {}, not {length}", allowed_lengths(*version))]
    ProgramLength {
        /// The witness version.
        version: u8,
        /// Bytes in the program.
        length: usize,
    },
    /// The last character of a witness program carries bits that belong to no byte.
    #[error("the witness program ends with leftover bits")]
    Padding,
    /// Base58 text with a right checksum, but neither the version nor the length of an address.
    #[error("the text is no address: it decodes to version {version} and {length} bytes, where an address has 20")]
    Payload {
        /// The first byte.
        version: u8,
        /// Bytes after it.
        length: usize,
    },
    /// A private key in wallet import format.
    #[error("this is a private key, not an address: anyone who has seen it can spend its coins")]
    PrivateKey,
    /// A BIP32 extended key.
    #[error("this is an extended key, not an address: it stands for many addresses")]
    ExtendedKey,
    /// A bech32 text with a prefix that no Bitcoin network uses for addresses, perhaps a mistyped one.
    #[error("texts that begin with {prefix:?} are not bitcoin addresses")]
    Prefix {
        /// The part before the separator `1`, in lower case.
        prefix: String,
    },
    /// An address of another network.
    #[error("this is an address of {}, not of {}", names(belongs_to), network::name(*asked))]
    Network {
        /// The network whose address is expected.
        asked: Network,
        /// The networks that share the address's prefix.
        belongs_to: &'static [Network],
    },
}

/// The two encodings of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressEncoding {
    /// P2PKH and P2SH.
    Base58,
    /// Witness programs: bech32 and bech32m share their characters.
    Bech32,
}

impl std::fmt::Display for AddressEncoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AddressEncoding::Base58 => "base58",
            AddressEncoding::Bech32 => "bech32",
        })
    }
}

impl AddressError {
    /// The position of the first wrong character, counted from 0, if it is known.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        match self {
            AddressError::Character { position, .. }
            | AddressError::MixedCase { position }
            | AddressError::WitnessVersion { position, .. } => Some(*position),
            AddressError::Checksum { positions } => positions.first().copied(),
            _ => None,
        }
    }
}

fn at(positions: &[usize]) -> String {
    match positions {
        [] => String::new(),
        [position] => format!(", probably at position {position} (counted from 0)"),
        positions => {
            let positions: Vec<_> = positions.iter().map(ToString::to_string).collect();
            format!(", probably at positions {} (counted from 0)", positions.join(" and "))
        }
    }
}

fn wrong_variant(version: u8) -> String {
    let (needed, found) = if version == 0 { ("bech32", "bech32m") } else { ("bech32m", "bech32") };
    format!("witness version {version} needs a {needed} checksum, but this is the one of {found}")
}

const fn allowed_lengths(version: u8) -> &'static str {
    if version == 0 { "20 or 32 bytes" } else { "2 to 40 bytes" }
}

fn names(networks: &[Network]) -> String {
    networks.iter().map(|network| network::name(*network)).collect::<Vec<_>>().join(" or ")
}
