use std::collections::BTreeMap;

use async_graphql::SimpleObject;
use bitcoin::bip32::{DerivationPath, KeySource};
use bitcoin::taproot::TapLeafHash;
use bitcoin::{XOnlyPublicKey, secp256k1};

use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Hex;

/// What a key or a signature weighs in what an answer may read.
pub(super) const KEY_BYTES: usize = 128;

/// A path from the master key, as in `m/84h/0h`.
pub(super) fn path_text(path: &DerivationPath) -> String {
    let steps = path.into_iter().map(|step| format!("/{step:#}").replace('\'', "h"));
    format!("m{}", steps.collect::<String>())
}

/// A public key of an input or output of a PSBT, and where it comes from.
#[derive(Clone, SimpleObject)]
pub(crate) struct PsbtDerivation {
    /// The public key: 33 bytes, or the 32 bytes of an x-only key of a taproot output.
    public_key: Hex,
    /// The fingerprint of the master key: 4 bytes (BIP32). Anyone can write any fingerprint into a PSBT.
    fingerprint: Hex,
    /// The derivation path from the master key, as in `m/84h/0h/0h/0/7`.
    path: String,
}

impl FieldCacheability for PsbtDerivation {
    const IMMUTABLE: &'static str = "publicKey fingerprint path";
}

impl PsbtDerivation {
    fn new(key: &[u8], (fingerprint, path): &KeySource) -> Self {
        Self { public_key: Hex::new(key), fingerprint: Hex::new(fingerprint.to_bytes()), path: path_text(path) }
    }

    /// All keys of an input or output.
    pub(super) fn all(
        keys: &BTreeMap<secp256k1::PublicKey, KeySource>,
        taproot: &BTreeMap<XOnlyPublicKey, (Vec<TapLeafHash>, KeySource)>,
    ) -> Vec<Self> {
        let keys = keys.iter().map(|(key, source)| Self::new(&key.serialize(), source));
        let taproot = taproot.iter().map(|(key, (_, source))| Self::new(&key.serialize(), source));
        keys.chain(taproot).collect()
    }
}

/// A signature of an input of a PSBT. The server does not verify it.
#[derive(Clone, SimpleObject)]
pub(crate) struct PsbtSignature {
    /// The public key that signed: 33 or 65 bytes, or the 32 bytes of an x-only key of a taproot script. Null for the key
    /// of a taproot output.
    public_key: Option<Hex>,
    /// The signature with the type of its hash: DER for ECDSA, 64 or 65 bytes for Schnorr.
    signature: Hex,
}

impl FieldCacheability for PsbtSignature {
    const IMMUTABLE: &'static str = "publicKey signature";
}

impl PsbtSignature {
    /// All signatures of an input that is not finalized.
    pub(super) fn all(input: &bitcoin::psbt::Input) -> Vec<Self> {
        let ecdsa = input.partial_sigs.iter().map(|(key, signature)| Self {
            public_key: Some(Hex::new(key.to_bytes())),
            signature: Hex::new(signature.to_vec()),
        });
        let key_spend = input
            .tap_key_sig
            .iter()
            .map(|signature| Self { public_key: None, signature: Hex::new(signature.to_vec()) });
        let script_spend = input.tap_script_sigs.iter().map(|((key, _), signature)| Self {
            public_key: Some(Hex::new(key.serialize())),
            signature: Hex::new(signature.to_vec()),
        });
        ecdsa.chain(key_spend).chain(script_spend).collect()
    }
}
