//! What becomes of requests when there are too many, or one takes too long.

use std::time::Duration;

use btcgraph::server::Options;
use serde_json::json;

use super::serve;
use crate::support::test_server::{Answer, TestServer, send};

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}

const NEWER: (&str, &str) = ("accept", "application/graphql-response+json");

fn ask(served: &TestServer, headers: &[(&str, &str)]) -> Answer {
    served.post(&json!({ "query": "{ tip { height } }" }), headers)
}

#[test]
fn requests_without_a_slot_get_503_and_others_go_on() {
    let full = options(|options| {
        options.limits.executions = 0;
        options.limits.waiting = 0;
    });
    let served = serve(full);
    for headers in [&[][..], &[NEWER]] {
        let answer = ask(&served, headers);
        assert_eq!((answer.status, answer.code()), (503, json!("RESOURCE_EXHAUSTED")));
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(answer.json().get("data"), None);
    }
    assert_eq!(served.send("GET", "/health/live", &[], "").status, 200);
}

#[test]
fn what_waits_too_long_for_its_place_is_a_timeout() {
    let full = options(|options| {
        options.limits.executions = 0;
        options.limits.timeout = Duration::from_millis(20);
    });
    let served = serve(full);
    for (headers, status) in [(&[][..], 200), (&[NEWER], 504)] {
        let answer = ask(&served, headers);
        assert_eq!((answer.status, answer.code()), (status, json!("TIMEOUT")));
    }
}

#[test]
fn waiting_for_a_block_takes_no_execution_slot() {
    let one = options(|options| {
        options.limits.executions = 1;
        options.limits.waiting = 0;
    });
    let served = serve(one);
    let extensions = json!({ "waitForTip": { "height": 4, "timeoutMs": 1500 } });
    let request = json!({ "query": "{ tip { height } }", "extensions": extensions }).to_string();
    let address = served.address;
    let headers = [("content-type", "application/json")];
    let waiting = std::thread::spawn(move || send(address, "POST", "/graphql", &headers, &request));
    while !waiting.is_finished() {
        assert_eq!(ask(&served, &[]).status, 200);
    }
    assert_eq!(waiting.join().unwrap().code(), json!("TIP_NOT_REACHED"));
}

#[test]
fn a_frequent_client_gets_429_and_all_see_what_is_left() {
    let served = serve(options(|options| options.limits.requests_per_minute = 2));
    for left in [1, 0] {
        let answer = ask(&served, &[]);
        assert_eq!((answer.status, answer.header("ratelimit-policy")), (200, "\"minute\";q=2;w=60"));
        assert!(answer.header("ratelimit").starts_with(&format!("\"minute\";r={left};t=")), "{answer:?}");
    }
    let answer = ask(&served, &[("x-forwarded-for", "9.9.9.9")]);
    assert_eq!((answer.status, answer.code()), (429, json!("RESOURCE_EXHAUSTED")));
    let wait: u64 = answer.header("retry-after").parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert_eq!(served.send("GET", "/health/live", &[], "").status, 200);
}

#[test]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    let served = serve(options(|options| {
        options.limits.requests_per_minute = 1;
        options.proxies = "127.0.0.0/8".parse().unwrap();
    }));
    for (client, status) in [("1.1.1.1", 200), ("1.1.1.1", 429), ("2.2.2.2", 200), ("3.3.3.3, 2.2.2.2", 429)] {
        assert_eq!(ask(&served, &[("x-forwarded-for", client)]).status, status, "{client}");
    }
}
