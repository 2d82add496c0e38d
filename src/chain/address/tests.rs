use bitcoin::bech32::primitives::decode::CheckedHrpstring;
use bitcoin::bech32::{self, Bech32, Bech32m, Fe32, Hrp};
use bitcoin::{Network, ScriptBuf, base58};
use proptest::prelude::*;
use serde_json::Value;

use super::form::{BASE58_ALPHABET, TESTNETS};
use super::text::{p2pkh, p2sh};
use super::*;
use crate::chain::network;
use crate::chain::script::{ScriptType, multisig, p2pk_key};
use crate::chain::test_data::shared_data;

/// A P2WPKH address of mainnet (BIP173).
const BECH32: &str = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
/// A P2TR address of mainnet (BIP350).
const BECH32M: &str = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0";
/// A P2PKH address of mainnet.
const BASE58: &str = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa";

fn refusal(text: &str) -> AddressError {
    parse_address(text, Network::Bitcoin).unwrap_err()
}

fn segwit(prefix: &str, version: u8, program: &[u8]) -> String {
    let version = Fe32::try_from(version).unwrap();
    bech32::segwit::encode(Hrp::parse(prefix).unwrap(), version, program).unwrap()
}

/// A bech32 text with a valid checksum over arbitrary data.
fn checksummed<Variant: bitcoin::bech32::Checksum>(prefix: &str, values: &[u8]) -> String {
    use bitcoin::bech32::primitives::iter::Fe32IterExt as _;
    let hrp = Hrp::parse(prefix).unwrap();
    let values = values.iter().map(|value| Fe32::try_from(*value).unwrap());
    values.with_checksum::<Variant>(&hrp).chars().collect()
}

#[test]
fn every_address_that_core_knows_is_read_and_written() {
    let name = "every_address_that_core_knows_is_read_and_written";
    let Some(vectors) = shared_data::json("vectors/key_io_valid.json", name) else { return };
    let mut read = 0;
    for vector in vectors.as_array().unwrap() {
        let (text, payload, about) = (vector[0].as_str().unwrap(), vector[1].as_str().unwrap(), &vector[2]);
        let network = network::from_core_chain(about["chain"].as_str().unwrap()).unwrap();
        if about["isPrivkey"] == Value::Bool(true) {
            assert_eq!(parse_address(text, network), Err(AddressError::PrivateKey), "{text}");
            continue;
        }
        let script = ScriptBuf::from_hex(payload).unwrap();
        assert_eq!(parse_address(text, network).as_ref(), Ok(&script), "{text}");
        assert_eq!(address_of(&script, network).as_deref(), Some(text));
        let flipped: String = text.chars().map(flip_case).collect();
        let allows_flipping = about.get("tryCaseFlip") == Some(&Value::Bool(true));
        assert_eq!(parse_address(&flipped, network).ok(), allows_flipping.then_some(script), "{flipped}");
        read += 1;
    }
    assert!(read > 40, "only {read} addresses");
}

#[test]
fn what_core_refuses_is_refused_on_every_network() {
    let name = "what_core_refuses_is_refused_on_every_network";
    let Some(vectors) = shared_data::json("vectors/key_io_invalid.json", name) else { return };
    for vector in vectors.as_array().unwrap() {
        let text = vector[0].as_str().unwrap();
        for network in network::ALL {
            let error = parse_address(text, network).unwrap_err();
            assert!(!matches!(error, AddressError::Network { .. }), "{text:?}: {error}");
        }
    }
}

fn flip_case(character: char) -> char {
    if character.is_ascii_uppercase() { character.to_ascii_lowercase() } else { character.to_ascii_uppercase() }
}

#[test]
fn every_address_in_real_blocks_comes_back_as_its_script() {
    for name in shared_data::FULL_BLOCKS {
        let Some(block) = shared_data::full_block(name, "every_address_in_real_blocks_comes_back_as_its_script") else {
            return;
        };
        let created = block.transactions.iter().flat_map(|transaction| &transaction.output);
        for output in created.chain(block.spent.iter().flatten()) {
            let script = &output.script_pubkey;
            let has_address = !matches!(ScriptType::of(script), ScriptType::P2pk | ScriptType::OpReturn);
            let address = address_of(script, Network::Bitcoin);
            assert_eq!(address.is_some(), has_address, "{script}");
            if let Some(address) = address {
                assert_eq!(parse_address(&address, Network::Bitcoin).as_ref(), Ok(script));
            }
        }
    }
}

#[test]
fn scripts_without_an_address_have_none() {
    let key = "02".repeat(33);
    let p2pk = ScriptBuf::from_hex(&format!("21{key}ac")).unwrap();
    let bare_multisig = ScriptBuf::from_hex(&format!("5121{key}51ae")).unwrap();
    assert!(p2pk_key(&p2pk).is_some() && multisig(&bare_multisig).is_some());
    let others = ["", "6a", "51", "00021111", "6a0568656c6c6f"].map(|hex| ScriptBuf::from_hex(hex).unwrap());
    for script in others.iter().chain([&p2pk, &bare_multisig]) {
        for network in network::ALL {
            assert_eq!(address_of(script, network), None, "{script}");
        }
    }
}

#[test]
fn anchors_and_unknown_witness_versions_have_addresses() {
    for (hex, address) in [("51024e73", "bc1pfeessrawgf"), ("60021234", &segwit("bc", 16, &[0x12, 0x34]))] {
        let script = ScriptBuf::from_hex(hex).unwrap();
        assert_eq!(address_of(&script, Network::Bitcoin).as_deref(), Some(address));
        assert_eq!(parse_address(address, Network::Bitcoin), Ok(script));
    }
}

#[test]
fn upper_case_bech32_is_the_same_address() {
    for address in [BECH32, BECH32M] {
        let upper = address.to_uppercase();
        assert_eq!(parse_address(&upper, Network::Bitcoin), parse_address(address, Network::Bitcoin));
        assert_eq!(address_of(&parse_address(&upper, Network::Bitcoin).unwrap(), Network::Bitcoin).unwrap(), address);
    }
}

#[test]
fn an_address_of_another_network_names_its_networks() {
    let script = parse_address(BASE58, Network::Bitcoin).unwrap();
    let witness = parse_address(BECH32, Network::Bitcoin).unwrap();
    for (script, of, read_as, belongs_to) in [
        (&script, Network::Bitcoin, Network::Regtest, "mainnet"),
        (&script, Network::Signet, Network::Bitcoin, "testnet3 or testnet4 or signet or regtest"),
        (&script, Network::Regtest, Network::Bitcoin, "testnet3 or testnet4 or signet or regtest"),
        (&witness, Network::Bitcoin, Network::Testnet4, "mainnet"),
        (&witness, Network::Testnet, Network::Regtest, "testnet3 or testnet4 or signet"),
        (&witness, Network::Regtest, Network::Signet, "regtest"),
    ] {
        let error = parse_address(&address_of(script, of).unwrap(), read_as).unwrap_err();
        let expected = format!("this is an address of {belongs_to}, not of {}", network::name(read_as));
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn networks_that_share_a_prefix_read_each_others_addresses() {
    let witness = parse_address(BECH32, Network::Bitcoin).unwrap();
    for of in TESTNETS {
        for read_as in TESTNETS {
            assert_eq!(parse_address(&address_of(&witness, *of).unwrap(), *read_as).as_ref(), Ok(&witness));
        }
    }
}

#[test]
fn text_around_an_address_is_refused_where_it_stands() {
    for (text, character, position, encoding) in [
        (format!(" {BECH32}"), ' ', 0, AddressEncoding::Bech32),
        (format!("{BECH32} "), ' ', 42, AddressEncoding::Bech32),
        (format!("{BASE58}\n"), '\n', 34, AddressEncoding::Base58),
        (format!("bitcoin:{BASE58}"), ':', 7, AddressEncoding::Base58),
        (format!("{BECH32}?amount=1"), '?', 42, AddressEncoding::Bech32),
        (BASE58.replace("P1", "P0"), '0', 5, AddressEncoding::Base58),
        (BECH32.replace("w508", "wé08"), 'é', 5, AddressEncoding::Bech32),
        ("bc1qb".to_owned(), 'b', 4, AddressEncoding::Bech32),
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7k1v8f3t4".to_owned(), '1', 36, AddressEncoding::Bech32),
    ] {
        assert_eq!(refusal(&text), AddressError::Character { character, position, encoding }, "{text:?}");
        assert_eq!(refusal(&text).position(), Some(position));
    }
}

#[test]
fn each_error_names_its_cause() {
    let program = |version: u8, fives: usize| [vec![version], vec![0; fives]].concat();
    for (text, error) in [
        (String::new(), AddressError::Empty),
        ("bc1".to_owned(), AddressError::TooShort { length: 3 }),
        ("bc1qqqqqq".to_owned(), AddressError::TooShort { length: 9 }),
        ("1".to_owned(), AddressError::TooShort { length: 1 }),
        ("1".repeat(121), AddressError::TooLong { length: 121, longest: 90 }),
        ("1".repeat(1_000_000), AddressError::TooLong { length: 1_000_000, longest: 90 }),
        (checksummed::<Bech32m>("bc", &program(1, 90)), AddressError::TooLong { length: 100, longest: 90 }),
        (BECH32.replace("d6q", "D6q"), AddressError::MixedCase { position: 8 }),
        (BECH32.replace("bc1", "Bc1"), AddressError::MixedCase { position: 1 }),
        (BASE58.replace("P1", "P2"), AddressError::Checksum { positions: Vec::new() }),
        (checksummed::<Bech32m>("bc", &program(0, 32)), AddressError::ChecksumVariant { version: 0 }),
        (checksummed::<Bech32>("bc", &program(1, 52)), AddressError::ChecksumVariant { version: 1 }),
        (checksummed::<Bech32m>("bc", &program(17, 32)), AddressError::WitnessVersion { version: 17, position: 3 }),
        (checksummed::<Bech32>("bc", &program(0, 34)), AddressError::ProgramLength { version: 0, length: 21 }),
        (checksummed::<Bech32m>("bc", &program(2, 2)), AddressError::ProgramLength { version: 2, length: 1 }),
        (checksummed::<Bech32m>("bc", &program(2, 66)), AddressError::ProgramLength { version: 2, length: 41 }),
        (checksummed::<Bech32m>("bc", &program(2, 6)), AddressError::Padding),
        (checksummed::<Bech32m>("bc", &[2, 0, 0, 0, 1]), AddressError::Padding),
        (checksummed::<Bech32>("ltc", &program(0, 32)), AddressError::Prefix { prefix: "ltc".to_owned() }),
        // mistyped in the prefix, and so with another checksum
        ("bcut1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080".to_owned(), AddressError::Prefix { prefix: "bcut".to_owned() }),
        ("CRT1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KYGT080".to_owned(), AddressError::Prefix { prefix: "crt".to_owned() }),
        (base58::encode_check(&[0x30; 21]), AddressError::Payload { version: 0x30, length: 20 }),
        (base58::encode_check(&[0x00; 22]), AddressError::Payload { version: 0, length: 21 }),
        (base58::encode_check(&[]), AddressError::TooShort { length: 6 }),
        (base58::encode_check(&[0x80; 33]), AddressError::PrivateKey),
        (base58::encode_check(&[0xef; 34]), AddressError::PrivateKey),
        (base58::encode_check(&[0x04; 78]), AddressError::ExtendedKey),
        (base58::encode_check(&[vec![0x04; 45], vec![0; 33]].concat()), AddressError::PrivateKey),
    ] {
        assert_eq!(refusal(&text), error, "{text}");
    }
}

#[test]
fn all_wrong_positions_are_reported() {
    for (text, positions) in [
        (BECH32.replace("qejx", "bejO"), vec![10, 13]),
        (BECH32.replace("d6qejx", "D6qEJx"), vec![8, 11, 12]),
        (BECH32.to_uppercase().replace("BC1", "Bc1"), vec![1]),
        (BECH32.replace("d6qejx", "d6qqqx"), vec![11, 12]),
        (BECH32.replace("bc1q", "bc1p"), vec![3]),
        (BECH32[..8].to_owned(), vec![2]),
        (format!("{BECH32M}{}", "q".repeat(30)), (90..92).collect()),
        (BASE58.replace("P1e", "P0I"), vec![5, 6]),
        (format!(" {BASE58}é"), vec![0, 35]),
        (format!("  {BECH32}b"), vec![0, 1]),
        (BASE58.replace("P1", "P2"), vec![]),
        (checksummed::<Bech32m>("bc", &[17; 33]), vec![3]),
        (BECH32.replace("w508d6", "qqqqqq"), vec![]),
        ("bc1".repeat(50), vec![]),
        (String::new(), vec![]),
    ] {
        assert_eq!(refusal(&text).positions(&text), positions, "{text}");
    }
}

#[test]
fn messages_name_the_cause_and_the_position() {
    for (error, message) in [
        (
            AddressError::Character { character: '0', position: 5, encoding: AddressEncoding::Base58 },
            "the character '0' at position 5 (counted from 0) occurs in no base58 address",
        ),
        (AddressError::Checksum { positions: Vec::new() }, "the checksum does not match: the address is mistyped"),
        (
            AddressError::Checksum { positions: vec![7] },
            "the checksum does not match: the address is mistyped, probably at position 7 (counted from 0)",
        ),
        (
            AddressError::Checksum { positions: vec![7, 9] },
            "the checksum does not match: the address is mistyped, probably at positions 7 and 9 (counted from 0)",
        ),
        (
            AddressError::ChecksumVariant { version: 1 },
            "witness version 1 needs a bech32m checksum, but this is the one of bech32",
        ),
        (
            AddressError::ProgramLength { version: 0, length: 21 },
            "a witness program of version 0 must have 20 or 32 bytes, not 21",
        ),
    ] {
        assert_eq!(error.to_string(), message);
    }
}

/// Whether a text is in the older variant once the two characters at these positions are replaced.
fn is_bech32_but_for(address: &str, positions: &[usize]) -> bool {
    let [one, other] = positions else { return false };
    let values = || (0..32).map(|value| Fe32::try_from(value).unwrap().to_char());
    let mut address: Vec<char> = address.chars().collect();
    values().any(|first| {
        address[*one] = first;
        values().any(|second| {
            address[*other] = second;
            CheckedHrpstring::new::<Bech32>(&address.iter().collect::<String>()).is_ok()
        })
    })
}

proptest! {
    #[test]
    fn every_script_with_an_address_comes_back_from_it(
        hash: [u8; 20], version in 0_u8..=16, program in prop::collection::vec(any::<u8>(), 2..=40), wide: [u8; 32],
        network in prop::sample::select(&network::ALL[..]),
    ) {
        let small_number = if version == 0 { 0 } else { 0x50 + version };
        let program = if version == 0 { wide.to_vec() } else { program };
        let length = u8::try_from(program.len()).unwrap();
        for script in [p2pkh(hash), p2sh(hash), [&[small_number, length], &program[..]].concat().into()] {
            let address = address_of(&script, network).unwrap();
            prop_assert_eq!(parse_address(&address, network), Ok(script));
        }
    }

    #[test]
    fn one_or_two_replaced_characters_of_bech32_are_found(
        version in 0_u8..=16, program in prop::collection::vec(any::<u8>(), 2..=40), wide: [u8; 32],
        replaced in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..32), 1..=2),
    ) {
        let program = if version == 0 { &wide[..] } else { &program };
        let mut address: Vec<char> = segwit("bc", version, program).chars().collect();
        let mut positions = Vec::new();
        for (at, difference) in replaced {
            let at = 3 + at.index(address.len() - 3);
            prop_assume!(!positions.contains(&at));
            let value = Fe32::from_char(address[at]).unwrap().to_u8();
            address[at] = Fe32::try_from(value ^ difference).unwrap().to_char();
            positions.push(at);
        }
        positions.sort_unstable();
        let address: String = address.into_iter().collect();
        let error = refusal(&address);
        // a version of the other variant may leave one character to replace
        if let AddressError::Checksum { positions: found } = &error && found.len() == positions.len() {
            prop_assert_eq!(&error.positions(&address), found);
            // Core tries bech32 first: it wins a draw against bech32m
            prop_assert!(found == &positions || is_bech32_but_for(&address, found), "{found:?} of {positions:?}");
        } else {
            prop_assert!(positions.contains(&3), "{:?} of {}", error, address);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,100}", data in "[ac-hj-np-z02-9]{0,100}") {
        for text in [text, format!("bc1{data}"), format!("BC1{data}"), format!("tb1q{data}"), data] {
            for network in network::ALL {
                if let Ok(script) = parse_address(&text, network) {
                    prop_assert_eq!(address_of(&script, network), Some(text.to_lowercase()));
                }
            }
        }
    }

    #[test]
    fn base58_addresses_with_a_replaced_character_are_refused(
        hash: [u8; 20], at: prop::sample::Index, by in 0_usize..58,
    ) {
        let mut address = address_of(&p2pkh(hash), Network::Bitcoin).unwrap().into_bytes();
        let at = at.index(address.len());
        let replacement = BASE58_ALPHABET.as_bytes()[by];
        prop_assume!(address[at] != replacement);
        address[at] = replacement;
        prop_assert!(parse_address(&String::from_utf8(address).unwrap(), Network::Bitcoin).is_err());
    }
}
