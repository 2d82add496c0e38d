//! The type of a scriptPubKey, and the public keys that it contains or that a spend of it reveals.
//!
//! The types and their rules are those of Bitcoin Core's `Solver` (`script/solver.cpp`), with one difference: a
//! script that starts with OP_RETURN is always [`ScriptType::OpReturn`], whatever follows, so that the type and
//! [`never_spendable`] agree. Module `address` encodes scripts as addresses, `wrap` the scripts that pay to another.

mod wrap;

use bitcoin::hashes::{Hash, hash160};
use bitcoin::{Script, Witness};

pub use wrap::{WrappedScripts, wrapped_scripts};

const OP_0: u8 = 0x00;
const OP_PUSHBYTES_1: u8 = 0x01;
const OP_PUSHBYTES_75: u8 = 0x4b;
const OP_PUSHDATA1: u8 = 0x4c;
const OP_PUSHDATA2: u8 = 0x4d;
const OP_PUSHDATA4: u8 = 0x4e;
const OP_1: u8 = 0x51;
const OP_16: u8 = 0x60;
const OP_RETURN: u8 = 0x6a;
const OP_DUP: u8 = 0x76;
const OP_EQUAL: u8 = 0x87;
const OP_EQUALVERIFY: u8 = 0x88;
const OP_HASH160: u8 = 0xa9;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKMULTISIG: u8 = 0xae;

/// The longest script that consensus executes, in bytes (`MAX_SCRIPT_SIZE`, Core `script/script.h`).
const MAX_SCRIPT_SIZE: usize = 10_000;

/// The most keys that OP_CHECKMULTISIG takes (`MAX_PUBKEYS_PER_MULTISIG`, Core `script/script.h`).
const MAX_MULTISIG_KEYS: u8 = 20;

/// The form of a scriptPubKey. The numbers are stored, so they never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ScriptType {
    /// `<key> OP_CHECKSIG`: pay to public key.
    P2pk = 0,
    /// Pay to public key hash.
    P2pkh,
    /// Pay to script hash (BIP16), which includes nested segwit.
    P2sh,
    /// Pay to witness public key hash (BIP141): witness version 0, 20 bytes.
    P2wpkh,
    /// Pay to witness script hash (BIP141): witness version 0, 32 bytes.
    P2wsh,
    /// Pay to taproot (BIP341): witness version 1, 32 bytes.
    P2tr,
    /// Pay to anchor: `51024e73`, which anyone can spend.
    P2a,
    /// Bare multisig: `m <keys> n OP_CHECKMULTISIG`.
    P2ms,
    /// Starts with OP_RETURN: never spendable.
    OpReturn,
    /// A witness program of version 1 to 16 that no rule gives a meaning yet (BIP141).
    WitnessUnknown,
    /// None of the other forms; also a witness program of version 0 whose length is neither 20 nor 32.
    Nonstandard,
    /// No bytes at all.
    Empty,
}

impl ScriptType {
    /// Every type, in the order of its number.
    pub const ALL: [ScriptType; 12] = [
        ScriptType::P2pk,
        ScriptType::P2pkh,
        ScriptType::P2sh,
        ScriptType::P2wpkh,
        ScriptType::P2wsh,
        ScriptType::P2tr,
        ScriptType::P2a,
        ScriptType::P2ms,
        ScriptType::OpReturn,
        ScriptType::WitnessUnknown,
        ScriptType::Nonstandard,
        ScriptType::Empty,
    ];

    /// The type of a scriptPubKey.
    #[must_use]
    pub fn of(script: &Script) -> ScriptType {
        match script.as_bytes() {
            [] => ScriptType::Empty,
            [OP_RETURN, ..] => ScriptType::OpReturn,
            [OP_HASH160, 20, hash @ .., OP_EQUAL] if hash.len() == 20 => ScriptType::P2sh,
            [OP_DUP, OP_HASH160, 20, hash @ .., OP_EQUALVERIFY, OP_CHECKSIG] if hash.len() == 20 => ScriptType::P2pkh,
            _ => match witness_program(script) {
                Some((0, program)) if program.len() == 20 => ScriptType::P2wpkh,
                Some((0, program)) if program.len() == 32 => ScriptType::P2wsh,
                Some((0, _)) => ScriptType::Nonstandard,
                Some((1, program)) if program.len() == 32 => ScriptType::P2tr,
                Some((1, [0x4e, 0x73])) => ScriptType::P2a,
                Some(_) => ScriptType::WitnessUnknown,
                None if p2pk_key(script).is_some() => ScriptType::P2pk,
                None if multisig(script).is_some() => ScriptType::P2ms,
                None => ScriptType::Nonstandard,
            },
        }
    }

    /// The number of this type: its place in [`ScriptType::ALL`] and in stored rows.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The type with this number, `None` if there is none.
    #[must_use]
    pub fn from_index(index: usize) -> Option<ScriptType> {
        Self::ALL.get(index).copied()
    }
}

/// True if no transaction can ever spend an output with this script: it starts with OP_RETURN or is longer than
/// 10,000 bytes. Such outputs never enter the UTXO set (Core `CScript::IsUnspendable`).
#[must_use]
pub fn never_spendable(script: &Script) -> bool {
    script.len() > MAX_SCRIPT_SIZE || script.as_bytes().first() == Some(&OP_RETURN)
}

/// The public key that a pay-to-public-key script names, `None` for every other script.
#[must_use]
pub fn p2pk_key(script: &Script) -> Option<&[u8]> {
    let (length, key) = match script.as_bytes() {
        [length @ (33 | 65), key @ .., OP_CHECKSIG] => (*length, key),
        _ => return None,
    };
    (key.len() == usize::from(length) && has_key_size(key)).then_some(key)
}

/// How many signatures a bare multisig script requires, and the public keys that may give them, in script order.
/// `None` for every other script.
#[must_use]
pub fn multisig(script: &Script) -> Option<(u8, Vec<&[u8]>)> {
    let [body @ .., OP_CHECKMULTISIG] = script.as_bytes() else { return None };
    let (first, mut rest) = next_operation(body)?;
    let required = multisig_number(first)?;
    let mut keys = Vec::new();
    loop {
        let (operation, after) = next_operation(rest)?;
        rest = after;
        match operation.pushed {
            Some(key) if has_key_size(key) => keys.push(key),
            _ => {
                let total = multisig_number(operation)?;
                let complete = rest.is_empty() && required <= total && keys.len() == usize::from(total);
                return complete.then_some((required, keys));
            }
        }
    }
}

/// The public key that an input reveals when it spends an output with `script_pubkey`: of a P2PKH output from
/// `script_sig`, of a P2WPKH output from `witness`, of a P2SH output that nests a P2WPKH program (BIP141) from both.
///
/// The key is returned only if it hashes to what the output commits to, so a malformed input reveals nothing. `None`
/// also for the other script types, which contain their keys themselves or commit to more than one.
#[must_use]
pub fn revealed_key(script_pubkey: &Script, script_sig: &Script, witness: &Witness) -> Option<Vec<u8>> {
    let (key, committed) = match (ScriptType::of(script_pubkey), script_pubkey.as_bytes()) {
        (ScriptType::P2pkh, bytes) => (last_push(script_sig.as_bytes())?, &bytes[3..23]),
        (ScriptType::P2wpkh, bytes) if script_sig.is_empty() => (witness_key(witness)?, &bytes[2..]),
        (ScriptType::P2sh, bytes) => {
            let [22, redeem_script @ ..] = script_sig.as_bytes() else { return None };
            let [OP_0, 20, committed @ ..] = redeem_script else { return None };
            let nested = hash160::Hash::hash(redeem_script).as_byte_array() == &bytes[2..22];
            (witness_key(witness).filter(|_| nested)?, committed)
        }
        _ => return None,
    };
    let matches = has_key_size(key) && hash160::Hash::hash(key).as_byte_array() == committed;
    matches.then(|| key.to_vec())
}

/// The payload of an OP_RETURN output: the bytes after the opcode, and the data of each push among them, up to where
/// the script ends or is cut short (small numbers push nothing of their own). `None` for every other script.
#[must_use]
pub fn op_return(script: &Script) -> Option<(&[u8], Vec<&[u8]>)> {
    let [OP_RETURN, payload @ ..] = script.as_bytes() else { return None };
    Some((payload, pushes(payload).collect()))
}

/// Version and program of a witness program (BIP141; Core `CScript::IsWitnessProgram`): a small number, then one
/// direct push of 2 to 40 bytes, and nothing else. `None` for every other script.
#[must_use]
pub fn witness_program(script: &Script) -> Option<(u8, &[u8])> {
    let [version, length, program @ ..] = script.as_bytes() else { return None };
    let version = match *version {
        OP_0 => 0,
        opcode @ OP_1..=OP_16 => opcode - OP_1 + 1,
        _ => return None,
    };
    ((2..=40).contains(&program.len()) && program.len() == usize::from(*length)).then_some((version, program))
}

/// The key of a spend of a P2WPKH program, whose witness is exactly a signature and a key (BIP141).
fn witness_key(witness: &Witness) -> Option<&[u8]> {
    (witness.len() == 2).then(|| witness.nth(1)).flatten()
}

/// True if the length of a public key is the one that its first byte announces (Core `CPubKey::ValidSize`):
/// compressed, uncompressed or hybrid. Whether it is a point on the curve is not checked.
fn has_key_size(key: &[u8]) -> bool {
    match key.first() {
        Some(0x02 | 0x03) => key.len() == 33,
        Some(0x04 | 0x06 | 0x07) => key.len() == 65,
        _ => false,
    }
}

/// The data of each push of a script, in order, up to where the script is cut short.
pub(super) fn pushes(script: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = script;
    std::iter::from_fn(move || {
        loop {
            let (operation, after) = next_operation(rest)?;
            rest = after;
            if let Some(pushed) = operation.pushed {
                return Some(pushed);
            }
        }
    })
}

/// One operation of a script: its opcode and, if it is a push with data of its own, the data.
#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) opcode: u8,
    pub(super) pushed: Option<&'a [u8]>,
}

/// The first operation of a script and what follows it (Core `GetScriptOp`). `None` at the end of the script and
/// where a push is cut short.
pub(super) fn next_operation(script: &[u8]) -> Option<(Operation<'_>, &[u8])> {
    let (&opcode, rest) = script.split_first()?;
    let (length, rest) = match opcode {
        OP_0..=OP_PUSHBYTES_75 => (usize::from(opcode), rest),
        OP_PUSHDATA1 => {
            let (length, rest) = rest.split_first()?;
            (usize::from(*length), rest)
        }
        OP_PUSHDATA2 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        OP_PUSHDATA4 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::try_from(u32::from_le_bytes(*length)).ok()?, rest)
        }
        _ => return Some((Operation { opcode, pushed: None }, rest)),
    };
    let (pushed, rest) = rest.split_at_checked(length)?;
    Some((Operation { opcode, pushed: Some(pushed) }, rest))
}

/// A number from 1 to 20 in its only minimal form: OP_1 to OP_16, and above that a push of one byte (Core
/// `GetScriptNumber` with the limits of `MatchMultisig`).
fn multisig_number(operation: Operation<'_>) -> Option<u8> {
    match (operation.opcode, operation.pushed) {
        (opcode @ OP_1..=OP_16, None) => Some(opcode - OP_1 + 1),
        (OP_PUSHBYTES_1, Some(&[number @ 17..=MAX_MULTISIG_KEYS])) => Some(number),
        _ => None,
    }
}

/// The data of a script's last operation if that is a push.
pub(super) fn last_push(mut script: &[u8]) -> Option<&[u8]> {
    let mut last = None;
    while !script.is_empty() {
        let (operation, rest) = next_operation(script)?;
        last = operation.pushed;
        script = rest;
    }
    last
}

#[cfg(test)]
mod tests;
