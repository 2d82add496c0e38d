//! Entries with x-only keys that are no points of the curve (BIP371). The library refuses them, and the node does not look: they are
//! taken out of the bytes before the library parses them, and returned to it as entries of unknown types.

use std::ops::Range;

use bitcoin::consensus::encode::{VarInt, deserialize_partial};
use bitcoin::hashes::{Hash, sha256};
use bitcoin::psbt::raw::Key;
use bitcoin::secp256k1::XOnlyPublicKey;
use bitcoin::{Psbt, TxIn, TxOut};

/// What every PSBT begins with.
const MAGIC: &[u8] = b"psbt\xff";
const X_ONLY: usize = 32;
/// The bytes of the version of a transaction, which it begins with.
const VERSION: usize = 4;
/// The bytes of a fingerprint, and of a step of a path.
const STEP: usize = 4;
/// The depth of the deepest leaf (BIP341).
const DEEPEST: usize = 128;

/// The types of entries with x-only keys (BIP371).
mod types {
    pub(super) const IN_TAP_SCRIPT_SIG: u8 = 0x14;
    pub(super) const IN_TAP_LEAF_SCRIPT: u8 = 0x15;
    pub(super) const IN_TAP_BIP32_DERIVATION: u8 = 0x16;
    pub(super) const IN_TAP_INTERNAL_KEY: u8 = 0x17;
    pub(super) const OUT_TAP_INTERNAL_KEY: u8 = 0x05;
    pub(super) const OUT_TAP_BIP32_DERIVATION: u8 = 0x07;
}

/// The maps of a PSBT, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    Global,
    Input(usize),
    Output(usize),
}

/// An entry that was taken out of a map.
#[derive(Debug)]
struct TakenEntry {
    map: Map,
    range: Range<usize>,
    key: Key,
    value: Vec<u8>,
}

/// A PSBT without its entries with keys that are no points.
#[derive(Debug)]
pub(super) struct OnCurve {
    /// Its other bytes.
    pub(super) bytes: Vec<u8>,
    taken: Vec<TakenEntry>,
}

impl OnCurve {
    /// `None` if there is no such entry.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let mut taken = Vec::new();
        // of bytes that end early, those in front of the end
        let _ = take(bytes, &mut taken);
        let (mut rest, mut end) = (Vec::with_capacity(bytes.len()), 0);
        for entry in &taken {
            rest.extend_from_slice(bytes.get(end..entry.range.start)?);
            end = entry.range.end;
        }
        rest.extend_from_slice(bytes.get(end..)?);
        (!taken.is_empty()).then_some(Self { bytes: rest, taken })
    }

    /// Where a byte of the rest stands in all bytes.
    pub(super) fn position(&self, rest: usize) -> usize {
        let before = |position: usize, entry: &TakenEntry| {
            if entry.range.start < position { position.saturating_add(entry.range.len()) } else { position }
        };
        self.taken.iter().fold(rest, before)
    }

    /// Returns the entries to the maps that they are from. Errors: the key of one that occurs twice.
    pub(super) fn return_to(self, psbt: &mut Psbt) -> Result<(), Key> {
        for TakenEntry { map, key, value, .. } in self.taken {
            // the one entry with a key by itself may also have a value on the curve, which was not taken out
            let (unknown, has_internal_key) = match map {
                Map::Global => continue,
                Map::Input(index) => match psbt.inputs.get_mut(index) {
                    Some(input) => (&mut input.unknown, input.tap_internal_key.is_some()),
                    None => continue,
                },
                Map::Output(index) => match psbt.outputs.get_mut(index) {
                    Some(output) => (&mut output.unknown, output.tap_internal_key.is_some()),
                    None => continue,
                },
            };
            let is_repeated = has_internal_key && key.key.is_empty();
            if unknown.insert(key.clone(), value).is_some() || is_repeated {
                return Err(key);
            }
        }
        Ok(())
    }
}

/// Notes the entries to take out. `None` where the bytes are no PSBT.
fn take(bytes: &[u8], taken: &mut Vec<TakenEntry>) -> Option<()> {
    let mut at = bytes.strip_prefix(MAGIC).map(|_| MAGIC.len())?;
    let (mut maps, mut next) = (vec![Map::Global], 0);
    while let Some(map) = maps.get(next).copied() {
        next = next.saturating_add(1);
        loop {
            let start = at;
            let key = part(bytes, &mut at)?;
            let Some((type_value, content)) = key.split_first() else { break };
            let value = part(bytes, &mut at)?;
            if map == Map::Global && key == [0] {
                let (inputs, outputs) = parts_of_unsigned(value)?;
                maps.extend((0..inputs).map(Map::Input));
                maps.extend((0..outputs).map(Map::Output));
            }
            if x_only_key(map, *type_value, content, value).is_some_and(|key| XOnlyPublicKey::from_slice(key).is_err())
            {
                let key = Key { type_value: *type_value, key: content.to_vec() };
                taken.push(TakenEntry { map, range: start..at, key, value: value.to_vec() });
            }
        }
    }
    Some(())
}

/// The number of inputs and of outputs of the unsigned transaction. It has no witness, so one without inputs is not the beginning of
/// one with (BIP174).
fn parts_of_unsigned(bytes: &[u8]) -> Option<(usize, usize)> {
    let rest = bytes.get(VERSION..)?;
    let (inputs, read) = deserialize_partial::<Vec<TxIn>>(rest).ok()?;
    let (outputs, _) = deserialize_partial::<Vec<TxOut>>(rest.get(read..)?).ok()?;
    Some((inputs.len(), outputs.len()))
}

/// What begins at a place with its length; moves the place behind it.
fn part<'b>(bytes: &'b [u8], at: &mut usize) -> Option<&'b [u8]> {
    let (length, read) = deserialize_partial::<VarInt>(bytes.get(*at..)?).ok()?;
    let start = at.checked_add(read)?;
    let end = start.checked_add(usize::try_from(length.0).ok()?)?;
    *at = end;
    bytes.get(start..end)
}

/// The x-only key of an entry, if it has one, and if its parts have the lengths that they must have.
fn x_only_key<'b>(map: Map, type_value: u8, content: &'b [u8], value: &'b [u8]) -> Option<&'b [u8]> {
    use types::{
        IN_TAP_BIP32_DERIVATION, IN_TAP_INTERNAL_KEY, IN_TAP_LEAF_SCRIPT, IN_TAP_SCRIPT_SIG, OUT_TAP_BIP32_DERIVATION,
        OUT_TAP_INTERNAL_KEY,
    };
    let whole = |key: &'b [u8]| (key.len() == X_ONLY).then_some(key);
    match (map, type_value) {
        (Map::Input(_), IN_TAP_INTERNAL_KEY) | (Map::Output(_), OUT_TAP_INTERNAL_KEY) if content.is_empty() => {
            whole(value)
        }
        (Map::Input(_), IN_TAP_BIP32_DERIVATION) | (Map::Output(_), OUT_TAP_BIP32_DERIVATION)
            if is_derivation(value) =>
        {
            whole(content)
        }
        // with the hash of its leaf
        (Map::Input(_), IN_TAP_SCRIPT_SIG) if matches!(value.len(), 64 | 65) => {
            content.strip_suffix(content.get(X_ONLY..)?).filter(|_| content.len() == 2 * X_ONLY)
        }
        // within its control block, behind the version of the leaf
        (Map::Input(_), IN_TAP_LEAF_SCRIPT) if !value.is_empty() => {
            let (path, odd) = (content.len().checked_sub(1)? / X_ONLY, content.len().checked_sub(1)? % X_ONLY);
            let is_block = odd == 0 && (1..=DEEPEST.saturating_add(1)).contains(&path);
            content.get(1..X_ONLY.saturating_add(1)).filter(|_| is_block)
        }
        _ => None,
    }
}

/// Whether a value is the hashes of leaves, and behind them a fingerprint and the steps of a path.
fn is_derivation(value: &[u8]) -> bool {
    let Ok((leaves, read)) = deserialize_partial::<VarInt>(value) else { return false };
    let path = usize::try_from(leaves.0).ok().and_then(|leaves| {
        let hashes = leaves.checked_mul(sha256::Hash::LEN)?;
        value.len().checked_sub(read)?.checked_sub(hashes)
    });
    path.is_some_and(|path| path > 0 && path.is_multiple_of(STEP))
}
