//! `decodeScript`: what bytes are as a script, and the addresses that pay to them by their hash.

use bitcoin::Network;
use bitcoin::hex::DisplayHex;
use btcgraph::chain::network::genesis_block;
use btcgraph::sim::{Owner, Rng, ScriptKind};
use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::bitcoind::RealNode;

const FIELDS: &str = "descriptor script { hex type asm address scriptHash electrumScriptHash } hash160 publicKeys requiredSignatureCount
    witnessVersion witnessProgram isUnspendable p2sh { address } segwit { address script { hex } } p2shSegwit { address }";

fn decode(api: &Api, hex: &str) -> Value {
    api.data(&format!("{{ decodeScript(hex: \"{hex}\") {{ {FIELDS} }} }}"))["decodeScript"].take()
}

fn byte(random: &mut Rng) -> u8 {
    u8::try_from(random.between(0, 255)).unwrap()
}

fn bytes(random: &mut Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| byte(random)).collect()
}

/// A key of the size that its first byte announces, or now and then not.
fn key(random: &mut Rng) -> Vec<u8> {
    let first = [2, 3, 2, 3, 2, 3, 4, 6, 7, 5][random.index(10)];
    let size = if first > 3 { 65 } else { 33 };
    let mut key = bytes(random, size);
    key[0] = first;
    key
}

fn push(data: &[u8]) -> Vec<u8> {
    let size = u8::try_from(data.len()).unwrap();
    let opcode = if size <= 75 { vec![size] } else { vec![0x4c, size] };
    [opcode, data.to_vec()].concat()
}

fn multisig(random: &mut Rng) -> Vec<u8> {
    let total = usize::try_from(random.between(1, 20)).unwrap();
    let required = usize::try_from(random.between(1, 21)).unwrap().min(total + 1);
    let number = |number: usize| {
        let number = u8::try_from(number).unwrap();
        if number <= 16 { vec![0x50 + number] } else { vec![1, number] }
    };
    let compressed = random.between(0, 1) == 0;
    let mut script = number(required);
    for _ in 0..total {
        let mut key = key(random);
        if compressed {
            key.truncate(33);
            key[0] = 2;
        }
        script.extend(push(&key));
    }
    script.extend(number(total));
    script.push(0xae);
    script
}

/// A script of any type, now and then with a byte changed, cut or added.
fn script(random: &mut Rng) -> Vec<u8> {
    let kinds = ScriptKind::ALL;
    let mut script = match random.between(0, 9) {
        0 | 1 => Owner::new(kinds[random.index(kinds.len())], 3).script_pubkey().into_bytes(),
        2 => [push(&key(random)), vec![0xac]].concat(),
        3 | 4 => multisig(random),
        5 => {
            let size = usize::try_from(random.between(2, 40)).unwrap();
            let version = [0, 0x51, 0x52, 0x60][random.index(4)];
            [vec![version], push(&bytes(random, size))].concat()
        }
        6 => {
            let size = usize::try_from(random.between(0, 80)).unwrap();
            [vec![0x6a], push(&bytes(random, size))].concat()
        }
        7 => {
            let hash = bytes(random, 20);
            match random.between(0, 2) {
                0 => [vec![0x76, 0xa9, 20], hash, vec![0x88, 0xac]].concat(),
                1 => [vec![0xa9, 20], hash, vec![0x87]].concat(),
                _ => [vec![0x00, 20], hash].concat(),
            }
        }
        8 => {
            // operations of all kinds
            let count = random.between(0, 30);
            (0..count)
                .flat_map(
                    |_| if random.between(0, 3) == 0 { vec![byte(random)] } else { vec![0x61 + byte(random) % 0x58] },
                )
                .collect()
        }
        _ => {
            let size = [0, 1, 519, 520, 521, 600, 10_000, 10_001][random.index(8)];
            let opcode = [0x51, 0x61, 0x00][random.index(3)];
            vec![opcode; size]
        }
    };
    match random.between(0, 9) {
        0 if !script.is_empty() => {
            let at = random.index(script.len());
            script[at] = byte(random);
        }
        1 => script.truncate(random.index(script.len() + 1)),
        2 => script.push(byte(random)),
        _ => {}
    }
    script
}

/// The type by the node's word for it.
fn type_of(node: &Value, hex: &str) -> &'static str {
    match node["type"].as_str().unwrap() {
        "pubkey" => "P2PK",
        "pubkeyhash" => "P2PKH",
        "scripthash" => "P2SH",
        "witness_v0_keyhash" => "P2WPKH",
        "witness_v0_scripthash" => "P2WSH",
        "witness_v1_taproot" => "P2TR",
        "anchor" => "P2A",
        "multisig" => "P2MS",
        "nulldata" => "OP_RETURN",
        "witness_unknown" => "WITNESS_UNKNOWN",
        "nonstandard" if hex.is_empty() => "EMPTY",
        // the node distinguishes what follows OP_RETURN
        "nonstandard" if hex.starts_with("6a") => "OP_RETURN",
        "nonstandard" => "NONSTANDARD",
        other => panic!("{other}"),
    }
}

#[test]
fn random_scripts_are_what_the_node_decodes() {
    let Some(node) = RealNode::start(&[]) else { return };
    let (api, mut random) = (Api::of(Network::Regtest, [&genesis_block(Network::Regtest)]), Rng::new(20));
    let mut types = std::collections::BTreeMap::<String, u32>::new();
    let mut wrapped = [0; 3];
    for _ in 0..3_000 {
        let hex = script(&mut random).to_lower_hex_string();
        let (found, theirs) = (decode(&api, &hex), node.must("decodescript", &[json!(hex)]));
        let about = &hex[..hex.len().min(200)];
        let own = &found["script"];
        assert_eq!(own["hex"], hex);
        assert_eq!(own["asm"], theirs["asm"], "{about}");
        assert_eq!(own["type"], type_of(&theirs, &hex), "{about}");
        assert_eq!(own["address"], theirs["address"], "{about}");
        // what is longer than a push can be spent in no P2SH output
        if hex.len() <= 2 * 520 {
            assert_eq!(found["p2sh"]["address"], theirs["p2sh"], "{about}");
        } else {
            assert_eq!(found["p2sh"], Value::Null);
        }
        assert_eq!(found["segwit"]["address"], theirs["segwit"]["address"], "{about}");
        assert_eq!(found["segwit"]["script"]["hex"], theirs["segwit"]["hex"], "{about}");
        assert_eq!(found["p2shSegwit"]["address"], theirs["segwit"]["p2sh-segwit"], "{about}");
        assert_eq!(found["descriptor"], theirs["desc"], "{about}");
        let descriptor = theirs["desc"].as_str().unwrap();
        if let Some((arguments, _)) = descriptor.strip_prefix("multi(").and_then(|rest| rest.split_once(')')) {
            let (required, keys) = arguments.split_once(',').unwrap();
            assert_eq!(found["requiredSignatureCount"].to_string(), required, "{about}");
            assert_eq!(found["publicKeys"], json!(keys.split(',').collect::<Vec<_>>()), "{about}");
        } else if let Some((key, _)) = descriptor.strip_prefix("pk(").and_then(|rest| rest.split_once(')')) {
            assert_eq!((&found["requiredSignatureCount"], &found["publicKeys"]), (&json!(1), &json!([key])), "{about}");
        } else if !["P2PK", "P2MS"].contains(&own["type"].as_str().unwrap()) {
            assert_eq!((&found["requiredSignatureCount"], &found["publicKeys"]), (&Value::Null, &json!([])), "{about}");
        }
        assert_eq!(found["isUnspendable"], hex.starts_with("6a") || hex.len() > 20_000, "{about}");
        *types.entry(own["type"].as_str().unwrap().to_owned()).or_default() += 1;
        for (count, field) in wrapped.iter_mut().zip(["p2sh", "segwit", "p2shSegwit"]) {
            *count += u32::from(!found[field].is_null());
        }
    }
    assert!(types.len() == 12 && types.values().all(|count| *count > 5), "{types:?}");
    assert!(wrapped.iter().all(|count| *count > 300), "{wrapped:?}");
}

#[test]
fn a_multisig_script_is_taken_apart() {
    let api = Api::of(Network::Bitcoin, [&genesis_block(Network::Bitcoin)]);
    let keys = ["02".repeat(33), "03".repeat(33)];
    let hex = format!("5221{}21{}52ae", keys[0], keys[1]);
    let found = decode(&api, &hex);
    assert_eq!(
        (&found["script"]["type"], &found["requiredSignatureCount"], &found["publicKeys"]),
        (&json!("P2MS"), &json!(2), &json!(keys))
    );
    assert_eq!(found["script"]["asm"], format!("2 {} {} 2 OP_CHECKMULTISIG", keys[0], keys[1]));
    let witness_hash = found["script"]["scriptHash"].as_str().unwrap();
    assert_eq!(found["segwit"]["script"]["hex"], format!("0020{witness_hash}"));
    let wrapped = decode(&api, &format!("0020{witness_hash}"));
    assert_eq!((&wrapped["witnessVersion"], &wrapped["witnessProgram"]), (&json!(0), &json!(witness_hash)));
    assert_eq!(wrapped["p2sh"], found["p2shSegwit"]);
    assert_eq!((&wrapped["segwit"], &wrapped["p2shSegwit"]), (&Value::Null, &Value::Null));
}
