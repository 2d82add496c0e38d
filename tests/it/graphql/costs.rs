//! What answers cost: the fields that are resolved, and more for those that do more.

use btcgraph::limits::Limits;
use btcgraph::sim::{Hostile, SimChain};
use serde_json::{Value, json};

use crate::support::api::Api;

fn chain(blocks: u32) -> SimChain {
    let (mut chain, mut hostile) = (SimChain::new(140), Hostile::new(140));
    for _ in 0..blocks {
        hostile.mine(&mut chain).unwrap();
    }
    chain
}

/// The extensions of the only error of an answer without data.
fn refusal(answer: &Value) -> Value {
    assert_eq!((&answer["data"], answer["errors"].as_array().map(Vec::len)), (&Value::Null, Some(1)), "{answer}");
    answer["errors"][0]["extensions"].clone()
}

/// What an answer costs: the lowest limit within which it is given.
fn cost(chain: &SimChain, query: &str) -> usize {
    let is_answered = |complexity: usize| {
        let answer = Api::of_chain_within(chain, Limits { complexity, ..Limits::default() }).ask(query);
        assert!(answer.get("errors").is_none() || refusal(&answer)["which"] == json!("complexity"), "{answer}");
        answer.get("errors").is_none()
    };
    let (mut low, mut high) = (0, 4_096);
    assert!(is_answered(high), "{query}");
    while high - low > 1 {
        let middle = low.midpoint(high);
        *(if is_answered(middle) { &mut high } else { &mut low }) = middle;
    }
    high
}

#[test]
fn an_answer_costs_its_fields_and_what_they_do_beside() {
    let chain = chain(130);
    let txids = chain.active_blocks().last().unwrap().txdata.len();
    for (query, expected) in [
        ("{ tip { height hash } }", 3),
        // pages are as full as they are
        ("{ tip { transactions(first: 1) { nodes { txid } } } }", 5),
        ("{ blocks(first: 100) { nodes { height } } }", 202),
        ("{ blocks(first: 100) { nodes { __typename } } }", 102),
        ("{ headers(range: { heights: { from: 0, to: 49 } }) { __typename } }", 1 + 50 + 50),
        ("{ __typename tip { __typename height } }", 2),
        ("{ __schema { types { name fields { name } } } }", 1),
        ("{ tip { txids } }", 2 + 2 * txids),
        ("{ tip { transaction(index: 0) { merkleProof { root } } } }", 4 + 850),
        ("{ chain { supply { immatureCoinbase } } }", 3 + 550),
        ("{ chain { summary { recentStaleBlockCount } } }", 3 + 100),
        ("{ ledgers(of: { scripts: [\"51\", \"52\"] }) { input } }", 1 + 2 + 2 + 2),
        ("{ ledgerSet(of: { scripts: [\"51\", \"52\"] }) { id } }", 2 + 2),
    ] {
        assert_eq!(cost(&chain, query), expected, "{query}");
    }
}

#[test]
fn a_nested_query_with_default_pages_is_answered_though_full_pages_would_cost_more() {
    let query = "{ blocks { nodes { hash transactions { nodes { txid
        inputs { nodes { prevout { value address } } } outputs { nodes { value address } } } } } } }";
    let chain = chain(60);
    let worst_case = Api::of_chain_within(&chain, Limits { worst_case_complexity: 1, ..Limits::default() });
    let refused = refusal(&worst_case.ask(query));
    assert_eq!(refused["which"], json!("worstCaseComplexity"), "{refused}");
    assert!(refused["actual"].as_u64() > Some(100_000), "{refused}");
    let answer = Api::of_chain(&chain).ask(query);
    assert_eq!(answer.get("errors"), None);
    assert_eq!(answer["data"]["blocks"]["nodes"].as_array().unwrap().len(), 25);
}

#[test]
fn an_answer_that_costs_too_much_is_refused_as_a_whole_with_the_field_and_what_is_allowed() {
    let api = Api::of_chain_within(&chain(30), Limits { complexity: 40, ..Limits::default() });
    let answer = api.ask("{ tip { height } blocks(first: 20) { nodes { hash height } } }");
    let refused = refusal(&answer);
    let field = refused["field"].as_str().unwrap().to_owned();
    assert!(["Block.hash", "Block.height", "nodes"].contains(&field.as_str()), "{refused}");
    let expected =
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "complexity", "limit": 40, "actual": 41, "field": field });
    assert_eq!(refused, expected);
    let (path, message) = (&answer["errors"][0]["path"], answer["errors"][0]["message"].as_str().unwrap());
    assert_eq!((&path[0], &path[1]), (&json!("blocks"), &json!("nodes")), "{path}");
    let sentence = format!(
        "the answer costs more than 40: it costs 41 up to the field {field}; request fewer fields or smaller pages"
    );
    assert_eq!(message, sentence);
    // by what a field does beside
    let refused = refusal(&api.ask("{ chain { supply { immatureCoinbase } } }"));
    assert_eq!((&refused["actual"], &refused["field"]), (&json!(553), &json!("immatureCoinbase")));
}

#[test]
fn a_refused_answer_stops_and_has_one_error_however_many_fields_are_left() {
    let api = Api::of_chain_within(&chain(120), Limits { complexity: 1_000, ..Limits::default() });
    let alias = |alias| format!("a{alias}: blocks(first: 100) {{ nodes {{ hash height }} }}");
    let blocks = (0..50).map(alias).collect::<Vec<_>>().join(" ");
    assert_eq!(refusal(&api.ask(&format!("{{ {blocks} }}")))["actual"], json!(1_001));
    // lists are counted before they are read
    let hashes = vec![format!("\"{}\"", "00".repeat(32)); 900].join(" ");
    let twice = format!(
        "{{ a: blocksByHash(hashes: [{hashes}]) {{ __typename }} b: blocksByHash(hashes: [{hashes}]) {{ __typename }} }}"
    );
    let refused = refusal(&api.ask(&twice));
    assert!(refused["actual"].as_u64() > Some(1_000), "{refused}");
}
