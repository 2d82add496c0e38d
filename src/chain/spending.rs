//! The cost of spending an output: the weight of the input that spends it, as far as it follows from the scriptPubKey.
//!
//! Signatures are assumed to have the maximum size of standard ones: ECDSA 72 bytes with the type of signature hash,
//! Schnorr 64 (BIP340, BIP341). Keys behind a hash are assumed to be compressed. The weight of a script behind a hash
//! is unknown.

use bitcoin::{Script, Weight};

use super::ScriptType;
use super::script::multisig;

/// Outpoint, sequence and the length of a script of fewer than 253 bytes.
const INPUT_BYTES: u64 = 36 + 4 + 1;
/// An ECDSA signature, as a push or as an item of a witness.
const SIGNATURE: u64 = 1 + 72;
/// A compressed key, as a push or as an item of a witness.
const KEY: u64 = 1 + 33;
/// A Schnorr signature as an item of a witness.
const SCHNORR_SIGNATURE: u64 = 1 + 64;
/// The number of items of a witness.
const ITEMS: u64 = 1;

/// The weight of an input that spends an output with this script, with its witness. `None` where it does not follow
/// from the script (hashes of scripts, unknown forms), and where nothing can spend the output.
///
/// Taproot outputs are assumed to be spent by their key. In a transaction that has witnesses, an input without one
/// weighs one weight unit more, which is not counted.
#[must_use]
pub fn input_weight(script_pubkey: &Script) -> Option<Weight> {
    let (script_sig, witness) = match ScriptType::of(script_pubkey) {
        ScriptType::P2pk => (SIGNATURE, 0),
        ScriptType::P2pkh => (SIGNATURE + KEY, 0),
        ScriptType::P2wpkh => (0, ITEMS + SIGNATURE + KEY),
        ScriptType::P2tr => (0, ITEMS + SCHNORR_SIGNATURE),
        ScriptType::P2a => (0, 0),
        // OP_CHECKMULTISIG takes one item more than there are signatures
        ScriptType::P2ms => (1 + SIGNATURE * u64::from(multisig(script_pubkey)?.0), 0),
        ScriptType::P2sh
        | ScriptType::P2wsh
        | ScriptType::OpReturn
        | ScriptType::WitnessUnknown
        | ScriptType::Nonstandard
        | ScriptType::Empty => return None,
    };
    // a longer script has its length in three bytes
    let length = if script_sig < 253 { 0 } else { 2 };
    Some(Weight::from_wu((INPUT_BYTES + length + script_sig) * 4 + witness))
}

#[cfg(test)]
mod tests {
    use bitcoin::ScriptBuf;
    use bitcoin::blockdata::script::Builder;
    use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_CHECKSIG};

    use super::*;

    /// A bare multisig of 15 keys.
    fn multisig_of(required: i64) -> ScriptBuf {
        let builder = (0..15).fold(Builder::new().push_int(required), |builder, _| builder.push_slice([2; 33]));
        builder.push_int(15).push_opcode(OP_CHECKMULTISIG).into_script()
    }

    #[test]
    fn an_input_weighs_what_its_signatures_and_keys_do() {
        let hex = |text: &str| ScriptBuf::from_hex(text).unwrap();
        let key = Builder::new().push_slice([2; 33]).push_opcode(OP_CHECKSIG).into_script();
        for (script, weight) in [
            (key, Some(456)),
            (hex(&format!("76a914{}88ac", "00".repeat(20))), Some(592)),
            (hex(&format!("0014{}", "00".repeat(20))), Some(272)),
            (hex(&format!("5120{}", "00".repeat(32))), Some(230)),
            (hex("51024e73"), Some(164)),
            (multisig_of(1), Some((41 + 74) * 4)),
            (multisig_of(3), Some((41 + 220) * 4)),
            (multisig_of(4), Some((43 + 293) * 4)),
            (hex(&format!("a914{}87", "00".repeat(20))), None),
            (hex(&format!("0020{}", "00".repeat(32))), None),
            (hex(&format!("5220{}", "00".repeat(32))), None),
            (hex("6a0100"), None),
            (hex("51"), None),
            (hex(""), None),
        ] {
            assert_eq!(input_weight(&script), weight.map(Weight::from_wu), "{script}");
        }
    }
}
