//! Undo data in the encoding of a node's `rev*.dat` files: for each transaction but the coinbase, each spent output
//! with the height and kind of its origin, amounts and the common scripts compressed. The rules are those of Core's
//! `undo.h`, `compressor.cpp` and the variable-length numbers of `serialize.h`.

use std::io::{self, Read};

use bitcoin::consensus::encode::{Decodable, Encodable, VarInt};
use bitcoin::opcodes::all::OP_CHECKSIG;
use bitcoin::script::Builder;
use bitcoin::{Amount, PubkeyHash, PublicKey, Script, ScriptBuf, ScriptHash, TxOut, hashes::Hash};

use super::super::SimCoin;
use crate::chain::Height;
use crate::chain::script::p2pk_key;

/// Compressed scripts begin with a number below this; all others with their length plus this.
const SPECIAL_SCRIPTS: u64 = 6;
/// The longest script that is read; longer ones are unspendable (`MAX_SCRIPT_SIZE` of Core's `script/script.h`).
const MAX_SCRIPT: u64 = 10_000;
const PREFIX_EVEN: u8 = 2;

/// Encodes the coins that a block spends, a list for each transaction but the coinbase.
pub(in super::super) fn undo_bytes(spent: &[Vec<SimCoin>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_count(&mut bytes, spent.len());
    for coins in spent {
        write_count(&mut bytes, coins.len());
        for coin in coins {
            write_number(&mut bytes, u64::from(coin.height.to_u32()) * 2 + u64::from(coin.coinbase));
            if coin.height > Height::GENESIS {
                // in place of the version of the transaction, which old nodes wrote here
                bytes.push(0);
            }
            write_number(&mut bytes, compress_amount(coin.output.value.to_sat()));
            write_script(&mut bytes, &coin.output.script_pubkey);
        }
    }
    bytes
}

/// Decodes the bytes of [`undo_bytes`].
pub(super) fn read_undo(mut bytes: &[u8]) -> io::Result<Vec<Vec<SimCoin>>> {
    let transactions = read_count(&mut bytes)?;
    let mut spent = Vec::new();
    for _ in 0..transactions {
        let inputs = read_count(&mut bytes)?;
        spent.push((0..inputs).map(|_| read_coin(&mut bytes)).collect::<io::Result<_>>()?);
    }
    if bytes.is_empty() { Ok(spent) } else { Err(damaged()) }
}

fn read_coin(bytes: &mut &[u8]) -> io::Result<SimCoin> {
    let code = read_number(bytes)?;
    let height = u32::try_from(code / 2).map_err(|_| damaged())?;
    if height > 0 && read_array::<1>(bytes)? != [0] {
        return Err(damaged());
    }
    let value = decompress_amount(read_number(bytes)?).ok_or_else(damaged)?;
    let script_pubkey = read_script(bytes)?;
    let output = TxOut { value: Amount::from_sat(value), script_pubkey };
    Ok(SimCoin { output, height: Height::from(height), coinbase: code % 2 == 1 })
}

fn write_script(bytes: &mut Vec<u8>, script: &Script) {
    let raw = script.as_bytes();
    if script.is_p2pkh() {
        bytes.push(0);
        bytes.extend_from_slice(&raw[3..23]);
    } else if script.is_p2sh() {
        bytes.push(1);
        bytes.extend_from_slice(&raw[2..22]);
    } else if let Some((form, x)) = key_form(script) {
        bytes.push(form);
        bytes.extend_from_slice(x);
    } else {
        write_number(bytes, u64::try_from(raw.len()).unwrap_or(u64::MAX).saturating_add(SPECIAL_SCRIPTS));
        bytes.extend_from_slice(raw);
    }
}

/// The form of a script that pays a public key, and the key's x: 2 and 3 for compressed keys, 4 and 5 for others, the
/// odd ones with an odd y. Only keys that are no point of the curve cannot be compressed.
fn key_form(script: &Script) -> Option<(u8, &[u8])> {
    let key = p2pk_key(script)?;
    match key.first()? {
        prefix @ (2 | 3) if key.len() == 33 => Some((*prefix, &key[1..])),
        4 if key.len() == 65 && PublicKey::from_slice(key).is_ok() => Some((4 | (key[64] & 1), &key[1..33])),
        _ => None,
    }
}

fn read_script(bytes: &mut &[u8]) -> io::Result<ScriptBuf> {
    Ok(match read_number(bytes)? {
        0 => ScriptBuf::new_p2pkh(&PubkeyHash::from_byte_array(read_array(bytes)?)),
        1 => ScriptBuf::new_p2sh(&ScriptHash::from_byte_array(read_array(bytes)?)),
        form @ 2..SPECIAL_SCRIPTS => {
            let odd = u8::from(form % 2 == 1);
            let mut key = [PREFIX_EVEN + odd; 33];
            key[1..].copy_from_slice(&read_array::<32>(bytes)?);
            if form < 4 {
                Builder::new().push_slice(key).push_opcode(OP_CHECKSIG).into_script()
            } else {
                let mut key = PublicKey::from_slice(&key).map_err(io::Error::other)?;
                key.compressed = false;
                ScriptBuf::new_p2pk(&key)
            }
        }
        long => {
            let length = long - SPECIAL_SCRIPTS;
            let mut script = Vec::new();
            let read = bytes.take(length.min(MAX_SCRIPT)).read_to_end(&mut script)?;
            if u64::try_from(read) != Ok(length) {
                return Err(damaged());
            }
            ScriptBuf::from_bytes(script)
        }
    })
}

/// Moves trailing decimal zeros into an exponent, so that round amounts become small numbers.
fn compress_amount(sat: u64) -> u64 {
    if sat == 0 {
        return 0;
    }
    let (mut mantissa, mut exponent) = (sat, 0);
    while mantissa % 10 == 0 && exponent < 9 {
        mantissa /= 10;
        exponent += 1;
    }
    if exponent == 9 {
        return (mantissa - 1) * 10 + 10;
    }
    // the last digit is not zero, so it has nine values
    ((mantissa / 10) * 9 + mantissa % 10 - 1) * 10 + exponent + 1
}

/// `None` for a number that no amount of 64 bits is compressed to.
fn decompress_amount(compressed: u64) -> Option<u64> {
    let Some(rest) = compressed.checked_sub(1) else { return Some(0) };
    let (exponent, rest) = (u32::try_from(rest % 10).ok()?, rest / 10);
    let mantissa =
        if exponent == 9 { rest.checked_add(1)? } else { (rest / 9).checked_mul(10)?.checked_add(rest % 9 + 1)? };
    mantissa.checked_mul(10_u64.pow(exponent))
}

/// Writes seven bits a byte, the highest first. The encoding of a number is unique: each byte but the last stands for
/// one more.
fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    let mut reversed = [0; 10];
    let mut length = 0;
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        reversed[length] = low | if length > 0 { 0x80 } else { 0 };
        length += 1;
        if number <= 0x7f {
            break;
        }
        number = (number >> 7) - 1;
    }
    bytes.extend(reversed[..length].iter().rev());
}

fn read_number(bytes: &mut &[u8]) -> io::Result<u64> {
    let mut number: u64 = 0;
    loop {
        let [byte] = read_array(bytes)?;
        number = number.checked_mul(0x80).ok_or_else(damaged)? | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
        number = number.checked_add(1).ok_or_else(damaged)?;
    }
}

fn write_count(bytes: &mut Vec<u8>, count: usize) {
    // writing to memory does not fail
    let _ = VarInt::from(count).consensus_encode(bytes);
}

fn read_count(bytes: &mut &[u8]) -> io::Result<u64> {
    VarInt::consensus_decode(bytes).map(|count| count.0).map_err(io::Error::other)
}

fn read_array<const LENGTH: usize>(bytes: &mut &[u8]) -> io::Result<[u8; LENGTH]> {
    let mut array = [0; LENGTH];
    bytes.read_exact(&mut array)?;
    Ok(array)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the undo data of a block is malformed")
}

#[cfg(test)]
mod tests {
    use bitcoin::hex::FromHex;
    use proptest::prelude::*;

    use super::*;

    fn coin(sat: u64, script: Vec<u8>, height: u32, coinbase: bool) -> SimCoin {
        let output = TxOut { value: Amount::from_sat(sat), script_pubkey: ScriptBuf::from_bytes(script) };
        SimCoin { output, height: Height::from(height), coinbase }
    }

    fn script() -> impl Strategy<Value = Vec<u8>> {
        let generator = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        let y = "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";
        let key = |hex: String| {
            let key = Vec::from_hex(&hex).unwrap();
            [&[u8::try_from(key.len()).unwrap()], &key[..], &[0xac]].concat()
        };
        prop_oneof![
            Just(key(format!("02{generator}"))),
            Just(key(format!("03{generator}"))),
            Just(key(format!("04{generator}{y}"))),
            // no point of the curve
            Just(key(format!("04{generator}{generator}"))),
            any::<[u8; 20]>().prop_map(|hash| [&[0x76, 0xa9, 20], &hash[..], &[0x88, 0xac]].concat()),
            any::<[u8; 20]>().prop_map(|hash| [&[0xa9, 20], &hash[..], &[0x87]].concat()),
            proptest::collection::vec(any::<u8>(), 0..300),
        ]
    }

    fn spent() -> impl Strategy<Value = Vec<Vec<SimCoin>>> {
        let amount = prop_oneof![any::<u64>(), (0..21_000_000_u64).prop_map(|coins| coins * 100_000_000)];
        let coin = (
            amount.prop_filter("compressible", |sat| *sat <= 2_100_000_000_000_000),
            script(),
            0..3_000_000u32,
            any::<bool>(),
        )
            .prop_map(|(sat, script, height, coinbase)| coin(sat, script, height, coinbase));
        proptest::collection::vec(proptest::collection::vec(coin, 0..4), 0..4)
    }

    proptest! {
        #[test]
        fn undo_data_round_trips_and_cut_bytes_are_an_error(spent in spent(), cut in 1usize..40) {
            let bytes = undo_bytes(&spent);
            prop_assert_eq!(read_undo(&bytes).unwrap(), spent);
            prop_assert!(read_undo(&bytes[..bytes.len().saturating_sub(cut)]).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_undo(&bytes);
        }
    }

    #[test]
    fn amounts_and_numbers_are_as_short_as_a_nodes() {
        for (sat, compressed) in [(0, 0), (1, 1), (1_000_000, 7), (100_000_000, 9), (5_000_000_000, 50)] {
            assert_eq!((compress_amount(sat), decompress_amount(compressed)), (compressed, Some(sat)));
        }
        for (number, expected) in
            [(0, &[0x00][..]), (0x7f, &[0x7f]), (0x80, &[0x80, 0x00]), (0xff, &[0x80, 0x7f]), (0x407f, &[0xff, 0x7f])]
        {
            let mut bytes = Vec::new();
            write_number(&mut bytes, number);
            assert_eq!(bytes, expected);
            assert_eq!(read_number(&mut &bytes[..]).unwrap(), number);
        }
    }
}
