//! The form of addresses: how long they are, with what they begin, and of which characters they are.

use bitcoin::Network;

/// The longest text that is parsed, in bytes. Addresses end at 90 characters; extended keys and silent payment
/// addresses, which have an error of their own, are longer.
pub(super) const LONGEST_TEXT: usize = 120;

/// The longest bech32 address (BIP173).
pub(super) const LONGEST_BECH32: usize = 90;
/// Characters of the longest base58 address: 25 bytes.
pub(super) const LONGEST_BASE58: usize = 35;

/// A witness version and a checksum, without which there is no bech32 address.
pub(super) const SHORTEST_BECH32_DATA: usize = 7;

pub(super) const BASE58_ALPHABET: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

pub(super) const MAIN: &[Network] = &[Network::Bitcoin];
pub(super) const TESTNETS: &[Network] = &[Network::Testnet, Network::Testnet4, Network::Signet];
pub(super) const REGTEST: &[Network] = &[Network::Regtest];
/// Base58 addresses have the same version bytes on regtest and on the testnets.
pub(super) const ALL_BUT_MAIN: &[Network] = &[Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];

/// The prefixes of bech32 addresses, and the networks that use them.
pub(super) const BECH32_PREFIXES: [(&str, &[Network]); 3] = [("bc", MAIN), ("tb", TESTNETS), ("bcrt", REGTEST)];

/// The white space at the beginning of a text that is like a bech32 address without it.
pub(super) fn leading_space(text: &str) -> Option<char> {
    text.chars().next().filter(|first| first.is_whitespace() && bech32_prefix(text.trim_start()).is_some())
}

/// The prefix of a text that begins like a bech32 address.
pub(super) fn bech32_prefix(text: &str) -> Option<(&'static str, &'static [Network])> {
    let begins_with = |prefix: &str| {
        let beginning = text.as_bytes().get(..prefix.len());
        let separator = text.as_bytes().get(prefix.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix.as_bytes())) && separator == Some(&b'1')
    };
    BECH32_PREFIXES.into_iter().find(|(prefix, _)| begins_with(prefix))
}
