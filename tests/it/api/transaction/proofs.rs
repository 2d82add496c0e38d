//! Proofs that a block contains a transaction, and figures of transactions that add up to those of their block.

use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::hex::{DisplayHex, FromHex};
use bitcoin::{Transaction, Txid, Wtxid};
use btcgraph::sim::{Hostile, SimChain};
use serde_json::{Value, json};

use crate::support::api::{Api, real_chain};
use crate::support::bitcoind::RealNode;

/// Hostile blocks that a node takes, which it has been given.
fn chain_of(node: &RealNode, blocks: u32) -> SimChain {
    let (mut chain, mut hostile) = (SimChain::new(90), Hostile::new(90));
    for _ in 0..blocks {
        let block = hostile.mine(&mut chain).unwrap();
        assert_eq!(node.must("submitblock", &[json!(serialize_hex(block.as_ref()))]), Value::Null);
    }
    chain
}

/// 32 bytes of a hash in display order, in the order in which they are hashed.
fn hash(text: &Value) -> [u8; 32] {
    let mut bytes = <[u8; 32]>::from_hex(text.as_str().unwrap()).unwrap();
    bytes.reverse();
    bytes
}

/// The root to which a branch leads, computed as the description of `MerkleProof` says.
fn root(leaf: [u8; 32], proof: &Value) -> [u8; 32] {
    let (mut value, mut position) = (leaf, proof["position"].as_u64().unwrap());
    for node in proof["merkleBranch"].as_array().unwrap() {
        let pair = if position % 2 == 0 { [value, hash(node)] } else { [hash(node), value] };
        value = sha256d::Hash::hash(&pair.concat()).to_byte_array();
        position /= 2;
    }
    value
}

const PROOFS: &str = "merkleBlockHex coinDaysDestroyed wtxidProof {
    position merkleBranch witnessRoot reservedValue commitment coinbaseHex coinbaseProof { position merkleBranch root headerHex }
}";

#[test]
fn proofs_are_those_of_a_node_and_lead_to_the_header() {
    let Some(node) = RealNode::start(&[]) else { return };
    let chain = chain_of(&node, 150);
    let api = Api::of_chain(&chain);
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let mut proved = 0;
    for height in 1..=150_u32 {
        let answer = api.data(&format!(
            "{{ block(height: {height}) {{ hash merkleRoot headerHex txCount stats {{ coinDaysDestroyed }} }} }}"
        ));
        let block = &answer["block"];
        let mut coin_days = 0.0;
        for index in 0..block["txCount"].as_u64().unwrap() {
            let answer = api.data(&format!(
                "{{ block(height: {height}) {{ transaction(index: {index}) {{ txid wtxid {PROOFS} }} }} }}"
            ));
            let transaction = &answer["block"]["transaction"];
            let proof = node.must("gettxoutproof", &[json!([transaction["txid"]]), block["hash"].clone()]);
            assert_eq!(transaction["merkleBlockHex"], proof, "at height {height}");
            let accepted = node.must("verifytxoutproof", &[transaction["merkleBlockHex"].clone()]);
            assert_eq!(accepted, json!([transaction["txid"]]));
            coin_days += transaction["coinDaysDestroyed"].as_f64().unwrap();

            let proof = &transaction["wtxidProof"];
            let mined = &blocks[usize::try_from(height).unwrap()].txdata[0];
            let mut scripts = mined.output.iter().map(|output| output.script_pubkey.to_hex_string());
            if !scripts.any(|script| script.starts_with("6a24aa21a9ed")) {
                assert_eq!(*proof, Value::Null, "the coinbase at height {height} commits to no witnesses");
                continue;
            }
            let coinbase: Transaction = deserialize_hex(proof["coinbaseHex"].as_str().unwrap()).unwrap();
            let index = usize::try_from(proof["position"].as_u64().unwrap()).unwrap();
            let wtxid = if index == 0 { Wtxid::all_zeros().to_byte_array() } else { hash(&transaction["wtxid"]) };
            let witness_root = root(wtxid, proof);
            assert_eq!(witness_root, hash(&proof["witnessRoot"]));
            let reserved = <[u8; 32]>::from_hex(proof["reservedValue"].as_str().unwrap()).unwrap();
            let commitment = sha256d::Hash::hash(&[witness_root, reserved].concat()).to_byte_array();
            assert_eq!(proof["commitment"], json!(commitment.to_lower_hex_string()));
            let script = format!("6a24aa21a9ed{}", commitment.to_lower_hex_string());
            let committing =
                coinbase.output.iter().rfind(|output| output.script_pubkey.to_hex_string().starts_with("6a24aa21a9ed"));
            assert!(committing.unwrap().script_pubkey.to_hex_string().starts_with(&script));
            let txid: Txid = coinbase.compute_txid();
            assert!(coinbase.input[0].witness.is_empty());
            assert_eq!(root(txid.to_byte_array(), &proof["coinbaseProof"]), hash(&block["merkleRoot"]));
            assert_eq!(proof["coinbaseProof"]["headerHex"], block["headerHex"]);
            proved += u32::from(index > 0);
        }
        let of_block = block["stats"]["coinDaysDestroyed"].as_f64().unwrap();
        assert!((coin_days - of_block).abs() <= of_block * 1e-12, "{coin_days} and {of_block} at height {height}");
    }
    assert!(proved > 50, "{proved} transactions besides coinbases");
}

#[test]
fn a_block_before_segwit_proves_txids_only() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let api = Api::of(bitcoin::Network::Bitcoin, &blocks[..=170]);
    let answer = api.data(
        "{ block(height: 170) { transaction(index: 1) { merkleBlockHex coinDaysDestroyed wtxidProof { position } } } }",
    );
    let transaction = &answer["block"]["transaction"];
    assert_eq!(transaction["wtxidProof"], Value::Null);
    // the header, two transactions, both hashes, and the bits of the path to the second
    let header = blocks[170].header;
    let txids: Vec<String> =
        blocks[170].txdata.iter().map(|transaction| serialize_hex(&transaction.compute_txid())).collect();
    let expected = format!("{}0200000002{}{}0105", serialize_hex(&header), txids[0], txids[1]);
    assert_eq!(transaction["merkleBlockHex"], json!(expected));
    // 50 bitcoin of block 9
    let median_time = |height: usize| {
        let mut times: Vec<_> =
            blocks[height.saturating_sub(10)..=height].iter().map(|block| block.header.time).collect();
        times.sort_unstable();
        f64::from(times[times.len() / 2])
    };
    let days = 50.0 * (median_time(170) - median_time(9)) / 86_400.0;
    assert!((transaction["coinDaysDestroyed"].as_f64().unwrap() - days).abs() < 1e-9, "{days}");
}
