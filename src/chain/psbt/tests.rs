use bitcoin::hex::DisplayHex;
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
    let states = inputs.map(|(input, txin)| {
        let utxo = utxo_of(input, txin.previous_output);
        input_state(input, utxo, utxo.is_some())
    });
    states.map(|state| state.next_role).collect()
}

#[test]
fn valid_psbts_are_parsed_and_written_as_they_were() {
    for text in vectors("valid") {
        let (psbt, bytes) = parse_psbt(text).unwrap();
        // the leaves of a tree may be written in another order
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
        PsbtError::Malformed { .. } => "malformed",
        other => panic!("{other}"),
    });
    let kinds: Vec<_> = kinds.collect();
    assert_eq!(kinds[..5], ["magic", "malformed", "malformed", "malformed", "key"]);
    assert!(kinds.len() == 15 && kinds[5..].iter().all(|kind| *kind == "malformed"), "{kinds:?}");
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
    let state = input_state(input, utxo, true);
    let signed: Vec<_> = input.partial_sigs.keys().map(|key| key.to_bytes()).collect();
    let keys = input.bip32_derivation.keys().map(|key| key.serialize().to_vec());
    let unsigned: Vec<_> = keys.filter(|key| !signed.contains(key)).collect();
    assert_eq!((state.required_signatures, signed.len(), unsigned.len()), (Some(2), 1, 1));
    assert_eq!(state.missing, MissingParts { signatures: unsigned, ..MissingParts::default() });
    assert!(signed_size(&psbt, &[utxo.cloned()]).is_some());
    // without the output nothing is known of its script
    let state = input_state(input, None, false);
    assert_eq!((state.next_role, state.required_signatures), (PsbtRole::Updater, None));
    assert_eq!(signed_size(&psbt, &[None]), None);
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
            for (input, utxo) in psbt.inputs.iter().zip(&utxos) {
                let _ = input_state(input, utxo.as_ref(), utxo.is_some());
            }
            let _ = signed_size(&psbt, &utxos);
            prop_assert!(!bytes.is_empty());
        }
    }
}
