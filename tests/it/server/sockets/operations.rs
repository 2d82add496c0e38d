//! Queries, mutations and subscriptions over a websocket: what is sent for them, and when.

use std::time::Duration;

use btcgraph::server::Options;
use serde_json::{Value, json};

use super::{Client, chain, until_subscriptions};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

const BLOCKS: &str = "subscription { newBlock { height } }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_and_mutations_are_answered_once_and_completed() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut client = served.client().await;
    for (document, data) in [
        ("{ tip { height } }", json!({ "tip": { "height": 3 } })),
        ("mutation { __typename }", json!({ "__typename": "Mutation" })),
    ] {
        client.ask("1", document).await;
        assert_eq!(client.receive().await, json!({ "type": "next", "id": "1", "payload": { "data": data } }));
        assert_eq!(client.receive().await, json!({ "type": "complete", "id": "1" }));
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_wait_for_a_block_keep_no_other_of_their_websocket_waiting() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut client = served.client().await;
    // more than execute at once on one websocket, and more than wait for a block at once
    let waiting: Vec<_> = (10..30).map(|number| number.to_string()).collect();
    for id in &waiting {
        let extensions = json!({ "waitForTip": { "height": 4, "timeoutMs": 10_000 } });
        let payload = json!({ "query": "{ tip { height } }", "extensions": extensions });
        client.say(&json!({ "type": "subscribe", "id": id, "payload": payload })).await;
    }
    client.ask("now", "{ tip { height } }").await;
    assert_eq!(heights_answered(&mut client, 1).await, [("now".to_owned(), json!(3))]);
    api.connect(&chain.mine(Vec::new()).unwrap());
    let answers = heights_answered(&mut client, waiting.len()).await;
    let expected: Vec<_> = waiting.into_iter().map(|id| (id, json!(4))).collect();
    assert_eq!(answers, expected);
    served.stop().await;
}

/// The heights of the tip that so many operations are answered with until all are complete, by their ids.
async fn heights_answered(client: &mut Client, operations: usize) -> Vec<(String, Value)> {
    let (mut answers, mut completed) = (Vec::new(), 0);
    while completed < operations {
        let message = client.receive().await;
        let id = message["id"].as_str().unwrap().to_owned();
        match message["type"].as_str() {
            Some("next") => answers.push((id, message["payload"]["data"]["tip"]["height"].clone())),
            Some("complete") => completed += 1,
            _ => panic!("{message}"),
        }
    }
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_and_the_name_of_the_operation_are_taken_from_the_request() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut client = served.client().await;
    let query = "query A { tip { id } } query B($at: Int!) { block(height: $at) { height } }";
    let payload = json!({ "query": query, "operationName": "B", "variables": { "at": 2 }, "extensions": { "x": 1 } });
    client.say(&json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
    assert_eq!(client.receive().await["payload"], json!({ "data": { "block": { "height": 2 } } }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_not_executed_gets_one_error_and_nothing_else() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut client = served.client().await;
    let refused = |query: &str, more: Value| {
        let mut payload = json!({ "query": query });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        payload
    };
    let nothing = || json!({});
    let height = "query($at: Int!) { block(height: $at) { height } }";
    for (payload, code) in [
        (refused("", nothing()), "GRAPHQL_PARSE_FAILED"),
        (refused("{ tip { ", nothing()), "GRAPHQL_PARSE_FAILED"),
        (refused("{ nothing }", nothing()), "GRAPHQL_VALIDATION_FAILED"),
        (refused("subscription { nothing }", nothing()), "GRAPHQL_VALIDATION_FAILED"),
        (
            refused("subscription { newBlock { hash } other: newBlock { hash } }", nothing()),
            "GRAPHQL_VALIDATION_FAILED",
        ),
        (
            refused(&format!("{{ tip {}{} }}", "{ previousBlock ".repeat(70), "}".repeat(70)), nothing()),
            "QUERY_LIMIT_EXCEEDED",
        ),
        (refused("query A { tip { id } }", json!({ "operationName": "B" })), "BAD_USER_INPUT"),
        (refused("query($at: Int!) { nothing(at: $at) }", nothing()), "GRAPHQL_VALIDATION_FAILED"),
        (refused(height, nothing()), "BAD_USER_INPUT"),
        (refused(height, json!({ "variables": { "at": null } })), "BAD_USER_INPUT"),
        (refused(height, json!({ "variables": { "at": "x" } })), "GRAPHQL_VALIDATION_FAILED"),
    ] {
        client.say(&json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
        let reported = client.receive().await;
        assert_eq!((&reported["type"], &reported["id"]), (&json!("error"), &json!("1")), "{payload}: {reported}");
        assert_eq!(reported["payload"][0]["extensions"]["code"], json!(code), "{payload}: {reported}");
        assert!(reported["payload"][0]["message"].is_string());
        assert!(client.is_silent().await, "an error is the last word");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_sent_once_and_then_named_by_its_hash_on_every_socket() {
    // with their SHA-256
    let tip = ("{ tip { height } }", "4bc81acd40b00ead420aecf3a3dc5d50b006d848c5e285d6ac0bb4b62b8b5419");
    let unknown = ("{ nothing }", "919c0b7aa452b0b2fb42688461501bb8b0c3ef3b9d05ce7b9afd4f28bbe96ceb");
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let legacy = async || {
        let mut client = served.connect("graphql-ws").await;
        client.say(&json!({ "type": "connection_init" })).await;
        assert_eq!(client.receive().await["type"], "connection_ack");
        client
    };
    let named = |hash: &str| json!({ "extensions": { "persistedQuery": { "version": 1, "sha256Hash": hash } } });
    let in_full = |(query, hash): (&str, &str)| {
        let mut payload = named(hash);
        payload["query"] = json!(query);
        payload
    };
    let mut clients = [("subscribe", served.client().await), ("start", legacy().await)];
    for (round, (kind, client)) in clients.iter_mut().enumerate() {
        let mut ask = async |payload: Value| {
            client.say(&json!({ "type": kind, "id": "1", "payload": payload })).await;
            let reported = client.receive().await;
            // an error is the last word, and a result is not
            if reported["type"] != "error" {
                assert_eq!(client.receive().await["type"], "complete");
            }
            reported["payload"].to_string()
        };
        if round == 0 {
            assert!(ask(named(tip.1)).await.contains("PERSISTED_QUERY_NOT_FOUND"));
            assert!(ask(in_full(tip)).await.contains(r#""height":3"#));
        }
        // the second socket knows what was sent to the first
        assert!(ask(named(tip.1)).await.contains(r#""height":3"#), "{kind}");
        assert!(ask(in_full(unknown)).await.contains("GRAPHQL_VALIDATION_FAILED"));
        assert!(ask(named(unknown.1)).await.contains("PERSISTED_QUERY_NOT_FOUND"), "what is not executed is not kept");
        assert!(ask(in_full((tip.0, unknown.1))).await.contains("BAD_USER_INPUT"));
    }
    // subscriptions, too
    let hash = sha256(BLOCKS);
    let (_, client) = &mut clients[0];
    client.say(&json!({ "type": "subscribe", "id": "1", "payload": in_full((BLOCKS, &hash)) })).await;
    until_subscriptions(client, 1).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(client.receive().await["payload"]["data"]["newBlock"]["height"], 4);
    client.say(&json!({ "type": "subscribe", "id": "2", "payload": named(&hash) })).await;
    until_subscriptions(client, 2).await;
    served.stop().await;
}

/// In hexadecimal.
fn sha256(text: &str) -> String {
    use bitcoin::hashes::{Hash, sha256};
    sha256::Hash::hash(text.as_bytes()).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_field_is_part_of_a_result() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut client = served.client().await;
    client.ask("1", "{ tip { height } block { id } }").await;
    let reported = client.receive().await;
    assert_eq!(reported["type"], "next");
    assert_eq!(reported["payload"]["data"], json!({ "tip": { "height": 3 }, "block": null }));
    assert_eq!(reported["payload"]["errors"][0]["path"], json!(["block"]));
    assert_eq!(client.receive().await, json!({ "type": "complete", "id": "1" }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_subscriptions_get_the_same_blocks_in_order() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut client = served.client().await;
    for id in ["a", "b"] {
        client.ask(id, BLOCKS).await;
    }
    until_subscriptions(&mut client, 2).await;
    for height in 4..=6 {
        api.connect(&chain.mine(Vec::new()).unwrap());
        let mut reported = [client.receive().await, client.receive().await];
        reported.sort_by_key(|message| message["id"].to_string());
        let expected =
            |id: &str| json!({ "type": "next", "id": id, "payload": { "data": { "newBlock": { "height": height } } } });
        assert_eq!(reported, [expected("a"), expected("b")]);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_the_client_completes_ends_without_an_echo_and_its_id_is_free_again() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut client = served.client().await;
    client.ask("1", BLOCKS).await;
    until_subscriptions(&mut client, 1).await;
    for id in ["1", "1", "unknown"] {
        client.say(&json!({ "type": "complete", "id": id })).await;
    }
    assert!(client.is_silent().await);
    until_subscriptions(&mut client, 0).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert!(client.is_silent().await);

    client.ask("1", BLOCKS).await;
    until_subscriptions(&mut client, 1).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(client.receive().await["payload"], json!({ "data": { "newBlock": { "height": 5 } } }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_has_at_most_a_hundred_operations_open() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut client = served.client().await;
    for id in 0..=100 {
        client.ask(&id.to_string(), BLOCKS).await;
    }
    let reported = client.receive().await;
    assert_eq!((&reported["type"], &reported["id"]), (&json!("error"), &json!("100")));
    assert_eq!(
        reported["payload"][0]["extensions"],
        json!({ "code": "QUERY_LIMIT_EXCEEDED", "which": "operationsPerSocket", "limit": 100, "actual": 101 })
    );
    // one that is stopped makes room for another
    client.say(&json!({ "type": "complete", "id": "7" })).await;
    client.ask("tip", "{ tip { height } }").await;
    assert_eq!(client.receive().await["payload"]["data"]["tip"]["height"], json!(3));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operations_of_a_socket_end_with_it() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut watching = served.client().await;
    let leave: [fn(Client) -> tokio::task::JoinHandle<()>; 3] = [
        // cut off
        |client| tokio::spawn(async move { drop(client) }),
        // closed
        |mut client| {
            tokio::spawn(async move {
                client.stream.close(None).await.unwrap();
                while client.message().await.is_some_and(|message| message.is_ok()) {}
            })
        },
        // thrown out
        |mut client| {
            tokio::spawn(async move {
                client.say(&json!({ "type": "connection_init" })).await;
                assert_eq!(client.closed().await.0, 4429);
            })
        },
    ];
    for leave in leave {
        let mut client = served.client().await;
        client.ask("1", BLOCKS).await;
        until_subscriptions(&mut watching, 1).await;
        leave(client).await.unwrap();
        until_subscriptions(&mut watching, 0).await;
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_have_the_places_and_the_time_of_queries_by_post_and_subscriptions_to_begin() {
    let api = Api::of_chain(&chain());
    for (waiting, code) in [(0, "RESOURCE_EXHAUSTED"), (1, "TIMEOUT")] {
        let mut options = Options::default();
        (options.limits.executions, options.limits.waiting) = (0, waiting);
        options.limits.timeout = Duration::from_millis(50);
        let served = TestServer::with_options(&api.schema, options).await;
        let mut client = served.client().await;
        // those that can be shared, and those that cannot
        for document in ["{ tip { height } }", BLOCKS, "subscription { chainEvents { seq } }"] {
            client.ask("1", document).await;
            let reported = client.receive().await;
            let found = (&reported["type"], &reported["payload"][0]["extensions"]["code"]);
            assert_eq!(found, (&json!("error"), &json!(code)), "{document}: {reported}");
            assert!(client.is_silent().await);
        }
        served.stop().await;
    }
}
