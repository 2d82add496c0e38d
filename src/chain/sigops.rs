//! Signature operations of a transaction, and the virtual size that policy takes it to have because of them.

use bitcoin::consensus::deserialize;
use bitcoin::{Script, Transaction, TxOut, Weight};

use super::raw::{RawInput, RawTransaction};
use super::script::{next_operation, witness_program};
use super::{ScriptType, wide};

const OP_1: u8 = 0x51;
const OP_16: u8 = 0x60;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKSIGVERIFY: u8 = 0xad;
const OP_CHECKMULTISIG: u8 = 0xae;
const OP_CHECKMULTISIGVERIFY: u8 = 0xaf;

/// What a signature operation outside of a witness costs (`WITNESS_SCALE_FACTOR`, Core `consensus/consensus.h`).
const SCALE: u64 = 4;
/// What OP_CHECKMULTISIG counts for if the number of its keys is not known (`MAX_PUBKEYS_PER_MULTISIG`, Core
/// `script/script.h`).
const MOST_KEYS: u64 = 20;
/// The weight units that policy counts for each unit of sigop cost (`DEFAULT_BYTES_PER_SIGOP`, Core `policy/policy.h`).
const WEIGHT_PER_SIGOP: u64 = 20;

/// The sigop cost of a transaction (BIP141; Core `GetTransactionSigOpCost`, `consensus/tx_verify.cpp`), by the rules of
/// BIP16 and BIP141 whenever it was mined. `prevouts` are the outputs that it spends, one for each input; those of a coinbase
/// do not matter.
#[must_use]
pub fn sigop_cost<'p>(transaction: &Transaction, prevouts: impl IntoIterator<Item = &'p TxOut>) -> u64 {
    let script_sigs = transaction.input.iter().map(|input| input.script_sig.as_bytes());
    let outputs = transaction.output.iter().map(|output| output.script_pubkey.as_bytes());
    let legacy: u64 = script_sigs.chain(outputs).map(|script| sigops(script, false)).sum();
    if transaction.is_coinbase() {
        return legacy.saturating_mul(SCALE);
    }
    let mut cost = legacy.saturating_mul(SCALE);
    for (input, prevout) in transaction.input.iter().zip(prevouts) {
        let script_pubkey = prevout.script_pubkey.as_script();
        let mut program = witness_program(script_pubkey);
        if ScriptType::of(script_pubkey) == ScriptType::P2sh {
            let Some(redeem_script) = pushed_last(input.script_sig.as_bytes()) else { continue };
            cost = cost.saturating_add(sigops(redeem_script, true).saturating_mul(SCALE));
            program = witness_program(Script::from_bytes(redeem_script));
        }
        cost = cost.saturating_add(match program {
            Some((0, program)) if program.len() == 20 => 1,
            Some((0, program)) if program.len() == 32 => input.witness.last().map_or(0, |script| sigops(script, true)),
            _ => 0,
        });
    }
    cost
}

/// The virtual size in vbytes by which policy judges a transaction: that of its weight, or of its signature operations if
/// they count for more (Core `GetVirtualTransactionSize`, `policy/policy.cpp`).
#[must_use]
pub fn adjusted_vsize(weight: Weight, sigop_cost: u64) -> u64 {
    weight.to_wu().max(sigop_cost.saturating_mul(WEIGHT_PER_SIGOP)).div_ceil(4)
}

/// The weight by which policy judges a transaction, in weight units: its own, or that for which its signature operations count if
/// that is more. Four times [`adjusted_vsize`], but for its rounding.
///
/// `prevouts` is asked for the outputs that it spends only where they may matter. Errors: those of `prevouts`.
pub fn policy_weight<E>(
    transaction: &RawTransaction<'_>,
    prevouts: impl FnOnce() -> Result<Vec<TxOut>, E>,
) -> Result<u64, E> {
    let weight = wide(transaction.weight());
    if !may_count_for_more(transaction) {
        return Ok(weight);
    }
    // the library parses what we do
    let Ok(parts) = deserialize::<Transaction>(transaction.bytes()) else { return Ok(weight) };
    Ok(weight.max(sigop_cost(&parts, &prevouts()?).saturating_mul(WEIGHT_PER_SIGOP)))
}

/// Whether the signature operations of a transaction may count for more than its weight: what it spends decides that.
#[must_use]
pub fn may_count_for_more(transaction: &RawTransaction<'_>) -> bool {
    highest_sigop_cost(transaction).saturating_mul(WEIGHT_PER_SIGOP) > wide(transaction.weight())
}

/// The highest sigop cost that a transaction can have, whatever it spends.
fn highest_sigop_cost(transaction: &RawTransaction<'_>) -> u64 {
    let of_input = |input: RawInput<'_>| {
        let redeem_script = pushed_last(input.script_sig).map_or(0, |script| sigops(script, true));
        // and one for a key of a witness
        sigops(input.script_sig, false).saturating_add(redeem_script).saturating_mul(SCALE).saturating_add(1)
    };
    let inputs = transaction.inputs().map(of_input);
    let outputs = transaction.outputs().map(|output| sigops(output.script_pubkey, false).saturating_mul(SCALE));
    let witnesses = transaction.witnesses().map(|witness| witness.last().map_or(0, |script| sigops(script, true)));
    inputs.chain(outputs).chain(witnesses).fold(0, u64::saturating_add)
}

/// The signature operations of a script, up to where it is cut short (Core `CScript::GetSigOpCount`). With `accurate`,
/// OP_CHECKMULTISIG counts for as many keys as a small number in front of it says.
fn sigops(script: &[u8], accurate: bool) -> u64 {
    let (mut rest, mut before, mut count) = (script, None, 0_u64);
    while let Some((operation, after)) = next_operation(rest) {
        count += match (operation.opcode, before) {
            (OP_CHECKSIG | OP_CHECKSIGVERIFY, _) => 1,
            (OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY, Some(number @ OP_1..=OP_16)) if accurate => {
                u64::from(number - OP_1 + 1)
            }
            (OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY, _) => MOST_KEYS,
            _ => 0,
        };
        (rest, before) = (after, Some(operation.opcode));
    }
    count
}

/// What a scriptSig of pushes alone pushes last, nothing if that is a small number; `None` for other scripts.
fn pushed_last(script_sig: &[u8]) -> Option<&[u8]> {
    let (mut rest, mut last) = (script_sig, [].as_slice());
    while !rest.is_empty() {
        let (operation, after) = next_operation(rest)?;
        if operation.opcode > OP_16 {
            return None;
        }
        (rest, last) = (after, operation.pushed.unwrap_or_default());
    }
    Some(last)
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;
    use bitcoin::hex::FromHex;
    use bitcoin::{Amount, ScriptBuf, ScriptHash, TxIn, WScriptHash, Witness, absolute, transaction};

    use super::*;

    #[test]
    fn multisig_counts_for_its_keys_where_their_number_is_in_front() {
        for (hex, legacy, accurate) in [
            ("", 0, 0),
            ("ac", 1, 1),
            ("acadac", 3, 3),
            ("ae", 20, 20),
            ("51ae", 20, 1),
            ("60af", 20, 16),
            ("00ae", 20, 20),
            ("0111ae", 20, 20),
            // another operation in between
            ("52acae", 21, 21),
            ("5361ae", 20, 20),
            // within a push, and behind one that is cut short
            ("02acac", 0, 0),
            ("ac02ac", 1, 1),
        ] {
            let script = Vec::from_hex(hex).unwrap();
            assert_eq!((sigops(&script, false), sigops(&script, true)), (legacy, accurate), "{hex}");
        }
    }

    fn cost(script_pubkey: ScriptBuf, script_sig: &str, witness: &[&[u8]]) -> u64 {
        let input = TxIn {
            previous_output: bitcoin::OutPoint { vout: 0, ..bitcoin::OutPoint::null() },
            script_sig: ScriptBuf::from_hex(script_sig).unwrap(),
            witness: Witness::from_slice(witness),
            ..TxIn::default()
        };
        let transaction = Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![input],
            output: Vec::new(),
        };
        sigop_cost(&transaction, &[TxOut { value: Amount::ZERO, script_pubkey }])
    }

    #[test]
    fn operations_cost_four_outside_of_a_witness_and_one_within() {
        let script = Vec::from_hex("52ae").unwrap();
        let p2sh = |script: &[u8]| ScriptBuf::new_p2sh(&ScriptHash::hash(script));
        let by_script = ScriptBuf::new_p2wsh(&WScriptHash::hash(&script));
        let by_key = ScriptBuf::from_bytes([&[0, 20][..], &[1; 20]].concat());
        let nested = format!("22{by_script:x}");
        assert_eq!(cost(ScriptBuf::new(), "ac", &[]), 4);
        assert_eq!(cost(p2sh(&script), "0252ae", &[]), 8);
        assert_eq!(cost(by_script.clone(), "", &[&script]), 2);
        assert_eq!(cost(by_script, "", &[]), 0);
        assert_eq!(cost(by_key, "", &[b"", b""]), 1);
        assert_eq!(cost(p2sh(b"any"), &nested, &[&script]), 2);
        // a scriptSig that does more than push, or whose last push is a number
        assert_eq!(cost(p2sh(&script), "610252ae", &[]), 0);
        assert_eq!(cost(p2sh(&script), "0252ae51", &[]), 0);
        let taproot = ScriptBuf::from_bytes([&[0x51, 32][..], &[1; 32]].concat());
        assert_eq!(cost(taproot, "", &[&script, &[0xc0; 33]]), 0);
    }

    #[test]
    fn policy_counts_operations_only_where_they_exceed_the_weight() {
        // one input of a script that counts for 20 keys, if it is the redeem script, and no output
        let parts = Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![TxIn {
                // not that of a coinbase
                previous_output: bitcoin::OutPoint { vout: 0, ..bitcoin::OutPoint::null() },
                script_sig: ScriptBuf::from_hex("01ae").unwrap(),
                ..TxIn::default()
            }],
            output: vec![TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::new() }],
        };
        let bytes = bitcoin::consensus::serialize(&parts);
        let raw = RawTransaction::parse_whole(&bytes).unwrap();
        let weight = parts.weight().to_wu();
        let spending = |script_pubkey: ScriptBuf| {
            policy_weight(&raw, || {
                Ok::<_, ()>(vec![TxOut { value: Amount::ZERO, script_pubkey: script_pubkey.clone() }])
            })
        };
        assert_eq!(spending(ScriptBuf::new_p2sh(&ScriptHash::hash(&[0xae]))), Ok(20 * 4 * 20));
        assert_eq!(spending(ScriptBuf::new()), Ok(weight));
        assert_eq!(policy_weight(&raw, || Err("not known")), Err("not known"));

        // what it spends is not asked for where it cannot matter
        let mut plain = parts;
        plain.input[0].script_sig = ScriptBuf::new();
        let bytes = bitcoin::consensus::serialize(&plain);
        let raw = RawTransaction::parse_whole(&bytes).unwrap();
        assert_eq!(policy_weight(&raw, || Err(())), Ok(plain.weight().to_wu()));
    }

    #[test]
    fn the_adjusted_size_is_that_of_the_operations_if_they_count_for_more() {
        for (weight, cost, expected) in [(400, 0, 100), (401, 20, 101), (400, 20, 100), (400, 21, 105), (4, 1, 5)] {
            assert_eq!(adjusted_vsize(Weight::from_wu(weight), cost), expected, "{weight} {cost}");
        }
    }
}
