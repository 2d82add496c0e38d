//! Coinbases, and the mining pools that blocks are ascribed to.

use std::sync::Arc;

use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, Block, Network};
use btcgraph::chain::pools::Pools;
use btcgraph::sim::{Owner, Reward, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use crate::documented::blocks;
use crate::support::api::{Api, branch};
use crate::support::skips::shared_data;

/// Pays the pool that is recognised by its script.
const PAID: Owner = Owner::new(ScriptKind::P2wpkh, 41);
const OTHER: Owner = Owner::new(ScriptKind::P2wpkh, 42);

/// A pool that writes a tag, and one that is paid.
fn pools() -> Pools {
    let address = bitcoin::Address::from_script(&PAID.script_pubkey(), Network::Regtest).unwrap().to_string();
    let file = json!([
        { "id": 1, "name": "Tag Pool", "addresses": [], "tags": ["/tagged/"], "link": "https://tag.example" },
        { "id": 2, "name": "Paid Pool", "addresses": [address], "tags": ["unused"], "link": "" },
    ]);
    Pools::with_file(Network::Regtest, &file.to_string()).unwrap()
}

/// Mines a block with this tag that pays this owner.
fn mine(chain: &mut SimChain, tag: &str, owner: Owner) -> Arc<Block> {
    let reward = Some(Reward::to(owner.script_pubkey()));
    chain.mine_template(Template { reward, tag: tag.as_bytes().to_vec(), ..Template::default() }).unwrap()
}

fn api_of(chain: &SimChain) -> Api {
    let mut api = Api::of_chain(chain);
    api.set_pools(pools());
    api
}

/// What is said of the miner of a block.
fn miner_of(api: &Api, block: &Block) -> Value {
    let hash = block.block_hash();
    let fields = "chainStatus miner { id slug name link } coinbase { minerEvidence }";
    api.data(&format!("{{ block(hash: \"{hash}\") {{ {fields} }} }}"))["block"].take()
}

fn tag_pool() -> Value {
    json!({ "id": "Miner:tagpool", "slug": "tagpool", "name": "Tag Pool", "link": "https://tag.example" })
}

fn paid_pool() -> Value {
    json!({ "id": "Miner:paidpool", "slug": "paidpool", "name": "Paid Pool", "link": null })
}

#[test]
fn a_block_belongs_to_the_pool_that_its_coinbase_names_or_pays() {
    let mut chain = SimChain::new(5);
    let tagged = mine(&mut chain, "by /tagged/", OTHER);
    let paid = mine(&mut chain, "", PAID);
    let both = mine(&mut chain, "/tagged/", PAID);
    let none = mine(&mut chain, "/untagged", OTHER);
    let api = api_of(&chain);
    let said = |miner: Value, evidence: Value| json!({ "chainStatus": "MAIN", "miner": miner, "coinbase": { "minerEvidence": evidence } });
    assert_eq!(miner_of(&api, &tagged), said(tag_pool(), json!("COINBASE_TAG")));
    assert_eq!(miner_of(&api, &paid), said(paid_pool(), json!("PAYOUT_SCRIPT")));
    assert_eq!(miner_of(&api, &both), said(tag_pool(), json!("COINBASE_TAG")));
    assert_eq!(miner_of(&api, &none), said(Value::Null, Value::Null));
}

#[test]
fn a_stale_block_keeps_its_pool_and_its_coinbase() {
    let mut chain = SimChain::new(6);
    let fork = chain.tip();
    let left = mine(&mut chain, "/tagged/", OTHER);
    let mut api = api_of(&chain);
    let before = api.data(&coinbase_of(&left))["block"].take();
    let branch = branch(&mut chain, fork, 2);
    api.change(1, branch.iter().map(Arc::as_ref));
    let said = miner_of(&api, &left);
    let evidence = json!({ "minerEvidence": "COINBASE_TAG" });
    assert_eq!(said, json!({ "chainStatus": "STALE", "miner": tag_pool(), "coinbase": evidence }));
    assert_eq!(api.data(&coinbase_of(&left))["block"], before);
}

fn coinbase_of(block: &Block) -> String {
    let fields = "text scriptSigHex heightFromScript witnessCommitment transaction { txid isCoinbase }";
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
    let said = api.data(&coinbase_of(&block))["block"]["coinbase"].take();
    let commitment = coinbase.output.iter().find_map(|output| {
        let script = output.script_pubkey.as_bytes();
        script.strip_prefix(&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed]).map(|hash| hash[..32].to_lower_hex_string())
    });
    let expected = json!({
        "text": "hello <b>ol\u{e9}</b>",
        "scriptSigHex": coinbase.input[0].script_sig.to_hex_string(),
        "heightFromScript": 300,
        "witnessCommitment": commitment,
        "transaction": { "txid": coinbase.compute_txid().to_string(), "isCoinbase": true },
    });
    assert_eq!(said, expected);

    let genesis =
        api.data("{ block(height: 0) { miner { id } coinbase { text heightFromScript witnessCommitment } } }");
    let text = "EThe Times 03/Jan/2009 Chancellor on brink of second bailout for banks";
    let coinbase = json!({ "text": text, "heightFromScript": 486_604_799, "witnessCommitment": null });
    assert_eq!(genesis, json!({ "block": { "miner": null, "coinbase": coinbase } }));
}

#[test]
fn the_coinbases_of_a_real_segwit_chain_commit_to_their_witnesses() {
    let Some(data) = shared_data("signet-0-120.blk") else { return };
    let blocks = blocks(&data);
    let api = Api::of(Network::Signet, &blocks);
    for (height, block) in blocks.iter().enumerate().skip(1) {
        let said = api.data(&coinbase_of(block))["block"]["coinbase"].take();
        let reserved = block.txdata[0].input[0].witness.nth(0).unwrap();
        let commitment = Block::compute_witness_commitment(&block.witness_root().unwrap(), reserved);
        assert_eq!(said["witnessCommitment"], json!(commitment.to_string()), "{height}");
        assert_eq!(said["heightFromScript"], json!(height));
    }
}

#[test]
fn a_pool_is_found_by_its_id() {
    let mut chain = SimChain::new(8);
    chain.mine_empty(1).unwrap();
    let api = api_of(&chain);
    let by_id = |id: &str| {
        api.data(&format!("{{ node(id: \"{id}\") {{ ... on Miner {{ id slug name link }} }} }}"))["node"].take()
    };
    assert_eq!(by_id("Miner:tagpool"), tag_pool());
    assert_eq!(by_id("Miner:f2pool")["name"], json!("F2Pool"));
    assert_eq!(by_id("Miner:unknown"), Value::Null);
    assert_eq!(api.refusal("{ node(id: \"Miner:F2Pool\") { id } }"), json!("BAD_USER_INPUT"));
}
