//! The scripts that pay to a script by its hash: P2SH, and the witness programs of segwit.
//!
//! The rules are those of Bitcoin Core's `decodescript`, with one more: a script that is too long to be pushed has no P2SH
//! output, because nothing could spend it.

use bitcoin::hashes::{Hash, hash160};
use bitcoin::{PubkeyHash, Script, ScriptBuf, ScriptHash, WPubkeyHash};

use super::{ScriptType, multisig, never_spendable, next_operation, p2pk_key};

/// The longest push that consensus executes, in bytes (`MAX_SCRIPT_ELEMENT_SIZE`, Core `script/script.h`).
const MAX_PUSH: usize = 520;
/// The last opcode outside of taproot scripts, OP_NOP10 (`MAX_OPCODE`, Core `script/script.h`).
const LAST_OPCODE: u8 = 0xb9;
/// Bytes of a compressed public key.
const COMPRESSED: usize = 33;

/// The scripts that pay to a script, or to its key, by a hash. `None` for each that could not be spent as the script can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrappedScripts {
    /// P2SH.
    pub p2sh: Option<ScriptBuf>,
    /// A witness program: P2WPKH of a script with one compressed key (P2PK, P2PKH), otherwise P2WSH.
    pub segwit: Option<ScriptBuf>,
    /// The same program within P2SH.
    pub p2sh_segwit: Option<ScriptBuf>,
}

/// The scripts that pay to a script by its hash. All `None` for one that is not meant to be wrapped: P2SH, P2TR, P2A,
/// later witness programs, OP_RETURN, and what can never be executed. Witness programs wrap into P2SH only.
#[must_use]
pub fn wrapped_scripts(script: &Script) -> WrappedScripts {
    let script_type = ScriptType::of(script);
    let is_wrappable = match script_type {
        ScriptType::P2sh | ScriptType::P2tr | ScriptType::P2a | ScriptType::WitnessUnknown | ScriptType::OpReturn => {
            false
        }
        ScriptType::P2pk
        | ScriptType::P2pkh
        | ScriptType::P2wpkh
        | ScriptType::P2wsh
        | ScriptType::P2ms
        | ScriptType::Nonstandard
        | ScriptType::Empty => !never_spendable(script) && is_executable(script),
    };
    if !is_wrappable {
        return WrappedScripts::default();
    }
    let segwit = segwit(script, script_type);
    WrappedScripts {
        p2sh: (script.len() <= MAX_PUSH).then(|| p2sh(script)),
        p2sh_segwit: segwit.as_deref().map(p2sh),
        segwit,
    }
}

fn p2sh(script: &Script) -> ScriptBuf {
    ScriptBuf::new_p2sh(&ScriptHash::hash(script.as_bytes()))
}

fn segwit(script: &Script, script_type: ScriptType) -> Option<ScriptBuf> {
    let program = |key_hash: hash160::Hash| ScriptBuf::new_p2wpkh(&WPubkeyHash::from_raw_hash(key_hash));
    match script_type {
        // segwit refuses uncompressed keys
        ScriptType::P2pk => {
            let key = p2pk_key(script).filter(|key| key.len() == COMPRESSED)?;
            Some(program(hash160::Hash::hash(key)))
        }
        ScriptType::P2pkh => {
            let hash = script.as_bytes().get(3..23)?;
            Some(program(PubkeyHash::from_slice(hash).ok()?.to_raw_hash()))
        }
        ScriptType::P2wpkh | ScriptType::P2wsh => None,
        ScriptType::P2ms if multisig(script)?.1.iter().any(|key| key.len() != COMPRESSED) => None,
        _ => Some(script.to_p2wsh()),
    }
}

/// Whether a script consists of whole operations that exist, pushes nothing too long, and has no opcode that taproot
/// scripts give a meaning (BIP342).
fn is_executable(script: &Script) -> bool {
    let mut rest = script.as_bytes();
    while !rest.is_empty() {
        let Some((operation, behind)) = next_operation(rest) else { return false };
        let is_push = operation.pushed.is_some();
        if operation.pushed.is_some_and(|data| data.len() > MAX_PUSH)
            || operation.opcode > LAST_OPCODE
            || (!is_push && is_op_success(operation.opcode))
        {
            return false;
        }
        rest = behind;
    }
    true
}

/// Whether an opcode up to [`LAST_OPCODE`] ends a taproot script with success (BIP342).
const fn is_op_success(opcode: u8) -> bool {
    matches!(opcode, 80 | 98 | 126..=129 | 131..=134 | 137..=138 | 141..=142 | 149..=153)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(hex: &str) -> [Option<String>; 3] {
        let script = ScriptBuf::from_hex(hex).unwrap();
        let WrappedScripts { p2sh, segwit, p2sh_segwit } = wrapped_scripts(&script);
        [p2sh, segwit, p2sh_segwit].map(|script| script.map(|script| script.to_hex_string()))
    }

    /// The first byte of each wrapping: of P2SH, of the witness program with its length, and of P2SH again.
    fn forms(hex: &str) -> [Option<String>; 3] {
        wrapped(hex).map(|script| script.map(|script| script[..4].to_owned()))
    }

    #[test]
    fn a_key_hash_is_wrapped_by_the_program_of_its_key() {
        // of the key in the examples of BIP141 and BIP143
        let key = "03ad1d8e89212f0b92c74d23bb710c00662ad1470198ac48c43f7d6f93a2a26873";
        let key_hash = "38971f73930f6c141d977ac4fd4a727c854935b3";
        let nested = "a91464db50fa521adaeefca1e76e1d1a62d7ad6c26db87";
        let [_, segwit, p2sh_segwit] = wrapped(&format!("21{key}ac"));
        assert_eq!(segwit.as_deref().map(|script| &script[..4]), Some("0014"));
        let by_hash = wrapped(&format!("76a914{}88ac", &segwit.clone().unwrap()[4..]));
        assert_eq!((&by_hash[1], &by_hash[2]), (&segwit, &p2sh_segwit));
        let [_, segwit, p2sh_segwit] = wrapped(&format!("76a914{key_hash}88ac"));
        assert_eq!(segwit, Some(format!("0014{key_hash}")));
        assert_eq!(wrapped(&format!("0014{key_hash}"))[0], p2sh_segwit);
        assert_ne!(p2sh_segwit.as_deref(), Some(nested));
    }

    #[test]
    fn what_can_not_be_spent_in_a_form_has_none_of_it() {
        let all = [Some("a914".to_owned()), Some("0020".to_owned()), Some("a914".to_owned())];
        let p2sh_only = [Some("a914".to_owned()), None, None];
        let segwit_only = [None, Some("0020".to_owned()), Some("a914".to_owned())];
        let none = [None, None, None];
        let (compressed, uncompressed) = (format!("21{}", "02".repeat(33)), format!("41{}", "04".repeat(65)));
        let push = |bytes: u16| format!("4d{:02x}{:02x}{}", bytes & 0xff, bytes >> 8, "ab".repeat(bytes.into()));
        for (hex, expected) in [
            (format!("51{compressed}{compressed}52ae"), all.clone()),
            (format!("51{compressed}{uncompressed}52ae"), p2sh_only.clone()),
            (format!("{uncompressed}ac"), p2sh_only.clone()),
            (format!("0014{}", "ab".repeat(20)), p2sh_only.clone()),
            (format!("0020{}", "ab".repeat(32)), p2sh_only),
            (String::new(), all.clone()),
            ("51".to_owned(), all.clone()),
            (format!("0015{}", "ab".repeat(21)), all.clone()),
            (push(517), all.clone()),
            (push(518), segwit_only.clone()),
            (push(520), segwit_only.clone()),
            (push(521), none.clone()),
            ("61".repeat(520), all),
            ("61".repeat(521), segwit_only.clone()),
            ("61".repeat(10_000), segwit_only),
            ("61".repeat(10_001), none.clone()),
            (format!("a914{}87", "ab".repeat(20)), none.clone()),
            (format!("5120{}", "ab".repeat(32)), none.clone()),
            ("51024e73".to_owned(), none.clone()),
            ("52021234".to_owned(), none.clone()),
            ("6a".to_owned(), none.clone()),
            ("5102".to_owned(), none.clone()),
            ("ba".to_owned(), none.clone()),
            ("50".to_owned(), none.clone()),
            ("7e".to_owned(), none),
        ] {
            assert_eq!(forms(&hex), expected, "{}", &hex[..hex.len().min(100)]);
        }
    }
}
