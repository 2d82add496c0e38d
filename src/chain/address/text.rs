//! The text that stands for a scriptPubKey, and back.

use bitcoin::base58;
use bitcoin::bech32::primitives::decode::{SegwitHrpstring, SegwitHrpstringError, UncheckedHrpstring};
use bitcoin::bech32::{Bech32, Bech32m, Fe32};
use bitcoin::hashes::Hash;
use bitcoin::{Address, Network, PubkeyHash, Script, ScriptBuf, ScriptHash, WitnessProgram, WitnessVersion};

use super::error::{AddressEncoding, AddressError};
use super::form::{
    ALL_BUT_MAIN, BASE58_ALPHABET, LONGEST_BASE58, LONGEST_BECH32, LONGEST_TEXT, MAIN, SHORTEST_BECH32_DATA,
    bech32_prefix, leading_space,
};
use super::positions::{mistyped, other_case};

/// The version bytes of private keys in wallet import format: mainnet, all others.
const PRIVATE_KEY_VERSIONS: [u8; 2] = [0x80, 0xef];

/// Bytes in an extended key, whatever its version (BIP32).
const EXTENDED_KEY_LENGTH: usize = 78;

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

/// A text with which an address of this network may begin, as such an address is spelled: bech32 in lower case, where the text
/// may be in upper case; base58 as it is. `None` if it is too short or no address begins with it.
#[must_use]
pub fn address_beginning(text: &str, network: Network) -> Option<String> {
    if text.len() < SHORTEST_BEGINNING || text.len() > LONGEST_BECH32 {
        return None;
    }
    if let Some((prefix, networks)) = bech32_prefix(text) {
        let lower = text.to_ascii_lowercase();
        let is_of_one_case = other_case(text).next().is_none();
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
    if let Some(position) = other_case(text).next() {
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
            let positions = mistyped(prefix, &data);
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
        && other_case(text).next().is_none()
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

pub(super) fn p2pkh(hash: [u8; 20]) -> ScriptBuf {
    ScriptBuf::new_p2pkh(&PubkeyHash::from_byte_array(hash))
}

pub(super) fn p2sh(hash: [u8; 20]) -> ScriptBuf {
    ScriptBuf::new_p2sh(&ScriptHash::from_byte_array(hash))
}
