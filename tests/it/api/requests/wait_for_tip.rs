//! Requests that are not executed before the server has a block.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request};
use bitcoin::Network;
use btcgraph::api::Schema;
use btcgraph::limits::Limits;
use btcgraph::sim::SimChain;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::api::{Api, branch, response_json};

/// A request as a client sends it.
fn request(query: &str, wait: &Value) -> Request {
    serde_json::from_value(json!({ "query": query, "extensions": { "waitForTip": wait } })).unwrap()
}

async fn ask(schema: &Schema, query: &str, wait: Value) -> Value {
    response_json(schema.execute(request(query, &wait)).await)
}

const TIP: &str = "{ tip { height } }";

#[tokio::test(start_paused = true)]
async fn a_request_waits_until_its_block_is_there() {
    let mut chain = SimChain::new(91);
    let mut api = Api::of_chain(&chain);
    let next = chain.mine_empty(3).unwrap();
    let hash = next[2].block_hash().to_string();
    for wait in [json!({ "height": 3 }), json!({ "hash": hash })] {
        let mut again = Api::of(Network::Regtest, chain.active_blocks().take(1).map(Arc::as_ref));
        let schema = again.schema.clone();
        let waiting = tokio::spawn(async move { ask(&schema, TIP, wait).await });
        for block in &next {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!waiting.is_finished(), "its block is not there");
            assert_eq!(again.live_heads(), 1, "who waits holds no state");
            again.connect(block);
        }
        assert_eq!(waiting.await.unwrap(), json!({ "data": { "tip": { "height": 3 } } }));
    }
    for block in &next {
        api.connect(block);
    }
    let started = Instant::now();
    for wait in [json!({ "height": 0 }), json!({ "height": 3 }), json!({ "hash": hash }), Value::Null] {
        assert_eq!(ask(&api.schema, TIP, wait).await, json!({ "data": { "tip": { "height": 3 } } }));
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "what is there is not waited for");
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_another_tip_also_at_the_same_height() {
    const HASH: &str = "{ tip { hash } }";
    let mut chain = SimChain::new(93);
    let genesis = chain.tip();
    let old = branch(&mut chain, genesis, 1, &[]);
    let mut api = Api::of_chain(&chain);
    let new = branch(&mut chain, genesis, 2, &[]);
    let [genesis, old, other] = [genesis, old[0].block_hash(), new[0].block_hash()].map(|hash| hash.to_string());
    let tip = |hash: &str| json!({ "data": { "tip": { "hash": hash } } });
    assert_eq!(ask(&api.schema, HASH, json!({ "after": genesis, "timeoutMs": 0 })).await, tip(&old));
    let none = ask(&api.schema, HASH, json!({ "after": old, "timeoutMs": 50 })).await;
    let message = format!(
        "waitForTip.after waits for a tip other than block {old}, which did not arrive within 50 ms: the tip is at 1"
    );
    assert_eq!(none["errors"][0]["message"], message);
    let argument = "waitForTip.after";
    let expected = json!({ "code": "TIP_NOT_REACHED", "argument": argument, "height": 1, "hash": old });
    assert_eq!(none["errors"][0]["extensions"], expected);
    let schema = api.schema.clone();
    let waiting = tokio::spawn(async move { ask(&schema, HASH, json!({ "after": old })).await });
    tokio::task::yield_now().await;
    api.change(1, new.iter().take(1).map(Arc::as_ref));
    assert_eq!(waiting.await.unwrap(), tip(&other));
}

#[tokio::test(start_paused = true)]
async fn a_block_that_does_not_come_in_time_is_an_error_with_the_tip_that_there_is() {
    let mut chain = SimChain::new(92);
    let genesis = chain.tip();
    let stale = branch(&mut chain, genesis, 1, &[]);
    let mut api = Api::of_chain(&chain);
    let new = branch(&mut chain, genesis, 2, &[]);
    api.change(1, new.iter().map(Arc::as_ref));
    let tip = new[1].block_hash().to_string();
    let (none, stale) = ("00".repeat(32), stale[0].block_hash().to_string());
    for (wait, field, awaited) in [
        (json!({ "height": 3, "timeoutMs": 50 }), "height", "a block at height 3".to_owned()),
        (json!({ "hash": none, "timeoutMs": 50 }), "hash", format!("block {none}")),
        // it is known, but not on the main chain any more
        (json!({ "hash": stale, "timeoutMs": 50 }), "hash", format!("block {stale}")),
        (
            json!({ "tip": format!("2:{stale}"), "timeoutMs": 50 }),
            "tip",
            format!("block {stale} at height 2, or a higher one"),
        ),
    ] {
        let response = ask(&api.schema, TIP, wait).await;
        let argument = format!("waitForTip.{field}");
        let message = format!("{argument} waits for {awaited}, which did not arrive within 50 ms: the tip is at 2");
        let expected = json!({ "code": "TIP_NOT_REACHED", "argument": argument, "height": 2, "hash": tip });
        assert_eq!((&response["data"], &response["errors"][0]["extensions"]), (&Value::Null, &expected));
        assert_eq!(response["errors"][0]["message"], message);
    }
    let empty = Api::empty(Network::Regtest, Limits::default());
    let response = ask(&empty.schema, "{ server { softwareVersion } }", json!({ "height": 0, "timeoutMs": 10 })).await;
    let expected = json!({ "code": "TIP_NOT_REACHED", "argument": "waitForTip.height", "height": null, "hash": null });
    assert_eq!(response["errors"][0]["extensions"], expected);
}

#[tokio::test]
async fn what_cannot_be_waited_for_is_bad_input_and_nothing_is_executed() {
    let api = Api::of_chain(&SimChain::new(93));
    for wait in [json!(0), json!({}), json!({ "height": -1 }), json!({ "height": 0, "timeoutMs": 10_001 })] {
        let response = ask(&api.schema, TIP, wait).await;
        assert_eq!(response["data"], Value::Null);
        assert_eq!(response["errors"][0]["extensions"]["code"], json!("BAD_USER_INPUT"), "{response:#}");
    }
    // others mean nothing here
    let other = json!({ "query": TIP, "extensions": { "persistedQuery": { "version": 1 } } });
    let response = response_json(api.schema.execute(serde_json::from_value::<Request>(other).unwrap()).await);
    assert_eq!(response.get("errors"), None, "{response:#}");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_begins_with_a_state_that_has_the_block_and_a_mutation_waits_as_well() {
    let mut chain = SimChain::new(94);
    let mut api = Api::of_chain(&chain);
    let blocks = chain.mine_empty(2).unwrap();
    let schema = api.schema.clone();
    let subscription = request("subscription { newBlock { height } }", &json!({ "height": 1 }));
    let events = tokio::spawn(async move {
        let mut events = schema.execute_stream(subscription, None);
        events.next().await.map(response_json)
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    api.connect(&blocks[0]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    api.connect(&blocks[1]);
    // the first block is what it waited for, so that only the second is new
    assert_eq!(events.await.unwrap(), Some(json!({ "data": { "newBlock": { "height": 2 } } })));

    let refused = request("subscription { newBlock { height } }", &json!({ "height": 9, "timeoutMs": 10 }));
    let refused = api.schema.execute_stream(refused, None).map(response_json).collect::<Vec<_>>().await;
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0]["errors"][0]["extensions"]["code"], json!("TIP_NOT_REACHED"));

    let send = "mutation { broadcastTransaction(hex: \"00\") { outcome } }";
    let response = ask(&api.schema, send, json!({ "height": 9, "timeoutMs": 10 })).await;
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("TIP_NOT_REACHED"));
    let response = ask(&api.schema, send, json!({ "height": 2 })).await;
    assert_eq!(response["errors"][0]["extensions"]["code"], json!("FEATURE_DISABLED"));
}

#[tokio::test(start_paused = true)]
async fn no_more_wait_for_a_block_than_may_and_what_is_there_needs_no_place() {
    let mut chain = SimChain::new(95);
    chain.mine_empty(2).unwrap();
    let limits = Limits { waiting: 2, ..Limits::default() };
    let mut api = Api::empty(Network::Regtest, limits);
    api.change(0, chain.active_blocks().map(Arc::as_ref));
    let wait = || json!({ "height": 3 });
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let schema = api.schema.clone();
            tokio::spawn(async move { ask(&schema, TIP, wait()).await })
        })
        .collect();
    // both take their places meanwhile
    tokio::time::sleep(Duration::from_millis(50)).await;
    let refused = ask(&api.schema, TIP, wait()).await;
    let expected = json!({ "code": "RESOURCE_EXHAUSTED", "which": "queuedRequests", "limit": 2 });
    assert_eq!(refused["errors"][0]["extensions"], expected);
    let there = ask(&api.schema, TIP, json!({ "height": 2 })).await;
    assert_eq!(there, json!({ "data": { "tip": { "height": 2 } } }));
    // a subscription that waits is one of them
    let mut events = api.schema.execute_stream(request("subscription { newBlock { height } }", &wait()), None);
    let first = response_json(events.next().await.unwrap());
    assert_eq!(first["errors"][0]["extensions"], expected);
    api.connect(&chain.mine(Vec::new()).unwrap());
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), json!({ "data": { "tip": { "height": 3 } } }));
    }
    assert_eq!(
        response_json(api.schema.execute(request(TIP, &json!({ "height": 4, "timeoutMs": 1 }))).await)["errors"][0]["extensions"]
            ["code"],
        json!("TIP_NOT_REACHED"),
        "there are places again"
    );
}
