//! Objects by their ids: what an answer calls an object finds it again.

use btcgraph::limits::Limits;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(the_copy_that_a_later_transaction_replaced_has_an_id_of_its_own);

fn api() -> (Api, Value) {
    let mut chain = SimChain::new(60);
    chain.mine_empty(3).unwrap();
    let api = Api::of_chain(&chain);
    let tip =
        api.data("{ tip { id transactions { nodes { id outputs { nodes { id address script { id } } } } } } }")["tip"]
            .clone();
    (api, tip)
}

fn ask_nodes(api: &Api, ids: &Value) -> Value {
    api.ask_with("query($ids: [ID!]!) { nodes(ids: $ids) { __typename id } }", json!({ "ids": ids }))
}

#[test]
fn every_id_in_an_answer_finds_its_object() {
    let (api, tip) = api();
    let transaction = &tip["transactions"]["nodes"][0];
    let output = &transaction["outputs"]["nodes"][0];
    let address = format!("Address:{}", output["address"].as_str().unwrap());
    for (id, name) in [
        (&tip["id"], "Block"),
        (&transaction["id"], "Transaction"),
        (&output["id"], "Output"),
        (&json!(address), "Address"),
        (&output["script"]["id"], "Script"),
        (&json!("Mempool:main"), "Mempool"),
        (&json!("Server:main"), "ServerInfo"),
    ] {
        let found = api.data(&format!("{{ node(id: {id}) {{ __typename id }} }}"));
        assert_eq!(found, json!({ "node": { "__typename": name, "id": id } }));
    }
    let found =
        api.data(&format!("{{ node(id: {}) {{ ... on Output {{ vout transaction {{ id }} }} }} }}", output["id"]));
    assert_eq!(found, json!({ "node": { "vout": 0, "transaction": { "id": transaction["id"] } } }));
}

fn the_copy_that_a_later_transaction_replaced_has_an_id_of_its_own(form: IndexForm) {
    let mut chain = SimChain::new(66);
    let first = chain.mine(Vec::new()).unwrap();
    chain.mine_empty(2).unwrap();
    let second = chain.mine_duplicate_coinbase(&first.block_hash(), Vec::new()).unwrap();
    let api = Api::of_chain_in(form, &chain);
    let earlier = &api.data("{ transactionByIndex(index: 1) { id outputs { nodes { id } } } }")["transactionByIndex"];
    let later = format!("Transaction:{}", first.txdata[0].compute_txid());
    assert_eq!(earlier["id"], json!(format!("{later}@{}", first.block_hash())));
    for (id, block) in [(&earlier["id"], &first), (&json!(later), &second)] {
        let found = api.data(&format!("{{ node(id: {id}) {{ id ... on Transaction {{ block {{ hash }} }} }} }}"));
        assert_eq!(found, json!({ "node": { "id": id, "block": { "hash": block.block_hash().to_string() } } }));
    }
    let output = &earlier["outputs"]["nodes"][0]["id"];
    assert_eq!(api.data(&format!("{{ node(id: {output}) {{ id }} }}")), json!({ "node": { "id": output } }));
    // no copy was replaced in this block
    let other = format!("{later}@{}", second.block_hash());
    assert_eq!(api.data(&format!("{{ node(id: \"{other}\") {{ id }} }}")), json!({ "node": null }));
}

#[test]
fn an_id_of_nothing_is_null_and_a_text_that_is_none_an_error_that_names_it() {
    let (api, tip) = api();
    let (unknown, coinbase) = ("00".repeat(32), tip["transactions"]["nodes"][0]["id"].as_str().unwrap().to_owned());
    let beyond = format!("{}:4000000000", coinbase.replace("Transaction", "Output"));
    for id in [format!("Block:{unknown}"), format!("Transaction:{unknown}"), format!("Output:{unknown}:0"), beyond] {
        assert_eq!(api.data(&format!("{{ node(id: \"{id}\") {{ id }} }}")), json!({ "node": null }), "{id}");
    }
    for id in [format!("Block:{}", &unknown[2..]), "Block:3".to_owned(), "Server:other".to_owned(), String::new()] {
        let response = api.ask(&format!("{{ node(id: \"{id}\") {{ id }} }}"));
        assert_eq!(response["data"], json!({ "node": null }));
        let error = &response["errors"][0];
        assert_eq!((&error["path"], &error["extensions"]["code"]), (&json!(["node"]), &json!("BAD_USER_INPUT")));
        assert!(error["message"].as_str().unwrap().contains(&format!("{id:?}")), "{error}");
    }
}

#[test]
fn several_ids_are_answered_in_their_order_and_fail_one_by_one() {
    let (api, tip) = api();
    let unknown = format!("Block:{}", "00".repeat(32));
    let response = ask_nodes(&api, &json!(["Server:main", "nonsense", unknown, tip["id"], tip["id"]]));
    let block = json!({ "__typename": "Block", "id": tip["id"] });
    let expected = json!([{ "__typename": "ServerInfo", "id": "Server:main" }, null, null, block, block]);
    assert_eq!(response["data"]["nodes"], expected);
    assert_eq!(response["errors"].as_array().map(Vec::len), Some(1), "{response}");
    let error = &response["errors"][0];
    assert_eq!((&error["path"], &error["extensions"]["code"]), (&json!(["nodes", 1]), &json!("BAD_USER_INPUT")));
    assert_eq!(ask_nodes(&api, &json!([]))["data"], json!({ "nodes": [] }));
}

#[test]
fn more_ids_than_the_limit_are_refused_and_each_counts_as_often_as_it_is_asked() {
    let chain = SimChain::new(61);
    let api = Api::of_chain_within(&chain, Limits { ids: 3, complexity: 10, ..Limits::default() });
    let ids = |count: usize| json!(vec!["Server:main"; count]);
    assert_eq!(ask_nodes(&api, &ids(3)).get("errors"), None);
    let refused = ask_nodes(&api, &ids(4));
    assert_eq!(refused["data"], json!({ "nodes": null }));
    let extensions =
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "argument": "ids", "which": "idsPerList", "limit": 3, "actual": 4 });
    assert_eq!(refused["errors"][0]["extensions"], extensions);
    // one for the list, and one for each object before it is looked up
    let api = Api::of_chain_within(&chain, Limits { complexity: 3, ..Limits::default() });
    let costly = json!({
        "code": "QUERY_LIMIT_EXCEEDED", "which": "complexity", "limit": 3, "actual": 4, "field": "nodes"
    });
    assert_eq!(ask_nodes(&api, &ids(3))["errors"][0]["extensions"], costly);
}
