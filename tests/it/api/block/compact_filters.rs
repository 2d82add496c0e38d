//! Compact filters: the server's own, and those of the node.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bitcoin::Network;
use bitcoin::hex::DisplayHex;
use btcgraph::index::OptionalTables;
use btcgraph::limits::Limits;
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{Hostile, SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};

use crate::api::chain::deployments::api_over;
use crate::index::block_filters::expected;
use crate::support::api::{Api, error};
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::cut::IndexForm;
use crate::support::test_process::TestProcess;

const FIELDS: &str = "blockHash hex filterHeader";

/// Switched on, with few rows yet.
fn on(api: &mut Api) {
    api.switch_tables(OptionalTables { block_filters: true, ..OptionalTables::default() }, 0);
}

/// What the API must say of each block of a chain.
fn model(chain: &SimChain) -> Vec<Value> {
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let of_block = |(block, (content, header)): (&Arc<bitcoin::Block>, (Vec<u8>, bitcoin::bip158::FilterHeader))| {
        json!({
            "blockHash": block.block_hash().to_string(),
            "hex": content.to_lower_hex_string(),
            "filterHeader": header.to_string(),
        })
    };
    blocks.iter().zip(expected(&blocks)).map(of_block).collect()
}

/// The code of the error of a field that is null.
fn code(api: &Api, document: &str) -> Value {
    api.ask(document)["errors"][0]["extensions"]["code"].take()
}

fn range(from: u32, to: u32, fields: &str) -> String {
    format!("{{ compactFilters(range: {{ heights: {{ from: {from}, to: {to} }} }}) {{ {fields} }} }}")
}

#[test]
fn filters_are_computed_when_the_node_has_none() {
    let (mut chain, mut hostile) = (SimChain::new(312), Hostile::new(312));
    hostile.repeat_coinbase(&mut chain, 1).unwrap();
    for _ in 0..112 {
        hostile.mine(&mut chain).unwrap();
    }
    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain.clone()))), SimNodeOptions::default()).unwrap();
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth)).unwrap();
    let mut api = api_over(&node);
    api.take(IndexForm::Cut);

    let (tip, all) = (chain.height().to_u32(), model(&chain));
    let message = "compact filters are disabled; the operator enables them with -blockfilterindex=1 on the Bitcoin node, or \
                   with the setting index.block_filters";
    let extensions =
        json!({ "code": "FEATURE_DISABLED", "feature": "BLOCK_FILTERS", "setting": "index.block_filters" });
    let errors = json!([error(&json!(["tip", "compactFilter"]), 9, message, &extensions)]);
    let answer = api.ask("{ tip { compactFilter { hex } height } }");
    assert_eq!(answer, json!({ "data": { "tip": { "compactFilter": null, "height": tip } }, "errors": errors }));
    assert_eq!(api.refusal(&range(0, 5, FIELDS)), json!("FEATURE_DISABLED"));

    on(&mut api);
    let not_ready = api.ask("{ tip { compactFilter { hex } } }")["errors"][0].take();
    // each step looks at a transaction on each of four threads at least, and so do many blocks of one transaction
    let message = format!("the server has computed the compact filters of 4 of {} blocks; retry later", tip + 1);
    assert_eq!(not_ready["message"], json!(message));
    let progress = json!({ "code": "NOT_READY", "feature": "BLOCK_FILTERS", "progress": 4.0 / f64::from(tip + 1) });
    assert_eq!(not_ready["extensions"], progress);
    // a filter is there as soon as its block is reached
    while api.ask(&range(20, 20, FIELDS))["errors"].is_array() {
        assert!(api.tend_once(3));
    }
    assert_eq!(api.data(&range(0, 20, FIELDS))["compactFilters"], json!(all[..=20]));
    assert_eq!(code(&api, "{ tip { compactFilter { hex } } }"), json!("NOT_READY"));
    api.tend_tables();
    for (height, expected) in all.iter().enumerate() {
        let answer = api.data(&format!("{{ block(height: {height}) {{ compactFilter {{ {FIELDS} }} }} }}"));
        assert_eq!(answer["block"]["compactFilter"], *expected, "{height}");
    }
    assert_eq!(api.data(&range(0, 9_999, FIELDS))["compactFilters"], json!(all));
    assert_eq!(api.data(&range(tip + 1, tip + 9, FIELDS))["compactFilters"], json!([]));
    let message = api.ask(&range(9, 5, FIELDS))["errors"][0]["message"].clone();
    assert!(
        message.as_str().unwrap().contains("before its beginning") || message.as_str().unwrap().contains('9'),
        "{message}"
    );

    // of a block that becomes stale only a node may have a filter
    let stale = all.last().unwrap()["blockHash"].clone();
    hostile.branch(&mut chain, 1, 2).unwrap();
    sim.with(|world| world.change_chain(|of_node| *of_node = chain.clone())).unwrap();
    api.follow(&node);
    assert_eq!(api.data(&range(0, tip + 1, FIELDS))["compactFilters"], json!(model(&chain)));
    assert_eq!(
        code(&api, &format!("{{ block(hash: {stale}) {{ compactFilter {{ hex }} }} }}")),
        json!("NODE_UNAVAILABLE")
    );
}

#[test]
fn a_list_of_filters_has_limits_of_number_cost_and_bytes() {
    let mut chain = SimChain::new(313);
    chain.mine_empty(30).unwrap();
    let list = range(0, 19, "hex");
    let limited = |limits: Limits| {
        let mut api = Api::of_chain_within(&chain, limits);
        on(&mut api);
        api.tend_tables();
        api
    };
    let api = limited(Limits { compact_filters: 20, ..Limits::default() });
    assert_eq!(api.data(&list)["compactFilters"].as_array().unwrap().len(), 20);
    let refused = api.ask(&range(0, 20, "hex"))["errors"][0]["extensions"].clone();
    let which = json!({ "code": "QUERY_LIMIT_EXCEEDED", "argument": "range", "which": "compactFiltersPerList", "limit": 20, "actual": 21 });
    assert_eq!(refused, which);
    // each reads its block, and a header reads none
    let bytes = limited(Limits { transaction_bytes: 1_000, ..Limits::default() });
    let which = |api: &Api, document: &str| api.ask(document)["errors"][0]["extensions"]["which"].clone();
    assert_eq!(which(&bytes, &list), json!("transactionBytes"));
    assert_eq!(bytes.data(&range(0, 19, "filterHeader"))["compactFilters"].as_array().unwrap().len(), 20);
    // as many as a node sends at a time are within the limits of documents
    let api = limited(Limits::default());
    assert_eq!(api.data(&range(0, 999, FIELDS))["compactFilters"].as_array().unwrap().len(), 31);
}

/// The basic filters of a node, as the API shows them.
fn of_node(node: &RealNode) -> Vec<Value> {
    let tip = node.must("getblockcount", &[]);
    wait_for("the filter index", Duration::from_mins(1), || {
        let info = node.must("getindexinfo", &[]);
        (info["basic block filter index"]["best_block_height"] == tip).then_some(())
    });
    let of_height = |height: u64| {
        let hash = node.must("getblockhash", &[json!(height)]);
        let found = node.must("getblockfilter", &[hash.clone(), json!("basic")]);
        json!({ "blockHash": hash, "hex": found["filter"], "filterHeader": found["header"] })
    };
    (0..=tip.as_u64().unwrap()).map(of_height).collect()
}

/// Pays addresses of all types from the wallet, and mines what it sends.
fn pay_and_mine(node: &RealNode, blocks: u32) {
    for address_type in ["legacy", "p2sh-segwit", "bech32", "bech32m"] {
        for amount in [0.3, 0.7] {
            let address = node.wallet_address(address_type);
            node.must("sendtoaddress", &[json!(address), json!(amount)]);
        }
    }
    node.mine(blocks);
}

#[test]
fn filters_of_the_server_and_of_its_node_are_the_same() {
    let Some(mut node) = RealNode::start(&["-blockfilterindex=1"]) else { return };
    let address = node.wallet_address("bech32");
    // enough that are confirmed whatever becomes of the payments
    node.mine_to(&address, 12);
    node.mine(100);
    pay_and_mine(&node, 1);
    pay_and_mine(&node, 2);
    let mut api = api_over(&node.client());
    let list = |api: &Api| api.data(&range(0, 9_999, FIELDS))["compactFilters"].take();
    // the node's
    let first = of_node(&node);
    assert_eq!(list(&api), json!(first));
    let tip = api.data(&format!("{{ tip {{ compactFilter {{ {FIELDS} }} }} }}"));
    assert_eq!(tip["tip"]["compactFilter"], *first.last().unwrap());
    // some of each, and then all of the server
    on(&mut api);
    assert!(api.tend_once(5));
    assert_eq!(list(&api), json!(first));
    api.tend_tables();
    assert_eq!(list(&api), json!(first));
    // after a reorganisation
    let fork = node.must("getblockhash", &[json!(113)]);
    node.must("invalidateblock", &[fork]);
    node.mine(4);
    pay_and_mine(&node, 2);
    api.follow(&node.client());
    let second = of_node(&node);
    assert_ne!(first[113..], second[113..first.len()]);
    assert_eq!(first[..113], second[..113]);
    assert_eq!(list(&api), json!(second));
    // and without the node
    node.stop();
    assert_eq!(list(&api), json!(second));
    api.switch_tables(OptionalTables::default(), 1_000);
    assert_eq!(api.refusal(&range(0, 3, FIELDS)), json!("NODE_UNAVAILABLE"));
}

#[test]
fn a_server_builds_its_filters_while_it_answers_and_drops_them_when_they_are_off() {
    let Some(mut node) = RealNode::start(&[]) else { return };
    let address = node.wallet_address("bech32m");
    node.mine_to(&address, 3);
    node.mine(100);
    pay_and_mine(&node, 12);
    let directory = tempfile::tempdir().unwrap();
    let start = |node: &RealNode, filters: &str| {
        let variables = [
            ("BTCGRAPH_INDEX__FREEZE_DEPTH", "5"),
            ("BTCGRAPH_INDEX__FREEZE_EVERY", "10"),
            ("BTCGRAPH_INDEX__BLOCK_FILTERS", filters),
        ];
        TestProcess::start_with(node, directory.path(), &variables)
    };
    let list = |served: &TestProcess| served.query(&range(0, 9_999, FIELDS));
    let code = |answer: &Value| answer["errors"][0]["extensions"]["code"].clone();
    let wait = |served: &TestProcess, blocks: usize| {
        wait_for("the filters", Duration::from_mins(1), || {
            let answer = list(served);
            let is_ready = answer.get("errors").is_none();
            // a server answers before it reaches its node
            let may_be = ["NOT_READY", "NODE_UNAVAILABLE"];
            assert!(is_ready || may_be.iter().any(|known| code(&answer) == *known), "{answer}");
            (is_ready && answer["data"]["compactFilters"].as_array().unwrap().len() == blocks)
                .then(|| answer["data"]["compactFilters"].clone())
        })
    };
    let mut served = start(&node, "false");
    served.wait_for_height(115);
    assert_eq!(code(&list(&served)), json!("FEATURE_DISABLED"));
    assert!(served.stop().success());

    let mut served = start(&node, "true");
    let mut found = vec![wait(&served, 116)];
    // killed, and with blocks that arrive while it runs
    served.kill();
    drop(served);
    let mut served = start(&node, "true");
    pay_and_mine(&node, 3);
    served.wait_for_height(118);
    found.push(wait(&served, 119));
    assert!(served.stop().success());

    node.restart_with(&["-blockfilterindex=1"]);
    let expected = of_node(&node);
    assert_eq!((&found[0], &found[1]), (&json!(expected[..116]), &json!(expected)));
    // off: those of the node, which are the same
    let mut served = start(&node, "false");
    served.wait_for_height(118);
    assert_eq!(wait(&served, 119), json!(expected));
    assert!(served.stop().success());
}
