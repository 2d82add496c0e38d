//! `validateAddress`: what texts are as addresses, and where they are wrong.

use bitcoin::bech32::primitives::iter::Fe32IterExt as _;
use bitcoin::bech32::{Bech32, Bech32m, ByteIterExt as _, Fe32, Hrp};
use bitcoin::{Network, base58};
use btcgraph::chain::network::genesis_block;
use btcgraph::sim::Rng;
use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::bitcoind::RealNode;

const FIELDS: &str = "isValid error { code message position positions } networks isThisNetwork address scriptType
    witnessVersion witnessProgram script { hex type asm address }";
const BASE58: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BECH32: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

fn api(network: Network) -> Api {
    Api::of(network, [&genesis_block(network)])
}

fn validate(api: &Api, text: &str) -> Value {
    api.data(&format!("{{ validateAddress(address: {}) {{ {FIELDS} }} }}", json!(text)))["validateAddress"].take()
}

fn bytes(random: &mut Rng, count: u64) -> Vec<u8> {
    (0..count).map(|_| u8::try_from(random.between(0, 255)).unwrap()).collect()
}

/// A bech32 text of any version and length, now and then with the checksum of the other variant.
fn segwit(prefix: &str, random: &mut Rng) -> String {
    let (version, length) = match random.between(0, 9) {
        0..=2 => (0, 20),
        3 | 4 => (0, 32),
        5 | 6 => (1, 32),
        7 => (1, 2),
        8 => (random.between(0, 17), random.between(1, 41)),
        _ => (random.between(1, 16), random.between(2, 40)),
    };
    let version = Fe32::try_from(u8::try_from(version).unwrap()).unwrap();
    let (hrp, program) = (Hrp::parse(prefix).unwrap(), bytes(random, length));
    let data = std::iter::once(version).chain(program.into_iter().bytes_to_fes());
    if (version.to_u8() == 0) == (random.between(0, 19) > 0) {
        data.with_checksum::<Bech32>(&hrp).chars().collect()
    } else {
        data.with_checksum::<Bech32m>(&hrp).chars().collect()
    }
}

fn address(random: &mut Rng) -> String {
    let prefix = ["bc", "tb", "bcrt"][random.index(3)];
    match random.between(0, 3) {
        0 => {
            let version = [0x00, 0x05, 0x6f, 0xc4][random.index(4)];
            base58::encode_check(&[vec![version], bytes(random, 20)].concat())
        }
        _ => segwit(prefix, random),
    }
}

/// A text with something wrong in its data, for the most part.
fn mutated(text: &str, random: &mut Rng) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    let first = text.find('1').map_or(0, |separator| separator + 1).min(letters.len() - 1);
    let count = letters.len();
    let place = |random: &mut Rng| first + random.index(count - first);
    match random.between(0, 11) {
        0 => {}
        kind @ 1..=5 => {
            for _ in 0..kind.min(4) {
                let at = place(random);
                letters[at] = char::from(BECH32[random.index(32)]);
            }
        }
        6 => {
            let (one, other) = (place(random), place(random));
            letters.swap(one, other);
        }
        7 => {
            for _ in 0..random.between(1, 3) {
                let at = place(random);
                letters[at] = ['b', 'i', 'o', '0', 'l', 'I', '-', '~', 'é'][random.index(9)];
            }
        }
        8 => {
            for _ in 0..random.between(1, 3) {
                let at = place(random);
                letters[at].make_ascii_uppercase();
            }
        }
        9 => {
            let end = place(random);
            letters.truncate(end);
        }
        10 => letters.extend((0..random.between(1, 60)).map(|_| char::from(BECH32[random.index(32)]))),
        _ => return text.to_uppercase(),
    }
    letters.into_iter().collect()
}

/// The positions that the node locates are ours, in a text that begins as a bech32 address of its network.
fn compare_positions(text: &str, prefix: &str, error: &Value, node: &Value) {
    let (ours, theirs) = (&error["positions"], &node["error_locations"]);
    let data = &text[prefix.len() + 1..];
    let is_lower = text.chars().any(|letter| letter.is_ascii_lowercase());
    let is_mixed = is_lower && text.chars().any(|letter| letter.is_ascii_uppercase());
    match error["code"].as_str().unwrap() {
        // the node reports the first foreign character, those beyond ASCII by their bytes, and the case before all of them
        "INVALID_CHARACTER" if !text.is_ascii() || is_mixed || text.len() > 90 => {}
        "INVALID_CHARACTER" => assert_eq!(theirs[0], ours[0], "{text}"),
        // the node counts what is behind the longest address before all else
        "MIXED_CASE" if text.len() > 90 => {}
        // of what is far too long we report no positions
        "WRONG_LENGTH" if text.len() > 120 => assert_eq!(*ours, json!([]), "{text}"),
        // a text that ends with a checksum alone
        "WRONG_LENGTH" if data.len() == 6 => {}
        // a checksum of the other variant, and what is not a witness program, has no mistyped character
        "INVALID_WITNESS_PROGRAM" => {
            assert_eq!(*theirs, json!([]), "{text}");
        }
        _ => assert_eq!(ours, theirs, "{text}: {error}"),
    }
}

#[test]
fn random_texts_are_the_addresses_that_the_node_takes() {
    let mut located = [0; 3];
    for (seed, chain, network, prefix) in [
        (1, "main", Network::Bitcoin, "bc"),
        (2, "test", Network::Testnet, "tb"),
        (3, "regtest", Network::Regtest, "bcrt"),
    ] {
        let Some(node) = RealNode::with_chain(chain, &[]) else { return };
        let (api, mut random) = (api(network), Rng::new(seed));
        for _ in 0..1_500 {
            let text = if random.between(0, 1) == 0 { address(&mut random) } else { segwit(prefix, &mut random) };
            let text = if random.between(0, 3) == 0 { text } else { mutated(&text, &mut random) };
            let (found, theirs) = (validate(&api, &text), node.must("validateaddress", &[json!(text)]));
            assert_eq!(found["isValid"], theirs["isvalid"], "{text}: {found} {theirs}");
            if found["isValid"] == true {
                assert_eq!(found["isThisNetwork"], true);
                assert_eq!(found["error"], Value::Null);
                assert_eq!(found["address"], theirs["address"]);
                assert_eq!(found["script"]["hex"], theirs["scriptPubKey"]);
                assert_eq!(found["script"]["address"], theirs["address"]);
                assert_eq!(found["witnessVersion"], theirs["witness_version"]);
                assert_eq!(found["witnessProgram"], theirs["witness_program"]);
                let is_script = ["P2SH", "P2WSH", "P2TR", "P2A"].contains(&found["scriptType"].as_str().unwrap());
                if found["scriptType"] != "WITNESS_UNKNOWN" {
                    assert_eq!(theirs["isscript"], is_script, "{text}: {theirs}");
                }
                continue;
            }
            let error = &found["error"];
            let is_bech32 = text.to_ascii_lowercase().starts_with(&format!("{prefix}1"));
            if is_bech32 && error["code"] != "WRONG_NETWORK" {
                compare_positions(&text, prefix, error, &theirs);
                if error["code"] == "WRONG_CHECKSUM" {
                    located[error["positions"].as_array().unwrap().len()] += 1;
                }
            } else if error["code"] == "INVALID_CHARACTER" && !text.to_ascii_lowercase().starts_with(['b', 't']) {
                let foreign = text.chars().enumerate().filter(|(_, letter)| !BASE58.contains(*letter));
                assert_eq!(error["positions"], json!(foreign.map(|(at, _)| at).collect::<Vec<_>>()), "{text}");
            }
            assert_eq!(error["position"], error["positions"].get(0).cloned().unwrap_or(Value::Null));
        }
    }
    assert!(located.iter().all(|count| *count > 100), "checksums with no, one and two positions: {located:?}");
}

#[test]
fn addresses_differ_by_their_networks() {
    let api = api(Network::Regtest);
    let address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    let script = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
    assert_eq!(
        validate(&api, &address.to_uppercase()),
        json!({
            "isValid": true, "error": null, "networks": ["REGTEST"], "isThisNetwork": true, "address": address,
            "scriptType": "P2WPKH", "witnessVersion": 0, "witnessProgram": &script[4..],
            "script": { "hex": script, "type": "P2WPKH", "asm": format!("0 {}", &script[4..]), "address": address },
        })
    );
    let signet = "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx";
    let message = format!("{signet:?}: this is an address of testnet3 or testnet4 or signet, not of regtest");
    assert_eq!(
        validate(&api, signet),
        json!({
            "isValid": false, "networks": ["TESTNET_3", "TESTNET_4", "SIGNET"], "isThisNetwork": false, "address": signet,
            "error": { "code": "WRONG_NETWORK", "message": message, "position": null, "positions": [] },
            "scriptType": "P2WPKH", "witnessVersion": 0, "witnessProgram": &script[4..],
            "script": { "hex": script, "type": "P2WPKH", "asm": format!("0 {}", &script[4..]), "address": address },
        })
    );
    let base58 = "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn";
    let found = validate(&api, base58);
    assert_eq!(found["networks"], json!(["TESTNET_3", "TESTNET_4", "SIGNET", "REGTEST"]));
    assert_eq!(
        (&found["isValid"], &found["witnessVersion"], &found["scriptType"]),
        (&json!(true), &Value::Null, &json!("P2PKH"))
    );
}

#[test]
fn what_is_no_address_says_why_and_where() {
    let api = api(Network::Bitcoin);
    let nothing = json!({
        "isValid": false, "networks": [], "isThisNetwork": null, "address": null, "scriptType": null,
        "witnessVersion": null, "witnessProgram": null, "script": null,
    });
    let long = "q".repeat(100_000);
    for (text, code, positions) in [
        ("", "WRONG_LENGTH", json!([])),
        (" 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa\n", "INVALID_CHARACTER", json!([0, 35])),
        ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", "WRONG_CHECKSUM", json!([])),
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw8kv8f3t5", "WRONG_CHECKSUM", json!([34, 41])),
        ("bc1qw508D6QEjxtdg4y5r3zarvary0c5xw7kv8f3t4", "MIXED_CASE", json!([8, 10, 11])),
        (&long, "WRONG_LENGTH", json!([])),
    ] {
        let mut found = validate(&api, text);
        let error = found.as_object_mut().unwrap().remove("error").unwrap();
        assert_eq!((&error["code"], &error["positions"]), (&json!(code), &positions), "{error}");
        assert!(error["message"].as_str().unwrap().len() < 300);
        assert_eq!(found, nothing);
    }
    // a private key is repeated nowhere
    let wif = base58::encode_check(&[0x80; 33]);
    let found = validate(&api, &wif);
    assert_eq!(found["error"]["code"], "PRIVATE_KEY");
    assert!(!found.to_string().contains(&wif));
    let found =
        api.data(&format!("{{ ledgers(of: {{ addresses: [\"{wif}\"] }}) {{ input error {{ code message }} }} }}"));
    assert_eq!(found["ledgers"][0]["error"]["code"], "PRIVATE_KEY", "{found}");
    assert!(!found.to_string().contains(&wif));
}
