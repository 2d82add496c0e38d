//! The caching headers of responses. How long each answer stays valid is tested in `tests/it/api/caching`.

use btcgraph::limits::Limits;
use btcgraph::server::{Options, Token, TokenPolicy, Tokens};
use btcgraph::sim::SimChain;
use serde_json::json;

use super::encoded;
use crate::support::api::Api;
use crate::support::test_server::{Answer, TestServer};

const RESPONSE: &str = "application/graphql-response+json";
const FIXED: &str = "{ block(height: 1) { hash txCount } }";
const MOVING: &str = "{ block(height: 1) { hash confirmations } }";
const WAITING: &str = "{ mempool { stats { txCount totalVsize } } }";
const OF_THE_MOMENT: &str = "{ server { softwareVersion } block(height: 1) { hash } }";
const YEAR: &str = "public, max-age=31536000, immutable";

/// A server on five blocks behind the first one that knows the token `abc`, and what mines more.
fn served() -> (TestServer, Api, SimChain) {
    let mut chain = SimChain::new(41);
    chain.mine_empty(5).unwrap();
    let tokens: Tokens = Token::new("somebody", "abc", 0, false).unwrap().to_string().parse().unwrap();
    let token_policy = TokenPolicy { tokens, ..TokenPolicy::default() };
    let limits = Limits { cache_depth: 4, ..Limits::default() };
    let api = Api::of_chain(&chain);
    (TestServer::apart(&api.schema, Options { limits, token_policy, ..Options::default() }), api, chain)
}

fn mine(api: &mut Api, chain: &mut SimChain) {
    let block = chain.mine(Vec::new()).unwrap();
    api.connect(&block);
}

fn get(served: &TestServer, query: &str, headers: &[(&str, &str)]) -> Answer {
    served.get(&format!("query={}", encoded(query)), headers)
}

fn reported(answer: &Answer) -> (u16, &str, &str) {
    (answer.status, answer.header("cache-control"), answer.header("etag"))
}

#[test]
fn what_never_changes_of_a_deep_block_may_be_kept_for_a_year() {
    let (served, _, _) = served();
    for answer in [get(&served, FIXED, &[]), served.post(&json!({ "query": FIXED }), &[])] {
        assert_eq!(reported(&answer), (200, YEAR, ""));
        assert!(answer.headers.get_all("vary").iter().any(|vary| vary == "accept"), "{answer:?}");
    }
    // one block more than the setting says is to be on top
    let (status, control, etag) = (200, "public, no-cache", true);
    let shallow = get(&served, "{ block(height: 2) { hash txCount } }", &[]);
    assert_eq!(
        (shallow.status, shallow.header("cache-control"), !shallow.header("etag").is_empty()),
        (status, control, etag)
    );
}

#[test]
fn what_was_not_found_may_be_found_later() {
    let (served, mut api, mut chain) = served();
    let query = "{ block(height: 6) { height } }";
    let before = get(&served, query, &[]);
    assert_eq!((before.header("cache-control"), &before.json()["data"]["block"]), ("public, no-cache", &json!(null)));
    mine(&mut api, &mut chain);
    let after = get(&served, query, &[("if-none-match", before.header("etag"))]);
    assert_eq!((after.status, &after.json()["data"]["block"]["height"]), (200, &json!(6)));
}

#[test]
fn a_matching_etag_gets_304() {
    let (served, mut api, mut chain) = served();
    for query in [MOVING, WAITING] {
        let first = get(&served, query, &[]);
        let etag = first.header("etag").to_owned();
        assert_eq!(first.header("cache-control"), "public, no-cache", "{query}");
        for kept in [etag.clone(), format!("\"other\", {etag}"), etag.trim_start_matches("W/").to_owned()] {
            let again = get(&served, query, &[("if-none-match", &kept)]);
            assert_eq!(reported(&again), (304, "public, no-cache", etag.as_str()), "{query}");
            assert_eq!((again.body.len(), again.header("vary").contains("accept")), (0, true), "{query}");
        }
        // in another media type it is another answer
        let other = get(&served, query, &[("if-none-match", &etag), ("accept", RESPONSE)]);
        assert!(other.status == 200 && other.header("etag") != etag, "{other:?}");
        // a condition on a POST is one to do anything at all
        let posted = served.post(&json!({ "query": query }), &[("if-none-match", &etag)]);
        assert_eq!(reported(&posted), (200, "public, no-cache", etag.as_str()));
        mine(&mut api, &mut chain);
        let later = get(&served, query, &[("if-none-match", &etag)]);
        assert!(later.status == 200 && later.header("etag") != etag, "{later:?}");
    }
}

#[test]
fn an_answer_of_the_chain_alone_is_the_same_whatever_happens_to_the_mempool() {
    let (served, mut api, _) = served();
    let (chain, waiting) = (get(&served, MOVING, &[]), get(&served, WAITING, &[]));
    // published anew, with what the node says of its mempool
    api.set_node_mempool(btcgraph::mempool::NodeMempool { min_fee_rate: 2.0, ..Default::default() });
    assert_eq!(get(&served, MOVING, &[("if-none-match", chain.header("etag"))]).status, 304);
    assert_eq!(get(&served, WAITING, &[("if-none-match", waiting.header("etag"))]).status, 200);
}

#[test]
fn what_is_of_the_moment_or_has_an_error_or_is_no_query_is_not_kept() {
    let (served, _, _) = served();
    let mutation = "mutation { broadcastTransaction(hex: \"00\") { outcome } }";
    for answer in [
        get(&served, OF_THE_MOMENT, &[]),
        // only in part about the schema
        get(&served, "{ __typename server { softwareVersion } }", &[]),
        get(&served, "{ __schema { nothing } }", &[]),
        get(&served, "{ block(height: 1) { hash } wrong: block { hash } }", &[]),
        get(&served, "{ nothing }", &[]),
        get(&served, "{", &[]),
        served.post(&json!({ "query": mutation }), &[]),
    ] {
        assert_eq!((answer.header("cache-control"), answer.header("etag")), ("no-store", ""), "{answer:?}");
    }
}

#[test]
fn introspection_is_kept_until_the_schema_is_another() {
    let (served, mut api, mut chain) = served();
    let schema = "{ __schema { queryType { name } types { name } } }";
    let of_chain = get(&served, MOVING, &[]).header("etag").to_owned();
    for query in [schema, "{ __typename }", "{ __type(name: \"Block\") { name } }"] {
        let first = get(&served, query, &[]);
        let etag = first.header("etag").to_owned();
        assert_eq!(reported(&first), (200, "public, no-cache", etag.as_str()), "{query}");
        assert!(etag.starts_with("W/\"s."), "{etag}");
        mine(&mut api, &mut chain);
        // the second answer is the one that the server keeps
        assert_eq!(reported(&get(&served, query, &[])), (200, "public, no-cache", etag.as_str()), "{query}");
        let again = get(&served, query, &[("if-none-match", &etag)]);
        assert_eq!((reported(&again), again.body.len()), ((304, "public, no-cache", etag.as_str()), 0), "{query}");
        let with_token = get(&served, query, &[("if-none-match", &etag), ("authorization", "Bearer abc")]);
        assert_eq!(reported(&with_token), (304, "private, no-cache", etag.as_str()));
        for (name, value) in [("if-none-match", of_chain.as_str()), ("if-none-match", "W/\"s.0000000000000000.j\"")] {
            assert_eq!(get(&served, query, &[(name, value)]).status, 200, "{query} {value}");
        }
        let other = get(&served, query, &[("if-none-match", &etag), ("accept", RESPONSE)]);
        assert!(other.status == 200 && other.header("etag") != etag, "{other:?}");
        // and it says nothing of the chain
        assert_eq!(get(&served, MOVING, &[("if-none-match", &etag)]).status, 200);
    }
}

#[test]
fn what_is_asked_with_a_token_is_for_the_asker_alone() {
    let (served, _, _) = served();
    let token = ("authorization", "Bearer abc");
    assert_eq!(reported(&get(&served, FIXED, &[token])), (200, "private, max-age=31536000, immutable", ""));
    let moving = get(&served, MOVING, &[token]);
    assert_eq!(moving.header("cache-control"), "private, no-cache");
    let again = get(&served, MOVING, &[token, ("if-none-match", moving.header("etag"))]);
    assert_eq!((again.status, again.header("cache-control")), (304, "private, no-cache"));
}

#[test]
fn a_request_that_waits_for_a_block_is_not_answered_before_it() {
    let (served, _, _) = served();
    let etag = get(&served, MOVING, &[]).header("etag").to_owned();
    let wait = encoded("{\"waitForTip\": {\"height\": 6, \"timeoutMs\": 1}}");
    let asked = served.get(&format!("query={}&extensions={wait}", encoded(MOVING)), &[("if-none-match", &etag)]);
    assert_eq!((asked.code(), asked.header("cache-control")), (json!("TIP_NOT_REACHED"), "no-store"));
}
