//! Who asks: tokens, budgets, and what a response tells of its cost.

use btcgraph::server::{Options, Token, TokenPolicy, Tokens};
use serde_json::json;

use super::{encoded, serve};
use crate::support::test_server::{Answer, TestServer};

/// A server that knows alice, whose token is `secret`, and what clients may spend.
fn served(cost: u32, change: impl FnOnce(&mut TokenPolicy)) -> TestServer {
    let tokens: Tokens = Token::new("alice", "secret", cost, false).unwrap().to_string().parse().unwrap();
    let mut token_policy = TokenPolicy { tokens, ..TokenPolicy::default() };
    change(&mut token_policy);
    serve(Options { token_policy, ..Options::default() })
}

const ALICE: (&str, &str) = ("authorization", "Bearer secret");
/// Costs 2.
const QUERY: &str = "{ tip { height } }";

fn ask(served: &TestServer, headers: &[(&str, &str)]) -> Answer {
    served.post(&json!({ "query": QUERY }), headers)
}

#[test]
fn a_token_that_is_not_known_is_401_also_where_none_is_required() {
    let served = served(0, |_| ());
    assert_eq!(ask(&served, &[]).status, 200);
    assert_eq!(ask(&served, &[ALICE]).status, 200);
    for wrong in ["Bearer Secret", "Bearer ", "Basic YWxpY2U6c2VjcmV0", "secret"] {
        let answer = ask(&served, &[("authorization", wrong)]);
        assert_eq!((answer.status, answer.code()), (401, json!("FORBIDDEN")), "{wrong}");
        assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"btcgraph\", error=\"invalid_token\"");
        assert!(!answer.text().contains("ecret"), "what was sent is not repeated");
    }
}

#[test]
fn where_a_token_is_required_nothing_is_answered_without_one_but_health_and_schema() {
    let served = served(0, |token_policy| token_policy.require_token = true);
    // what looks like a websocket and becomes none is none
    for headers in [&[][..], &[("upgrade", "x")], &[("accept", "text/event-stream"), ("upgrade", "x")]] {
        for answer in [ask(&served, headers), served.get(&format!("query={}", encoded(QUERY)), headers)] {
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer realm=\"btcgraph\""));
        }
    }
    assert_eq!(ask(&served, &[("upgrade", "websocket")]).status, 401);
    assert_eq!(ask(&served, &[ALICE]).status, 200);
    for path in ["/health/live", "/schema.graphql"] {
        assert_eq!(served.send("GET", path, &[], "").status, 200);
    }
}

#[test]
fn requests_beyond_the_reported_budget_get_429() {
    let served = served(5, |_| ());
    let first = ask(&served, &[ALICE]);
    assert_eq!((first.status, first.header("ratelimit-policy")), (200, "\"cost\";q=5;w=60"));
    assert!(first.header("ratelimit").starts_with("\"cost\";r=3;t="), "{first:?}");
    assert_eq!(ask(&served, &[ALICE]).status, 200);
    for headers in [&[ALICE][..], &[ALICE, ("accept", "application/graphql-response+json")]] {
        let answer = ask(&served, headers);
        assert_eq!((answer.status, answer.code()), (429, json!("RESOURCE_EXHAUSTED")));
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=12).contains(&wait), "{wait}");
        assert_eq!(answer.json()["errors"][0]["extensions"]["retryAfterSeconds"], json!(wait));
    }
    assert_eq!(ask(&served, &[]).status, 200, "others have budgets of their own");
}

#[test]
fn a_request_above_the_whole_budget_says_so() {
    let served = served(1, |_| ());
    let answer = ask(&served, &[ALICE]);
    assert_eq!((answer.status, answer.code()), (200, json!("QUERY_LIMIT_EXCEEDED")));
    assert_eq!(answer.json()["errors"][0]["extensions"]["limit"], json!(1));
}

#[test]
fn clients_without_a_token_have_the_budget_of_the_settings() {
    let served = served(0, |token_policy| token_policy.anonymous_cost_per_minute = 2);
    assert_eq!(ask(&served, &[]).status, 200);
    assert_eq!(ask(&served, &[]).status, 429);
    assert_eq!(ask(&served, &[ALICE]).status, 200);
    assert_eq!(ask(&served, &[ALICE]).header("ratelimit"), "");
}

#[test]
fn what_a_token_does_not_allow_is_forbidden_where_it_is_not_disabled_for_all() {
    let served = served(0, |_| ());
    let mutation = json!({ "query": "mutation { broadcastTransaction(hex: \"00\") { outcome } }" });
    // the server of these tests has no broadcasting
    assert_eq!(served.post(&mutation, &[]).code(), json!("FEATURE_DISABLED"));
    assert_eq!(served.post(&mutation, &[ALICE]).code(), json!("FEATURE_DISABLED"));
}

#[test]
fn a_response_has_its_cost_and_state_on_request() {
    let served = served(100, |_| ());
    assert_eq!(ask(&served, &[]).json().get("extensions"), None);
    let answer = ask(&served, &[ALICE, ("x-btcgraph-include", "snapshot, usage")]).json();
    let usage = &answer["extensions"]["usage"];
    assert_eq!((&usage["cost"], &usage["limit"], &usage["remaining"]), (&json!(2), &json!(50_000), &json!(98)));
    assert_eq!(usage["fields"], json!(2));
    assert!(usage["milliseconds"].as_f64() > Some(0.0), "{usage}");
    let snapshot = &answer["extensions"]["snapshot"];
    assert_eq!((&snapshot["height"], &snapshot["isInSync"]), (&json!(3), &json!(false)));
    assert_eq!(snapshot["hash"].as_str().map(str::len), Some(64));
    let by_extension = json!({ "query": QUERY, "extensions": { "include": "usage" } });
    let answer = served.post(&by_extension, &[]).json();
    assert_eq!(answer["extensions"]["usage"]["remaining"], json!(null), "who has no budget has nothing to run out of");
    assert_eq!(answer["extensions"].get("snapshot"), None);
}

#[test]
fn introspection_is_the_same_from_the_cache_and_costs_the_same() {
    // so few that the next comes back after a second
    let tokens = Token::new("alice", "secret", 60, false).unwrap().to_string().parse().unwrap();
    let token_policy = TokenPolicy { tokens, ..TokenPolicy::default() };
    let served = serve(Options { token_policy, public_metrics: true, ..Options::default() });
    let question = json!({ "query": "query Named { __schema { queryType { name } types { name fields { name } } } }" });
    let left =
        |answer: &Answer| -> u64 { answer.header("ratelimit").split(['=', ';']).nth(2).unwrap().parse().unwrap() };
    let first = served.post(&question, &[ALICE]);
    let second = served.post(&question, &[ALICE, ("accept", "application/graphql-response+json")]);
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.body, second.body);
    assert_eq!(second.header("content-type"), "application/graphql-response+json; charset=utf-8");
    assert!(left(&second) < left(&first), "{first:?} {second:?}");
    let metrics = served.send("GET", "/metrics", &[], "").text();
    assert!(metrics.contains("\nbtcgraph_server_introspection_cache_hits_total 1\n"), "{metrics}");
}
