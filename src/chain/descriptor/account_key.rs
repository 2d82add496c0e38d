//! Extended public keys alone: the account that a wallet means by one.
//!
//! | prefix | scripts | of |
//! |---|---|---|
//! | `xpub`, `tpub` | `pkh` | BIP44 |
//! | `ypub`, `upub` | `sh(wpkh)` | BIP49 |
//! | `zpub`, `vpub` | `wpkh` | BIP84 |
//!
//! The version bytes of all but the first are those of SLIP-132. A taproot account (BIP86) has no prefix of its own, and is
//! given as a descriptor.

use bitcoin::base58;

use super::error::DescriptorError;

/// Bytes of an extended key.
const KEY_LENGTH: usize = 78;
const XPUB: [u8; 4] = [0x04, 0x88, 0xb2, 0x1e];
const TPUB: [u8; 4] = [0x04, 0x35, 0x87, 0xcf];

/// What version bytes say: those of BIP32 for the same network, and the text before and behind the key.
const ACCOUNTS: [([u8; 4], [u8; 4], &str, &str); 6] = [
    (XPUB, XPUB, "pkh(", ")"),
    ([0x04, 0x9d, 0x7c, 0xb2], XPUB, "sh(wpkh(", "))"),
    ([0x04, 0xb2, 0x47, 0x46], XPUB, "wpkh(", ")"),
    (TPUB, TPUB, "pkh(", ")"),
    ([0x04, 0x4a, 0x52, 0x62], TPUB, "sh(wpkh(", "))"),
    ([0x04, 0x5f, 0x1c, 0xf6], TPUB, "wpkh(", ")"),
];

/// How much of a text that is none is quoted, in characters.
const SHOWN: usize = 60;

/// The prefixes of SLIP-132, which mean a form of script.
const SLIP132: [&str; 8] = ["ypub", "zpub", "upub", "vpub", "Ypub", "Zpub", "Upub", "Vpub"];

/// The descriptor of the receive and change chains of an extended public key, with its origin if it has one.
///
/// Errors: everything that is not exactly one extended public key.
pub(super) fn account_descriptor(text: &str) -> Result<String, DescriptorError> {
    let no_descriptor = || DescriptorError::NotADescriptor { text: text.chars().take(SHOWN).collect() };
    let (origin, key) = match text.find(']') {
        Some(end) if text.starts_with('[') => text.split_at(end + 1),
        _ => ("", text),
    };
    let key = match key.split_once('/') {
        Some((key, _)) if is_extended(key) => return Err(DescriptorError::PathOfAccountKey),
        Some(_) => return Err(no_descriptor()),
        None => key,
    };
    if !is_extended(key) {
        return Err(no_descriptor());
    }
    let mut bytes = base58::decode_check(key).ok().filter(|bytes| bytes.len() == KEY_LENGTH).ok_or_else(|| {
        let beginning: String = key.chars().take(12).collect();
        DescriptorError::Key { reason: format!("the extended key {beginning}… is mistyped or cut") }
    })?;
    let Some((version, rest)) = bytes.split_first_chunk_mut::<4>() else { return Err(no_descriptor()) };
    let Some((_, bip32, before, behind)) = ACCOUNTS.iter().find(|(known, ..)| known == version) else {
        let prefix = key.chars().take(4).collect();
        return Err(DescriptorError::MultisigKey { prefix });
    };
    let key = base58::encode_check(&[bip32.as_slice(), &*rest].concat());
    Ok(format!("{before}{origin}{key}/<0;1>/*{behind}"))
}

/// Whether a word looks like an extended public key.
fn is_extended(word: &str) -> bool {
    word.get(1..4) == Some("pub") && word.bytes().all(|letter| letter.is_ascii_alphanumeric())
}

/// The first key of SLIP-132 in a text, and where it begins.
pub(super) fn account_key_inside(text: &str) -> Option<(&str, usize)> {
    let keys = SLIP132.iter().flat_map(|prefix| text.match_indices(prefix));
    let begins_a_word =
        |at: usize| !text[..at].chars().next_back().is_some_and(|letter| letter.is_ascii_alphanumeric());
    keys.filter(|(at, _)| begins_a_word(*at)).map(|(at, prefix)| (prefix, at)).min_by_key(|(_, at)| *at)
}
