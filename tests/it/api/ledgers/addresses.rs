//! Addresses: what text is one, what its script received and spent, and what of it has to mature.

use std::sync::Arc;

use bitcoin::{Block, Network};
use btcgraph::sim::{Owner, Reward, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use crate::support::api::{Api, branch, coinbase_output, real_chain, sat, spend};
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(
    an_address_adds_up_what_its_script_received_and_spent,
    coins_mature_one_block_at_a_time,
    an_overwritten_coinbase_is_counted_once_while_it_matures,
    an_address_forgets_what_a_reorganisation_takes_back
);

const MINER: Owner = Owner::new(ScriptKind::P2wsh, 0);
const COIN: u64 = 5_000_000_000;

fn address(owner: Owner) -> String {
    bitcoin::Address::from_script(&owner.script_pubkey(), Network::Regtest).unwrap().to_string()
}

/// Mines a block that pays `owner`.
fn mine_for(chain: &mut SimChain, owner: Owner) -> Arc<Block> {
    chain.mine_template(Template { reward: Some(Reward::to(owner.script_pubkey())), ..Template::default() }).unwrap()
}

fn balance(api: &Api, owner: Owner) -> Value {
    api.data(&format!(
        "{{ address(address: \"{}\") {{ balance {{ confirmed immature spendable }} }} }}",
        address(owner)
    ))["address"]["balance"]
        .take()
}

fn amounts(confirmed: u64, immature: u64) -> Value {
    json!({ "confirmed": confirmed, "immature": immature, "spendable": confirmed - immature })
}

const ALL: &str = "id address type balance { confirmed immature spendable } stats { txCount receivedCount received
    spentCount spent utxoCount firstSeenBlock { height } lastSeenBlock { height } minedBlockCount used }";

fn an_address_adds_up_what_its_script_received_and_spent(form: IndexForm) {
    let mut chain = SimChain::new(5);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(100).unwrap();
    let owner = Owner::new(ScriptKind::P2wpkh, 9);
    let paid =
        spend(&chain, MINER, &[coinbase_output(&first, 0)], vec![owner.output(sat(700)), owner.output(sat(300))]);
    chain.mine(vec![paid.clone()]).unwrap();
    // one transaction that spends and pays the script: its change comes back
    let output = |vout| bitcoin::OutPoint { txid: paid.compute_txid(), vout };
    let change = spend(&chain, owner, &[output(0)], vec![owner.output(sat(600))]);
    chain.mine(vec![change]).unwrap();
    let api = Api::of_chain_in(form, &chain);
    assert_eq!(
        api.data(&format!("{{ address(address: \"{}\") {{ {ALL} }} }}", address(owner))),
        json!({ "address": {
            "id": format!("Address:{}", address(owner)),
            "address": address(owner),
            "type": "P2WPKH",
            "balance": amounts(900, 0),
            "stats": {
                "txCount": 2,
                "receivedCount": 3,
                "received": "1600",
                "spentCount": 1,
                "spent": "700",
                "utxoCount": 2,
                "firstSeenBlock": { "height": 102 },
                "lastSeenBlock": { "height": 103 },
                "minedBlockCount": 0,
                "used": true,
            },
        } })
    );
}

#[test]
fn a_valid_address_that_was_never_used_has_zeros() {
    let api = Api::of_chain(&SimChain::new(6));
    let unused = address(Owner::new(ScriptKind::P2trKey, 3));
    assert_eq!(
        api.data(&format!("{{ address(address: \"{unused}\") {{ {ALL} }} }}")),
        json!({ "address": {
            "id": format!("Address:{unused}"),
            "address": unused,
            "type": "P2TR",
            "balance": amounts(0, 0),
            "stats": {
                "txCount": 0, "receivedCount": 0, "received": "0", "spentCount": 0, "spent": "0", "utxoCount": 0,
                "firstSeenBlock": null, "lastSeenBlock": null, "minedBlockCount": 0, "used": false,
            },
        } })
    );
}

#[test]
fn an_address_in_upper_case_is_the_same_address() {
    let api = Api::of_chain(&SimChain::new(7));
    let address = address(MINER);
    let found = api.data(&format!("{{ address(address: \"{}\") {{ id address }} }}", address.to_uppercase()));
    assert_eq!(found, json!({ "address": { "id": format!("Address:{address}"), "address": address } }));
}

#[test]
fn a_text_that_is_no_address_of_the_network_is_refused_with_the_reason() {
    let mainnet = Api::of(Network::Bitcoin, [&bitcoin::constants::genesis_block(Network::Bitcoin)]);
    for (text, reason, position) in [
        ("tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", "test", None),
        ("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", "test", None),
        ("", "empty", None),
        ("1A1zP1eP5QGefi2DMPTfTL5SLmv7Divf0a", "'0'", Some(32)),
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3T4", "case", Some(40)),
    ] {
        let response = mainnet.ask(&format!("{{ address(address: \"{text}\") {{ id }} }}"));
        assert_eq!(response["data"], json!({ "address": null }));
        let error = &response["errors"][0];
        assert_eq!(error["extensions"]["code"], json!("BAD_USER_INPUT"), "{text}");
        assert_eq!(error["extensions"].get("position").cloned(), position.map(|at: u32| json!(at)), "{text}");
        assert!(error["message"].as_str().unwrap().contains(reason), "{text}: {error}");
    }
}

fn coins_mature_one_block_at_a_time(form: IndexForm) {
    let mut chain = SimChain::new(8);
    let owner = Owner::new(ScriptKind::P2pkh, 1);
    let mut api = Api::of_chain_in(form, &chain);
    // its coinbases are at 1 and 2; each is mature once the tip is 99 above it
    for height in 1..=102_u64 {
        let block = if height <= 2 { mine_for(&mut chain, owner) } else { chain.mine(Vec::new()).unwrap() };
        api.connect(&block);
        let (received, mature) = (height.min(2), height.saturating_sub(99).min(2));
        assert_eq!(
            balance(&api, owner),
            amounts(received * COIN, (received - mature) * COIN),
            "with the tip at {height}"
        );
    }
    let stats = api.data(&format!("{{ address(address: \"{}\") {{ stats {{ minedBlockCount }} }} }}", address(owner)));
    assert_eq!(stats, json!({ "address": { "stats": { "minedBlockCount": 2 } } }));
}

fn an_overwritten_coinbase_is_counted_once_while_it_matures(form: IndexForm) {
    let owner = Owner::new(ScriptKind::P2pkh, 2);
    let mut chain = SimChain::new(9);
    let first = mine_for(&mut chain, owner); // height 1
    chain.mine_empty(9).unwrap();
    let mut api = Api::of_chain_in(form, &chain);
    assert_eq!(balance(&api, owner), amounts(COIN, COIN));
    api.connect(&chain.mine_duplicate_coinbase(&first.block_hash(), Vec::new()).unwrap()); // height 11
    // from its height to 109 the later copy is immature; both are among the last 99 blocks up to height 99
    for height in 11..=111_u64 {
        let immature = if height <= 109 { COIN } else { 0 };
        assert_eq!(balance(&api, owner), amounts(COIN, immature), "with the tip at {height}");
        api.connect(&chain.mine(Vec::new()).unwrap());
    }
    let stats = api.data(&format!(
        "{{ address(address: \"{}\") {{ stats {{ received receivedCount utxoCount txCount minedBlockCount }} }} }}",
        address(owner)
    ));
    assert_eq!(
        stats["address"]["stats"],
        json!({ "received": COIN.to_string(), "receivedCount": 1, "utxoCount": 1, "txCount": 2, "minedBlockCount": 2 })
    );
}

#[test]
fn an_address_shares_nothing_with_the_bare_key_it_hashes() {
    let Some(blocks) = real_chain("mainnet-0-4521.blk") else { return };
    let api = Api::of(Network::Bitcoin, &blocks);
    // Hal Finney's key received 10 BTC as P2PK at height 170; its address never received anything up to here
    let paid_to_key = api
        .data("{ address(address: \"1Q2TWHE3GMdB6BZKafqwxXtWAWgFt5Jvm3\") { stats { used } balance { confirmed } } }");
    assert_eq!(paid_to_key, json!({ "address": { "stats": { "used": false }, "balance": { "confirmed": 0 } } }));
    // the genesis coinbase never entered the UTXO set
    let genesis = api.data("{ address(address: \"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa\") { balance { confirmed } } }");
    assert_eq!(genesis, json!({ "address": { "balance": { "confirmed": 0 } } }));
}

fn an_address_forgets_what_a_reorganisation_takes_back(form: IndexForm) {
    let mut chain = SimChain::new(10);
    let owner = Owner::new(ScriptKind::P2sh, 4);
    chain.mine_empty(5).unwrap();
    let old = mine_for(&mut chain, owner);
    let mut api = Api::of_chain_in(form, &chain);
    assert_eq!(balance(&api, owner), amounts(COIN, COIN));
    let branch = branch(&mut chain, old.header.prev_blockhash, 2, &[]);
    api.change(1, branch.iter().map(Arc::as_ref));
    assert_eq!(balance(&api, owner), amounts(0, 0));
}
