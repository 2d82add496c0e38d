//! What the coinbase of a block contains.

use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::hex::DisplayHex;
use bitcoin::script::Builder;
use bitcoin::{Amount, Block, Network};
use btcgraph::sim::{Reward, SimChain, Template};
use serde_json::json;

use super::miners::OTHER;
use crate::api::documented::blocks;
use crate::support::api::Api;
use crate::support::skips::shared_data;

pub(super) fn coinbase_of(block: &Block) -> String {
    let fields =
        "matureAtHeight text minerName scriptSigHex heightFromScript witnessCommitment transaction { txid isCoinbase }";
    format!("{{ block(hash: \"{}\") {{ coinbase {{ {fields} }} }} }}", block.block_hash())
}

#[test]
fn a_coinbase_is_decoded() {
    let mut chain = SimChain::new(7);
    chain.mine_empty(299).unwrap();
    let reward = Some(Reward::to(OTHER.script_pubkey()).withholding(Amount::from_sat(1)));
    let tag = "\u{2}hello\u{0}<b>ol\u{e9}</b>".as_bytes().to_vec();
    let block = chain.mine_template(Template { reward, tag, ..Template::default() }).unwrap();
    let api = Api::of_chain(&chain);
    let coinbase = &block.txdata[0];
    let reported = api.data(&coinbase_of(&block))["block"]["coinbase"].take();
    let commitment = coinbase.output.iter().find_map(|output| {
        let script = output.script_pubkey.as_bytes();
        script.strip_prefix(&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed]).map(|hash| hash[..32].to_lower_hex_string())
    });
    let expected = json!({
        "matureAtHeight": 400,
        "text": "hello <b>ol\u{e9}</b>",
        "minerName": null,
        "scriptSigHex": coinbase.input[0].script_sig.to_hex_string(),
        "heightFromScript": 300,
        "witnessCommitment": commitment,
        "transaction": { "txid": coinbase.compute_txid().to_string(), "isCoinbase": true },
    });
    assert_eq!(reported, expected);

    let genesis =
        api.data("{ block(height: 0) { miner { id } coinbase { text heightFromScript witnessCommitment } } }");
    let text = "EThe Times 03/Jan/2009 Chancellor on brink of second bailout for banks";
    let coinbase = json!({ "text": text, "heightFromScript": 486_604_799, "witnessCommitment": null });
    assert_eq!(genesis, json!({ "block": { "miner": null, "coinbase": coinbase } }));
}

#[test]
fn the_miner_that_made_a_template_is_named() {
    let mut chain = SimChain::new(7);
    let mut block = Block::clone(&chain.mine(Vec::new()).unwrap());
    // the pushes of a DATUM gateway: the height, the tags of pool and miner, and its number
    let script = Builder::new().push_int(1).push_slice(*b"OCEAN.XYZ\x0f<i>Miner</i>\0").push_slice([0x92, 0x10, 0, 7]);
    block.txdata[0].input[0].script_sig = script.into_script();
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    let api = Api::of(Network::Regtest, &[genesis_block(Network::Regtest), block]);
    let coinbase = json!({ "minerName": "<i>Miner</i>", "text": "OCEAN.XYZ <i>Miner</i>" });
    assert_eq!(api.data("{ tip { coinbase { minerName text } } }"), json!({ "tip": { "coinbase": coinbase } }));
}

#[test]
fn the_coinbases_of_a_real_segwit_chain_commit_to_their_witnesses() {
    let Some(data) = shared_data("signet-0-120.blk") else { return };
    let blocks = blocks(&data);
    let api = Api::of(Network::Signet, &blocks);
    for (height, block) in blocks.iter().enumerate().skip(1) {
        let reported = api.data(&coinbase_of(block))["block"]["coinbase"].take();
        let reserved = block.txdata[0].input[0].witness.nth(0).unwrap();
        let commitment = Block::compute_witness_commitment(&block.witness_root().unwrap(), reserved);
        // in the order of its bytes in the script
        let commitment = commitment.to_byte_array().to_lower_hex_string();
        assert_eq!(reported["witnessCommitment"], json!(commitment), "{height}");
        assert_eq!(reported["heightFromScript"], json!(height));
    }
}
