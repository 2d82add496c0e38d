use btcgraph::server::Options;
use serde_json::{Value, json};

use super::{encoded, serve};

const RESPONSE: &str = "application/graphql-response+json";

#[test]
fn an_answer_is_in_the_type_that_was_asked_for() {
    let served = serve(Options::default());
    let query = json!({ "query": "{ tip { height } }" });
    for (accept, content_type) in [
        (RESPONSE, "application/graphql-response+json; charset=utf-8"),
        (
            "application/graphql-response+json, application/json;q=0.9",
            "application/graphql-response+json; charset=utf-8",
        ),
        ("application/json", "application/json; charset=utf-8"),
        ("*/*", "application/json; charset=utf-8"),
        ("text/html, */*;q=0.1", "application/json; charset=utf-8"),
    ] {
        let answer = served.post(&query, &[("accept", accept)]);
        assert_eq!((answer.status, answer.header("content-type")), (200, content_type), "{accept}");
        assert_eq!(answer.json(), json!({ "data": { "tip": { "height": 3 } } }));
        assert!(answer.header("vary").contains("accept"), "{answer:?}");
    }
}

#[test]
fn a_client_that_accepts_no_offered_type_gets_a_list_of_them() {
    let served = serve(Options::default());
    for answer in [
        served.post(&json!({ "query": "{ tip { height } }" }), &[("accept", "text/html")]),
        served.get("query={tip{height}}", &[("accept", "application/json;q=0, image/*")]),
    ] {
        assert_eq!(answer.status, 406);
        let message = answer.json()["errors"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("application/graphql-response+json or application/json"), "{message}");
    }
}

#[test]
fn what_is_not_executed_is_an_error_of_http_under_the_newer_type_only() {
    let served = serve(Options::default());
    for (query, code) in [
        ("{", "GRAPHQL_PARSE_FAILED"),
        ("{ nothing }", "GRAPHQL_VALIDATION_FAILED"),
        ("query($height: Int!) { block(height: $height) { id } }", "GRAPHQL_VALIDATION_FAILED"),
        // which operation is meant is clear without its name
        ("query A($height: Int!) { block(height: $height) { id } }", "GRAPHQL_VALIDATION_FAILED"),
        ("query A { tip { id } } query B { tip { id } }", "BAD_USER_INPUT"),
        ("{ tip { ...A } } fragment A on Block { ...A }", "GRAPHQL_VALIDATION_FAILED"),
    ] {
        for (accept, status) in [(RESPONSE, 400), ("application/json", 200)] {
            let answer = served.post(&json!({ "query": query }), &[("accept", accept)]);
            assert_eq!(answer.status, status, "{query} {answer:?}");
            assert_eq!(answer.json().get("data"), None, "{query}");
            let found = answer.code();
            assert!(found == json!(code) || found == json!("BAD_USER_INPUT"), "{query}: {found}");
        }
    }
}

#[test]
fn what_is_executed_is_200_whatever_became_of_its_fields() {
    let served = serve(Options::default());
    for accept in [RESPONSE, "application/json"] {
        let answer = served.post(&json!({ "query": "{ block { id } }" }), &[("accept", accept)]);
        assert_eq!(answer.status, 200);
        assert_eq!((&answer.json()["data"], answer.code()), (&json!({ "block": null }), json!("BAD_USER_INPUT")));
    }
}

#[test]
fn a_subscription_is_not_answered_by_one_answer() {
    let served = serve(Options::default());
    let query = "subscription { newBlock { hash } }";
    for answer in [served.post(&json!({ "query": query }), &[]), served.get(&format!("query={}", encoded(query)), &[])]
    {
        assert_eq!((answer.status, answer.code()), (406, json!("BAD_USER_INPUT")));
        assert_eq!(answer.json().get("data").cloned(), None::<Value>);
    }
}
