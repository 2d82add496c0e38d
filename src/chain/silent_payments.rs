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
mod tests {
    use bitcoin::hashes::sha256;
    use bitcoin::hex::{DisplayHex, FromHex};
    use bitcoin::secp256k1::SecretKey;
    use bitcoin::{
        Amount, OutPoint, PubkeyHash, ScriptBuf, ScriptHash, Sequence, WPubkeyHash, Witness, absolute, transaction,
    };

    use super::*;

    /// The public keys, the scan key and the outpoints of the first vectors of the BIP.
    const KEYS: [&str; 2] = [
        "025a1e61f898173040e20616d43e9f496fba90338a39faa1ed98fcbaeee4dd9be5",
        "03bd85685d03d111699b15d046319febe77f8de5286e9e512703cdee1bf3be3792",
    ];
    const SCAN_KEY: &str = "0f694e068028a717f8af6b9411f9a133dd3565258714cc226594b34db90c1f2c";
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

    /// The first tweak of the spend key that a receiver computes from the tweak of the transaction.
    fn first_key_tweak(tweak: PublicKey) -> String {
        let scan_key = Scalar::from_be_bytes(bytes(SCAN_KEY).try_into().unwrap()).unwrap();
        let shared = tweak.mul_tweak(&verifying(), &scan_key).unwrap();
        let tag = sha256::Hash::hash(b"BIP0352/SharedSecret").to_byte_array();
        let message = [&tag[..], &tag, &shared.serialize(), &[0; 4]].concat();
        sha256::Hash::hash(&message).to_byte_array().to_lower_hex_string()
    }

    #[test]
    fn a_receiver_finds_the_payments_of_the_bip() {
        let [one, two] = [p2pkh(TXIDS[0], 0, KEYS[0]), p2pkh(TXIDS[1], 0, KEYS[1])];
        let expected = "f438b40179a3c4262de12986c0e6cce0634007cdc79c1dcd3e20b9ebc2e7eef6";
        assert_eq!(first_key_tweak(of(&[one.clone(), two.clone()], taproot()).unwrap()), expected);
        assert_eq!(of(&[two.clone(), one.clone()], taproot()), of(&[one, two], taproot()), "the order does not matter");
        let [one, two] = [p2pkh(TXIDS[0], 3, KEYS[0]), p2pkh(TXIDS[0], 7, KEYS[1])];
        let expected = "4851455bfbe1ab4f80156570aa45063201aa5c9e1b1dcd29f0f8c33d10bf77ae";
        assert_eq!(first_key_tweak(of(&[one, two], taproot()).unwrap()), expected);
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
            (
                spend(ScriptBuf::new_p2pkh(&PubkeyHash::hash(&key)), [&[0, 33][..], &key, &[0x51]].concat(), &[]),
                with_key,
            ),
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
}
