//! The contents of a coinbase: the height, the readable text, the name of a miner, and the witness commitment.
//!
//! Only the bytes are decoded. Other modules decide whether the height is the block's own, which pool a text names, and
//! what the coinbase earns.

use bitcoin::hashes::Hash;
use bitcoin::script::Instruction;
use bitcoin::{Script, WitnessCommitment};

use super::Height;

/// The first bytes of an output script that commits to the witnesses: OP_RETURN, a push of 36 bytes, and the four
/// bytes of the header (BIP141).
const WITNESS_COMMITMENT_HEADER: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// The least number of readable bytes in a row that count as text. Shorter runs are taken for chance.
const SHORTEST_TEXT: usize = 4;

/// The height that a coinbase's scriptSig begins with, in exactly the form that BIP34 asks for (minimal, as Core's
/// `CScript() << nHeight` in `ContextualCheckBlock` writes it). `None` if it begins with anything else.
///
/// From block version 2 on this is the height of the block. Before, a scriptSig may begin with a number that means
/// something else: the mainnet genesis block begins with its `bits`, which read as 486,604,799.
#[must_use]
pub fn height(script_sig: &Script) -> Option<Height> {
    let number = match script_sig.as_bytes() {
        [0x00, ..] => 0,
        [opcode @ 0x51..=0x60, ..] => u32::from(opcode - 0x50),
        [length @ 1..=4, rest @ ..] => pushed_number(rest.get(..usize::from(*length))?)?,
        _ => return None,
    };
    Some(Height::from(number))
}

/// The number of a push of one to four bytes, little-endian and signed by its highest bit (Core `CScriptNum`). `None`
/// if it is negative, or has a shorter encoding or an opcode of its own (0 to 16).
fn pushed_number(pushed: &[u8]) -> Option<u32> {
    let (last, lower) = pushed.split_last()?;
    let is_negative = last & 0x80 != 0;
    let is_padded = *last == 0 && lower.last().is_none_or(|below| below & 0x80 == 0);
    if is_negative || is_padded {
        return None;
    }
    let mut bytes = [0; 4];
    bytes.get_mut(..pushed.len())?.copy_from_slice(pushed);
    Some(u32::from_le_bytes(bytes)).filter(|number| *number > 16)
}

/// The readable text in a coinbase's scriptSig: every run of at least four bytes of printable UTF-8, trimmed, joined
/// by single spaces. Empty if there is none.
///
/// Control characters are excluded, and so are characters that only change how others are displayed (direction marks,
/// zero-width ones): a miner chooses these bytes, and explorers display them.
#[must_use]
pub fn text(script_sig: &Script) -> String {
    let runs = script_sig.as_bytes().utf8_chunks().flat_map(|chunk| chunk.valid().split(|c| !is_printable(c)));
    let texts = runs.filter(|run| run.len() >= SHORTEST_TEXT).map(str::trim).filter(|run| !run.is_empty());
    texts.collect::<Vec<_>>().join(" ")
}

/// What separates the tag of a pool from that of a miner.
const TAG_SEPARATOR: char = '\u{f}';

/// The name of the miner that made the template of the block, in a pool that leaves templates to its miners by DATUM. `None`
/// in any other scriptSig.
///
/// Behind the height, a DATUM gateway pushes the tag of the pool, a byte 0x0f, the tag of the miner and a byte 0, and then its
/// own number (`generate_coinbase_input` in `src/datum_coinbaser.c` of datum_gateway). Both tags are printable, or this is
/// something else. A miner chooses its tag, which proves nothing.
#[must_use]
pub fn miner_name(script_sig: &Script) -> Option<&str> {
    let mut instructions = script_sig.instructions().map(Result::ok);
    let (_height, tags, number) = (instructions.next()??, instructions.next()??, instructions.next()??);
    let (Instruction::PushBytes(tags), Instruction::PushBytes(_)) = (tags, number) else { return None };
    let tags = std::str::from_utf8(tags.as_bytes().strip_suffix(&[0])?).ok()?;
    let (pool, miner) = tags.split_once(TAG_SEPARATOR)?;
    let miner = miner.trim();
    (!pool.is_empty() && !miner.is_empty() && [pool, miner].into_iter().all(|tag| tag.chars().all(is_printable)))
        .then_some(miner)
}

fn is_printable(character: char) -> bool {
    let only_changes_others = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}'
    );
    let is_private = matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..);
    !character.is_control() && !only_changes_others && !is_private
}

/// The commitment to a block's witnesses, found among the scripts of its coinbase's outputs, in order: if several
/// look like one, the last counts (BIP141; Core `GetWitnessCommitmentIndex`). `None` if there is none.
#[must_use]
pub fn witness_commitment<'a>(output_scripts: impl IntoIterator<Item = &'a Script>) -> Option<WitnessCommitment> {
    let committed = |script: &'a Script| script.as_bytes().strip_prefix(&WITNESS_COMMITMENT_HEADER)?.first_chunk();
    output_scripts.into_iter().filter_map(committed).last().copied().map(WitnessCommitment::from_byte_array)
}

#[cfg(test)]
mod tests {

    use bitcoin::{Network, ScriptBuf, script};
    use proptest::prelude::*;

    use super::*;
    use crate::chain::network;
    use crate::chain::test_data::shared_data;

    fn height_in(hex: &str) -> Option<u32> {
        height(&ScriptBuf::from_hex(hex).unwrap()).map(Height::to_u32)
    }

    fn text_in(bytes: &[u8]) -> String {
        text(Script::from_bytes(bytes))
    }

    #[test]
    fn a_miner_is_named_behind_the_height_and_its_pool() {
        let named = |pushes: &[&[u8]]| {
            let script = pushes.iter().fold(script::Builder::new().push_int(880_000), |script, push| {
                script.push_slice(<&script::PushBytes>::try_from(*push).unwrap())
            });
            miner_name(&script.into_script()).map(str::to_owned)
        };
        let number: &[u8] = &[0x10, 0x92, 0, 0, 0, 0, 0];
        assert_eq!(named(&[b"OCEAN.XYZ\x0fA miner\0", number]).as_deref(), Some("A miner"));
        // longer than 75 bytes, as the push of both has a byte of length of its own then
        let long = [b"OCEAN.XYZ\x0f".as_slice(), &[b'm'; 80], &[0]].concat();
        assert_eq!(named(&[&long, number]), Some("m".repeat(80)));
        for other in [
            [b"OCEAN.XYZ\0".as_slice(), number].as_slice(),
            &[b"OCEAN.XYZ\x0f\0", number],
            &[b"OCEAN.XYZ\x0f \0", number],
            &[b"\x0fA miner\0", number],
            &[b"OCEAN.XYZ\x0fA miner", number],
            &[b"OCEAN.XYZ\x0fA miner\0"],
            &[b"OCEAN.XYZ\x0fA\x0fminer\0", number],
            &[b"OCEAN\x01XYZ\x0fA miner\0", number],
            &[b"OCEAN.XYZ\x0fA \xff\0", number],
            &[number],
            &[],
        ] {
            assert_eq!(named(other), None, "{other:?}");
        }
        assert_eq!(miner_name(Script::from_bytes(&[0x03, 1])), None);
    }

    #[test]
    fn a_height_is_read_in_its_minimal_form_only() {
        for (hex, height) in [
            ("00", Some(0)),
            ("0000", Some(0)),
            ("51", Some(1)),
            ("60ff", Some(16)),
            ("61", None),
            ("4f", None),
            ("", None),
            ("0101", None),
            ("0110", None),
            ("0111", Some(17)),
            ("017f", Some(127)),
            ("0180", None),
            ("0181", None),
            ("0100", None),
            ("028000", Some(128)),
            ("027f00", None),
            ("02ff7f", Some(32_767)),
            ("03ffff00", Some(65_535)),
            ("03a08601", Some(100_000)),
            ("04a0860100", None),
            ("03a08681", None),
            ("03eb8f0b2f706f6f6c2f", Some(757_739)),
            ("03eb8f", None),
            ("4c03eb8f0b", None),
            ("04ffffff7f", Some(2_147_483_647)),
            ("04ffff001d0104", Some(486_604_799)),
            ("05ffffffff00", None),
        ] {
            assert_eq!(height_in(hex), height, "in {hex:?}");
        }
    }

    #[test]
    fn real_blocks_of_version_2_contain_their_height() {
        for (name, says) in
            [("full_57042", None), ("full_91721", None), ("full_209999", Some(210_000)), ("full_757738", Some(757_739))]
        {
            let Some(block) = shared_data::full_block(name, "real_blocks_of_version_2_contain_their_height") else {
                return;
            };
            let reported = height(&block.transactions[0].input[0].script_sig).map(Height::to_u32);
            assert_eq!(reported.filter(|reported| *reported == block.height), says, "in {name}");
        }
    }

    #[test]
    fn text_is_the_readable_part_of_the_script() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"\x03\xeb\x8f\x0b/pool/", "/pool/"),
            (b"abc\x00/pool/\x00abcd", "/pool/ abcd"),
            (b"\x01\x02  spaced out  \xff\xfe\x00", "spaced out"),
            (b"    ", ""),
            (b"line\nfeed\ttab", "line feed"),
            ("七彩神仙鱼\u{0}🐟".as_bytes(), "七彩神仙鱼 🐟"),
            (b"half a fish \xf0\x9f\x90", "half a fish"),
            ("safe\u{202e}evil\u{200b}text\u{7f}\u{9b}".as_bytes(), "safe evil text"),
        ] {
            assert_eq!(text_in(bytes), text, "of {bytes:?}");
        }
    }

    #[test]
    fn the_genesis_blocks_quote_the_newspapers() {
        let quoted = |network| text(&network::genesis_block(network).txdata[0].input[0].script_sig);
        // the E is the opcode of the push, 69 bytes long
        assert_eq!(quoted(Network::Bitcoin), "EThe Times 03/Jan/2009 Chancellor on brink of second bailout for banks");
        let testnet4 = "03/May/2024 000000000000000000001ebd58c244970b3aa9d783bb001011fbe8ea8e98e00e";
        assert!(quoted(Network::Testnet4).ends_with(testnet4));
    }

    #[test]
    fn the_last_output_that_looks_like_a_commitment_is_it() {
        let script = |byte: u8, more: usize| {
            ScriptBuf::from_bytes([&WITNESS_COMMITMENT_HEADER[..], &vec![byte; 32 + more]].concat())
        };
        let short = ScriptBuf::from_bytes([&WITNESS_COMMITMENT_HEADER[..], &[9; 31]].concat());
        let other = ScriptBuf::from_bytes(vec![0x51; 60]);
        for (scripts, commitment) in [
            (vec![], None),
            (vec![&other, &short], None),
            (vec![&script(1, 0), &other], Some([1; 32])),
            (vec![&script(1, 0), &script(2, 5), &short], Some([2; 32])),
        ] {
            let found = witness_commitment(scripts.into_iter().map(ScriptBuf::as_script));
            assert_eq!(found.map(WitnessCommitment::to_byte_array), commitment);
        }
    }

    #[test]
    fn real_segwit_blocks_commit_to_their_witnesses() {
        let name = "real_segwit_blocks_commit_to_their_witnesses";
        for chain in ["signet-0-120", "regtest-kernel-0-206"] {
            let Some(blocks) = shared_data::chain(chain, name) else { return };
            for block in &blocks[1..] {
                let coinbase = &block.txdata[0];
                let scripts = coinbase.output.iter().map(|output| output.script_pubkey.as_script());
                let reserved = coinbase.input[0].witness.nth(0).unwrap();
                let computed = bitcoin::Block::compute_witness_commitment(&block.witness_root().unwrap(), reserved);
                assert_eq!(witness_commitment(scripts), Some(computed), "{}", block.block_hash());
            }
        }
    }

    proptest! {
        #[test]
        fn every_height_that_core_writes_is_read(number in 0_u32..=0x7fff_ffff, small in 0_u32..70_000) {
            for number in [number, small] {
                let written = script::Builder::new().push_int(number.into()).push_slice(b"extra nonce").into_script();
                prop_assert_eq!(height(&written), Some(Height::from(number)));
            }
        }

        #[test]
        fn a_height_that_is_read_is_written_the_same_by_core(bytes: Vec<u8>) {
            if let Some(height) = height(Script::from_bytes(&bytes)) {
                let written = script::Builder::new().push_int(height.to_u32().into()).into_script();
                prop_assert!(bytes.starts_with(written.as_bytes()));
            }
        }

        #[test]
        fn text_never_contains_unreadable_characters(bytes: Vec<u8>) {
            prop_assert!(text_in(&bytes).chars().all(is_printable));
        }
    }
}
