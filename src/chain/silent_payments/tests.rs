mod vectors;

use bitcoin::hashes::sha256;
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::secp256k1::SecretKey;
use bitcoin::{
    Amount, OutPoint, PubkeyHash, ScriptBuf, ScriptHash, Sequence, WPubkeyHash, Witness, absolute, transaction,
};

use super::*;

/// The public keys and the transactions of the first vectors of the BIP.
const KEYS: [&str; 2] = [
    "025a1e61f898173040e20616d43e9f496fba90338a39faa1ed98fcbaeee4dd9be5",
    "03bd85685d03d111699b15d046319febe77f8de5286e9e512703cdee1bf3be3792",
];
const TXIDS: [&str; 2] = [
    "f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16",
    "a1075db55d416d3ca199f55b6084e2115b9345e16c5cf302fc80e9d5fbf5d48d",
];

fn bytes(hex: &str) -> Vec<u8> {
    Vec::from_hex(hex).unwrap()
}

fn verifying() -> Secp256k1<VerifyOnly> {
    Secp256k1::verification_only()
}

fn taproot() -> TxOut {
    TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::from_bytes([&[0x51, 32][..], &[2; 32]].concat()) }
}

fn input(txid: &str, vout: u32) -> TxIn {
    let previous_output = OutPoint { txid: txid.parse().unwrap(), vout };
    TxIn { previous_output, sequence: Sequence::MAX, ..TxIn::default() }
}

/// An input that spends P2PKH with this key.
fn p2pkh(txid: &str, vout: u32, key: &str) -> (TxIn, TxOut) {
    let key = bytes(key);
    let script_pubkey = ScriptBuf::new_p2pkh(&PubkeyHash::hash(&key));
    let script_sig = ScriptBuf::from_bytes([&[33][..], &key].concat());
    (TxIn { script_sig, ..input(txid, vout) }, TxOut { value: Amount::ZERO, script_pubkey })
}

fn of(spends: &[(TxIn, TxOut)], output: TxOut) -> Option<PublicKey> {
    let (input, prevouts): (Vec<_>, Vec<_>) = spends.iter().cloned().unzip();
    let (version, lock_time) = (transaction::Version::TWO, absolute::LockTime::ZERO);
    tweak(&verifying(), &Transaction { version, lock_time, input, output: vec![output] }, &prevouts)
}

#[test]
fn a_sender_who_knows_the_private_keys_computes_the_same_secret() {
    let signing = Secp256k1::new();
    let private = [5_u8, 9].map(|byte| SecretKey::from_slice(&[byte; 32]).unwrap());
    let public = private.map(|key| key.public_key(&signing));
    let scan_key = SecretKey::from_slice(&[77; 32]).unwrap();
    let spends = [(0, public[0]), (1, public[1])].map(|(vout, key)| {
        let script_pubkey = ScriptBuf::new_p2wpkh(&WPubkeyHash::hash(&key.serialize()));
        let witness = Witness::from_slice(&[&b""[..], &key.serialize()]);
        (TxIn { witness, ..input(TXIDS[0], vout) }, TxOut { value: Amount::ZERO, script_pubkey })
    });
    let sum = private[0].add_tweak(&private[1].into()).unwrap();
    let lowest = serialize(&OutPoint { txid: TXIDS[0].parse().unwrap(), vout: 0 });
    let tag = sha256::Hash::hash(b"BIP0352/Inputs").to_byte_array();
    let message = [&tag[..], &tag, &lowest, &sum.public_key(&signing).serialize()].concat();
    let hash = Scalar::from_be_bytes(sha256::Hash::hash(&message).to_byte_array()).unwrap();
    let secret = sum.mul_tweak(&hash).unwrap();
    let sent = scan_key.public_key(&signing).mul_tweak(&signing, &secret.into()).unwrap();
    let received = of(&spends, taproot()).unwrap().mul_tweak(&signing, &scan_key.into()).unwrap();
    assert_eq!(sent, received);
}

#[test]
fn only_keys_that_count_are_added() {
    let key = bytes(KEYS[0]);
    let paid = |script_pubkey| TxOut { value: Amount::ZERO, script_pubkey };
    let spend = |script_pubkey, script_sig: Vec<u8>, witness: &[&[u8]]| {
        let (script_sig, witness) = (ScriptBuf::from_bytes(script_sig), Witness::from_slice(witness));
        (TxIn { script_sig, witness, ..input(TXIDS[0], 0) }, paid(script_pubkey))
    };
    let program = ScriptBuf::new_p2wpkh(&WPubkeyHash::hash(&key));
    let nested = ScriptBuf::new_p2sh(&ScriptHash::hash(program.as_bytes()));
    let with_key = Some(of(&[p2pkh(TXIDS[0], 0, KEYS[0])], taproot()).unwrap());
    let signature = [1; 64];
    let x_only = ScriptBuf::from_bytes([&[0x51, 32][..], &key[1..]].concat());
    let control_block = |internal: &[u8]| [&[0xc0][..], internal].concat();
    for (spend, expected) in [
        (spend(program.clone(), vec![], &[b"", &key]), with_key),
        (spend(nested.clone(), [&[22][..], program.as_bytes()].concat(), &[b"", &key]), with_key),
        // data around the key of P2PKH, which others can add
        (spend(ScriptBuf::new_p2pkh(&PubkeyHash::hash(&key)), [&[0, 33][..], &key, &[0x51]].concat(), &[]), with_key),
        (spend(x_only.clone(), vec![], &[&signature]), with_key),
        (spend(x_only.clone(), vec![], &[b"script", &control_block(&[3; 32])]), with_key),
        (spend(x_only.clone(), vec![], &[b"script", &control_block(&NUMS)]), None),
        (spend(x_only.clone(), vec![], &[b"script", &control_block(&NUMS), &[0x50]]), None),
        (spend(nested, [&[22][..], program.as_bytes()].concat(), &[]), None),
        (spend(ScriptBuf::from_bytes([&[0x52, 32][..], &[3; 32]].concat()), vec![], &[&key]), None),
        (spend(ScriptBuf::new(), vec![0x51], &[]), None),
    ] {
        assert_eq!(of(std::slice::from_ref(&spend), taproot()), expected, "{spend:?}");
    }
    // an uncompressed key does not count
    let uncompressed = [&[4][..], &[7; 64]].concat();
    let hash = ScriptBuf::new_p2pkh(&PubkeyHash::hash(&uncompressed));
    assert_eq!(of(&[spend(hash, [&[65][..], &uncompressed].concat(), &[])], taproot()), None);
    let one = p2pkh(TXIDS[0], 0, KEYS[0]);
    assert_eq!(of(std::slice::from_ref(&one), paid(program)), None, "no output is P2TR");
    let later = spend(ScriptBuf::from_bytes([&[0x52, 2][..], &[3; 2]].concat()), vec![], &[]);
    assert_eq!(of(&[one.clone(), later], taproot()), None, "a later witness version");
    // a key and its negation add up to nothing
    let mut negated = key.clone();
    negated[0] ^= 1;
    assert_eq!(of(&[one, p2pkh(TXIDS[0], 1, &negated.to_lower_hex_string())], taproot()), None);
}
