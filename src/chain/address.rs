//! Addresses: the text that stands for a scriptPubKey, and back.
//!
//! Base58Check for P2PKH and P2SH, bech32 for witness version 0 (BIP173), bech32m for all others (BIP350). P2PK, bare
//! multisig and everything else have no address. Where an encoding allows both cases, an address is written in lower
//! case. Text that is no address is refused with the reason and, where it is known, the position.

mod positions;
#[cfg(test)]
mod tests;

use bitcoin::base58;
use bitcoin::bech32::primitives::decode::{SegwitHrpstring, SegwitHrpstringError, UncheckedHrpstring};
use bitcoin::bech32::{Bech32, Bech32m, Fe32};
use bitcoin::hashes::Hash;
use bitcoin::{Address, Network, PubkeyHash, Script, ScriptBuf, ScriptHash, WitnessProgram, WitnessVersion};

use super::network;

/// The longest text that is parsed, in bytes. Addresses end at 90 characters; extended keys and silent payment
/// addresses, which have an error of their own, are longer.
const LONGEST_TEXT: usize = 120;

/// The longest bech32 address (BIP173).
const LONGEST_BECH32: usize = 90;
/// Characters of the longest base58 address: 25 bytes.
const LONGEST_BASE58: usize = 35;

/// A witness version and a checksum, without which there is no bech32 address.
const SHORTEST_BECH32_DATA: usize = 7;

const BASE58_ALPHABET: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

const MAIN: &[Network] = &[Network::Bitcoin];
const TESTNETS: &[Network] = &[Network::Testnet, Network::Testnet4, Network::Signet];
const REGTEST: &[Network] = &[Network::Regtest];
/// Base58 addresses have the same version bytes on regtest and on the testnets.
const ALL_BUT_MAIN: &[Network] = &[Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];

/// The prefixes of bech32 addresses, and the networks that use them.
const BECH32_PREFIXES: [(&str, &[Network]); 3] = [("bc", MAIN), ("tb", TESTNETS), ("bcrt", REGTEST)];

/// The version bytes of private keys in wallet import format: mainnet, all others.
const PRIVATE_KEY_VERSIONS: [u8; 2] = [0x80, 0xef];

/// Bytes in an extended key, whatever its version (BIP32).
const EXTENDED_KEY_LENGTH: usize = 78;

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
    /// A bech32 address is written in one case.
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

/// The address of a scriptPubKey on a network; `None` for P2PK, bare multisig, OP_RETURN and all others without one.
///
/// testnet3, testnet4 and signet write the same address for the same script.
#[must_use]
pub fn address_of(script: &Script, network: Network) -> Option<String> {
    Address::from_script(script, network).ok().map(|address| address.to_string())
}

/// The scriptPubKey that an address of this network stands for.
///
/// The text must be the address and nothing else: no spaces, no `bitcoin:`. A bech32 address may be in upper case, as
/// QR codes have it.
pub fn parse_address(text: &str, network: Network) -> Result<ScriptBuf, AddressError> {
    let (script, belongs_to) = parse_any_address(text)?;
    if belongs_to.contains(&network) { Ok(script) } else { Err(AddressError::Network { asked: network, belongs_to }) }
}

/// Fewer characters begin too many addresses: those of a bech32 prefix and a witness version alone are six.
const SHORTEST_BEGINNING: usize = 6;

/// A text with which an address of this network may begin, as such an address is written: bech32 in lower case, where the text
/// may be in upper case; base58 as it is. `None` if it is too short or no address begins with it.
#[must_use]
pub fn address_beginning(text: &str, network: Network) -> Option<String> {
    if text.len() < SHORTEST_BEGINNING || text.len() > LONGEST_BECH32 {
        return None;
    }
    if let Some((prefix, networks)) = bech32_prefix(text) {
        let lower = text.to_ascii_lowercase();
        let is_of_one_case = positions::other_case(text).next().is_none();
        let has_characters = lower[prefix.len() + 1..].chars().all(|character| Fe32::from_char(character).is_ok());
        return (networks.contains(&network) && is_of_one_case && has_characters).then_some(lower);
    }
    let first = if network == Network::Bitcoin { "13" } else { "mn2" };
    let is_base58 = text.bytes().all(|character| character.is_ascii_alphanumeric() && !b"0OIl".contains(&character));
    (is_base58 && text.starts_with(|character| first.contains(character)) && text.len() <= LONGEST_BASE58)
        .then(|| text.to_owned())
}

/// The scriptPubKey that an address of any network stands for, and the networks that share the address's prefix.
pub fn parse_any_address(text: &str) -> Result<(ScriptBuf, &'static [Network]), AddressError> {
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    if text.len() > LONGEST_TEXT {
        return Err(AddressError::TooLong { length: text.len(), longest: LONGEST_BECH32 });
    }
    match (bech32_prefix(text), leading_space(text)) {
        (Some((prefix, networks)), _) => Ok((parse_bech32(text, prefix)?, networks)),
        (None, Some(character)) => {
            Err(AddressError::Character { character, position: 0, encoding: AddressEncoding::Bech32 })
        }
        (None, None) => parse_base58(text),
    }
}

/// The white space at the beginning of a text that is like a bech32 address without it.
fn leading_space(text: &str) -> Option<char> {
    text.chars().next().filter(|first| first.is_whitespace() && bech32_prefix(text.trim_start()).is_some())
}

/// The prefix of a text that begins like a bech32 address.
fn bech32_prefix(text: &str) -> Option<(&'static str, &'static [Network])> {
    let begins_with = |prefix: &str| {
        let beginning = text.as_bytes().get(..prefix.len());
        let separator = text.as_bytes().get(prefix.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix.as_bytes())) && separator == Some(&b'1')
    };
    BECH32_PREFIXES.into_iter().find(|(prefix, _)| begins_with(prefix))
}

/// The longest prefix that a mistyped one is taken for, in letters: one more than `bcrt` has.
const LONGEST_PREFIX: usize = 5;

fn parse_bech32(text: &str, prefix: &str) -> Result<ScriptBuf, AddressError> {
    let data_at = prefix.len() + 1;
    let mut data = Vec::with_capacity(text.len());
    for (position, character) in text.chars().enumerate().skip(data_at) {
        let value = Fe32::from_char(character.to_ascii_lowercase());
        data.push(value.map_err(|_| AddressError::Character {
            character,
            position,
            encoding: AddressEncoding::Bech32,
        })?);
    }
    if let Some(position) = positions::other_case(text).next() {
        return Err(AddressError::MixedCase { position });
    }
    if text.len() > LONGEST_BECH32 {
        return Err(AddressError::TooLong { length: text.len(), longest: LONGEST_BECH32 });
    }
    let Some(version_character) = data.first().filter(|_| data.len() >= SHORTEST_BECH32_DATA) else {
        return Err(AddressError::TooShort { length: text.len() });
    };
    let version = version_character.to_u8();
    let (is_bech32, is_bech32m) = (has_checksum::<Bech32>(text), has_checksum::<Bech32m>(text));
    let (right_variant, other_variant) = if version == 0 { (is_bech32, is_bech32m) } else { (is_bech32m, is_bech32) };
    if !right_variant {
        return Err(if other_variant && version <= 16 {
            AddressError::ChecksumVariant { version }
        } else {
            let positions = positions::mistyped(prefix, &data);
            AddressError::Checksum { positions: positions.into_iter().map(|at| data_at + at).collect() }
        });
    }
    let Ok(witness_version) = WitnessVersion::try_from(*version_character) else {
        return Err(AddressError::WitnessVersion { version, position: data_at });
    };
    let program: Vec<u8> = match SegwitHrpstring::new(text) {
        Ok(address) => address.byte_iter().collect(),
        Err(SegwitHrpstringError::Padding(_)) => return Err(AddressError::Padding),
        // every other cause has been excluded above
        Err(_) => return Err(AddressError::ProgramLength { version, length: program_length(&data) }),
    };
    let length = program.len();
    WitnessProgram::new(witness_version, &program)
        .map(|program| ScriptBuf::new_witness_program(&program))
        .map_err(|_| AddressError::ProgramLength { version, length })
}

fn has_checksum<Variant: bitcoin::bech32::Checksum>(text: &str) -> bool {
    UncheckedHrpstring::new(text).is_ok_and(|unchecked| unchecked.has_valid_checksum::<Variant>())
}

/// Whole bytes in the witness program of a bech32 text's data, which has a version before it and a checksum after.
fn program_length(data: &[Fe32]) -> usize {
    data.len().saturating_sub(SHORTEST_BECH32_DATA) * 5 / 8
}

/// Whether a text without a known prefix is like a bech32 address but for that: letters of one case, a 1, and characters of
/// bech32 alone, which hardly any base58 text is.
fn looks_like_bech32(text: &str) -> bool {
    let Some((prefix, data)) = text.split_once('1') else { return false };
    (1..=LONGEST_PREFIX).contains(&prefix.len())
        && prefix.bytes().all(|letter| letter.is_ascii_alphabetic())
        && data.len() >= SHORTEST_BECH32_DATA
        && data.chars().all(|character| Fe32::from_char(character.to_ascii_lowercase()).is_ok())
        && positions::other_case(text).next().is_none()
}

fn parse_base58(text: &str) -> Result<(ScriptBuf, &'static [Network]), AddressError> {
    if has_checksum::<Bech32>(text) || has_checksum::<Bech32m>(text) || looks_like_bech32(text) {
        let prefix = text.rsplit_once('1').map_or(text, |(prefix, _)| prefix).to_ascii_lowercase();
        return Err(AddressError::Prefix { prefix });
    }
    if let Some((position, character)) =
        text.chars().enumerate().find(|(_, character)| !BASE58_ALPHABET.contains(*character))
    {
        return Err(AddressError::Character { character, position, encoding: AddressEncoding::Base58 });
    }
    let bytes = base58::decode_check(text).map_err(|error| match error {
        base58::Error::TooShort(_) => AddressError::TooShort { length: text.len() },
        _ => AddressError::Checksum { positions: Vec::new() },
    })?;
    let Some((&version, payload)) = bytes.split_first() else {
        return Err(AddressError::TooShort { length: text.len() });
    };
    let hash = <[u8; 20]>::try_from(payload);
    match (version, hash) {
        (0x00, Ok(hash)) => Ok((p2pkh(hash), MAIN)),
        (0x05, Ok(hash)) => Ok((p2sh(hash), MAIN)),
        (0x6f, Ok(hash)) => Ok((p2pkh(hash), ALL_BUT_MAIN)),
        (0xc4, Ok(hash)) => Ok((p2sh(hash), ALL_BUT_MAIN)),
        _ if PRIVATE_KEY_VERSIONS.contains(&version) && matches!(payload.len(), 32 | 33) => {
            Err(AddressError::PrivateKey)
        }
        _ if bytes.len() == EXTENDED_KEY_LENGTH => {
            // the key of a private one has a zero in front of its 32 bytes (BIP32)
            let is_private = bytes[EXTENDED_KEY_LENGTH - 33] == 0;
            Err(if is_private { AddressError::PrivateKey } else { AddressError::ExtendedKey })
        }
        _ => Err(AddressError::Payload { version, length: payload.len() }),
    }
}

fn p2pkh(hash: [u8; 20]) -> ScriptBuf {
    ScriptBuf::new_p2pkh(&PubkeyHash::from_byte_array(hash))
}

fn p2sh(hash: [u8; 20]) -> ScriptBuf {
    ScriptBuf::new_p2sh(&ScriptHash::from_byte_array(hash))
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
