//! The vectors of BIP352, from `vectors.txt`, whose head says what a line means.

use std::collections::HashMap;

use bitcoin::consensus::deserialize;
use bitcoin::hashes::sha256;
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::secp256k1::SecretKey;
use bitcoin::{Amount, OutPoint, ScriptBuf, Txid, Witness, absolute, transaction};

use super::super::*;

/// A transaction with what is published of it.
struct Case {
    name: &'static str,
    spends: Vec<(TxIn, TxOut)>,
    /// The tweak or "none".
    tweak: Option<&'static str>,
    payments: Vec<Payment>,
}

/// An output to a receiver of silent payments.
struct Payment {
    scan_key: SecretKey,
    /// How many outputs to the receiver are before it.
    number: u32,
    label: Option<u32>,
    /// What the receiver adds to the private spend key.
    key_tweak: &'static str,
}

fn bytes(hex: &str) -> Vec<u8> {
    if hex == "-" { Vec::new() } else { Vec::from_hex(hex).unwrap() }
}

fn cases() -> Vec<Case> {
    let (mut txids, mut scan_keys, mut spends) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut cases = Vec::<Case>::new();
    for line in include_str!("vectors.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (kind, rest) = line.split_once(' ').unwrap();
        let words: Vec<&str> = rest.split(' ').collect();
        let case = cases.last_mut();
        match (kind, words.as_slice(), case) {
            ("case", ..) => cases.push(Case { name: rest, spends: Vec::new(), tweak: None, payments: Vec::new() }),
            ("txid", &[name, txid], _) => {
                txids.insert(name, txid.parse::<Txid>().unwrap());
            }
            ("scan", &[name, key], _) => {
                scan_keys.insert(name, key.parse::<SecretKey>().unwrap());
            }
            ("spend", &[name, script_sig, witness, script_pubkey], _) => {
                let witness = if witness == "-" { Witness::new() } else { deserialize(&bytes(witness)).unwrap() };
                let input = TxIn { script_sig: ScriptBuf::from_bytes(bytes(script_sig)), witness, ..TxIn::default() };
                let script_pubkey = ScriptBuf::from_bytes(bytes(script_pubkey));
                spends.insert(name, (input, TxOut { value: Amount::ZERO, script_pubkey }));
            }
            ("input", &[outpoint, spend], Some(case)) => {
                let (txid, vout) = outpoint.split_once(':').unwrap();
                let previous_output = OutPoint { txid: txids[txid], vout: vout.parse().unwrap() };
                let (input, prevout) = spends[spend].clone();
                case.spends.push((TxIn { previous_output, ..input }, prevout));
            }
            ("tweak", &[tweak], Some(case)) => case.tweak = Some(tweak),
            ("payment", &[scan_key, number, label, key_tweak], Some(case)) => case.payments.push(Payment {
                scan_key: scan_keys[scan_key],
                number: number.parse().unwrap(),
                label: label.parse().ok(),
                key_tweak,
            }),
            _ => panic!("{line}"),
        }
    }
    cases
}

fn tagged(tag: &str, message: &[u8]) -> [u8; 32] {
    let tag = sha256::Hash::hash(tag.as_bytes()).to_byte_array();
    sha256::Hash::hash(&[&tag[..], &tag, message].concat()).to_byte_array()
}

/// What a receiver adds to the private spend key for an output, from the tweak of its transaction.
fn key_tweak(tweak: PublicKey, payment: &Payment) -> String {
    let secp = Secp256k1::verification_only();
    let shared = tweak.mul_tweak(&secp, &payment.scan_key.into()).unwrap();
    let message = [&shared.serialize()[..], &payment.number.to_be_bytes()].concat();
    let mut sum = SecretKey::from_slice(&tagged("BIP0352/SharedSecret", &message)).unwrap();
    if let Some(label) = payment.label {
        let message = [&payment.scan_key.secret_bytes()[..], &label.to_be_bytes()].concat();
        sum = sum.add_tweak(&Scalar::from_be_bytes(tagged("BIP0352/Label", &message)).unwrap()).unwrap();
    }
    sum.secret_bytes().to_lower_hex_string()
}

#[test]
fn tweaks_lead_receivers_to_the_payments_of_the_bip() {
    let secp = Secp256k1::verification_only();
    let (mut with_tweak, mut without, mut payments) = (0, 0, 0);
    for case in cases() {
        let (input, prevouts): (Vec<_>, Vec<_>) = case.spends.into_iter().unzip();
        let script_pubkey = ScriptBuf::from_bytes([&[0x51, 32][..], &[2; 32]].concat());
        let output = vec![TxOut { value: Amount::ZERO, script_pubkey }];
        let (version, lock_time) = (transaction::Version::TWO, absolute::LockTime::ZERO);
        let found = tweak(&secp, &Transaction { version, lock_time, input, output }, &prevouts);
        if let Some(expected) = case.tweak {
            let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
            assert_eq!(found, expected, "{}", case.name);
        }
        for payment in &case.payments {
            let found = key_tweak(found.unwrap_or_else(|| panic!("{}: no tweak", case.name)), payment);
            assert_eq!(found, payment.key_tweak, "{}, output {}", case.name, payment.number);
        }
        with_tweak += u32::from(found.is_some());
        without += u32::from(found.is_none());
        payments += case.payments.len();
    }
    assert_eq!((with_tweak, without, payments), (17, 2, 27));
}
