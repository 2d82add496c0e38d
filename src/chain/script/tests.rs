use bitcoin::hex::DisplayHex;
use bitcoin::{PubkeyHash, ScriptBuf, ScriptHash, WPubkeyHash};
use proptest::prelude::*;

use super::*;
use crate::chain::test_data::shared_data;

const COMPRESSED: [u8; 33] = [0x02; 33];

fn uncompressed(prefix: u8) -> [u8; 65] {
    let mut key = [0x55; 65];
    key[0] = prefix;
    key
}

/// A push of fewer than 76 bytes.
fn push(data: &[u8]) -> Vec<u8> {
    [&[u8::try_from(data.len()).unwrap()], data].concat()
}

fn script(parts: &[&[u8]]) -> ScriptBuf {
    ScriptBuf::from_bytes(parts.concat())
}

fn type_of(hex: &str) -> ScriptType {
    ScriptType::of(&ScriptBuf::from_hex(hex).unwrap())
}

/// The number of keys or signatures the way a multisig script writes it.
fn small_number(number: u8) -> Vec<u8> {
    if number <= 16 { vec![0x50 + number] } else { vec![1, number] }
}

fn multisig_of(required: u8, keys: &[&[u8]]) -> ScriptBuf {
    let pushed: Vec<u8> = keys.iter().flat_map(|key| push(key)).collect();
    let total = small_number(u8::try_from(keys.len()).unwrap());
    script(&[&small_number(required), &pushed, &total, &[OP_CHECKMULTISIG]])
}

#[test]
fn the_number_of_a_type_is_its_index_in_the_list() {
    for (index, script_type) in ScriptType::ALL.into_iter().enumerate() {
        assert_eq!(script_type.index(), index);
        assert_eq!(ScriptType::from_index(index), Some(script_type));
    }
    assert_eq!(ScriptType::from_index(12), None);
    assert_eq!(ScriptType::from_index(usize::MAX), None);
}

#[test]
fn each_script_has_the_type_that_core_gives_it() {
    let (h20, h32) = ("11".repeat(20), "11".repeat(32));
    for (hex, expected) in [
        (String::new(), ScriptType::Empty),
        (format!("76a914{h20}88ac"), ScriptType::P2pkh),
        (format!("76a914{h20}88ac00"), ScriptType::Nonstandard),
        (format!("76a94c14{h20}88ac"), ScriptType::Nonstandard),
        (format!("76a914{h20}88"), ScriptType::Nonstandard),
        (format!("a914{h20}87"), ScriptType::P2sh),
        (format!("a94c14{h20}87"), ScriptType::Nonstandard),
        (format!("a914{h20}88"), ScriptType::Nonstandard),
        (format!("0014{h20}"), ScriptType::P2wpkh),
        (format!("0020{h32}"), ScriptType::P2wsh),
        (format!("0015{h20}00"), ScriptType::Nonstandard),
        ("00021111".to_owned(), ScriptType::Nonstandard),
        (format!("5120{h32}"), ScriptType::P2tr),
        (format!("5114{h20}"), ScriptType::WitnessUnknown),
        (format!("5220{h32}"), ScriptType::WitnessUnknown),
        (format!("6028{}", "11".repeat(40)), ScriptType::WitnessUnknown),
        (format!("6029{}", "11".repeat(41)), ScriptType::Nonstandard),
        ("60021111".to_owned(), ScriptType::WitnessUnknown),
        ("600111".to_owned(), ScriptType::Nonstandard),
        ("61021111".to_owned(), ScriptType::Nonstandard),
        ("4f021111".to_owned(), ScriptType::Nonstandard),
        (format!("5120{h32}00"), ScriptType::Nonstandard),
        (format!("514c20{h32}"), ScriptType::Nonstandard),
        ("51024e73".to_owned(), ScriptType::P2a),
        ("51024e74".to_owned(), ScriptType::WitnessUnknown),
        ("52024e73".to_owned(), ScriptType::WitnessUnknown),
        ("6a".to_owned(), ScriptType::OpReturn),
        ("6a0568656c6c6f".to_owned(), ScriptType::OpReturn),
        ("6a4cff00".to_owned(), ScriptType::OpReturn),
        ("6aac".to_owned(), ScriptType::OpReturn),
        ("00".to_owned(), ScriptType::Nonstandard),
        ("51".to_owned(), ScriptType::Nonstandard),
        ("ae".to_owned(), ScriptType::Nonstandard),
        ("ac".to_owned(), ScriptType::Nonstandard),
    ] {
        assert_eq!(type_of(&hex), expected, "{hex}");
    }
}

#[test]
fn a_p2pk_key_has_the_length_that_its_first_byte_announces() {
    for prefix in 0..=0xff_u8 {
        let mut short = COMPRESSED;
        short[0] = prefix;
        let long = uncompressed(prefix);
        for (key, valid) in [(&short[..], matches!(prefix, 2 | 3)), (&long[..], matches!(prefix, 4 | 6 | 7))] {
            let script = script(&[&push(key), &[OP_CHECKSIG]]);
            assert_eq!(p2pk_key(&script), valid.then_some(key));
            assert_eq!(ScriptType::of(&script) == ScriptType::P2pk, valid);
        }
    }
    for nearly in [
        script(&[&push(&COMPRESSED)]),
        script(&[&push(&COMPRESSED), &[OP_CHECKSIG, OP_CHECKSIG]]),
        script(&[&[OP_PUSHDATA1], &push(&COMPRESSED), &[OP_CHECKSIG]]),
        script(&[&[65], &COMPRESSED, &[OP_CHECKSIG]]),
        script(&[&[33], &uncompressed(4), &[OP_CHECKSIG]]),
        script(&[&[34], &COMPRESSED, &[2, OP_CHECKSIG]]),
    ] {
        assert_eq!(p2pk_key(&nearly), None);
        assert_eq!(ScriptType::of(&nearly), ScriptType::Nonstandard);
    }
}

#[test]
fn a_multisig_script_has_up_to_20_keys_and_requires_no_more() {
    for total in 0..=21_u8 {
        for required in 0..=21_u8 {
            let keys = vec![&COMPRESSED[..]; total.into()];
            let script = multisig_of(required, &keys);
            let valid = required >= 1 && required <= total && total <= 20;
            assert_eq!(multisig(&script), valid.then_some((required, keys)), "{required} of {total}");
            let expected = if valid { ScriptType::P2ms } else { ScriptType::Nonstandard };
            assert_eq!(ScriptType::of(&script), expected);
        }
    }
}

#[test]
fn a_multisig_script_may_mix_key_forms_but_not_their_lengths() {
    let (uncompressed, hybrid) = (uncompressed(4), uncompressed(7));
    let keys: [&[u8]; 3] = [&COMPRESSED, &uncompressed, &hybrid];
    assert_eq!(multisig(&multisig_of(2, &keys)), Some((2, keys.to_vec())));
    for malformed in [&[][..], &[2], &COMPRESSED[..32], &[4; 33], &[2; 65], &[5; 65], &[0; 33]] {
        assert_eq!(multisig(&multisig_of(1, &[&COMPRESSED, malformed])), None, "{}", malformed.as_hex());
    }
}

#[test]
fn a_multisig_script_has_minimal_numbers_and_any_key_pushes() {
    let key = push(&COMPRESSED);
    let check = [OP_CHECKMULTISIG];
    for (parts, valid) in [
        ([&[0x51][..], &key, &[0x51], &check], true),
        ([&[0x51], &[&[OP_PUSHDATA1], &key[..]].concat(), &[0x51], &check], true),
        ([&[0x51], &[&[OP_PUSHDATA2, 33, 0], &key[1..]].concat(), &[0x51], &check], true),
        ([&[0x51], &[&[OP_PUSHDATA4, 33, 0, 0, 0], &key[1..]].concat(), &[0x51], &check], true),
        ([&[0x01, 0x01], &key, &[0x51], &check], false),
        ([&[0x51], &key, &[0x01, 0x01], &check], false),
        ([&[0x51], &key, &[OP_PUSHDATA1, 0x01, 0x01], &check], false),
        ([&[0x00], &key, &[0x51], &check], false),
        ([&[0x4f], &key, &[0x51], &check], false),
        ([&[0x51], &key, &[0x52], &check], false),
        ([&[0x51], &key, &[0x51, 0x61], &check], false),
        ([&[0x51], &key, &[0x51], &[0xaf]], false),
        ([&[0x51], &key, &[], &check], false),
        ([&[0x51], &key[..33], &[0x51], &check], false),
    ] {
        let script = script(&parts);
        assert_eq!(multisig(&script).is_some(), valid, "{script:x}");
    }
    let seventeen = vec![&COMPRESSED[..]; 17].into_iter().flat_map(push).collect::<Vec<_>>();
    for (number, valid) in [(&[1, 17][..], true), (&[OP_PUSHDATA1, 1, 17], false), (&[2, 17, 0], false)] {
        assert_eq!(multisig(&script(&[&[0x51], &seventeen, number, &check])).is_some(), valid);
    }
}

#[test]
fn op_return_and_oversized_scripts_are_never_spendable() {
    for (script, never) in [
        (vec![], false),
        (vec![0x6a], true),
        (vec![0x6a, 0xff], true),
        (vec![0x00, 0x6a], false),
        (vec![0x51; 10_000], false),
        (vec![0x51; 10_001], true),
    ] {
        assert_eq!(never_spendable(Script::from_bytes(&script)), never);
    }
}

/// Every kind of spend that reveals its key: the output's script, then the input's script and witness.
fn spends_of(key: &[u8]) -> [(ScriptBuf, ScriptBuf, Witness); 3] {
    let witness_program = ScriptBuf::new_p2wpkh(&WPubkeyHash::hash(key));
    let witness = Witness::from_slice(&[&[0x30; 71][..], key]);
    [
        (ScriptBuf::new_p2pkh(&PubkeyHash::hash(key)), script(&[&push(&[0x30; 71]), &push(key)]), Witness::new()),
        (witness_program.clone(), ScriptBuf::new(), witness.clone()),
        (
            ScriptBuf::new_p2sh(&ScriptHash::hash(witness_program.as_bytes())),
            script(&[&push(witness_program.as_bytes())]),
            witness,
        ),
    ]
}

#[test]
fn a_spend_reveals_the_key_that_its_output_commits_to() {
    for key in [&COMPRESSED[..], &uncompressed(4)] {
        for (script_pubkey, script_sig, witness) in spends_of(key) {
            assert_eq!(revealed_key(&script_pubkey, &script_sig, &witness).as_deref(), Some(key));
        }
    }
}

#[test]
fn a_key_that_does_not_hash_to_the_output_is_ignored() {
    let other = spends_of(&[0x03; 33]);
    for (of, with) in spends_of(&COMPRESSED).iter().zip(&other) {
        assert_eq!(revealed_key(&of.0, &with.1, &with.2), None);
        assert_eq!(revealed_key(&of.0, &of.1, &Witness::from_slice(&[[2_u8; 33]])).is_some(), of.2.is_empty());
        assert_eq!(revealed_key(&of.0, &ScriptBuf::new(), &Witness::new()), None);
    }
}

#[test]
fn outputs_without_a_single_hashed_key_reveal_none() {
    let (_, script_sig, witness) = spends_of(&COMPRESSED)[0].clone();
    let p2pk = script(&[&push(&COMPRESSED), &[OP_CHECKSIG]]);
    let p2wsh = ScriptBuf::new_p2wsh(&Script::from_bytes(&[0x51]).wscript_hash());
    for script_pubkey in [p2pk, p2wsh, multisig_of(1, &[&COMPRESSED]), ScriptBuf::new()] {
        assert_eq!(revealed_key(&script_pubkey, &script_sig, &witness), None);
    }
}

#[test]
fn real_outputs_have_the_types_of_their_time() {
    let count = |name: &str| {
        let block = shared_data::full_block(name, "real_outputs_have_the_types_of_their_time")?;
        let mut counts = [0_u32; ScriptType::ALL.len()];
        for output in block.transactions.iter().flat_map(|transaction| &transaction.output) {
            counts[ScriptType::of(&output.script_pubkey).index()] += 1;
        }
        Some(counts)
    };
    // P2PK, P2PKH, P2SH, P2WPKH, P2WSH, P2TR, P2A, P2MS, OP_RETURN, unknown, nonstandard, empty
    for (name, expected) in [
        ("full_57042", [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("full_91721", [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("full_209999", [0, 1073, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("full_757738", [0, 33, 32, 58, 10, 1, 0, 0, 4, 0, 0, 0]),
    ] {
        let Some(counts) = count(name) else { return };
        assert_eq!(counts, expected, "in {name}");
    }
}

#[test]
fn real_spends_of_hashed_keys_reveal_them() {
    for name in shared_data::FULL_BLOCKS {
        let Some(block) = shared_data::full_block(name, "real_spends_of_hashed_keys_reveal_them") else { return };
        let spends = block.transactions.iter().zip(&block.spent).skip(1);
        for (input, spent) in spends.flat_map(|(transaction, spent)| transaction.input.iter().zip(spent)) {
            let revealed = revealed_key(&spent.script_pubkey, &input.script_sig, &input.witness);
            match ScriptType::of(&spent.script_pubkey) {
                ScriptType::P2pkh | ScriptType::P2wpkh => assert!(revealed.is_some(), "{}", input.previous_output),
                ScriptType::P2sh => assert_eq!(revealed.is_some(), input.script_sig.len() == 23),
                _ => assert_eq!(revealed, None),
            }
        }
    }
}

proptest! {
    #[test]
    fn no_script_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), witness: Vec<Vec<u8>>) {
        let script = Script::from_bytes(&bytes);
        let script_type = ScriptType::of(script);
        prop_assert_eq!(script_type == ScriptType::P2pk, p2pk_key(script).is_some());
        prop_assert_eq!(script_type == ScriptType::P2ms, multisig(script).is_some());
        prop_assert_eq!(script_type == ScriptType::OpReturn, never_spendable(script));
        let _ = revealed_key(script, script, &Witness::from_slice(&witness));
    }

    #[test]
    fn a_damaged_multisig_script_never_parses_as_other_keys(
        keys in prop::collection::vec(prop::sample::select(&[2_u8, 3, 4, 6, 7][..]), 1..6), at: prop::sample::Index,
        byte: u8,
    ) {
        let keys: Vec<Vec<u8>> =
            keys.iter().map(|prefix| vec![*prefix; if *prefix < 4 { 33 } else { 65 }]).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut damaged = multisig_of(1, &keys).into_bytes();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        let damaged = ScriptBuf::from_bytes(damaged);
        if let Some((required, found)) = multisig(&damaged) {
            prop_assert_eq!(found.len(), keys.len());
            prop_assert_eq!(&multisig_of(required, &found), &damaged, "the same script is built of what was found");
        }
    }
}

#[test]
fn an_op_return_output_yields_its_payload_and_pushes() {
    let parts = |hex: &str| {
        let script = ScriptBuf::from_hex(hex).unwrap();
        op_return(&script).map(|(payload, pushes)| (payload.to_vec(), pushes.concat(), pushes.len()))
    };
    assert_eq!(parts("6a"), Some((vec![], vec![], 0)));
    assert_eq!(parts("6a0568656c6c6f"), Some((b"\x05hello".to_vec(), b"hello".to_vec(), 1)));
    assert_eq!(parts("6a5d0102024243"), Some((vec![0x5d, 1, 2, 2, 0x42, 0x43], vec![2, 0x42, 0x43], 2)));
    assert_eq!(parts("6a4c02aabb"), Some((vec![0x4c, 2, 0xaa, 0xbb], vec![0xaa, 0xbb], 1)));
    // cut short in the middle of the second push
    assert_eq!(parts("6a01aa05bb"), Some((vec![1, 0xaa, 5, 0xbb], vec![0xaa], 1)));
    assert_eq!(parts("51"), None);
    assert_eq!(parts(""), None);
}
