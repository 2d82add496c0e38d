//! Scripts in human-readable form, as Bitcoin Core writes them (`ScriptToAsmStr` in core_io): pushes of up to 4 bytes as
//! decimal numbers, longer ones in hexadecimal, other opcodes by name.

use std::fmt::Write as _;

use bitcoin::Script;
use bitcoin::hex::DisplayHex;

use super::script::never_spendable;
use super::spend::ecdsa_hash_type;

/// Pushes of at most this many bytes are numbers.
const NUMBER_BYTES: usize = 4;

const OP_PUSHDATA1: u8 = 0x4c;
const OP_PUSHDATA2: u8 = 0x4d;
const OP_PUSHDATA4: u8 = 0x4e;

/// The names of the opcodes from `OP_1NEGATE`, the first that pushes no data of the script.
#[rustfmt::skip]
const NAMES: [&str; 108] = [
    "-1", "OP_RESERVED", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
    // control
    "OP_NOP", "OP_VER", "OP_IF", "OP_NOTIF", "OP_VERIF", "OP_VERNOTIF", "OP_ELSE", "OP_ENDIF", "OP_VERIFY", "OP_RETURN",
    // stack
    "OP_TOALTSTACK", "OP_FROMALTSTACK", "OP_2DROP", "OP_2DUP", "OP_3DUP", "OP_2OVER", "OP_2ROT", "OP_2SWAP", "OP_IFDUP",
    "OP_DEPTH", "OP_DROP", "OP_DUP", "OP_NIP", "OP_OVER", "OP_PICK", "OP_ROLL", "OP_ROT", "OP_SWAP", "OP_TUCK",
    // splice and bits
    "OP_CAT", "OP_SUBSTR", "OP_LEFT", "OP_RIGHT", "OP_SIZE", "OP_INVERT", "OP_AND", "OP_OR", "OP_XOR", "OP_EQUAL",
    "OP_EQUALVERIFY", "OP_RESERVED1", "OP_RESERVED2",
    // numbers
    "OP_1ADD", "OP_1SUB", "OP_2MUL", "OP_2DIV", "OP_NEGATE", "OP_ABS", "OP_NOT", "OP_0NOTEQUAL", "OP_ADD", "OP_SUB",
    "OP_MUL", "OP_DIV", "OP_MOD", "OP_LSHIFT", "OP_RSHIFT", "OP_BOOLAND", "OP_BOOLOR", "OP_NUMEQUAL",
    "OP_NUMEQUALVERIFY", "OP_NUMNOTEQUAL", "OP_LESSTHAN", "OP_GREATERTHAN", "OP_LESSTHANOREQUAL",
    "OP_GREATERTHANOREQUAL", "OP_MIN", "OP_MAX", "OP_WITHIN",
    // cryptography
    "OP_RIPEMD160", "OP_SHA1", "OP_SHA256", "OP_HASH160", "OP_HASH256", "OP_CODESEPARATOR", "OP_CHECKSIG",
    "OP_CHECKSIGVERIFY", "OP_CHECKMULTISIG", "OP_CHECKMULTISIGVERIFY",
    // expansion
    "OP_NOP1", "OP_CHECKLOCKTIMEVERIFY", "OP_CHECKSEQUENCEVERIFY", "OP_NOP4", "OP_NOP5", "OP_NOP6", "OP_NOP7", "OP_NOP8",
    "OP_NOP9", "OP_NOP10", "OP_CHECKSIGADD",
];

/// A scriptPubKey in the notation of Bitcoin Core, its parts separated by spaces. A push that the script ends within is
/// `[error]`, and the last part.
#[must_use]
pub fn asm(script: &Script) -> String {
    written(script, push_data)
}

/// A scriptSig in the notation of Bitcoin Core, as [`asm`], but for pushes that are ECDSA signatures: the byte of their hash
/// type is not among the digits, and its name follows in brackets.
#[must_use]
pub fn script_sig_asm(script: &Script) -> String {
    // Core decodes no signatures in a script that can never be fulfilled
    if never_spendable(script) { asm(script) } else { written(script, push_signature_or_data) }
}

fn written(script: &Script, push: impl Fn(&mut String, &[u8])) -> String {
    let (mut rest, mut text) = (script.as_bytes(), String::new());
    while let Some((&opcode, behind)) = rest.split_first() {
        if !text.is_empty() {
            text.push(' ');
        }
        rest = behind;
        match pushed(opcode, rest) {
            Push::Data(data, behind) => {
                push(&mut text, data);
                rest = behind;
            }
            Push::Truncated => {
                text.push_str("[error]");
                return text;
            }
            Push::None => text.push_str(name(opcode)),
        }
    }
    text
}

/// The data that an opcode pushes.
enum Push<'s> {
    /// The data, and what of the script is behind it.
    Data(&'s [u8], &'s [u8]),
    /// The script ends within it.
    Truncated,
    /// The opcode is not one that pushes data of the script.
    None,
}

fn pushed(opcode: u8, rest: &[u8]) -> Push<'_> {
    let sized = match opcode {
        OP_PUSHDATA1 => rest.split_first_chunk().map(|(size, rest)| (u8::from_le_bytes(*size).into(), rest)),
        OP_PUSHDATA2 => rest.split_first_chunk().map(|(size, rest)| (u16::from_le_bytes(*size).into(), rest)),
        OP_PUSHDATA4 => rest.split_first_chunk().map(|(size, rest)| (u32::from_le_bytes(*size), rest)),
        size if size < OP_PUSHDATA1 => Some((u32::from(size), rest)),
        _ => return Push::None,
    };
    let data = sized.and_then(|(size, rest)| rest.split_at_checked(usize::try_from(size).ok()?));
    data.map_or(Push::Truncated, |(data, behind)| Push::Data(data, behind))
}

/// Appends pushed data: a number (little-endian, the highest bit its sign) or hexadecimal digits.
fn push_data(text: &mut String, data: &[u8]) {
    // writing to a string cannot fail
    let _ =
        if data.len() <= NUMBER_BYTES { write!(text, "{}", number(data)) } else { write!(text, "{}", data.as_hex()) };
}

/// Appends pushed data that may be a signature with a hash type that has a name.
fn push_signature_or_data(text: &mut String, data: &[u8]) {
    let named = ecdsa_hash_type(data).and_then(hash_type_name).zip(data.split_last());
    match named {
        Some((name, (_, signature))) => {
            let _ = write!(text, "{}[{name}]", signature.as_hex());
        }
        None => push_data(text, data),
    }
}

/// The name of a hash type of ECDSA signatures; `None` for one without a meaning.
const fn hash_type_name(hash_type: u8) -> Option<&'static str> {
    Some(match hash_type {
        0x01 => "ALL",
        0x02 => "NONE",
        0x03 => "SINGLE",
        0x81 => "ALL|ANYONECANPAY",
        0x82 => "NONE|ANYONECANPAY",
        0x83 => "SINGLE|ANYONECANPAY",
        _ => return None,
    })
}

/// The number that at most [`NUMBER_BYTES`] bytes are, minimal or not.
fn number(data: &[u8]) -> i64 {
    let magnitude = |bytes: &[u8]| bytes.iter().rev().fold(0_i64, |sum, byte| sum << 8 | i64::from(*byte));
    match data.split_last() {
        Some((last, _)) if last & 0x80 != 0 => {
            let sign = 0x80_i64 << (8 * (data.len() - 1));
            -(magnitude(data) & !sign)
        }
        _ => magnitude(data),
    }
}

/// The name of an opcode that pushes no data of the script.
fn name(opcode: u8) -> &'static str {
    let index = opcode.checked_sub(OP_PUSHDATA4 + 1).map(usize::from);
    match index.and_then(|index| NAMES.get(index)) {
        Some(name) => name,
        None if opcode == u8::MAX => "OP_INVALIDOPCODE",
        None => "OP_UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::ScriptBuf;

    use super::{asm, script_sig_asm};

    fn asm_of(hex: &str) -> String {
        asm(&ScriptBuf::from_hex(hex).unwrap())
    }

    #[test]
    fn signatures_in_a_script_sig_show_their_hash_type() {
        // the smallest strict encoding: r and s of one byte
        let signature = "3006020101020102";
        let script_sig = |hash_type: &str| format!("09{signature}{hash_type}");
        for (hash_type, name) in [
            ("01", "[ALL]"),
            ("02", "[NONE]"),
            ("03", "[SINGLE]"),
            ("81", "[ALL|ANYONECANPAY]"),
            ("82", "[NONE|ANYONECANPAY]"),
            ("83", "[SINGLE|ANYONECANPAY]"),
            ("00", "00"),
            ("04", "04"),
            ("80", "80"),
            ("ff", "ff"),
        ] {
            let script = ScriptBuf::from_hex(&script_sig(hash_type)).unwrap();
            assert_eq!(script_sig_asm(&script), format!("{signature}{name}"), "{hash_type}");
            assert_eq!(asm(&script), format!("{signature}{hash_type}"), "a scriptPubKey has no signatures");
        }
        let never = ScriptBuf::from_hex(&format!("6a{}", script_sig("01"))).unwrap();
        assert_eq!(script_sig_asm(&never), format!("OP_RETURN {signature}01"));
        let cut = ScriptBuf::from_hex(&format!("51{}05ab", script_sig("01"))).unwrap();
        assert_eq!(script_sig_asm(&cut), format!("1 {signature}[ALL] [error]"));
    }

    #[test]
    fn opcodes_have_the_names_of_bitcoin_core() {
        for (hex, expected) in [
            ("", ""),
            (
                "76a914000102030405060708090a0b0c0d0e0f1011121388ac",
                "OP_DUP OP_HASH160 000102030405060708090a0b0c0d0e0f10111213 OP_EQUALVERIFY OP_CHECKSIG",
            ),
            ("00 4f 50 51 60 61", "0 -1 OP_RESERVED 1 16 OP_NOP"),
            ("6a b0 b1 b2 b3 b9", "OP_RETURN OP_NOP1 OP_CHECKLOCKTIMEVERIFY OP_CHECKSEQUENCEVERIFY OP_NOP4 OP_NOP10"),
            ("ba bb fe ff", "OP_CHECKSIGADD OP_UNKNOWN OP_UNKNOWN OP_INVALIDOPCODE"),
            ("51 02 4e73", "1 29518"),
        ] {
            assert_eq!(asm_of(&hex.replace(' ', "")), expected, "{hex}");
        }
    }

    #[test]
    fn pushes_of_up_to_four_bytes_are_numbers() {
        for (hex, expected) in [
            ("0100", "0"),
            ("0180", "0"),
            ("0181", "-1"),
            ("017f", "127"),
            ("028000", "128"),
            ("02ff80", "-255"),
            ("04ffffff7f", "2147483647"),
            ("04ffffffff", "-2147483647"),
            ("0400000080", "0"),
            ("050000000080", "0000000080"),
            ("4c00", "0"),
            ("4c0105", "5"),
            ("4d010005", "5"),
            ("4e0100000005", "5"),
            ("4c0501020304ff", "01020304ff"),
        ] {
            assert_eq!(asm_of(hex), expected, "{hex}");
        }
    }

    #[test]
    fn a_truncated_push_is_an_error_and_ends_the_text() {
        for (hex, expected) in [
            ("01", "[error]"),
            ("0551", "[error]"),
            ("ac4c", "OP_CHECKSIG [error]"),
            ("4c0201", "[error]"),
            ("4d01", "[error]"),
            ("4dffff00", "[error]"),
            ("4e000000", "[error]"),
            ("4effffffff00", "[error]"),
        ] {
            assert_eq!(asm_of(hex), expected, "{hex}");
        }
    }
}
