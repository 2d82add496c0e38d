//! The vectors of BIP341, from `taproot.txt`, whose head says what a line means: what the server shows of taproot outputs, of
//! their trees, and of inputs that spend them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::hashes::{Hash, sha256};
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::secp256k1::{Scalar, Secp256k1};
use bitcoin::taproot::{ControlBlock, LeafVersion, TaprootBuilder};
use bitcoin::{
    Network, OutPoint, Psbt, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, XOnlyPublicKey, absolute,
    transaction,
};
use btcgraph::chain::network::genesis_block;
use btcgraph::sim::{Payment, SimChain, Spendable};
use serde_json::{Value, json};

use crate::support::api::{Api, sat};

struct Output {
    internal_key: XOnlyPublicKey,
    /// The merkle root in hex, or "-".
    root: &'static str,
    script_pubkey: ScriptBuf,
    address: &'static str,
    descriptor: Option<&'static str>,
    leaves: Vec<Leaf>,
}

/// A leaf of the tree of an output; what is in hex is as the file has it.
struct Leaf {
    depth: u8,
    version: u8,
    script: &'static str,
    hash: &'static str,
    control_block: &'static str,
}

/// A transaction that spends taproot outputs by their keys.
struct Signed {
    transaction: Transaction,
    /// Each output that it spends, and the type of signature hash of the input.
    spent: Vec<(TxOut, &'static str)>,
}

fn bytes(hex: &str) -> Vec<u8> {
    Vec::from_hex(hex).unwrap()
}

fn vectors() -> (Vec<Output>, Signed) {
    let (mut outputs, mut transaction, mut spent) = (Vec::<Output>::new(), None, Vec::new());
    for line in include_str!("taproot.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match *line.split(' ').collect::<Vec<_>>().as_slice() {
            ["output", internal_key, root, script, address] => outputs.push(Output {
                internal_key: internal_key.parse().unwrap(),
                root,
                script_pubkey: ScriptBuf::from_bytes(bytes(script)),
                address,
                descriptor: None,
                leaves: Vec::new(),
            }),
            ["tree", descriptor] => outputs.last_mut().unwrap().descriptor = Some(descriptor),
            ["leaf", depth, version, script, hash, control_block] => outputs.last_mut().unwrap().leaves.push(Leaf {
                depth: depth.parse().unwrap(),
                version: version.parse().unwrap(),
                script,
                hash,
                control_block,
            }),
            ["signed", hex] => transaction = Some(deserialize_hex(hex).unwrap()),
            ["spent", amount, hash_type, script] => {
                let script_pubkey = ScriptBuf::from_bytes(bytes(script));
                spent.push((TxOut { value: sat(amount.parse().unwrap()), script_pubkey }, hash_type));
            }
            _ => panic!("{line}"),
        }
    }
    (outputs, Signed { transaction: transaction.unwrap(), spent })
}

/// A chain in which a transaction has these outputs, and their outpoints.
fn funded(outputs: &[TxOut]) -> (Api, Vec<OutPoint>) {
    let mut chain = SimChain::new(34);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let coin = Spendable::of(&first.txdata[0], 0, SimChain::miner()).unwrap();
    let payment = outputs.iter().cloned().fold(Payment::of([coin]), Payment::output);
    let funding = payment.change(SimChain::miner(), 1).sign().unwrap();
    chain.mine(vec![funding.clone()]).unwrap();
    let outpoints = (0..).zip(outputs).map(|(vout, _)| OutPoint { txid: funding.compute_txid(), vout });
    (Api::of_chain(&chain), outpoints.collect())
}

/// The inputs of a transaction, as the server decodes it.
fn decoded(api: &Api, transaction: &Transaction, fields: &str) -> Vec<Value> {
    let hex = serialize_hex(transaction);
    let inputs = format!("inputs {{ nodes {{ {fields} }} }}");
    let asked = format!("{{ decodeTransaction(hex: \"{hex}\") {{ isResolved transaction {{ {inputs} }} }} }}");
    let mut answer = api.data(&asked)["decodeTransaction"].take();
    assert_eq!(answer["isResolved"], true);
    answer["transaction"]["inputs"]["nodes"].as_array_mut().map(std::mem::take).unwrap()
}

fn tagged(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let tag = sha256::Hash::hash(tag.as_bytes()).to_byte_array();
    sha256::Hash::hash(&[&tag[..], &tag, &parts.concat()].concat()).to_byte_array()
}

#[test]
fn taproot_outputs_have_the_addresses_of_the_bip() {
    let api = Api::of(Network::Bitcoin, [&genesis_block(Network::Bitcoin)]);
    let (outputs, _) = vectors();
    let mut described = 0;
    for output in &outputs {
        let (hex, address) = (output.script_pubkey.to_hex_string(), output.address);
        let answer = api.data(&format!(
            "{{ script(scriptPubKey: \"{hex}\") {{ type address }} address(address: \"{address}\") {{ script {{ hex }} }}
               validateAddress(address: \"{address}\") {{ isValid scriptType witnessVersion witnessProgram }} }}"
        ));
        let program = output.script_pubkey.as_bytes()[2..].to_lower_hex_string();
        let expected = json!({
            "script": { "type": "P2TR", "address": address },
            "address": { "script": { "hex": hex } },
            "validateAddress": {
                "isValid": true, "scriptType": "P2TR", "witnessVersion": 1, "witnessProgram": program,
            },
        });
        assert_eq!(answer, expected);
        if let Some(descriptor) = output.descriptor {
            let fields = "isValid scriptType derivedAddresses { address }";
            let asked = format!("{{ validateDescriptor(text: \"{descriptor}\") {{ {fields} }} }}");
            let expected =
                json!({ "isValid": true, "scriptType": "P2TR", "derivedAddresses": [{ "address": address }] });
            assert_eq!(api.data(&asked)["validateDescriptor"], expected, "{descriptor}");
            described += 1;
        }
    }
    assert_eq!((outputs.len(), described), (7, 5));
}

#[test]
fn a_control_block_proves_the_output_key_of_the_bip() {
    let secp = Secp256k1::verification_only();
    let (outputs, _) = vectors();
    let coins: Vec<TxOut> =
        outputs.iter().map(|output| TxOut { value: sat(1_000), script_pubkey: output.script_pubkey.clone() }).collect();
    let (api, outpoints) = funded(&coins);
    let mut leaves = 0;
    for (output, outpoint) in outputs.iter().zip(outpoints) {
        for leaf in &output.leaves {
            let witness = Witness::from_slice(&[bytes(leaf.script), bytes(leaf.control_block)]);
            let spend = Transaction {
                version: transaction::Version::TWO,
                lock_time: absolute::LockTime::ZERO,
                input: vec![TxIn { previous_output: outpoint, witness, sequence: Sequence::MAX, ..TxIn::default() }],
                output: vec![TxOut { value: sat(900), ..coins[0].clone() }],
            };
            let fields = "annex sighashTypes tapLeaf { script { hex } leafVersion internalKey controlBlock }";
            let found = decoded(&api, &spend, fields).remove(0);
            let expected = json!({
                "annex": null,
                "sighashTypes": [],
                "tapLeaf": {
                    "script": { "hex": leaf.script },
                    "leafVersion": leaf.version,
                    "internalKey": output.internal_key.to_string(),
                    "controlBlock": leaf.control_block,
                },
            });
            assert_eq!(found, expected);

            // the output key follows from these fields
            let field = |name: &str| bytes(found["tapLeaf"][name].as_str().unwrap());
            let (internal_key, control_block) = (field("internalKey"), field("controlBlock"));
            let version = u8::try_from(found["tapLeaf"]["leafVersion"].as_u64().unwrap()).unwrap();
            let script = bytes(found["tapLeaf"]["script"]["hex"].as_str().unwrap());
            let length = u8::try_from(script.len()).unwrap();
            let mut node = tagged("TapLeaf", &[&[version, length], &script]);
            assert_eq!(node.to_lower_hex_string(), leaf.hash);
            let path = control_block[33..].chunks(32);
            assert_eq!(path.len(), usize::from(leaf.depth));
            for sibling in path {
                let (low, high) = if node.as_slice() < sibling { (&node[..], sibling) } else { (sibling, &node[..]) };
                node = tagged("TapBranch", &[low, high]);
            }
            assert_eq!(node.to_lower_hex_string(), output.root);
            let tweak = Scalar::from_be_bytes(tagged("TapTweak", &[&internal_key, &node])).unwrap();
            let internal_key = XOnlyPublicKey::from_slice(&internal_key).unwrap();
            let (key, parity) = internal_key.add_tweak(&secp, &tweak).unwrap();
            assert_eq!(key.serialize(), output.script_pubkey.as_bytes()[2..]);
            assert_eq!(control_block[0], version | parity.to_u8());
            leaves += 1;
        }
    }
    assert_eq!(leaves, 12);
}

#[test]
fn a_psbt_shows_the_trees_and_control_blocks_of_the_bip() {
    let (outputs, _) = vectors();
    let coins: Vec<TxOut> =
        outputs.iter().map(|output| TxOut { value: sat(1_000), script_pubkey: output.script_pubkey.clone() }).collect();
    let (api, outpoints) = funded(&coins);
    let input = |previous_output: &OutPoint| TxIn { previous_output: *previous_output, ..TxIn::default() };
    let unsigned = Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: outpoints.iter().map(input).collect(),
        output: coins.iter().map(|coin| TxOut { value: sat(900), ..coin.clone() }).collect(),
    };
    let mut psbt = Psbt::from_unsigned_tx(unsigned).unwrap();
    for (at, output) in outputs.iter().enumerate() {
        let mut tree = TaprootBuilder::new();
        for leaf in &output.leaves {
            let version = LeafVersion::from_consensus(leaf.version).unwrap();
            let script = ScriptBuf::from_bytes(bytes(leaf.script));
            let control_block = ControlBlock::decode(&bytes(leaf.control_block)).unwrap();
            psbt.inputs[at].tap_scripts.insert(control_block, (script.clone(), version));
            tree = tree.add_leaf_with_ver(leaf.depth, script, version).unwrap();
        }
        psbt.inputs[at].tap_internal_key = Some(output.internal_key);
        psbt.inputs[at].tap_merkle_root = (output.root != "-").then(|| output.root.parse().unwrap());
        psbt.outputs[at].tap_internal_key = Some(output.internal_key);
        psbt.outputs[at].tap_tree = (!output.leaves.is_empty()).then(|| tree.try_into().unwrap());
    }
    let fields = "inputs { nodes { taprootInternalKey taprootMerkleRoot taprootScripts { scriptHex leafVersion depth controlBlock } } }
        outputs { nodes { taprootInternalKey taprootTree { scriptHex leafVersion depth controlBlock } } }";
    let text = STANDARD.encode(psbt.serialize());
    let found = api.data(&format!("{{ decodePsbt(psbt: \"{text}\") {{ {fields} }} }}"))["decodePsbt"].take();
    for (at, output) in outputs.iter().enumerate() {
        let leaf = |leaf: &Leaf, is_output: bool| {
            json!({
                "scriptHex": leaf.script,
                "leafVersion": leaf.version,
                "depth": is_output.then_some(leaf.depth),
                "controlBlock": (!is_output).then_some(leaf.control_block),
            })
        };
        let internal_key = output.internal_key.to_string();
        let by_script = |leaf: &Value| leaf["scriptHex"].as_str().unwrap().to_owned();
        let mut tree: Vec<Value> = output.leaves.iter().map(|found| leaf(found, true)).collect();
        tree.sort_by_key(by_script);
        let mut decoded = found["outputs"]["nodes"][at].clone();
        // which of two subtrees comes first is for the writer of the PSBT to choose
        if let Some(tree) = decoded["taprootTree"].as_array_mut() {
            tree.sort_by_key(by_script);
        }
        let tree = if tree.is_empty() { Value::Null } else { json!(tree) };
        assert_eq!(decoded, json!({ "taprootInternalKey": internal_key, "taprootTree": tree }));
        // a map of a PSBT is in the order of its keys, which are the control blocks
        let mut by_key: Vec<&Leaf> = output.leaves.iter().collect();
        by_key.sort_by_key(|leaf| leaf.control_block);
        let scripts: Vec<Value> = by_key.into_iter().map(|found| leaf(found, false)).collect();
        assert_eq!(
            found["inputs"]["nodes"][at],
            json!({
                "taprootInternalKey": internal_key,
                "taprootMerkleRoot": (output.root != "-").then_some(output.root),
                "taprootScripts": scripts,
            })
        );
    }
}

#[test]
fn signatures_of_the_bip_have_its_hash_types() {
    let (_, Signed { mut transaction, spent }) = vectors();
    let coins: Vec<TxOut> = spent.iter().map(|(coin, _)| coin.clone()).collect();
    let (api, outpoints) = funded(&coins);
    // the same inputs, of outputs that the chain has
    for (input, outpoint) in transaction.input.iter_mut().zip(outpoints) {
        input.previous_output = outpoint;
    }
    let fields = "sighashTypes annex tapLeaf { leafVersion } prevout { value scriptPubKey }";
    let expected: Vec<Value> = spent
        .iter()
        .map(|(coin, hash_type)| {
            json!({
                "sighashTypes": [hash_type],
                "annex": null,
                "tapLeaf": null,
                "prevout": { "value": coin.value.to_sat(), "scriptPubKey": coin.script_pubkey.to_hex_string() },
            })
        })
        .collect();
    assert_eq!((expected.len(), decoded(&api, &transaction, fields)), (9, expected));

    // and with an annex behind each signature of a taproot output
    let mut annexed = transaction;
    let is_taproot = |at: usize| spent[at].0.script_pubkey.is_p2tr();
    for (at, input) in annexed.input.iter_mut().enumerate().filter(|(at, _)| is_taproot(*at)) {
        input.witness.push([0x50, u8::try_from(at).unwrap()]);
    }
    for (at, found) in decoded(&api, &annexed, "sighashTypes annex tapLeaf { leafVersion }").into_iter().enumerate() {
        let annex = is_taproot(at).then(|| format!("50{at:02x}"));
        assert_eq!(found, json!({ "sighashTypes": [spent[at].1], "annex": annex, "tapLeaf": null }));
    }
}
