//! Automatic persisted queries. What the cache keeps is tested beside it; here is when.

use btcgraph::execution::AllowedOperations;
use btcgraph::server::Options;
use serde_json::{Value, json};

use super::{encoded, serve};
use crate::support::test_server::{Answer, TestServer};

/// With their SHA-256, which `printf '%s' '{ tip { height } }' | sha256sum` tells.
const TIP: (&str, &str) = ("{ tip { height } }", "4bc81acd40b00ead420aecf3a3dc5d50b006d848c5e285d6ac0bb4b62b8b5419");
const UNKNOWN_FIELD: (&str, &str) = ("{ nothing }", "919c0b7aa452b0b2fb42688461501bb8b0c3ef3b9d05ce7b9afd4f28bbe96ceb");
const MUTATION: (&str, &str) =
    ("mutation { __typename }", "22c9efff0269bd71ee0875759c0ae2b966100d019474f3e91a2b73d3dada7f8f");

fn extensions(hash: &str) -> Value {
    json!({ "persistedQuery": { "version": 1, "sha256Hash": hash } })
}

fn by_hash(served: &TestServer, hash: &str) -> Answer {
    served.get(&format!("extensions={}", encoded(&extensions(hash).to_string())), &[])
}

fn with_text(served: &TestServer, (query, hash): (&str, &str)) -> Answer {
    served.post(&json!({ "query": query, "extensions": extensions(hash) }), &[])
}

#[test]
fn a_query_is_sent_once_and_then_named() {
    let served = serve(Options::default());
    let first = by_hash(&served, TIP.1);
    assert_eq!((first.status, first.code()), (200, json!("PERSISTED_QUERY_NOT_FOUND")));
    assert_eq!(first.json()["errors"][0]["message"], json!("PersistedQueryNotFound"));
    let expected = json!({ "data": { "tip": { "height": 3 } } });
    assert_eq!(with_text(&served, TIP).json(), expected);
    assert_eq!(by_hash(&served, TIP.1).json(), expected);
    assert_eq!(served.post(&json!({ "extensions": extensions(TIP.1) }), &[]).json(), expected);
}

#[test]
fn a_query_that_is_not_executed_is_not_kept() {
    let served = serve(Options::default());
    assert_eq!(with_text(&served, UNKNOWN_FIELD).code(), json!("GRAPHQL_VALIDATION_FAILED"));
    assert_eq!(by_hash(&served, UNKNOWN_FIELD.1).code(), json!("PERSISTED_QUERY_NOT_FOUND"));
    let wrong = with_text(&served, (TIP.0, MUTATION.1));
    assert_eq!(wrong.code(), json!("BAD_USER_INPUT"));
    assert_eq!(by_hash(&served, MUTATION.1).code(), json!("PERSISTED_QUERY_NOT_FOUND"));
}

#[test]
fn a_mutation_that_is_named_is_for_post_too() {
    let served = serve(Options::default());
    assert_eq!(with_text(&served, MUTATION).status, 200);
    assert_eq!(by_hash(&served, MUTATION.1).status, 405);
    let posted = served.post(&json!({ "extensions": extensions(MUTATION.1) }), &[]);
    assert_eq!(posted.json(), json!({ "data": { "__typename": "Mutation" } }));
}

#[test]
fn a_query_whose_answer_is_a_stream_is_kept_once_it_was_executed_too() {
    let served = serve(Options::default());
    let events = ("accept", "text/event-stream");
    let by_hash = |hash| served.post(&json!({ "extensions": extensions(hash) }), &[events]).text();
    for ((query, hash), expected) in
        [(TIP, r#"{"data":{"tip":{"height":3}}}"#), (UNKNOWN_FIELD, "PersistedQueryNotFound")]
    {
        assert!(by_hash(hash).contains("PersistedQueryNotFound"));
        served.post(&json!({ "query": query, "extensions": extensions(hash) }), &[events]);
        assert!(by_hash(hash).contains(expected), "{query}");
    }
}

#[test]
fn a_server_with_a_list_executes_nothing_else() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), json!({ TIP.1: TIP.0, MUTATION.1: MUTATION.0 }).to_string()).unwrap();
    let allowed_operations = Some(AllowedOperations::read(file.path()).unwrap());
    let served = serve(Options { allowed_operations, ..Options::default() });
    let expected = json!({ "data": { "tip": { "height": 3 } } });
    assert_eq!(by_hash(&served, TIP.1).json(), expected);
    assert_eq!(served.post(&json!({ "query": TIP.0 }), &[]).json(), expected);
    for refused in ["{ tip { hash } }", "{ __schema { queryType { name } } }", "{ tip { height }}"] {
        let answer = served.post(&json!({ "query": refused }), &[]);
        assert_eq!(answer.code(), json!("FORBIDDEN"), "{refused}");
    }
    assert_eq!(with_text(&served, UNKNOWN_FIELD).code(), json!("FORBIDDEN"));
    assert_eq!(by_hash(&served, UNKNOWN_FIELD.1).code(), json!("PERSISTED_QUERY_NOT_FOUND"));
}
