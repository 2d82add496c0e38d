use bitcoin::hex::DisplayHex;
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, Psbt, PublicKey, Sequence, TxOut};
use miniscript::{Miniscript, Segwitv0};
use proptest::prelude::*;

use super::*;

/// The vectors of BIP174 and BIP371, valid or not.
fn vectors(kind: &str) -> Vec<&'static str> {
    let lines = include_str!("vectors.txt").lines();
    lines.filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' ')).collect()
}

/// The roles of the inputs, by what the PSBT itself has.
fn roles(text: &str) -> Vec<PsbtRole> {
    let (psbt, _) = parse_psbt(text).unwrap();
    let inputs = psbt.inputs.iter().zip(&psbt.unsigned_tx.input);
    let states = inputs.enumerate().map(|(index, (input, txin))| {
        let utxo = utxo_of(input, txin.previous_output);
        input_state(&psbt, index, utxo, utxo.is_some()).unwrap()
    });
    states.map(|state| state.next_role).collect()
}

#[test]
fn valid_psbts_are_parsed_and_written_as_they_were() {
    for text in vectors("valid") {
        let (psbt, bytes) = parse_psbt(text).unwrap();
        // the leaves of a tree may have another order
        let written = psbt.serialize();
        assert_eq!((written.len(), bitcoin::Psbt::deserialize(&written).unwrap()), (bytes.len(), psbt.clone()));
        let hex = format!(" {}\n", bytes.to_upper_hex_string());
        assert_eq!(parse_psbt(&hex).unwrap().0, psbt);
    }
}

#[test]
fn invalid_psbts_are_refused() {
    let refused = vectors("invalid").into_iter().map(|text| parse_psbt(text).unwrap_err());
    let kinds = refused.map(|error| match error {
        PsbtError::Magic => "magic",
        PsbtError::RepeatedKey { .. } => "key",
        PsbtError::Malformed { .. } | PsbtError::UnexpectedEnd { .. } => "malformed",
        other => panic!("{other}"),
    });
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(kinds[..5], ["magic", "malformed", "malformed", "malformed", "key"]);
    assert!(kinds.len() == 15 && kinds[5..].iter().all(|kind| *kind == "malformed"), "{kinds:?}");
}

#[test]
fn a_psbt_that_spends_an_index_that_no_output_has_is_refused() {
    let (mut psbt, _) = parse_psbt(vectors("valid")[0]).unwrap();
    let txid = psbt.unsigned_tx.input[0].previous_output.txid;
    for outpoint in [OutPoint { txid, vout: 0x8000_0000 }, OutPoint::null()] {
        psbt.unsigned_tx.input[0].previous_output = outpoint;
        psbt.inputs[0].non_witness_utxo = None;
        let refused = parse_psbt(&psbt.serialize().to_lower_hex_string()).unwrap_err();
        assert_eq!(refused, PsbtError::Outpoint { outpoint });
        let message = format!("the PSBT spends {outpoint}, and no output has an index above 2147483647");
        assert_eq!(refused.to_string(), message);
    }
}

#[test]
fn a_psbt_that_is_cut_says_where_it_ends() {
    let (_, bytes) = parse_psbt(vectors("valid")[0]).unwrap();
    for end in 5..bytes.len() {
        let refused = parse_psbt(&bytes[..end].to_lower_hex_string()).unwrap_err();
        assert_eq!(refused, PsbtError::UnexpectedEnd { bytes: end });
    }
    // a value that ends early is not the end of the text
    let cut = parse_psbt(&with_entry(1, &[0], &[2, 0]).to_lower_hex_string()).unwrap_err();
    assert_eq!(cut, PsbtError::Malformed { reason: "a value ends early".to_owned(), end: 85 });
}

/// A transaction of one input and two outputs.
const UNSIGNED: &str = "020000000127744ababf3027fe0d6cf23a96eee2efb188ef52301954585883e69b6624b2420000000000ffffffff02787c01000000\
                        0000016a787c010000000000016a00000000";

/// A PSBT of one input and two outputs, with an entry more in the map of all, of the input or of the first output.
fn with_entry(map: usize, key: &[u8], value: &[u8]) -> Vec<u8> {
    let transaction = <Vec<u8> as bitcoin::hex::FromHex>::from_hex(UNSIGNED).unwrap();
    let pair = |key: &[u8], value: &[u8]| {
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        [&[length(key)], key, &[length(value)], value].concat()
    };
    let mut maps = [pair(&[0], &transaction), Vec::new(), Vec::new(), Vec::new()];
    maps[map].extend(pair(key, value));
    let maps = maps.map(|mut map| {
        map.push(0);
        map
    });
    [b"psbt\xff".to_vec(), maps.concat()].concat()
}

/// Where an entry is, its type, the key behind it that is right, a value that is, and what it holds.
type Case<'c> = (usize, u8, &'c [u8], &'c [u8], &'static str);

#[test]
fn a_key_with_more_or_less_than_its_type_says_is_refused() {
    let refusal = |map, key: &[u8], value: &[u8]| parse_psbt(&with_entry(map, key, value).to_lower_hex_string());
    assert!(
        refusal(0, &[0xf0], &[]).is_ok() && refusal(1, &[0xf0, 1], &[7]).is_ok(),
        "an unknown type may have any key"
    );
    let spent = <Vec<u8> as bitcoin::hex::FromHex>::from_hex(UNSIGNED).unwrap();
    let key = [2; 33];
    let cases: [Case<'_>; 12] = [
        (0, 0xfb, &[], &[0; 4], "the version"),
        (1, 0x00, &[], &spent, "the transaction that is spent"),
        (1, 0x01, &[], &[0; 9], "the output that is spent"),
        (1, 0x03, &[], &[1, 0, 0, 0], "the type of signature hash"),
        (1, 0x04, &[], &[0x51], "the redeem script"),
        (1, 0x05, &[], &[0x51], "the witness script"),
        (1, 0x06, &key, &[0; 8], "a derivation"),
        (1, 0x07, &[], &[0x51], "the final scriptSig"),
        (1, 0x08, &[], &[0], "the final witness"),
        (2, 0x00, &[], &[0x51], "the redeem script of an output"),
        (2, 0x01, &[], &[0x51], "the witness script of an output"),
        (2, 0x02, &key, &[0; 4], "a derivation of an output"),
    ];
    for (map, kind, right, value, name) in cases {
        let with = |key: &[u8]| refusal(map, &[&[kind], key].concat(), value);
        assert!(with(right).is_ok(), "{name}: {:?}", with(right).err());
        for length in [0, 1, 32, 34, 66].into_iter().filter(|length| *length != right.len()) {
            assert!(with(&vec![2; length]).is_err(), "{name} with a key of {length} bytes");
        }
    }
    // values of these cannot be right with such a key
    for (map, kind, name) in
        [(0, 0x00, "the unsigned transaction"), (0, 0x01, "an extended public key"), (1, 0x02, "a signature")]
    {
        for length in [1, 32, 34, 66] {
            assert!(
                refusal(map, &[&[kind], &vec![2; length][..]].concat(), &[0; 4]).is_err(),
                "{name}, {length} bytes"
            );
        }
    }
    // a key that is on no curve
    let [zeros, value] = [[0; 33], [0; 33]];
    for (map, kind) in [(1, 0x02), (1, 0x06), (2, 0x02)] {
        assert!(refusal(map, &[&[kind], &zeros[..]].concat(), &value[..8]).is_err(), "{map} {kind}");
    }
}

#[test]
fn an_entry_with_an_x_only_key_that_is_no_point_is_unknown() {
    let (point, mut none) = ([1; 32], [0; 32]);
    none[31] = 5;
    let derivation = [&[1][..], &[9; 32], &[1, 2, 3, 4], &[0; 4]].concat();
    let leaf = |key: &[u8]| [&[0xc0], key, &[8; 64]].concat();
    let signer = |key: &[u8]| [key, &[9; 32]].concat();
    let cases = [
        (1, 0x14, signer(&point), vec![1; 64], signer(&none), vec![1; 64]),
        (1, 0x15, leaf(&point), vec![0x51, 0xc0], leaf(&none), vec![0x51, 0xc0]),
        (1, 0x16, point.to_vec(), derivation.clone(), none.to_vec(), derivation.clone()),
        (1, 0x17, Vec::new(), point.to_vec(), Vec::new(), none.to_vec()),
        (2, 0x05, Vec::new(), point.to_vec(), Vec::new(), none.to_vec()),
        (2, 0x07, point.to_vec(), derivation.clone(), none.to_vec(), derivation.clone()),
    ];
    for (map, kind, right, right_value, wrong, wrong_value) in cases {
        let parse = |key: &[u8], value: &[u8]| {
            let bytes = with_entry(map, &[&[kind], key].concat(), value);
            let (psbt, all) = parse_psbt(&bytes.to_lower_hex_string())?;
            assert_eq!(all, bytes);
            let of_map = if map == 1 { psbt.inputs[0].unknown.clone() } else { psbt.outputs[0].unknown.clone() };
            Ok::<_, PsbtError>((of_map, psbt))
        };
        assert!(parse(&right, &right_value).unwrap().0.is_empty(), "{kind:#x}");
        let (unknown, psbt) = parse(&wrong, &wrong_value).unwrap();
        let key = bitcoin::psbt::raw::Key { type_value: kind, key: wrong.clone() };
        assert_eq!(unknown, [(key, wrong_value.clone())].into(), "{kind:#x}");
        assert_eq!((psbt.inputs[0].tap_internal_key, psbt.outputs[0].tap_internal_key), (None, None));
        // all else about them is still looked at
        assert!(parse(&[&wrong[..], &[0]].concat(), &wrong_value).is_err(), "{kind:#x}");
        assert!(parse(&wrong, &wrong_value[..1]).is_err() || kind == 0x15, "{kind:#x}");
        let twice = with_entry(map, &[&[kind], &wrong[..]].concat(), &wrong_value);
        let entry = [&[u8::try_from(wrong.len() + 1).unwrap(), kind], &wrong[..]].concat();
        let at = twice.windows(entry.len()).position(|window| window == entry).unwrap();
        let length = entry.len() + 1 + wrong_value.len();
        let twice = [&twice[..at + length], &twice[at..]].concat();
        let refused = parse_psbt(&twice.to_lower_hex_string()).unwrap_err();
        assert!(matches!(refused, PsbtError::RepeatedKey { .. }), "{kind:#x}: {refused}");
        // a fault behind it is where it is in the whole
        let mut cut = with_entry(map, &[&[kind], &wrong[..]].concat(), &wrong_value);
        cut.pop();
        let refused = parse_psbt(&cut.to_lower_hex_string()).unwrap_err();
        assert_eq!(refused, PsbtError::UnexpectedEnd { bytes: cut.len() });
    }
    // beside one that is a point, in both orders
    for (map, kind) in [(1, 0x17), (2, 0x05)] {
        for [inserted, present] in [[none, point], [point, none]] {
            let one = with_entry(map, &[kind], &present);
            let entry = |key: &[u8]| [&[1, kind, 32][..], key].concat();
            let at = one.windows(35).position(|window| window == entry(&present)).unwrap();
            let both = [&one[..at], &entry(&inserted), &one[at..]].concat();
            let refused = parse_psbt(&both.to_lower_hex_string()).unwrap_err();
            assert!(matches!(refused, PsbtError::RepeatedKey { .. }), "{kind:#x}: {refused}");
        }
    }
    // in a PSBT without inputs, whose unsigned transaction begins as one with a witness does
    let output = [&[0; 8][..], &[0]].concat();
    let unsigned = [&[2, 0, 0, 0, 0, 2][..], &output, &output, &[0; 4]].concat();
    let global = [&[1, 0, u8::try_from(unsigned.len()).unwrap()][..], &unsigned, &[0]].concat();
    let bytes = [&b"psbt\xff"[..], &global, &[0], &[1, 0x05, 32], &none, &[0]].concat();
    let (psbt, _) = parse_psbt(&bytes.to_lower_hex_string()).unwrap();
    assert_eq!(psbt.outputs.iter().map(|output| output.unknown.len()).collect::<Vec<_>>(), [0, 1]);
    // two entries, and a fault behind them
    let mut bytes = with_entry(2, &[0x05], &none);
    bytes.push(7);
    assert_eq!(parse_psbt(&bytes.to_lower_hex_string()), Err(PsbtError::TrailingBytes { bytes: 1 }));
}

#[test]
fn each_input_knows_who_acts_next() {
    use PsbtRole::{Extractor, Finalizer, Signer, Updater};
    let found: Vec<_> = vectors("valid").into_iter().map(roles).collect();
    let expected = [
        // P2PKH without its key
        vec![Updater],
        // a final P2PKH beside a P2SH without its key
        vec![Extractor, Updater],
        // P2PKH with a type of signature hash alone
        vec![Updater],
        vec![Updater, Updater],
        // 2 of 2 with one signature
        vec![Signer],
        // unknown entries only
        vec![Updater],
        // taproot: by its key, with and without the signature; by a script, without signatures and with all
        vec![Signer],
        vec![Finalizer],
        vec![Signer],
        vec![Signer],
        vec![Signer],
        vec![Finalizer],
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_multisig_input_names_the_key_that_has_not_signed() {
    let (psbt, _) = parse_psbt(vectors("valid")[4]).unwrap();
    let (input, txin) = (&psbt.inputs[0], &psbt.unsigned_tx.input[0]);
    let utxo = utxo_of(input, txin.previous_output);
    let state = input_state(&psbt, 0, utxo, true).unwrap();
    let signed: Vec<_> = input.partial_sigs.keys().map(|key| key.to_bytes()).collect();
    let keys = input.bip32_derivation.keys().map(|key| key.serialize().to_vec());
    let unsigned: Vec<_> = keys.filter(|key| !signed.contains(key)).collect();
    assert_eq!((state.required_signatures, signed.len(), unsigned.len()), (Some(2), 1, 1));
    assert_eq!(state.missing, MissingParts { signatures: unsigned, ..MissingParts::default() });
    assert!(signed_size(&psbt, &[utxo.cloned()]).is_some());
    // without the output nothing is known of its script
    let state = input_state(&psbt, 0, None, false).unwrap();
    assert_eq!((state.next_role, state.required_signatures), (PsbtRole::Updater, None));
    assert_eq!(signed_size(&psbt, &[None]), None);
}

#[test]
fn a_miniscript_is_finalized_once_its_signatures_satisfy_it() {
    let (mut psbt, _) = parse_psbt(vectors("valid")[4]).unwrap();
    let input = &mut psbt.inputs[0];
    let (signed, signature) = input.partial_sigs.pop_first().unwrap();
    let other = input.bip32_derivation.keys().find(|key| **key != signed.inner).unwrap();
    let policy = format!("or_d(pk({signed}),and_v(v:pk({other}),older(5)))");
    let script = policy.parse::<Miniscript<PublicKey, Segwitv0>>().unwrap().encode();
    let utxo = TxOut { value: Amount::from_sat(9), script_pubkey: script.to_p2wsh() };
    input.witness_script = Some(script);
    input.redeem_script = None;
    input.non_witness_utxo = None;
    input.witness_utxo = Some(utxo.clone());
    input.partial_sigs.clear();
    let role = |psbt: &Psbt| input_state(psbt, 0, Some(&utxo), true).unwrap().next_role;
    assert_eq!(role(&psbt), PsbtRole::Signer);
    // the key that may sign at once
    let mut first = psbt.clone();
    first.inputs[0].partial_sigs.insert(signed, signature);
    assert_eq!(role(&first), PsbtRole::Finalizer);
    // the key that has to wait, before and after its time
    let late = PublicKey::new(*psbt.inputs[0].bip32_derivation.keys().find(|key| **key != signed.inner).unwrap());
    psbt.inputs[0].partial_sigs.insert(late, signature);
    psbt.unsigned_tx.version = Version::TWO;
    for (sequence, expected) in [(4, PsbtRole::Signer), (5, PsbtRole::Finalizer)] {
        psbt.unsigned_tx.input[0].sequence = Sequence(sequence);
        assert_eq!(role(&psbt), expected, "{sequence}");
    }
}

proptest! {
    #[test]
    fn no_change_of_a_psbt_makes_it_panic(
        which in 0_usize..12, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(), is_cut: bool,
    ) {
        let (_, mut bytes) = parse_psbt(vectors("valid")[which]).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok((psbt, bytes)) = parse_psbt(&bytes.to_lower_hex_string()) {
            let utxos: Vec<_> = psbt.inputs.iter().zip(&psbt.unsigned_tx.input)
                .map(|(input, txin)| utxo_of(input, txin.previous_output).cloned()).collect();
            for (index, utxo) in utxos.iter().enumerate() {
                let _ = input_state(&psbt, index, utxo.as_ref(), utxo.is_some());
            }
            let _ = signed_size(&psbt, &utxos);
            prop_assert!(!bytes.is_empty());
        }
    }
}
