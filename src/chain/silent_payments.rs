//! The tweak by which a receiver of silent payments scans a transaction (BIP352): the sum of the public keys of its inputs,
//! multiplied by a hash of that sum and of the lowest outpoint. With it the keys of all other inputs need not be known.

use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, HashEngine, hash160, sha256t_hash_newtype};
use bitcoin::secp256k1::{Parity, PublicKey, Scalar, Secp256k1, VerifyOnly, XOnlyPublicKey};
use bitcoin::{Script, Transaction, TxIn, TxOut};

use super::ScriptType;
use super::script::witness_program;
use super::spend::InputSpend;

/// Bytes of a compressed public key, the only form that counts.
const COMPRESSED: usize = 33;

/// The x coordinate of a point of which no private key is known (BIP341). An output with it as internal key has no key that
/// counts.
const NUMS: [u8; 32] = [
    0x50, 0x92, 0x9b, 0x74, 0xc1, 0xa0, 0x49, 0x54, 0xb7, 0x8b, 0x4b, 0x60, 0x35, 0xe9, 0x7a, 0x5e, 0x07, 0x8a, 0x5a,
    0x0f, 0x28, 0xec, 0x96, 0xd5, 0x47, 0xbf, 0xee, 0x9a, 0xce, 0x80, 0x3a, 0xc0,
];

sha256t_hash_newtype! {
    struct InputsTag = hash_str("BIP0352/Inputs");
    /// The hash of the lowest outpoint and the sum of the keys.
    #[hash_newtype(forward)]
    struct InputsHash(_);
}

/// Whether a transaction has an output that can be a silent payment: P2TR.
#[must_use]
pub fn has_candidates(transaction: &Transaction) -> bool {
    !transaction.is_coinbase() && transaction.output.iter().any(|output| output.script_pubkey.is_p2tr())
}

/// The tweak of a transaction that spends these outputs, one for each input; `None` if it cannot be a silent payment: it has no
/// P2TR output, none of its inputs has a key that counts, the keys add up to nothing, or it spends a witness program of a
/// version above 1.
#[must_use]
pub fn tweak(secp: &Secp256k1<VerifyOnly>, transaction: &Transaction, prevouts: &[TxOut]) -> Option<PublicKey> {
    let has_later_version =
        |output: &TxOut| witness_program(&output.script_pubkey).is_some_and(|(version, _)| version > 1);
    if !has_candidates(transaction) || prevouts.iter().any(has_later_version) {
        return None;
    }
    let keys = transaction.input.iter().zip(prevouts);
    let keys: Vec<PublicKey> = keys.filter_map(|(input, prevout)| key(&prevout.script_pubkey, input)).collect();
    // an empty sum, and one of zero, are errors
    let sum = PublicKey::combine_keys(&keys.iter().collect::<Vec<_>>()).ok()?;
    let lowest = transaction.input.iter().map(|input| serialize(&input.previous_output)).min()?;
    let mut engine = InputsHash::engine();
    engine.input(&lowest);
    engine.input(&sum.serialize());
    let hash = InputsHash::from_engine(engine);
    let scalar = Scalar::from_be_bytes(hash.to_byte_array()).ok()?;
    sum.mul_tweak(secp, &scalar).ok()
}

/// The public key of an input, if it is one that counts.
fn key(script_pubkey: &Script, input: &TxIn) -> Option<PublicKey> {
    match ScriptType::of(script_pubkey) {
        ScriptType::P2tr => {
            if input.witness.is_empty() {
                return None;
            }
            let leaf = InputSpend::of(script_pubkey, input).tap_leaf;
            if leaf.is_some_and(|leaf| leaf.internal_key == NUMS) {
                return None;
            }
            let x = XOnlyPublicKey::from_slice(script_pubkey.as_bytes().get(2..)?).ok()?;
            Some(x.public_key(Parity::Even))
        }
        ScriptType::P2wpkh => compressed(input.witness.last()?),
        ScriptType::P2sh => {
            let redeem_script = Script::from_bytes(input.script_sig.as_bytes().get(1..)?);
            redeem_script.is_p2wpkh().then(|| input.witness.last()).flatten().and_then(compressed)
        }
        // a scriptSig can be changed by others, so the key may be anywhere in it
        ScriptType::P2pkh => {
            let hash = script_pubkey.as_bytes().get(3..23)?;
            let mut windows = input.script_sig.as_bytes().windows(COMPRESSED).rev();
            windows.find(|window| hash160::Hash::hash(window).as_byte_array().as_slice() == hash).and_then(compressed)
        }
        _ => None,
    }
}

fn compressed(key: &[u8]) -> Option<PublicKey> {
    PublicKey::from_slice(key).ok().filter(|_| key.len() == COMPRESSED)
}

#[cfg(test)]
mod tests;
