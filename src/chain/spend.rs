//! What an input reveals of the output that it spends: the scripts behind hashes, the leaf of a taproot tree, the annex, and
//! the hash types of the signatures.
//!
//! Nothing is executed and no signature is verified: a block or a mempool has done that. What is returned is bound to the
//! spent output where a hash binds it; signatures are recognised by their form.

use bitcoin::hashes::{Hash, hash160, sha256};
use bitcoin::{Script, ScriptBuf, TxIn};

use super::ScriptType;
use super::script::{last_push, pushes, witness_program};

/// The first byte of an annex (BIP341).
const ANNEX: u8 = 0x50;
/// Bytes of a control block without its merkle path: leaf version and internal key (BIP341).
const CONTROL_BASE: usize = 33;
/// Bytes of a hash in the merkle path of a control block.
const CONTROL_NODE: usize = 32;
/// The longest merkle path of a control block (BIP341).
const CONTROL_MAX_NODES: usize = 128;
/// The leaf version of tapscript (BIP342).
pub const TAPSCRIPT: u8 = 0xc0;
/// Bytes of a Schnorr signature without a hash type (BIP340).
const SCHNORR: usize = 64;

/// What an input reveals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputSpend {
    /// The redeem script of a P2SH output (BIP16).
    pub redeem_script: Option<ScriptBuf>,
    /// The witness script of a P2WSH output, native or nested in P2SH (BIP141).
    pub witness_script: Option<ScriptBuf>,
    /// The leaf of a P2TR output by which it is spent; `None` if it is spent by its key (BIP341).
    pub tap_leaf: Option<TapLeaf>,
    /// The annex of a spend of a P2TR output, its first byte 0x50 included (BIP341).
    pub annex: Option<Vec<u8>>,
    /// The signatures, in the order of scriptSig and witness.
    pub signatures: Vec<SignatureHash>,
}

/// A leaf of a taproot tree, and its place in it (BIP341).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapLeaf {
    /// The script of the leaf.
    pub script: ScriptBuf,
    /// The leaf version, an even number: 0xc0 for tapscript (BIP342).
    pub version: u8,
    /// The internal key of the output, of 32 bytes.
    pub internal_key: [u8; 32],
    /// Leaf version and parity, internal key, and the merkle path of the leaf.
    pub control_block: Vec<u8>,
}

/// The hash type of a signature: which parts of the transaction it commits to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureHash {
    /// Of an ECDSA signature: its last byte.
    Ecdsa(u8),
    /// Of a Schnorr signature: its last byte, 0 if it has none (BIP341).
    Schnorr(u8),
}

impl InputSpend {
    /// What `input` reveals of an output with this script.
    #[must_use]
    pub fn of(script_pubkey: &Script, input: &TxIn) -> Self {
        let script_sig = input.script_sig.as_bytes();
        let witness: Vec<&[u8]> = input.witness.iter().collect();
        let mut spend = Self::default();
        let mut program = witness_program(script_pubkey);
        let mut pushed: Vec<&[u8]> = pushes(script_sig).collect();
        if ScriptType::of(script_pubkey) == ScriptType::P2sh {
            let redeem_script = last_push(script_sig).filter(|redeem_script| {
                let hash = hash160::Hash::hash(redeem_script);
                script_pubkey.as_bytes().get(2..22) == Some(hash.as_byte_array().as_slice())
            });
            if let Some(redeem_script) = redeem_script {
                pushed.pop();
                // a program of version 1 is not spent by the rules of taproot if it is nested
                program = witness_program(Script::from_bytes(redeem_script)).filter(|(version, _)| *version == 0);
                spend.redeem_script = Some(ScriptBuf::from_bytes(redeem_script.to_vec()));
            }
        }
        spend.add_ecdsa(&pushed);
        match program {
            Some((0, program)) if program.len() == 32 => spend.add_p2wsh(program, &witness),
            Some((0, _)) => spend.add_ecdsa(&witness),
            Some((1, program)) if program.len() == 32 => spend.add_taproot(&witness),
            _ => {}
        }
        spend
    }

    fn add_p2wsh(&mut self, program: &[u8], witness: &[&[u8]]) {
        let Some((script, items)) = witness.split_last() else { return };
        if sha256::Hash::hash(script).as_byte_array() != program {
            return;
        }
        self.witness_script = Some(ScriptBuf::from_bytes(script.to_vec()));
        self.add_ecdsa(items);
    }

    fn add_taproot(&mut self, witness: &[&[u8]]) {
        let mut items = witness;
        if let [rest @ .., annex] = items
            && !rest.is_empty()
            && annex.first() == Some(&ANNEX)
        {
            self.annex = Some(annex.to_vec());
            items = rest;
        }
        match items {
            [] => {}
            [signature] => self.signatures.extend(schnorr_hash_type(signature).map(SignatureHash::Schnorr)),
            [items @ .., script, control_block] => {
                self.tap_leaf = TapLeaf::of(script, control_block);
                // other leaf versions have no rules for signatures yet
                if self.tap_leaf.as_ref().is_some_and(|leaf| leaf.version == TAPSCRIPT) {
                    let hash_types = items.iter().filter_map(|item| schnorr_hash_type(item));
                    self.signatures.extend(hash_types.map(SignatureHash::Schnorr));
                }
            }
        }
    }

    fn add_ecdsa(&mut self, items: &[&[u8]]) {
        let hash_types = items.iter().filter_map(|item| ecdsa_hash_type(item));
        self.signatures.extend(hash_types.map(SignatureHash::Ecdsa));
    }
}

impl TapLeaf {
    /// `None` unless the size of the control block is one that BIP341 allows.
    fn of(script: &[u8], control_block: &[u8]) -> Option<Self> {
        let (first, rest) = control_block.split_first()?;
        let internal_key = *rest.first_chunk()?;
        let path = control_block.len().checked_sub(CONTROL_BASE)?;
        let fits = path.is_multiple_of(CONTROL_NODE) && path / CONTROL_NODE <= CONTROL_MAX_NODES;
        fits.then(|| Self {
            script: ScriptBuf::from_bytes(script.to_vec()),
            version: first & 0xfe,
            internal_key,
            control_block: control_block.to_vec(),
        })
    }
}

/// The hash type of what has the form of a Schnorr signature: 64 bytes, or 65 of which the last is a hash type that BIP341
/// allows, and not 0, which is to be left out.
fn schnorr_hash_type(item: &[u8]) -> Option<u8> {
    match item.split_at_checked(SCHNORR)? {
        (_, []) => Some(0),
        (_, &[hash_type @ (0x01..=0x03 | 0x81..=0x83)]) => Some(hash_type),
        _ => None,
    }
}

/// The hash type of what has the form of an ECDSA signature: strict DER and one byte more (BIP66; Core
/// `IsValidSignatureEncoding`, `script/interpreter.cpp`).
#[must_use]
pub fn ecdsa_hash_type(item: &[u8]) -> Option<u8> {
    let (hash_type, der) = item.split_last()?;
    if !(9..=73).contains(&item.len()) {
        return None;
    }
    let [0x30, length, rest @ ..] = der else { return None };
    let (_, rest) = der_integer(rest).filter(|_| rest.len() == usize::from(*length))?;
    let (_, rest) = der_integer(rest)?;
    rest.is_empty().then_some(*hash_type)
}

/// A positive integer in its shortest form, and what follows it.
fn der_integer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x02, length, rest @ ..] = bytes else { return None };
    let (number, rest) = rest.split_at_checked(usize::from(*length))?;
    let is_shortest = match number {
        [] => false,
        [0, second, ..] => second & 0x80 != 0,
        [first, ..] => first & 0x80 == 0,
    };
    is_shortest.then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use bitcoin::hex::FromHex;
    use bitcoin::{ScriptHash, Sequence, WScriptHash, Witness};

    use super::*;

    const SIGNATURE: &str = "300602010102010201";
    const KEY: [u8; 32] = [7; 32];

    fn bytes(hex: &str) -> Vec<u8> {
        Vec::from_hex(hex).unwrap()
    }

    fn input(script_sig: &[&[u8]], witness: &[&[u8]]) -> TxIn {
        let mut script = Vec::new();
        for push in script_sig {
            script.push(u8::try_from(push.len()).unwrap());
            script.extend(*push);
        }
        TxIn {
            script_sig: ScriptBuf::from_bytes(script),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(witness),
            ..TxIn::default()
        }
    }

    fn taproot() -> ScriptBuf {
        ScriptBuf::from_bytes([&[0x51, 32][..], &KEY].concat())
    }

    fn nested(script: &Script) -> ScriptBuf {
        ScriptBuf::new_p2sh(&ScriptHash::hash(script.as_bytes()))
    }

    fn p2wsh(script: &[u8]) -> ScriptBuf {
        ScriptBuf::new_p2wsh(&WScriptHash::hash(script))
    }

    #[test]
    fn an_ecdsa_signature_is_strict_der_and_a_byte() {
        for (hex, expected) in [
            (SIGNATURE, Some(1)),
            ("300602010102010200", Some(0)),
            ("3007020200800201024f", Some(0x4f)),
            ("", None),
            ("3006020101020102", None),
            ("310602010102010201", None),
            ("300702010102010201", None),
            ("3006020181 02010201", None),
            ("300702020001 02010201", None),
            ("3005020002010201 01", None),
            ("3008020101020102050001", None),
            ("300603010102010201", None),
        ] {
            assert_eq!(ecdsa_hash_type(&bytes(&hex.replace(' ', ""))), expected, "{hex}");
        }
        let long = |r: usize, s: usize| {
            let integer = |size: usize| [vec![0x02, u8::try_from(size).unwrap()], vec![1; size]].concat();
            let body = [integer(r), integer(s)].concat();
            [vec![0x30, u8::try_from(body.len()).unwrap()], body, vec![1]].concat()
        };
        assert_eq!((ecdsa_hash_type(&long(33, 33)), long(33, 33).len()), (Some(1), 73));
        assert_eq!(ecdsa_hash_type(&long(34, 33)), None, "74 bytes are too many");
    }

    #[test]
    fn scripts_behind_a_hash_are_revealed_if_they_have_that_hash() {
        let signature = bytes(SIGNATURE);
        let script = bytes("51");
        let of_p2sh = InputSpend::of(&nested(Script::from_bytes(&script)), &input(&[&signature, &script], &[]));
        let redeem_script = Some(ScriptBuf::from_bytes(script.clone()));
        let signatures = vec![SignatureHash::Ecdsa(1)];
        assert_eq!(of_p2sh, InputSpend { redeem_script, signatures: signatures.clone(), ..InputSpend::default() });

        let witness_script = Some(ScriptBuf::from_bytes(script.clone()));
        let native = InputSpend::of(&p2wsh(&script), &input(&[], &[b"", &signature, &script]));
        assert_eq!(native, InputSpend { witness_script, signatures, ..InputSpend::default() });

        let program = p2wsh(&script);
        let within = InputSpend::of(&nested(&program), &input(&[program.as_bytes()], &[&signature, &script]));
        assert_eq!(within, InputSpend { redeem_script: Some(program.clone()), ..native });

        for (script_pubkey, input) in [
            (nested(Script::from_bytes(b"other")), input(&[&script], &[])),
            (p2wsh(b"other"), input(&[], &[&script])),
            (program, input(&[], &[])),
            (ScriptBuf::new(), input(&[&script], &[&script])),
        ] {
            assert_eq!(InputSpend::of(&script_pubkey, &input), InputSpend::default(), "{script_pubkey:x}");
        }
    }

    #[test]
    fn a_redeem_script_that_looks_like_a_signature_is_none() {
        let script = bytes(SIGNATURE);
        let spend = InputSpend::of(&nested(Script::from_bytes(&script)), &input(&[&script], &[]));
        assert_eq!((spend.redeem_script.is_some(), spend.signatures), (true, vec![]));
    }

    #[test]
    fn a_taproot_output_is_spent_by_its_key_or_by_a_leaf() {
        let signature = [1; 64];
        let with_type = [&signature[..], &[0x83]].concat();
        let annex = bytes("50ff");
        for (witness, signatures, annexed) in [
            (vec![&signature[..]], vec![SignatureHash::Schnorr(0)], false),
            (vec![with_type.as_slice()], vec![SignatureHash::Schnorr(0x83)], false),
            (vec![&signature[..], &annex], vec![SignatureHash::Schnorr(0)], true),
        ] {
            let annex = annexed.then(|| annex.clone());
            let expected = InputSpend { annex, signatures, ..InputSpend::default() };
            assert_eq!(InputSpend::of(&taproot(), &input(&[], &witness)), expected, "{witness:?}");
        }
        let script = bytes("20ac");
        for (first, version, signatures) in
            [(0xc1, 0xc0, vec![SignatureHash::Schnorr(0), SignatureHash::Schnorr(0x83)]), (0xfe, 0xfe, vec![])]
        {
            let control_block = [&[first][..], &KEY, &[9; 64]].concat();
            let witness: [&[u8]; 6] = [&signature, b"data", &with_type, &script, &control_block, &annex];
            let script = ScriptBuf::from_bytes(script.clone());
            let tap_leaf = TapLeaf { script, version, internal_key: KEY, control_block: control_block.clone() };
            let expected = InputSpend {
                tap_leaf: Some(tap_leaf),
                annex: Some(annex.clone()),
                signatures,
                ..InputSpend::default()
            };
            assert_eq!(InputSpend::of(&taproot(), &input(&[], &witness)), expected, "{first:02x}");
        }
    }

    #[test]
    fn taproot_has_no_rules_for_nested_programs_and_wrong_control_blocks() {
        let (script, key) = (bytes("51"), taproot());
        let path = |size: usize| [&[0xc0][..], &vec![1; size]].concat();
        let leaf = |control_block: &[u8]| InputSpend::of(&key, &input(&[], &[&script, control_block])).tap_leaf;
        assert!(leaf(&path(32)).is_some() && leaf(&path(32 + 128 * 32)).is_some());
        for size in [0, 31, 33, 32 + 31, 32 + 129 * 32] {
            assert_eq!(leaf(&path(size)), None, "{size}");
        }
        let nested = InputSpend::of(&nested(&key), &input(&[key.as_bytes()], &[&[1; 64]]));
        assert_eq!(nested, InputSpend { redeem_script: Some(key.clone()), ..InputSpend::default() });
        // one item alone is never the annex
        assert_eq!(InputSpend::of(&key, &input(&[], &[&bytes("50ff")])), InputSpend::default());
    }
}
