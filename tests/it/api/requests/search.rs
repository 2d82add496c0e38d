//! Search: what texts mean to a chain, and to its mempool.

use std::collections::BTreeSet;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Network, OutPoint, ScriptBuf, Transaction, TxOut};
use btcgraph::chain::address_of;
use btcgraph::index::OptionalTables;
use btcgraph::sim::{Owner, ScriptKind, SimChain};
use serde_json::{Value, json};

use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::{Api, sat, spend};
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(each_text_finds_what_it_names, a_text_with_two_meanings_finds_both);

const PAYER: Owner = Owner::new(ScriptKind::BareTrue, 1);
const TAPROOT: Owner = Owner::new(ScriptKind::P2trKey, 7);
const XPUB: &str =
    "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";

/// What is found, each by its type and what names it.
fn found(api: &Api, text: &str) -> Value {
    let fields =
        "__typename ... on Block { hash height } ... on Transaction { txid wtxid } ... on Output { outpoint { text } }
        ... on Address { address } ... on Script { hex scriptHash } ... on DescriptorAccount { usedCount scriptType }
        ... on Miner { slug name }";
    let page = api.data(&format!(
        "{{ search(text: {}) {{ totalCount nodes {{ {fields} }} pageInfo {{ hasNextPage hasPreviousPage }} }} }}",
        json!(text)
    ));
    let page = &page["search"];
    assert_eq!(page["totalCount"], page["nodes"].as_array().unwrap().len());
    assert_eq!(page["pageInfo"], json!({ "hasNextPage": false, "hasPreviousPage": false }));
    page["nodes"].clone()
}

fn script_node(script: &ScriptBuf) -> Value {
    let hash = sha256::Hash::hash(script.as_bytes()).to_byte_array();
    json!({ "__typename": "Script", "hex": script.to_hex_string(), "scriptHash": hex(&hash) })
}

fn hex(bytes: &[u8]) -> String {
    use bitcoin::hex::DisplayHex;
    bytes.to_lower_hex_string()
}

fn transaction_node(transaction: &Transaction) -> Value {
    let (txid, wtxid) = (transaction.compute_txid().to_string(), transaction.compute_wtxid().to_string());
    json!({ "__typename": "Transaction", "txid": txid, "wtxid": wtxid })
}

/// A chain in which the taproot owner was paid, and spends in the mempool.
fn paid() -> (SimChain, Transaction, Transaction) {
    let (mut chain, coins) = chain_with_coins(1);
    let payment = spend(&chain, PAYER, &coins[..1], vec![TAPROOT.output(sat(50_000))]);
    chain.mine(vec![payment.clone()]).unwrap();
    let coin = OutPoint { txid: payment.compute_txid(), vout: 0 };
    let unconfirmed = spend(&chain, TAPROOT, &[coin], vec![PAYER.output(sat(40_000))]);
    (chain, payment, unconfirmed)
}

fn each_text_finds_what_it_names(form: IndexForm) {
    let (chain, payment, unconfirmed) = paid();
    let mut api = Api::of_chain_in(form, &chain);
    api.arrive([&unconfirmed]);
    let block = chain.active_blocks().last().unwrap();
    let height = chain.active_blocks().count() - 1;
    let block_node = json!([{ "__typename": "Block", "hash": block.block_hash().to_string(), "height": height }]);
    let script = TAPROOT.script_pubkey();
    let address = address_of(&script, Network::Regtest).unwrap();
    let address_node = json!([{ "__typename": "Address", "address": address }]);
    let mut reversed = sha256::Hash::hash(script.as_bytes()).to_byte_array();
    reversed.reverse();
    let unused = address_of(&Owner::new(ScriptKind::P2wpkh, 99).script_pubkey(), Network::Regtest).unwrap();
    let outpoint = format!("{}:0", payment.compute_txid());
    let output_node = json!([{ "__typename": "Output", "outpoint": { "text": outpoint } }]);
    for (text, expected) in [
        (height.to_string(), block_node.clone()),
        (format!(" 0{height}\n"), block_node.clone()),
        (block.block_hash().to_string(), block_node.clone()),
        (block.block_hash().to_string().to_uppercase(), block_node),
        (payment.compute_txid().to_string(), json!([transaction_node(&payment)])),
        (unconfirmed.compute_txid().to_string(), json!([transaction_node(&unconfirmed)])),
        (unconfirmed.compute_wtxid().to_string().to_uppercase(), json!([transaction_node(&unconfirmed)])),
        (outpoint.clone(), output_node.clone()),
        (outpoint.to_uppercase(), output_node),
        (address.clone(), address_node.clone()),
        (format!("bitcoin:{address}?amount=0.1&label=x"), address_node.clone()),
        (format!("\tBITCOIN:{}?AMOUNT=1 ", address.to_uppercase()), address_node.clone()),
        (unused.clone(), json!([{ "__typename": "Address", "address": unused }])),
        // the key of the output
        (hex(&script.as_bytes()[2..]), address_node),
        (script.to_hex_string().to_uppercase(), json!([script_node(&script)])),
        (sha256::Hash::hash(script.as_bytes()).to_string(), json!([script_node(&script)])),
        (hex(&reversed), json!([script_node(&script)])),
        (PAYER.script_pubkey().to_hex_string(), json!([script_node(&PAYER.script_pubkey())])),
        (XPUB.to_owned(), json!([{ "__typename": "DescriptorAccount", "usedCount": 0, "scriptType": "P2PKH" }])),
        (
            format!(" addr( {address} ) "),
            json!([{ "__typename": "DescriptorAccount", "usedCount": 1, "scriptType": "P2TR" }]),
        ),
    ] {
        assert_eq!(found(&api, &text), expected, "{text:?}");
    }
}

#[test]
fn the_beginning_of_a_name_finds_pools_in_the_order_of_the_table() {
    let api = Api::of_chain(&chain_with_coins(1).0);
    let pool = |slug: &str, name: &str| json!({ "__typename": "Miner", "slug": slug, "name": name });
    for text in ["F2Pool", "f2pool", " F2 Pool ", "f2p"] {
        assert_eq!(found(&api, text), json!([pool("f2pool", "F2Pool")]), "{text:?}");
    }
    assert_eq!(found(&api, "f2pools"), json!([]));
    assert_eq!(found(&api, "no pool has this name"), json!([]));
    let names = |text: &str| -> Vec<String> {
        let found = found(&api, text);
        found.as_array().unwrap().iter().map(|pool| pool["slug"].as_str().unwrap().to_owned()).collect()
    };
    let known = btcgraph::chain::pools::Pools::known(Network::Regtest);
    let expected: Vec<_> =
        known.iter().map(|(_, pool)| pool.slug.clone()).filter(|slug| slug.starts_with("btc")).collect();
    assert!(expected.len() > 1, "the table has several such pools");
    assert_eq!(names("BTC"), expected[..expected.len().min(10)]);
}

fn a_text_with_two_meanings_finds_both(form: IndexForm) {
    let (mut chain, coins) = chain_with_coins(1);
    // OP_TRUE has the digits of a height
    let script = ScriptBuf::from_hex("51").unwrap();
    let output = TxOut { value: sat(50_000), script_pubkey: script.clone() };
    let payment = spend(&chain, PAYER, &coins[..1], vec![output]);
    let block = chain.active_blocks().nth(51).unwrap();
    let block_node = json!({ "__typename": "Block", "hash": block.block_hash().to_string(), "height": 51 });
    assert_eq!(
        found(&Api::of_chain_in(form, &chain), "51"),
        json!([block_node]),
        "a script without history is not found"
    );

    chain.mine(vec![payment]).unwrap();
    let api = Api::of_chain_in(form, &chain);
    assert_eq!(found(&api, "51"), json!([block_node, script_node(&script)]));

    let page = |arguments: &str| {
        let found = api.data(&format!(
            "{{ search(text: \"51\", {arguments}) {{ totalCount edges {{ cursor node {{ __typename }} }}
                pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} }} }}"
        ))["search"]
            .take();
        let edges = found["edges"].as_array().unwrap();
        let names: Vec<_> = edges.iter().map(|edge| edge["node"]["__typename"].clone()).collect();
        let info = &found["pageInfo"];
        assert_eq!(found["totalCount"], 2, "{arguments}");
        assert_eq!(info["startCursor"], edges.first().map_or(Value::Null, |edge| edge["cursor"].clone()));
        assert_eq!(info["endCursor"], edges.last().map_or(Value::Null, |edge| edge["cursor"].clone()));
        (json!(names), json!([info["hasPreviousPage"], info["hasNextPage"]]), info["endCursor"].clone())
    };
    let (both, block, script) = (json!(["Block", "Script"]), json!(["Block"]), json!(["Script"]));
    let (names, neighbours, to_block) = page("first: 1");
    assert_eq!((names, neighbours), (block.clone(), json!([false, true])));
    let (names, neighbours, to_script) = page(&format!("first: 5, after: {to_block}"));
    assert_eq!((names, neighbours), (script.clone(), json!([true, false])));
    let (names, neighbours, _) = page(&format!("first: 5, after: {to_script}"));
    assert_eq!((names, neighbours), (json!([]), json!([true, false])));
    let (names, neighbours, _) = page("last: 1");
    assert_eq!((names, neighbours), (script, json!([true, false])));
    let (names, neighbours, _) = page(&format!("last: 1, before: {to_script}"));
    assert_eq!((names, neighbours), (block, json!([false, true])));
    for arguments in ["first: 2", "last: 5"] {
        let (names, neighbours, _) = page(arguments);
        assert_eq!((names, neighbours), (both.clone(), json!([false, false])), "{arguments}");
    }
}

#[test]
fn a_wtxid_of_the_chain_is_found_with_its_table() {
    let (mut chain, _, unconfirmed) = paid();
    chain.mine(vec![unconfirmed.clone()]).unwrap();
    let wtxid = unconfirmed.compute_wtxid().to_string();
    let mut api = Api::of_chain(&chain);
    assert_eq!(found(&api, &wtxid), json!([]));
    api.switch_tables(OptionalTables { wtxids: true, ..OptionalTables::default() }, u32::MAX);
    assert_eq!(found(&api, &wtxid), json!([transaction_node(&unconfirmed)]));
}

#[test]
fn used_addresses_are_found_by_their_beginnings_with_their_table() {
    let (mut chain, coins) = chain_with_coins(1);
    let kinds = [ScriptKind::P2wpkh, ScriptKind::P2trKey, ScriptKind::P2pkh];
    let owners: Vec<_> = kinds.into_iter().flat_map(|kind| (1..=14).map(move |at| Owner::new(kind, at))).collect();
    let outputs = owners.iter().map(|owner| owner.output(sat(1_000))).collect();
    let payment = spend(&chain, PAYER, &coins[..1], outputs);
    chain.mine(vec![payment]).unwrap();
    let outputs = chain.active_blocks().flat_map(|block| &block.txdata).flat_map(|transaction| &transaction.output);
    let used: BTreeSet<_> = outputs.filter_map(|output| address_of(&output.script_pubkey, Network::Regtest)).collect();
    assert!(owners.iter().all(|owner| used.contains(&address_of(&owner.script_pubkey(), Network::Regtest).unwrap())));
    let mut api = Api::of_chain(&chain);
    let segwit = used.iter().find(|address| address.starts_with("bcrt1q")).unwrap().clone();
    let base58 = used.iter().find(|address| address.starts_with('m')).unwrap().clone();
    for text in ["bcrt1q", "bcrt1p", &segwit[..12], &base58[..8]] {
        assert_eq!(found(&api, text), json!([]), "{text}");
    }
    api.switch_tables(OptionalTables { address_prefixes: true, ..OptionalTables::default() }, u32::MAX);
    let named = |prefix: &str| {
        let addresses = used.iter().filter(|address| address.starts_with(prefix)).take(10);
        let nodes = addresses.map(|address| json!({ "__typename": "Address", "address": address }));
        nodes.collect::<Vec<_>>()
    };
    assert_eq!((named("bcrt1q").len(), named("bcrt1p").len()), (10, 10));
    for text in ["bcrt1q", "bcrt1p", &segwit[..8], &segwit[..20], &segwit[..43], &base58[..6], &base58[..30]] {
        assert_eq!(found(&api, text), json!(named(text)), "{text}");
    }
    assert_eq!(found(&api, &segwit[..12].to_uppercase()), json!(named(&segwit[..12])));
    // shorter, of other case, of no address, of another network; and the whole address alone once
    let other_case: String =
        base58.chars().map(|c| if c.is_lowercase() { c.to_ascii_uppercase() } else { c }).collect();
    for text in ["bcrt1", &other_case[..8], "bcrt1qqqqqqqqqqqqqqqqqqqqqqq", "bc1qqqqq"] {
        assert_eq!(found(&api, text), json!([]), "{text}");
    }
    assert_eq!(found(&api, &segwit), json!(named(&segwit)));
    // pages
    let addresses_of = |arguments: &str| {
        let page = api.data(&format!(
            "{{ search(text: \"bcrt1q\", {arguments}) {{ edges {{ cursor node {{ ... on Address {{ address }} }} }} }} }}"
        ));
        let edges = page["search"]["edges"].as_array().unwrap().clone();
        let cursor = edges.last().unwrap()["cursor"].clone();
        (edges.iter().map(|edge| edge["node"]["address"].clone()).collect::<Vec<_>>(), cursor)
    };
    let all: Vec<_> = named("bcrt1q").into_iter().map(|node| node["address"].clone()).collect();
    let (first, cursor) = addresses_of("first: 4");
    assert_eq!(first, all[..4]);
    assert_eq!(addresses_of(&format!("first: 20, after: {cursor}")).0, all[4..]);
}

#[test]
fn what_means_nothing_finds_nothing() {
    let (chain, ..) = paid();
    let api = Api::of_chain(&chain);
    for text in [
        "",
        "nothing",
        "1000000",
        "99999999999999999999",
        "6a00",
        "deadbeef",
        &"ab".repeat(32),
        &format!("{}:0", "ab".repeat(32)),
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "bitcoin:?amount=1",
        "wpkh(nothing)",
        &XPUB[..50],
        &"(".repeat(20_000),
        &"ab".repeat(10_000),
    ] {
        assert_eq!(found(&api, text), json!([]), "{text:?}");
    }
    // no beginning of an address is an address
    let address = address_of(&TAPROOT.script_pubkey(), Network::Regtest).unwrap();
    assert_eq!(found(&api, &address[..20]), json!([]));
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let (chain, ..) = paid();
    let api = Api::of_chain(&chain);
    let answer = api.ask(&format!("{{ search(text: {}) {{ totalCount }} }}", json!("a".repeat(20_001))));
    let error = &answer["errors"][0];
    assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT", "{answer}");
    assert_eq!(error["message"], "text has 20001 bytes: give a text of at most 20000");
}
