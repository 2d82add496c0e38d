//! Pages: put together they are the list, and a cursor is good for its own list while its block stays.

use std::sync::Arc;

use bitcoin::{Block, OutPoint, Transaction};
use btcgraph::limits::Limits;
use btcgraph::sim::{Owner, Reward, ScriptKind, SimChain, Template};
use serde_json::{Value, json};

use crate::support::api::{Api, branch, coinbase_output, error, sat, spend, spend_outputs};
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(pages_put_together_are_the_list_in_both_directions_for_every_size);

const OWNER: Owner = Owner::new(ScriptKind::BareTrue, 1);

/// A chain whose tip has 13 transactions, the second of which has 23 outputs, and the last 22 inputs.
fn wide_chain() -> (SimChain, Arc<Block>) {
    let mut chain = SimChain::new(11);
    let reward = Reward::to(OWNER.script_pubkey());
    let first = chain.mine_template(Template { reward: Some(reward), ..Template::default() }).unwrap();
    chain.mine_empty(100).unwrap();
    let split = spend(&chain, OWNER, &[coinbase_output(&first, 0)], vec![OWNER.output(sat(1_000)); 23]);
    let output = |vout| OutPoint { txid: split.compute_txid(), vout };
    let mut transactions: Vec<Transaction> = vec![split.clone()];
    let mut coin = output(0);
    for left in (990..1_000).rev() {
        let prevout = OWNER.output(sat(left + 1));
        transactions.push(spend_outputs(OWNER, &[coin], &[prevout], vec![OWNER.output(sat(left))]));
        coin = OutPoint { txid: transactions[transactions.len() - 1].compute_txid(), vout: 0 };
    }
    let coins: Vec<OutPoint> = (1..23).map(output).collect();
    transactions.push(spend_outputs(OWNER, &coins, &split.output[1..], vec![OWNER.output(sat(22_000))]));
    let block = chain.mine(transactions).unwrap();
    (chain, block)
}

/// The lists of the chain: where each is asked for, what names a row, and the rows in order.
fn lists(block: &Block) -> Vec<(String, &'static str, &'static str, Vec<Value>)> {
    let txid = |at: usize| block.txdata[at].compute_txid();
    let inputs = 0..block.txdata[12].input.len();
    vec![
        (
            format!("block(hash: \"{}\")", block.block_hash()),
            "transactions",
            "txid",
            block.txdata.iter().map(|transaction| json!(transaction.compute_txid().to_string())).collect(),
        ),
        (format!("transaction(txid: \"{}\")", txid(12)), "inputs", "index", inputs.map(Value::from).collect()),
        (format!("transaction(txid: \"{}\")", txid(1)), "outputs", "vout", (0..23).map(Value::from).collect()),
    ]
}

fn page(api: &Api, owner: &str, field: &str, name: &str, arguments: &str) -> Value {
    let mut data = api.data(&format!(
        "{{ owner: {owner} {{ {field}({arguments}) {{ nodes {{ {name} }} edges {{ cursor node {{ {name} }} }} totalCount
            pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} }} }} }}"
    ));
    let page = data["owner"][field].take();
    let (edges, nodes) = (page["edges"].as_array().unwrap(), page["nodes"].as_array().unwrap());
    assert_eq!(edges.iter().map(|edge| &edge["node"]).collect::<Vec<_>>(), nodes.iter().collect::<Vec<_>>());
    let cursor = |edge: Option<&Value>| edge.map_or(Value::Null, |edge| edge["cursor"].clone());
    assert_eq!(page["pageInfo"]["startCursor"], cursor(edges.first()));
    assert_eq!(page["pageInfo"]["endCursor"], cursor(edges.last()));
    page
}

fn rows<'p>(page: &'p Value, name: &'p str) -> impl Iterator<Item = Value> + use<'p> {
    page["nodes"].as_array().unwrap().iter().map(move |node| node[name].clone())
}

fn pages_put_together_are_the_list_in_both_directions_for_every_size(form: IndexForm) {
    let (chain, block) = wide_chain();
    let api = Api::of_chain_in(form, &chain);
    for (owner, field, name, expected) in lists(&block) {
        for size in 1..=10 {
            let (mut forwards, mut cursor) = (Vec::new(), Value::Null);
            loop {
                let page = page(&api, &owner, field, name, &format!("first: {size}, after: {cursor}"));
                assert_eq!(page["totalCount"], json!(expected.len()));
                assert_eq!(page["pageInfo"]["hasPreviousPage"], json!(!forwards.is_empty()));
                forwards.extend(rows(&page, name));
                if page["pageInfo"]["hasNextPage"] == json!(false) {
                    break;
                }
                cursor = page["pageInfo"]["endCursor"].clone();
            }
            assert_eq!(forwards, expected, "{field} forwards, {size} at a time");

            let (mut backwards, mut cursor) = (Vec::new(), Value::Null);
            loop {
                let page = page(&api, &owner, field, name, &format!("last: {size}, before: {cursor}"));
                assert_eq!(page["pageInfo"]["hasNextPage"], json!(!backwards.is_empty()));
                backwards.splice(0..0, rows(&page, name));
                if page["pageInfo"]["hasPreviousPage"] == json!(false) {
                    break;
                }
                cursor = page["pageInfo"]["startCursor"].clone();
            }
            assert_eq!(backwards, expected, "{field} backwards, {size} at a time");
        }
    }
}

#[test]
fn without_a_size_a_page_has_25_rows_or_100_inputs_or_outputs() {
    let mut chain = SimChain::new(12);
    chain.mine_empty(30).unwrap();
    let outputs = (0..130).map(|_| OWNER.output(sat(1_000))).collect();
    let template = Template { reward: Some(Reward::exactly(outputs)), ..Template::default() };
    let block = chain.mine_template(template).unwrap();
    let api = Api::of_chain(&chain);
    let owner = format!("transaction(txid: \"{}\")", block.txdata[0].compute_txid());
    for (arguments, count, has_next) in [
        ("first: null", 100, true),
        ("first: 30", 30, true),
        ("last: 100", 100, false),
        ("first: 0", 0, true),
        ("last: 0", 0, false),
    ] {
        let page = page(&api, &owner, "outputs", "vout", arguments);
        assert_eq!(rows(&page, "vout").count(), count, "{arguments}");
        assert_eq!(page["pageInfo"]["hasNextPage"], json!(has_next), "{arguments}");
    }
    let blocks = api.data("{ blocks { nodes { height } pageInfo { hasNextPage } } }")["blocks"].take();
    assert_eq!(blocks["nodes"].as_array().map(Vec::len), Some(25));
    assert_eq!(blocks["pageInfo"]["hasNextPage"], json!(true));
    // a page in front of a cursor, and no more than the limits allow
    let cursor = page(&api, &owner, "outputs", "vout", "last: 10")["pageInfo"]["startCursor"].take();
    let before = page(&api, &owner, "outputs", "vout", &format!("before: {cursor}"));
    assert_eq!(
        rows(&before, "vout").map(|vout| vout.as_u64().unwrap()).collect::<Vec<_>>(),
        (20..120).collect::<Vec<_>>()
    );
    let api = Api::of_chain_within(&chain, Limits { page_size: 40, ..Limits::default() });
    assert_eq!(rows(&page(&api, &owner, "outputs", "vout", "first: null"), "vout").count(), 40);
}

#[test]
fn arguments_that_make_no_page_are_refused() {
    let (chain, _) = wide_chain();
    let api = Api::of_chain(&chain);
    let cursor = api.data("{ tip { transactions(first: 3) { pageInfo { endCursor } } } }")["tip"]["transactions"]["pageInfo"]
        ["endCursor"]
        .take();
    for (arguments, code) in [
        ("first: -1".to_owned(), "BAD_USER_INPUT"),
        ("last: -2147483648".to_owned(), "BAD_USER_INPUT"),
        ("first: 1, last: 1".to_owned(), "BAD_USER_INPUT"),
        (format!("first: 1, before: {cursor}"), "BAD_USER_INPUT"),
        (format!("last: 1, after: {cursor}"), "BAD_USER_INPUT"),
        (format!("after: {cursor}, before: {cursor}"), "BAD_USER_INPUT"),
        ("first: 101".to_owned(), "QUERY_LIMIT_EXCEEDED"),
        ("first: 100000".to_owned(), "QUERY_LIMIT_EXCEEDED"),
        ("last: 2147483647".to_owned(), "QUERY_LIMIT_EXCEEDED"),
    ] {
        let response = api.ask(&format!("{{ tip {{ height transactions({arguments}) {{ totalCount }} }} }}"));
        assert_eq!(response["data"], json!({ "tip": { "height": 102, "transactions": null } }), "{arguments}");
        let extensions = &response["errors"][0]["extensions"];
        assert_eq!(extensions["code"], json!(code), "{arguments}");
        assert!(arguments.contains(extensions["argument"].as_str().unwrap()), "{arguments}: {extensions}");
    }
    assert_eq!(
        api.ask("{ tip { transactions(first: 100000) { totalCount } } }")["errors"],
        json!([error(
            &json!(["tip", "transactions"]),
            9,
            "first is 100000, and the limit is 100",
            &json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "pageSize", "argument": "first", "limit": 100, "actual": 100_000 })
        )])
    );
}

#[test]
fn a_cursor_of_another_list_or_of_no_list_is_refused() {
    let (chain, block) = wide_chain();
    let api = Api::of_chain(&chain);
    let txid = block.txdata[12].compute_txid();
    let cursors = api.data(&format!(
        "{{ tip {{ transactions {{ pageInfo {{ endCursor }} }} }} block(height: 101) {{ transactions {{ pageInfo {{ endCursor }} }} }}
            transaction(txid: \"{txid}\") {{ inputs {{ pageInfo {{ endCursor }} }} }} }}"
    ));
    let own = cursors["tip"]["transactions"]["pageInfo"]["endCursor"].as_str().unwrap();
    let other_block = cursors["block"]["transactions"]["pageInfo"]["endCursor"].as_str().unwrap();
    let inputs = cursors["transaction"]["inputs"]["pageInfo"]["endCursor"].as_str().unwrap();
    let refusal = |cursor: &str| {
        let response = api
            .ask_with("query($c: String) { tip { transactions(after: $c) { totalCount } } }", json!({ "c": cursor }));
        response["errors"][0]["extensions"]["code"].clone()
    };
    assert_eq!(refusal(own), Value::Null);
    let cut = &own[..own.len() - 1];
    let longer = format!("{own}A");
    let padded = format!("{own}==");
    for bad in [other_block, inputs, cut, &longer, &padded, "", "5", "not a cursor", &"A".repeat(5_000)] {
        assert_eq!(refusal(bad), json!("BAD_USER_INPUT"), "{bad:.80}");
    }
}

#[test]
fn a_cursor_into_a_block_that_left_the_main_chain_is_orphaned_and_says_where_they_part() {
    let (mut chain, old) = wide_chain();
    let mut api = Api::of_chain(&chain);
    let spending = &old.txdata[12];
    let question = |cursor: &str| {
        format!(
            "{{ block(hash: \"{}\") {{ transactions(first: 2{cursor}) {{ nodes {{ txid }} pageInfo {{ endCursor }} }} }}
                transaction(txid: \"{}\") {{ inputs(first: 2) {{ pageInfo {{ endCursor }} }} }} }}",
            old.block_hash(),
            spending.compute_txid()
        )
    };
    let before = api.data(&question(""));
    let cursor = before["block"]["transactions"]["pageInfo"]["endCursor"].clone();
    let input_cursor = before["transaction"]["inputs"]["pageInfo"]["endCursor"].clone();

    let blocks = branch(&mut chain, old.header.prev_blockhash, 2, &old.txdata[1..]);
    api.change(1, blocks.iter().map(Arc::as_ref));
    let orphaned = json!({ "code": "CURSOR_ORPHANED", "forkHeight": 101 });
    let response = api.ask(&question(&format!(", after: {cursor}")));
    assert_eq!(response["data"]["block"]["transactions"], Value::Null);
    assert_eq!(response["errors"][0]["extensions"], orphaned);
    let response = api.ask(&format!(
        "{{ transaction(txid: \"{}\") {{ block {{ height }} inputs(after: {input_cursor}) {{ totalCount }} }} }}",
        spending.compute_txid()
    ));
    assert_eq!(response["data"], json!({ "transaction": { "block": { "height": 103 }, "inputs": null } }));
    assert_eq!(response["errors"][0]["extensions"], orphaned);

    // the list of the stale block itself can be walked from its beginning
    let again = api.data(&question(""));
    assert_eq!(again["block"]["transactions"]["nodes"], before["block"]["transactions"]["nodes"]);
    let cursor = &again["block"]["transactions"]["pageInfo"]["endCursor"];
    let next = api.data(&question(&format!(", after: {cursor}")));
    assert_eq!(next["block"]["transactions"]["nodes"][0]["txid"], json!(old.txdata[2].compute_txid().to_string()));
}

#[test]
fn a_page_stays_the_same_page_while_blocks_arrive() {
    let (mut chain, block) = wide_chain();
    let mut api = Api::of_chain(&chain);
    let owner = format!("block(hash: \"{}\")", block.block_hash());
    let first = page(&api, &owner, "transactions", "txid", "first: 5");
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(page(&api, &owner, "transactions", "txid", "first: 5"), first);
    let cursor = &first["pageInfo"]["endCursor"];
    let second = page(&api, &owner, "transactions", "txid", &format!("first: 1, after: {cursor}"));
    assert_eq!(rows(&second, "txid").next(), Some(json!(block.txdata[5].compute_txid().to_string())));
}
