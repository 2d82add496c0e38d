//! The header `X-Btcgraph-Tip`, in answers and in requests.

use btcgraph::limits::Limits;
use btcgraph::server::Options;
use btcgraph::sim::SimChain;
use serde_json::json;

use super::encoded;
use crate::support::api::Api;
use crate::support::test_server::{Answer, TestServer, send};

const OF_TIP: &str = "{ tip { height } }";
const HEADER: &str = "x-btcgraph-tip";

/// A server on four blocks, and its chain.
fn served() -> (TestServer, Api, SimChain) {
    let mut chain = SimChain::new(43);
    chain.mine_empty(3).unwrap();
    let options = Options { limits: Limits { cache_depth: 2, ..Limits::default() }, ..Options::default() };
    let api = Api::of_chain(&chain);
    (TestServer::apart(&api.schema, options), api, chain)
}

fn get(served: &TestServer, query: &str, headers: &[(&str, &str)]) -> Answer {
    served.get(&format!("query={}", encoded(query)), headers)
}

#[test]
fn an_answer_names_its_tip_unless_it_holds_at_every_later_one() {
    let (served, _, chain) = served();
    let tip = format!("3:{}", chain.tip());
    let origin = ("origin", "http://localhost:3000");
    for answer in [
        get(&served, OF_TIP, &[origin]),
        served.post(&json!({ "query": "{ mempool { stats { txCount } } }" }), &[origin]),
        // also with an error beside the data
        served.post(&json!({ "query": "{ tip { height } wrong: block { hash } }" }), &[origin]),
        served.post(&json!({ "query": "mutation { broadcastTransaction(hex: \"00\") { outcome } }" }), &[origin]),
    ] {
        assert_eq!(answer.header(HEADER), tip, "{answer:?}");
        assert!(answer.header("access-control-expose-headers").contains(HEADER), "{answer:?}");
    }
    for query in ["{ block(height: 1) { hash } }", "{ __typename }", "{ nothing }"] {
        assert_eq!(get(&served, query, &[]).header(HEADER), "", "{query}");
    }
    let etag = get(&served, OF_TIP, &[]).header("etag").to_owned();
    let unchanged = get(&served, OF_TIP, &[("if-none-match", &etag)]);
    assert_eq!((unchanged.status, unchanged.header(HEADER)), (304, tip.as_str()));
}

#[test]
fn a_request_that_carries_a_tip_is_not_answered_from_before_it() {
    let (served, mut api, mut chain) = served();
    let etag = get(&served, OF_TIP, &[]).header("etag").to_owned();
    let now = format!("3:{}", chain.tip());
    let unchanged = get(&served, OF_TIP, &[(HEADER, &now), ("if-none-match", &etag)]);
    assert_eq!((unchanged.status, unchanged.header(HEADER)), (304, now.as_str()));

    // another server has a block more: neither 304 nor an answer before it is there
    let block = chain.mine(Vec::new()).unwrap();
    let next = format!("4:{}", block.block_hash());
    let address = served.address;
    let carried = next.clone();
    let waiting = std::thread::spawn(move || {
        let path = format!("/graphql?query={}", encoded(OF_TIP));
        send(address, "GET", &path, &[(HEADER, &carried), ("if-none-match", &etag)], "")
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(!waiting.is_finished());
    api.connect(&block);
    let answer = waiting.join().unwrap();
    assert_eq!((answer.status, answer.header(HEADER)), (200, next.as_str()));
    assert_eq!(answer.json()["data"]["tip"]["height"], 4);

    // a higher tip has replaced a block that is on no chain here, one as high has not
    let unknown = "00".repeat(32);
    assert_eq!(get(&served, OF_TIP, &[(HEADER, &format!("3:{unknown}"))]).status, 200);
    let body = json!({ "query": OF_TIP,
        "extensions": { "waitForTip": { "tip": format!("4:{unknown}"), "timeoutMs": 10 } } });
    assert_eq!(served.post(&body, &[]).code(), "TIP_NOT_REACHED");
}

#[test]
fn a_tip_that_is_none_is_refused_with_its_form() {
    let (served, _, _) = served();
    for value in ["", "3", "3:00", "three"] {
        let answer = served.post(&json!({ "query": OF_TIP }), &[(HEADER, value)]);
        assert_eq!(answer.code(), "BAD_USER_INPUT", "{value}");
        assert!(answer.text().contains(&format!("`{value}`")) && answer.text().contains("colon"), "{answer:?}");
    }
}
