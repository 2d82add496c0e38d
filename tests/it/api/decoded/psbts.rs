//! `decodePsbt`: what partially signed transactions spend, and what they lack.

use bitcoin::consensus::deserialize;
use bitcoin::hashes::{Hash, hash160};
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::psbt::raw;
use bitcoin::{Amount, Network, Transaction};
use btcgraph::limits::Limits;
use btcgraph::sim::Rng;
use serde_json::{Value, json};

use super::unsigned_psbts::{decode, text, unsigned};
use crate::support::api::Api;
use crate::support::bitcoind::RealNode;

/// An amount of the node, which it writes in bitcoin.
fn sats(amount: &Value) -> Value {
    json!(Amount::from_btc(amount.as_f64().unwrap()).unwrap().to_sat())
}

/// The HASH160 of each key.
fn key_hashes(keys: &Value) -> Value {
    let hash = |key: &Value| {
        let key = Vec::<u8>::from_hex(key.as_str().unwrap()).unwrap();
        json!(hash160::Hash::hash(&key).to_byte_array().to_lower_hex_string())
    };
    keys.as_array().unwrap().iter().map(hash).collect()
}

/// The derivations as the node writes them.
fn derivations(ours: &Value) -> Value {
    let ours = ours.as_array().unwrap().iter().filter(|one| one["publicKey"].as_str().unwrap().len() == 66);
    let ours = ours.map(
        |one| json!({ "pubkey": one["publicKey"], "master_fingerprint": one["fingerprint"], "path": one["path"] }),
    );
    ours.collect()
}

/// The entries that no signer needs, in the form of the node.
const ENTRIES: &str = "globalXpubs { xpub fingerprint path }
    unknownEntries { key valueData } proprietaryEntries { identifier subtype keyData valueData }
    inputs { nodes { preimages { hashType hashHex preimage } taprootInternalKey taprootMerkleRoot
        taprootScripts { scriptHex leafVersion depth controlBlock }
        unknownEntries { key valueData } proprietaryEntries { identifier subtype keyData valueData } } }
    outputs { nodes { taprootInternalKey taprootTree { scriptHex leafVersion depth controlBlock }
        unknownEntries { key valueData } proprietaryEntries { identifier subtype keyData valueData } } }";

/// Compares the unknown and proprietary entries of a map, which the node leaves out if there are none.
fn compare_entries(ours: &Value, theirs: &Value) {
    let unknown: serde_json::Map<_, _> = ours["unknownEntries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["key"].as_str().unwrap().to_owned(), entry["valueData"].clone()))
        .collect();
    assert_eq!(json!(unknown), *theirs.get("unknown").unwrap_or(&json!({})));
    let proprietary: Value = ours["proprietaryEntries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            json!({
                "identifier": entry["identifier"], "subtype": entry["subtype"], "key": entry["keyData"],
                "value": entry["valueData"],
            })
        })
        .collect();
    // the node repeats the whole key of an entry as `key`
    let theirs: Value = or_empty(&theirs["proprietary"])
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let key = entry["key"].as_str().unwrap();
            let identifier = entry["identifier"].as_str().unwrap();
            // fc, the length of the identifier, that, and the subtype
            let head = format!("fc{:02x}{identifier}{:02x}", identifier.len() / 2, entry["subtype"].as_u64().unwrap());
            let data = key.strip_prefix(&head).unwrap_or(key);
            json!({
                "identifier": identifier, "subtype": entry["subtype"], "key": data, "value": entry["value"],
            })
        })
        .collect();
    assert_eq!(proprietary, theirs);
}

#[test]
fn entries_beside_scripts_and_signatures_are_what_the_node_says() {
    let (api, mut psbt, coin) = unsigned();
    let secp = bitcoin::secp256k1::Secp256k1::verification_only();
    let xpub: bitcoin::bip32::Xpub = XPUB.parse().unwrap();
    let path = "m/84h/1h/0h".parse().unwrap();
    psbt.xpub.insert(xpub, ([1, 2, 3, 4].into(), path));
    let unknown = |type_value: u8, key: &[u8]| raw::Key { type_value, key: key.to_vec() };
    let proprietary = |prefix: &[u8], subtype: u8, key: &[u8]| raw::ProprietaryKey {
        prefix: prefix.to_vec(),
        subtype,
        key: key.to_vec(),
    };
    psbt.unknown.insert(unknown(0xa0, b"global"), vec![1]);
    psbt.proprietary.insert(proprietary(b"shop", 7, b"order"), b"42".to_vec());
    let script = |text: &str| bitcoin::ScriptBuf::from_hex(text).unwrap();
    let (one, two) = (script("51"), script("5287"));
    let internal = xpub.public_key.x_only_public_key().0;
    let tree =
        bitcoin::taproot::TaprootBuilder::new().add_leaf(1, one.clone()).unwrap().add_leaf(1, two.clone()).unwrap();
    let spend = tree.clone().finalize(&secp, internal).unwrap();
    let block = spend.control_block(&(one.clone(), bitcoin::taproot::LeafVersion::TapScript)).unwrap();
    let input = &mut psbt.inputs[0];
    input.witness_utxo = Some(coin);
    input.unknown.insert(unknown(0xa1, b""), b"x".to_vec());
    input.proprietary.insert(proprietary(b"", 252, b""), Vec::new());
    let preimage = b"preimage".to_vec();
    let hashes = {
        use bitcoin::hashes::{hash160, ripemd160, sha256, sha256d};
        input.ripemd160_preimages.insert(ripemd160::Hash::hash(&preimage), preimage.clone());
        input.sha256_preimages.insert(sha256::Hash::hash(&preimage), preimage.clone());
        input.hash160_preimages.insert(hash160::Hash::hash(&preimage), preimage.clone());
        input.hash256_preimages.insert(sha256d::Hash::hash(&preimage), preimage.clone());
        [
            ("RIPEMD160", ripemd160::Hash::hash(&preimage).to_byte_array().to_lower_hex_string()),
            ("SHA256", sha256::Hash::hash(&preimage).to_byte_array().to_lower_hex_string()),
            ("HASH160", hash160::Hash::hash(&preimage).to_byte_array().to_lower_hex_string()),
            ("HASH256", sha256d::Hash::hash(&preimage).to_byte_array().to_lower_hex_string()),
        ]
    };
    input.tap_internal_key = Some(internal);
    input.tap_merkle_root = spend.merkle_root();
    input.tap_scripts.insert(block.clone(), (one.clone(), bitcoin::taproot::LeafVersion::TapScript));
    let output = &mut psbt.outputs[0];
    output.tap_internal_key = Some(internal);
    output.tap_tree = Some(tree.try_into().unwrap());
    output.unknown.insert(unknown(0xa2, b"output"), Vec::new());

    let given = text(&psbt);
    let found = api.data(&format!("{{ decodePsbt(psbt: {}) {{ {ENTRIES} }} }}", json!(given)))["decodePsbt"].take();
    let (input, output) = (&found["inputs"]["nodes"][0], &found["outputs"]["nodes"][0]);
    assert_eq!(found["globalXpubs"], json!([{ "xpub": XPUB, "fingerprint": "01020304", "path": "m/84h/1h/0h" }]));
    assert_eq!(found["unknownEntries"], json!([{ "key": "a0676c6f62616c", "valueData": "01" }]));
    let entry = json!({ "identifier": "73686f70", "subtype": 7, "keyData": "6f72646572", "valueData": "3432" });
    assert_eq!(found["proprietaryEntries"], json!([entry]));
    let preimages = hashes.map(
        |(hash_type, hash)| json!({ "hashType": hash_type, "hashHex": hash, "preimage": preimage.to_lower_hex_string() }),
    );
    assert_eq!(input["preimages"], json!(preimages));
    assert_eq!(input["taprootInternalKey"], internal.serialize().to_lower_hex_string());
    assert_eq!(input["taprootMerkleRoot"], spend.merkle_root().unwrap().to_byte_array().to_lower_hex_string());
    let control = block.serialize().to_lower_hex_string();
    assert_eq!(
        input["taprootScripts"],
        json!([{ "scriptHex": "51", "leafVersion": 192, "depth": null, "controlBlock": control }])
    );
    let leaf = |script: &str| json!({ "scriptHex": script, "leafVersion": 192, "depth": 1, "controlBlock": null });
    let tree = output["taprootTree"].as_array().unwrap();
    assert_eq!(tree.len(), 2);
    assert!(tree.contains(&leaf("51")) && tree.contains(&leaf("5287")), "{tree:?}");

    let Some(node) = RealNode::start(&[]) else { return };
    let decoded = node.must("decodepsbt", &[json!(given)]);
    let (their_input, their_output) = (&decoded["inputs"][0], &decoded["outputs"][0]);
    for (ours, theirs) in [(&found, &decoded), (input, their_input), (output, their_output)] {
        compare_entries(ours, theirs);
    }
    let xpubs: Value = found["globalXpubs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!({ "xpub": one["xpub"], "master_fingerprint": one["fingerprint"], "path": one["path"] }))
        .collect();
    assert_eq!(xpubs, decoded["global_xpubs"]);
    for (name, hash_type) in [
        ("ripemd160_preimages", "RIPEMD160"),
        ("sha256_preimages", "SHA256"),
        ("hash160_preimages", "HASH160"),
        ("hash256_preimages", "HASH256"),
    ] {
        let ours = input["preimages"].as_array().unwrap().iter().find(|one| one["hashType"] == hash_type).unwrap();
        let theirs = their_input[name].as_object().unwrap();
        let values: Vec<_> = theirs.values().collect();
        assert_eq!((theirs.len(), values[0]), (1, &ours["preimage"]), "{name}");
    }
    assert_eq!(input["taprootInternalKey"], their_input["taproot_internal_key"]);
    assert_eq!(input["taprootMerkleRoot"], their_input["taproot_merkle_root"]);
    let script = &their_input["taproot_scripts"][0];
    assert_eq!(
        (&script["script"], &script["leaf_ver"], &script["control_blocks"][0]),
        (&json!("51"), &json!(192), &json!(control))
    );
    assert_eq!(output["taprootInternalKey"], their_output["taproot_internal_key"]);
    let ours: Value = tree
        .iter()
        .map(|leaf| json!({ "depth": leaf["depth"], "leaf_ver": leaf["leafVersion"], "script": leaf["scriptHex"] }))
        .collect();
    assert_eq!(ours, their_output["taproot_tree"]);
}

#[test]
fn keys_that_are_no_points_are_shown_and_the_node_has_them_too() {
    let (api, mut psbt, _) = unsigned();
    let mut off = [0; 32];
    off[31] = 5;
    let hex = off.to_lower_hex_string();
    let key = |type_value: u8, key: &[u8]| raw::Key { type_value, key: key.to_vec() };
    // no leaves, a fingerprint and a step
    let derivation = vec![0, 1, 2, 3, 4, 7, 0, 0, 0];
    let input = &mut psbt.inputs[0].unknown;
    input.insert(key(0x14, &[off, [9; 32]].concat()), vec![1; 64]);
    input.insert(key(0x15, &[&[0xc0], &off[..]].concat()), vec![0x51, 0xc0]);
    input.insert(key(0x16, &off), derivation.clone());
    input.insert(key(0x17, &[]), off.to_vec());
    let output = &mut psbt.outputs[0].unknown;
    output.insert(key(0x05, &[]), off.to_vec());
    output.insert(key(0x07, &off), derivation);
    let given = text(&psbt);
    let found = api.data(&format!("{{ decodePsbt(psbt: {}) {{ nextRole {ENTRIES} }} }}", json!(given)));
    let found = &found["decodePsbt"];
    let [input, output] = ["inputs", "outputs"].map(|part| &found[part]["nodes"][0]);
    let entry = |key: String, value: &str| json!({ "key": key, "valueData": value });
    assert_eq!(
        input["unknownEntries"],
        json!([
            entry(format!("14{hex}{}", "09".repeat(32)), &"01".repeat(64)),
            entry(format!("15c0{hex}"), "51c0"),
            entry(format!("16{hex}"), "000102030407000000"),
            entry("17".to_owned(), &hex),
        ])
    );
    assert_eq!(
        output["unknownEntries"],
        json!([entry("05".to_owned(), &hex), entry(format!("07{hex}"), "000102030407000000")])
    );
    assert_eq!(
        (&input["taprootInternalKey"], &input["taprootScripts"], &output["taprootInternalKey"]),
        (&Value::Null, &json!([]), &Value::Null)
    );
    let Some(node) = RealNode::start(&[]) else { return };
    let decoded = node.must("decodepsbt", &[json!(given)]);
    let (input, output) = (&decoded["inputs"][0], &decoded["outputs"][0]);
    assert_eq!((&input["taproot_internal_key"], &output["taproot_internal_key"]), (&json!(hex), &json!(hex)));
    assert_eq!(input["taproot_script_path_sigs"][0]["pubkey"], hex);
    assert_eq!(input["taproot_scripts"][0]["control_blocks"][0], format!("c0{hex}"));
    for part in [input, output] {
        assert_eq!(part["taproot_bip32_derivs"][0]["pubkey"], hex);
    }
}

const XPUB: &str =
    "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";

fn or_empty(value: &Value) -> Value {
    if value.is_null() { json!([]) } else { value.clone() }
}

/// Compares the unsigned transaction of a PSBT.
fn compare_parts(found: &Value, decoded: &Value) {
    let (ours, theirs) = (&found["unsignedTransaction"], &decoded["tx"]);
    for (name, of_node) in
        [("txid", "txid"), ("wtxid", "hash"), ("size", "size"), ("weight", "weight"), ("vsize", "vsize")]
    {
        assert_eq!(ours[name], theirs[of_node], "{name} of {theirs}");
    }
}

/// Compares everything that the node says of a PSBT. Returns its next role.
fn compare(api: &Api, node: &RealNode, psbt: &str) -> String {
    let found = decode(api, psbt);
    let (decoded, analysed) = (node.must("decodepsbt", &[json!(psbt)]), node.must("analyzepsbt", &[json!(psbt)]));
    compare_parts(&found, &decoded);
    if !analysed["fee"].is_null() {
        assert_eq!(found["fee"], sats(&analysed["fee"]), "{analysed}");
    }
    if !analysed["estimated_vsize"].is_null() {
        assert_eq!(found["estimatedVsize"], analysed["estimated_vsize"], "{psbt}\n{analysed}\n{found:#}");
    }
    let mut taproot = false;
    for (at, ours) in found["inputs"]["nodes"].as_array().unwrap().iter().enumerate() {
        let (theirs, state) = (&decoded["inputs"][at], &analysed["inputs"][at]);
        assert_eq!(ours["isUtxoKnown"], state["has_utxo"]);
        assert_eq!(ours["isFinalized"], state["is_final"]);
        assert_ne!(ours["isUtxoConsistent"], false);
        assert_eq!(ours["value"], ours["prevout"]["value"], "the chain has every output that is spent");
        let signatures: serde_json::Map<_, _> = ours["signatures"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| !one["publicKey"].is_null())
            .map(|one| (one["publicKey"].as_str().unwrap().to_owned(), one["signature"].clone()))
            .collect();
        let empty = json!({});
        assert_eq!(json!(signatures), *theirs.get("partial_signatures").unwrap_or(&empty));
        assert_eq!(derivations(&ours["derivations"]), or_empty(&theirs["bip32_derivs"]));
        assert_eq!(ours["redeemScript"]["hex"], theirs["redeem_script"]["hex"]);
        assert_eq!(ours["witnessScript"]["hex"], theirs["witness_script"]["hex"]);
        assert_eq!(ours["finalScriptSig"], theirs["final_scriptSig"]["hex"]);
        assert_eq!(ours["finalWitness"], theirs["final_scriptwitness"]);
        // of a taproot output the node does not say that a signature is missing
        if ours["script"]["hex"].as_str().unwrap().starts_with("5120") && ours["nextRole"] == "SIGNER" {
            taproot = true;
            continue;
        }
        assert_eq!(
            ours["nextRole"].as_str().unwrap().to_lowercase(),
            state["next"].as_str().unwrap(),
            "{psbt} {state}"
        );
        if state["has_utxo"] == true && state["is_final"] == false {
            let missing = &state["missing"];
            assert_eq!(key_hashes(&ours["unsignedKeys"]), or_empty(&missing["signatures"]), "{psbt} {state}");
            assert_eq!(ours["missingKeyHash"], missing["pubkeys"][0], "{state}");
            assert_eq!(ours["missingRedeemScriptHash"], missing["redeemscript"], "{state}");
            assert_eq!(ours["missingWitnessScriptHash"], missing["witnessscript"], "{state}");
        }
    }
    for (at, ours) in found["outputs"]["nodes"].as_array().unwrap().iter().enumerate() {
        assert_eq!(ours["value"], sats(&decoded["tx"]["vout"][at]["value"]));
        assert_eq!(ours["script"]["hex"], decoded["tx"]["vout"][at]["scriptPubKey"]["hex"]);
        assert_eq!(derivations(&ours["derivations"]), or_empty(&decoded["outputs"][at]["bip32_derivs"]));
    }
    if !taproot {
        assert_eq!(found["nextRole"].as_str().unwrap().to_lowercase(), analysed["next"].as_str().unwrap(), "{psbt}");
    }
    found["nextRole"].as_str().unwrap().to_owned()
}

#[test]
fn random_psbts_are_what_the_node_says() {
    let Some(node) = RealNode::start(&[]) else { return };
    let client = node.client();
    let limits = Limits { complexity: usize::MAX, ..Limits::default() };
    let (mut api, mut random) = (Api::empty(Network::Regtest, limits), Rng::new(174));
    let kinds = ["legacy", "p2sh-segwit", "bech32", "bech32m"];
    let miner = node.wallet_address("bech32");
    node.mine_to(&miner, 110);
    let mut paid = serde_json::Map::new();
    for kind in kinds {
        for _ in 0..8 {
            paid.insert(node.wallet_address(kind), json!(format!("0.0{}", random.between(10_000, 99_999))));
        }
    }
    // a multisig of keys of the wallet, in three forms
    let keys: Vec<_> = (0..3)
        .map(|_| {
            node.must("getaddressinfo", &[json!(node.wallet_address("bech32"))])["pubkey"].as_str().unwrap().to_owned()
        })
        .collect();
    let mut shared = Vec::new();
    for form in ["wsh(X)", "sh(X)", "sh(wsh(X))"] {
        let text = form.replace('X', &format!("multi(2,{})", keys.join(",")));
        let text = node.must("getdescriptorinfo", &[json!(text)])["descriptor"].as_str().unwrap().to_owned();
        let address = node.must("deriveaddresses", &[json!(text)])[0].as_str().unwrap().to_owned();
        paid.insert(address.clone(), json!("0.01"));
        shared.push((text, address));
    }
    let txid = node.must("sendmany", &[json!(""), Value::Object(paid)]);
    node.mine(1);
    api.follow(&client);

    let mut roles = std::collections::BTreeMap::<String, u32>::new();
    let mut check = |psbt: &Value| *roles.entry(compare(&api, &node, psbt.as_str().unwrap())).or_default() += 1;
    for _ in 0..12 {
        let coins = node.must("listunspent", &[json!(1)]);
        let mut coins: Vec<_> = coins.as_array().unwrap().iter().filter(|coin| coin["spendable"] == true).collect();
        let mut inputs = Vec::new();
        for _ in 0..random.between(1, 4) {
            let coin = coins.remove(random.index(coins.len()));
            inputs.push(json!({ "txid": coin["txid"], "vout": coin["vout"] }));
        }
        let to = node.wallet_address(kinds[random.index(4)]);
        let outputs = json!([{ (to): format!("0.00{}", random.between(10_000, 99_999)) }, { "data": "00010203" }]);
        check(&node.must("createpsbt", &[json!(inputs), outputs.clone()]));
        let unfunded = node.must("createpsbt", &[json!([]), outputs.clone()]);
        let decoded = node.must("decodepsbt", std::slice::from_ref(&unfunded));
        compare_parts(&decode(&api, unfunded.as_str().unwrap()), &decoded);
        let options = json!({ "add_inputs": true, "fee_rate": random.between(1, 50) });
        let funded = node.must("walletcreatefundedpsbt", &[json!(inputs), outputs, json!(0), options])["psbt"].clone();
        check(&funded);
        let sighash = ["ALL", "NONE", "SINGLE", "ALL|ANYONECANPAY"][random.index(4)];
        let sign = |finalize: bool| {
            let arguments = [funded.clone(), json!(true), json!(sighash), json!(true), json!(finalize)];
            node.must("walletprocesspsbt", &arguments)["psbt"].clone()
        };
        check(&sign(false));
        check(&sign(true));
    }
    let outputs = node.must("gettransaction", &[txid])["hex"].as_str().unwrap().to_owned();
    let funding: Transaction = deserialize(&Vec::<u8>::from_hex(&outputs).unwrap()).unwrap();
    for (text, address) in &shared {
        let script = node.must("validateaddress", &[json!(address)])["scriptPubKey"].as_str().unwrap().to_owned();
        let vout = funding.output.iter().position(|output| output.script_pubkey.to_hex_string() == script).unwrap();
        let input = json!([{ "txid": funding.compute_txid().to_string(), "vout": vout }]);
        let bare = node.must("createpsbt", &[input, json!([{ (miner.clone()): "0.00990000" }])]);
        check(&bare);
        check(&node.must("utxoupdatepsbt", std::slice::from_ref(&bare)));
        let known = node.must("utxoupdatepsbt", &[bare, json!([text])]);
        check(&known);
        let found = decode(&api, known.as_str().unwrap());
        let input = &found["inputs"]["nodes"][0];
        assert_eq!((&input["requiredSignatureCount"], &input["unsignedKeys"]), (&json!(2), &json!(keys)));
        assert_eq!(found["fee"], 10_000);
    }
    assert!(roles.len() == 4 && roles.values().all(|count| *count > 5), "{roles:?}");
}
