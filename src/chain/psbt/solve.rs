//! Which keys and scripts an output asks for, and which of them a PSBT has, in the way of Bitcoin Core's `ProduceSignature`.

use std::collections::HashMap;

use bitcoin::hashes::{Hash, hash160, sha256};
use bitcoin::psbt::Input;
use bitcoin::{Script, ScriptBuf};

use crate::chain::ScriptType;
use crate::chain::script::{multisig, p2pk_key};

/// The size of an ECDSA signature that is not there yet, with the type of its hash: of one with a low R, which most signers
/// make.
const ECDSA_BYTES: usize = 71;
/// The size of a Schnorr signature that is not there yet (BIP341).
const SCHNORR_BYTES: usize = 64;

/// What an input lacks to be finalized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingParts {
    /// The public keys that the script names and that have not signed.
    pub signatures: Vec<Vec<u8>>,
    /// The hash of a public key that the PSBT does not have.
    pub key_hash: Option<hash160::Hash>,
    /// The hash of a redeem script that the PSBT does not have.
    pub redeem_script: Option<hash160::Hash>,
    /// The hash of a witness script that the PSBT does not have.
    pub witness_script: Option<sha256::Hash>,
}

impl MissingParts {
    /// Whether only signatures are missing.
    pub(super) fn only_signatures(&self) -> bool {
        let parts = self.key_hash.is_none() && self.redeem_script.is_none() && self.witness_script.is_none();
        parts && !self.signatures.is_empty()
    }
}

/// What authorises the spend of an output, as far as it can be put together.
pub(super) struct Solution {
    pub(super) script_sig: Vec<Vec<u8>>,
    pub(super) witness: Vec<Vec<u8>>,
    /// Whether nothing is missing.
    pub(super) complete: bool,
}

/// The parts of one input by which its script is solved.
pub(super) struct Solver<'p> {
    input: &'p Input,
    /// The public keys of signatures and derivations by their hashes.
    keys: HashMap<hash160::Hash, Vec<u8>>,
    signatures: HashMap<Vec<u8>, Vec<u8>>,
    solving: Solving<'p>,
    pub(super) missing: MissingParts,
    /// The signatures that the script requires, if its form is known.
    pub(super) required: Option<usize>,
    /// Whether the spend has a witness.
    pub(super) is_witness: bool,
}

/// How a script is solved whose signatures are not all there.
#[derive(Clone, Copy)]
pub(super) enum Solving<'p> {
    /// With a placeholder of the usual size for each.
    Placeholders,
    /// Without them. The function returns whether the input satisfies a script of another form than the standard ones; its second
    /// argument is whether that is a witness script.
    Signatures(&'p dyn Fn(&Script, bool) -> bool),
}

impl<'p> Solver<'p> {
    pub(super) fn new(input: &'p Input, solving: Solving<'p>) -> Self {
        let signatures: HashMap<_, _> =
            input.partial_sigs.iter().map(|(key, signature)| (key.to_bytes(), signature.to_vec())).collect();
        let derived = input.bip32_derivation.keys().map(|key| key.serialize().to_vec());
        let keys = signatures.keys().cloned().chain(derived);
        Self {
            input,
            keys: keys.map(|key| (hash160::Hash::hash(&key), key)).collect(),
            signatures,
            solving,
            missing: MissingParts::default(),
            required: None,
            is_witness: false,
        }
    }

    /// What authorises the spend of an output with this script.
    pub(super) fn solve(&mut self, script_pubkey: &Script) -> Solution {
        let (mut script, mut script_type) = (script_pubkey.to_owned(), ScriptType::of(script_pubkey));
        let (mut script_sig, mut witness) = (Vec::new(), Vec::new());
        let mut redeem = None;
        if script_type == ScriptType::P2sh {
            let hash = script.as_bytes().get(2..22).and_then(|hash| hash160::Hash::from_slice(hash).ok());
            let Some(found) = self.script_by(|script| Some(hash160::Hash::hash(script.as_bytes())) == hash) else {
                self.missing.redeem_script = hash;
                return Solution { script_sig, witness, complete: false };
            };
            script_type = ScriptType::of(&found);
            redeem = Some(found.to_bytes());
            script = found;
        }
        let complete = match script_type {
            ScriptType::P2wpkh => {
                self.is_witness = true;
                let hash = script.as_bytes().get(2..).and_then(|hash| hash160::Hash::from_slice(hash).ok());
                self.sign_key_hash(hash, &mut witness)
            }
            ScriptType::P2wsh => {
                let hash = script.as_bytes().get(2..).and_then(|hash| sha256::Hash::from_slice(hash).ok());
                if let Some(inner) = self.script_by(|script| Some(sha256::Hash::hash(script.as_bytes())) == hash) {
                    self.is_witness = true;
                    let complete = self.sign(&inner, &mut witness);
                    witness.push(inner.into_bytes());
                    complete
                } else {
                    self.missing.witness_script = hash;
                    false
                }
            }
            ScriptType::P2tr if redeem.is_none() => {
                self.is_witness = true;
                self.sign_taproot(&script, &mut witness)
            }
            ScriptType::P2a => {
                self.is_witness = true;
                self.required = Some(0);
                true
            }
            _ => self.sign(&script, &mut script_sig),
        };
        script_sig.extend(redeem);
        Solution { script_sig, witness, complete }
    }

    /// Signs a script that names keys itself, not hashes of scripts.
    fn sign(&mut self, script: &Script, stack: &mut Vec<Vec<u8>>) -> bool {
        if let Some(key) = p2pk_key(script) {
            self.required = Some(1);
            return self.sign_key(key, stack);
        }
        if let Some((required, keys)) = multisig(script) {
            let required = usize::from(required);
            self.required = Some(required);
            stack.push(Vec::new());
            for key in keys {
                // every key that has not signed is noted, also when enough have
                let mut signature = Vec::new();
                if self.sign_key(key, &mut signature) && stack.len() <= required {
                    stack.append(&mut signature);
                }
            }
            return stack.len() == required + 1;
        }
        if ScriptType::of(script) == ScriptType::P2pkh {
            let hash = script.as_bytes().get(3..23).and_then(|hash| hash160::Hash::from_slice(hash).ok());
            return self.sign_key_hash(hash, stack);
        }
        // of any other script it is known only which of its keys have not signed
        let unsigned = self.input.bip32_derivation.keys().map(|key| key.serialize().to_vec());
        self.missing.signatures = unsigned.filter(|key| !self.signatures.contains_key(key)).collect();
        matches!(self.solving, Solving::Signatures(satisfies) if satisfies(script, self.is_witness))
    }

    fn has_placeholders(&self) -> bool {
        matches!(self.solving, Solving::Placeholders)
    }

    fn sign_key_hash(&mut self, hash: Option<hash160::Hash>, stack: &mut Vec<Vec<u8>>) -> bool {
        self.required = Some(1);
        let Some(key) = hash.and_then(|hash| self.keys.get(&hash).cloned()) else {
            self.missing.key_hash = hash;
            return false;
        };
        let signed = self.sign_key(&key, stack);
        stack.push(key);
        signed
    }

    fn sign_key(&mut self, key: &[u8], stack: &mut Vec<Vec<u8>>) -> bool {
        let found = self.signatures.get(key).cloned();
        let signature = found.or_else(|| self.has_placeholders().then(|| vec![0; ECDSA_BYTES]));
        if let Some(signature) = signature {
            stack.push(signature);
            true
        } else {
            self.missing.signatures.push(key.to_vec());
            false
        }
    }

    /// Signs a taproot output by its key, or counts the signatures for its scripts: which of these is executed, and so what
    /// authorises the spend, is known only once the input is finalized.
    fn sign_taproot(&mut self, script: &Script, stack: &mut Vec<Vec<u8>>) -> bool {
        if let Some(signature) = &self.input.tap_key_sig {
            self.required = Some(1);
            stack.push(signature.to_vec());
            return true;
        }
        if self.input.tap_scripts.is_empty() {
            self.required = Some(1);
            if self.has_placeholders() {
                stack.push(vec![0; SCHNORR_BYTES]);
                return true;
            }
            self.missing.signatures.extend(script.as_bytes().get(2..).map(<[u8]>::to_vec));
            return false;
        }
        let signed = |key: &bitcoin::XOnlyPublicKey| self.input.tap_script_sigs.keys().any(|(signer, _)| signer == key);
        // a key without a leaf is the internal one, which signs for the output itself
        let of_leaves = self.input.tap_key_origins.iter().filter(|(_, (leaves, _))| !leaves.is_empty());
        let keys = of_leaves.map(|(key, _)| key).filter(|key| !signed(key));
        self.missing.signatures = keys.map(|key| key.serialize().to_vec()).collect();
        !self.has_placeholders() && self.missing.signatures.is_empty() && !self.input.tap_script_sigs.is_empty()
    }

    fn script_by(&self, matches: impl Fn(&Script) -> bool) -> Option<ScriptBuf> {
        let scripts = [&self.input.redeem_script, &self.input.witness_script];
        scripts.into_iter().flatten().find(|script| matches(script)).cloned()
    }
}
