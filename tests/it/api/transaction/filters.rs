//! Filters of transactions: lists of the chain and of the mempool leave out what a client would leave out himself.

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request};
use bitcoin::{Network, ScriptBuf, Transaction, TxOut};
use btcgraph::limits::Limits;
use btcgraph::sim::{Hostile, SimChain};
use serde_json::{Value, json};

use crate::api::mempool::projected::{chain_with_coins, paying};
use crate::support::api::{Api, response_json, sat};
use crate::support::cut::{IndexForm, live_and_cut};

live_and_cut!(lists_of_the_chain_have_what_a_client_would_keep);

/// What a filter goes by.
const FIELDS: &str =
    "txid isCoinbase feeRate totalOutputValue outputs(first: 100) { nodes { scriptType opReturn { pushes } } }";

/// What a filter lets through, by what a client reads of a transaction.
type Keeps = fn(&Value) -> bool;

fn rate(found: &Value) -> Option<f64> {
    found["feeRate"].as_f64()
}

fn outputs(found: &Value) -> &[Value] {
    found["outputs"]["nodes"].as_array().unwrap()
}

fn has_type(found: &Value, types: &[&str]) -> bool {
    outputs(found).iter().any(|output| types.contains(&output["scriptType"].as_str().unwrap()))
}

/// Filters, and what they let through.
const FILTERS: [(&str, Keeps); 9] = [
    ("minFeeRate: 2", |found| rate(found).is_some_and(|rate| rate >= 2.0)),
    ("maxFeeRate: 2", |found| rate(found).is_some_and(|rate| rate <= 2.0)),
    ("minValue: 100000000", |found| found["totalOutputValue"].as_u64().unwrap() >= 100_000_000),
    ("maxValue: \"100000000\"", |found| found["totalOutputValue"].as_u64().unwrap() <= 100_000_000),
    ("isCoinbase: true", |found| found["isCoinbase"] == true),
    ("isCoinbase: false", |found| found["isCoinbase"] == false),
    ("scriptTypes: [P2TR, P2SH]", |found| has_type(found, &["P2TR", "P2SH"])),
    ("scriptTypes: [P2PK], isCoinbase: false", |found| has_type(found, &["P2PK"]) && found["isCoinbase"] == false),
    ("opReturnPrefix: \"\"", |found| has_type(found, &["OP_RETURN"])),
];

/// A page of a list of transactions within `owner`, a path of fields with their arguments.
fn page(api: &Api, owner: &[&str], arguments: &str) -> Value {
    let open = owner.iter().fold(String::new(), |open, field| open + field + " { ");
    let document = format!(
        "{{ {open} transactions({arguments}) {{ totalCount nodes {{ {FIELDS} }} pageInfo {{ hasNextPage endCursor }} }} {} }}",
        "}".repeat(owner.len())
    );
    let mut answer = api.data(&document);
    for field in owner {
        answer = answer[field.split('(').next().unwrap()].take();
    }
    answer["transactions"].take()
}

/// All rows of a list, so many at a time.
fn walk(api: &Api, owner: &[&str], size: usize, arguments: &str) -> Vec<Value> {
    let (mut rows, mut after) = (Vec::new(), Value::Null);
    loop {
        let mut page = page(api, owner, &format!("first: {size}, after: {after} {arguments}"));
        let Value::Array(nodes) = page["nodes"].take() else { panic!("no page: {page}") };
        rows.extend(nodes);
        if page["pageInfo"]["hasNextPage"] == false {
            return rows;
        }
        after = page["pageInfo"]["endCursor"].take();
    }
}

fn lists_of_the_chain_have_what_a_client_would_keep(form: IndexForm) {
    let (mut chain, mut hostile) = (SimChain::new(95), Hostile::new(95));
    for _ in 0..150 {
        hostile.mine(&mut chain).unwrap();
    }
    let api = Api::of_chain_in(form, &chain);
    let largest = chain.active_blocks().enumerate().max_by_key(|(_, block)| block.txdata.len()).unwrap().0;
    let block = format!("block(height: {largest})");
    let mut reported = 0;
    for (owner, whole) in [(vec![], ", order: ASC, range: { heights: { from: 90 } }"), (vec![block.as_str()], "")] {
        let all = walk(&api, &owner, 100, whole);
        for (filter, keeps) in FILTERS {
            let kept: Vec<_> = all.iter().filter(|found| keeps(found)).cloned().collect();
            reported += kept.len();
            let arguments = format!("{whole}, filter: {{ {filter} }}");
            for size in [3, 100] {
                assert_eq!(walk(&api, &owner, size, &arguments), kept, "{owner:?} {filter}, {size} at a time");
            }
            let count = page(&api, &owner, &format!("first: 1 {arguments}"))["totalCount"].take();
            assert_eq!(count, Value::Null, "counting would read all rows");
        }
        // a filter without conditions is none
        let unfiltered = page(&api, &owner, &format!("first: 1 {whole}, filter: {{}}"));
        assert_eq!(unfiltered["totalCount"], json!(all.len()));
    }
    assert!(reported > 100, "only {reported} rows were let through");
}

#[test]
fn a_filtered_page_of_the_chain_reads_no_more_rows_than_allowed() {
    let mut chain = SimChain::new(96);
    chain.mine_empty(20).unwrap();
    let mut api = Api::empty(Network::Regtest, Limits { scan_rows: 6, ..Limits::default() });
    api.change(0, chain.active_blocks().map(AsRef::as_ref));
    let none = page(&api, &[], "first: 3, filter: { isCoinbase: false }");
    assert_eq!((&none["nodes"], &none["pageInfo"]["hasNextPage"]), (&json!([]), &json!(true)));
    assert_eq!(walk(&api, &[], 3, ", filter: { isCoinbase: false }"), Vec::<Value>::new());
    assert_eq!(walk(&api, &[], 3, ", filter: { isCoinbase: true }").len(), 21);
    // a cursor is of the filter it was made under
    let cursor = &none["pageInfo"]["endCursor"];
    for other in ["", ", filter: { isCoinbase: true }"] {
        let refused = api.refusal(&format!("{{ transactions(after: {cursor} {other}) {{ totalCount }} }}"));
        assert_eq!(refused, json!("BAD_USER_INPUT"), "{other}");
    }
}

/// Transactions of which the second carries the data `abc` and the third pays a taproot output.
fn three_kinds() -> (Api, Vec<Transaction>) {
    let (chain, coins) = chain_with_coins(3);
    let mut transactions: Vec<_> = coins.iter().map(|coin| paying(*coin, 1_000)).collect();
    let script = |hex: &str| ScriptBuf::from_hex(hex).unwrap();
    transactions[1].output.push(TxOut { value: sat(0), script_pubkey: script("6a0161026263") });
    transactions[2].output[0].script_pubkey = script(&format!("5120{}", "01".repeat(32)));
    (Api::of_chain(&chain), transactions)
}

#[test]
fn the_mempool_is_filtered_by_the_scripts_of_outputs() {
    let (mut api, transactions) = three_kinds();
    api.arrive(&transactions);
    for (filter, expected) in [
        ("scriptTypes: [P2TR]", vec![2]),
        ("scriptTypes: [OP_RETURN, P2TR]", vec![1, 2]),
        ("opReturnPrefix: \"6162\"", vec![1]),
        ("opReturnPrefix: \"616263\", isCoinbase: false", vec![1]),
        ("opReturnPrefix: \"62\"", vec![]),
        ("isCoinbase: true", vec![]),
        ("isCoinbase: false", vec![0, 1, 2]),
    ] {
        let mut found: Vec<_> = walk(&api, &["mempool"], 1, &format!(", order: ARRIVAL, filter: {{ {filter} }}"));
        found.reverse();
        let found: Vec<_> = found.iter().map(|found| found["txid"].as_str().unwrap().to_owned()).collect();
        let expected: Vec<_> =
            expected.iter().map(|number: &usize| transactions[*number].compute_txid().to_string()).collect();
        assert_eq!(found, expected, "{filter}");
    }
}

#[test]
fn conditions_that_no_transaction_can_meet_are_refused() {
    let (api, _) = three_kinds();
    for (filter, message) in [
        ("minFeeRate: 2.5, maxFeeRate: 2", "filter.minFeeRate is 2.5, and filter.maxFeeRate is 2, which is below it"),
        ("minValue: 2, maxValue: 1", "filter.minValue is 2, and filter.maxValue is 1, which is below it"),
        ("minFeeRate: -1", "filter.minFeeRate is -1, and a feerate cannot be negative"),
        ("maxFeeRate: -0.5", "filter.maxFeeRate is -0.5, and a feerate cannot be negative"),
        ("scriptTypes: []", "filter.scriptTypes is an empty list: give at least one, or leave the condition out"),
        ("features: []", "filter.features is an empty list: give at least one, or leave the condition out"),
        (
            "isCoinbase: true, maxFeeRate: 1",
            "filter.isCoinbase is true, and filter.maxFeeRate is 1, which exclude each other: a coinbase pays no fee",
        ),
        (
            "isCoinbase: true, features: [WITNESS, MULTISIG_SPEND]",
            "filter.isCoinbase is true, and filter.features is a list with MULTISIG_SPEND, which exclude each other: a \
             coinbase spends no output",
        ),
    ] {
        for (path, open, close) in [
            (json!(["transactions"]), "{", "}"),
            (json!(["tip", "transactions"]), "{ tip {", "} }"),
            (json!(["mempool", "transactions"]), "{ mempool {", "} }"),
        ] {
            let answer = api.ask(&format!("{open} transactions(filter: {{ {filter} }}) {{ totalCount }} {close}"));
            let error = &answer["errors"][0];
            assert_eq!((error["message"].as_str(), &error["path"]), (Some(message), &path), "{filter}");
            let argument = message.split_once(' ').unwrap().0;
            assert_eq!(error["extensions"], json!({ "code": "BAD_USER_INPUT", "argument": argument }), "{filter}");
        }
        let document = format!("subscription {{ unconfirmedTransaction(filter: {{ {filter} }}) {{ txid }} }}");
        let refused = api.first_event(&document);
        let error = &refused["errors"][0];
        assert_eq!(
            (error["message"].as_str(), &error["extensions"]["code"]),
            (Some(message), &json!("BAD_USER_INPUT"))
        );
    }
    // equal bounds are met by what is equal
    for filter in ["minFeeRate: 2, maxFeeRate: 2", "minValue: 0, maxValue: 0", "isCoinbase: true, minValue: 1"] {
        let answer = api.ask(&format!("{{ transactions(filter: {{ {filter} }}) {{ totalCount }} }}"));
        assert_eq!(answer.get("errors"), None, "{filter}");
    }
}

#[tokio::test]
async fn only_arrivals_that_pass_the_filter_are_sent() {
    let (mut api, transactions) = three_kinds();
    let document = "subscription { unconfirmedTransaction(filter: { scriptTypes: [P2TR, OP_RETURN] }) { txid } }";
    let mut events = api.schema.execute_stream(Request::new(document), None);
    let waits = tokio::time::timeout(std::time::Duration::ZERO, events.next()).await;
    assert!(waits.is_err(), "nothing arrived yet");
    api.arrive(&transactions);
    for transaction in &transactions[1..] {
        let event = response_json(events.next().await.unwrap());
        let txid = transaction.compute_txid().to_string();
        assert_eq!(event, json!({ "data": { "unconfirmedTransaction": { "txid": txid } } }));
    }
}
