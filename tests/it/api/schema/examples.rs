//! Each root field shows in its description how it is used, and the example works.

use std::collections::BTreeMap;
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};
use async_graphql::{Executor, Request};
use bitcoin::Network;
use bitcoin::constants::genesis_block;
use btcgraph::api::type_definitions;
use serde_json::Value;

use crate::api::documented;
use crate::support::api::Api;
use crate::support::clock::paused_runtime;
use crate::support::skips::shared_data;

const ROOTS: [(&str, &str); 3] = [("Query", ""), ("Mutation", "mutation "), ("Subscription", "subscription ")];

/// The example of each root field of a type: the document in backticks behind `Example:` at the end of its description.
fn examples(root: &str) -> BTreeMap<String, String> {
    let definitions = parse_schema(type_definitions()).unwrap().definitions;
    let found = definitions.into_iter().find_map(|definition| match definition {
        TypeSystemDefinition::Type(found) if found.node.name.node == root => Some(found.node.kind),
        _ => None,
    });
    let Some(TypeKind::Object(object)) = found else { panic!("{root} is an object") };
    let examples = object.fields.into_iter().map(|field| {
        let name = field.node.name.node.to_string();
        let text = field.node.description.unwrap().node.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, example) = text.split_once("Example: `").unwrap_or_else(|| panic!("{root}.{name} has no example"));
        let example =
            example.strip_suffix("`.").unwrap_or_else(|| panic!("the example of {root}.{name} ends its text"));
        (name, example.to_owned())
    });
    examples.collect()
}

/// The codes of the errors of an answer.
fn codes(answer: &Value) -> Vec<&str> {
    let errors = answer["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    errors.iter().map(|error| error["extensions"]["code"].as_str().unwrap()).collect()
}

#[test]
fn every_root_field_has_an_example_that_uses_it() {
    for (root, keyword) in ROOTS {
        let examples = examples(root);
        assert!(examples.len() > 1, "{root} was read");
        for (name, example) in examples {
            let selected = example.strip_prefix(keyword).and_then(|selection| selection.strip_prefix("{ "));
            let rest = selected.and_then(|selection| selection.strip_prefix(&name));
            assert!(rest.is_some_and(|rest| rest.starts_with(['(', ' '])), "{root}.{name}: {example}");
        }
    }
}

#[test]
fn examples_are_valid() {
    let api = Api::of(Network::Bitcoin, &[genesis_block(Network::Bitcoin)]);
    let runtime = paused_runtime();
    for (root, _) in ROOTS {
        for (name, example) in examples(root) {
            let first = runtime.block_on(async {
                let mut answers = api.schema.execute_stream(Request::new(&*example), None);
                // a subscription that is accepted may have nothing to send
                tokio::time::timeout(Duration::from_millis(50), answers.next()).await.ok().flatten()
            });
            let answer = first.map_or(Value::Null, |first| serde_json::to_value(first).unwrap());
            let may_fail = ["NODE_UNAVAILABLE", "FEATURE_DISABLED"];
            assert!(codes(&answer).iter().all(|code| may_fail.contains(code)), "{root}.{name}: {example}: {answer}");
        }
    }
}

#[test]
fn examples_of_queries_return_data() {
    // the node does not respond, and the operator has no rates
    let fail = [
        ("chainTips", "NODE_UNAVAILABLE"),
        ("compactFilters", "NODE_UNAVAILABLE"),
        ("currencies", "FEATURE_DISABLED"),
        ("feeEstimate", "NODE_UNAVAILABLE"),
        ("feeEstimates", "NODE_UNAVAILABLE"),
        ("opReturns", "FEATURE_DISABLED"),
        ("rate", "FEATURE_DISABLED"),
        ("testTransactions", "NODE_UNAVAILABLE"),
    ];
    let Some(data) = shared_data("mainnet-0-4521.blk") else { return };
    let blocks = documented::blocks(&data);
    let mut api = Api::of(Network::Bitcoin, &blocks);
    api.set_node_mempool(documented::NODE);
    api.arrive(&documented::unconfirmed(&blocks));
    let mut failed = Vec::new();
    for (name, example) in examples("Query") {
        let answer = api.ask(&example);
        match codes(&answer).first() {
            Some(code) => failed.push((name, (*code).to_owned())),
            None => assert!(!answer["data"][&name].is_null(), "{name}: {example}: {answer}"),
        }
    }
    let failed: Vec<_> = failed.iter().map(|(name, code)| (&**name, &**code)).collect();
    assert_eq!(failed, fail);
}
