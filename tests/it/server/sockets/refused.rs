//! Subscriptions that are refused before their first event, over each transport: errors without data, and then the end.

use btcgraph::server::Options;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::legacy::legacy;
use super::streams::{END, Stream};
use super::{chain, subscribe};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

/// The errors of an operation over one transport, if it is refused.
async fn refusal(served: &TestServer, transport: &str, document: &str) -> Value {
    let payload = || subscribe("1", document)["payload"].clone();
    match transport {
        "graphql-transport-ws" => {
            let mut client = served.client().await;
            client.ask("1", document).await;
            let reported = client.receive().await;
            assert_eq!((&reported["type"], &reported["id"]), (&json!("error"), &json!("1")), "{document}: {reported}");
            assert!(client.is_silent().await, "{document}");
            reported["payload"].clone()
        }
        "graphql-ws" => {
            let mut client = legacy(served).await;
            client.say(&json!({ "type": "start", "id": "1", "payload": payload() })).await;
            let reported = client.receive().await;
            assert_eq!((&reported["type"], &reported["id"]), (&json!("error"), &json!("1")), "{document}: {reported}");
            assert_eq!(reported["payload"]["message"], reported["payload"]["errors"][0]["message"], "{reported}");
            // what comes next is of another operation
            client.say(&json!({ "type": "start", "id": "2", "payload": { "query": "{ tip { height } }" } })).await;
            assert_eq!(client.receive().await["id"], json!("2"));
            reported["payload"]["errors"].clone()
        }
        "text/event-stream" => {
            let mut answer = Stream::post(served, transport, document).await;
            let result = answer.result().await;
            assert_eq!(result.get("data"), None, "{document}: {result}");
            assert_eq!(answer.event().await, ("complete".to_owned(), String::new()));
            answer.until(END).await;
            result["errors"].clone()
        }
        _ => {
            let mut answer = Stream::post(served, transport, document).await;
            answer.until("Content-Type: application/json\r\n\r\n{\"payload\":").await;
            let payload: Value = serde_json::from_str(answer.until("}\r\n").await.trim_end_matches("}\r\n")).unwrap();
            assert_eq!(payload.get("data"), None, "{document}: {payload}");
            answer.until("--graphql--\r\n").await;
            payload["errors"].clone()
        }
    }
}

const TRANSPORTS: [&str; 4] =
    ["graphql-transport-ws", "graphql-ws", "text/event-stream", "multipart/mixed;subscriptionSpec=1.0"];

/// Each of these subscriptions is refused with its code over every transport.
async fn assert_refused(served: &TestServer, cases: &[(&str, &str)]) {
    for (document, code) in cases {
        let refusals = TRANSPORTS.map(|transport| refusal(served, transport, document));
        for (errors, transport) in join_all(refusals).await.iter().zip(TRANSPORTS) {
            let codes: Vec<_> = errors.as_array().unwrap().iter().map(|error| &error["extensions"]["code"]).collect();
            assert_eq!(codes, [&json!(code)], "{transport} {document}: {errors}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_guard_and_validation_refuse_has_no_data() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let deep = format!("subscription {{ newBlock {}{} }}", "{ previous ".repeat(70), "}".repeat(70));
    assert_refused(
        &served,
        &[
            ("subscription { newBlock {", "GRAPHQL_PARSE_FAILED"),
            ("subscription { nothing }", "GRAPHQL_VALIDATION_FAILED"),
            ("subscription($of: Int!) { newBlock(confirmations: $of) { hash } }", "BAD_USER_INPUT"),
            (&deep, "QUERY_LIMIT_EXCEEDED"),
        ],
    )
    .await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_field_refuses_before_an_event_has_no_data() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let depths = (1..=21).map(|depth: u32| depth.to_string()).collect::<Vec<_>>().join(" ");
    let many = format!("subscription {{ ledgerEvents(watch: {{}}, depths: [{depths}]) {{ cursor }} }}");
    assert_refused(
        &served,
        &[
            // one execution is shared by all who ask for the same
            ("subscription { newBlock(confirmations: 0) { hash } }", "BAD_USER_INPUT"),
            ("subscription { renamed: newBlock(confirmations: -1) { hash } }", "BAD_USER_INPUT"),
            // and each has its own
            ("subscription { chainEvents(after: \"nonsense\") { __typename } }", "BAD_USER_INPUT"),
            ("subscription { transactionStatus(txids: []) { txid } }", "BAD_USER_INPUT"),
            (&many, "QUERY_LIMIT_EXCEEDED"),
        ],
    )
    .await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_after_a_wait_has_no_data_either() {
    let mut chain = chain();
    let (api, mut other) = (Api::of_chain(&chain), Api::of_chain(&chain));
    // the cursor of a block that this server never has, and waits for
    let elsewhere = TestServer::start(&other).await;
    let mut client = elsewhere.client().await;
    client.ask("1", "subscription { chainEvents { ... on BlockConnected { cursor } } }").await;
    super::until_subscriptions(&mut client, 1).await;
    other.connect(&chain.mine(Vec::new()).unwrap());
    let cursor = client.receive().await["payload"]["data"]["chainEvents"]["cursor"].clone();
    let behind = format!("subscription {{ chainEvents(after: {cursor}) {{ __typename }} }}");
    let served = TestServer::start(&api).await;
    assert_refused(&served, &[(&behind, "CURSOR_EXPIRED")]).await;
    for served in [elsewhere, served] {
        served.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_a_block_is_indexed_a_subscription_is_refused() {
    let api = Api::empty(bitcoin::Network::Regtest, btcgraph::limits::Limits::default());
    let served = TestServer::with_options(&api.schema, Options::default()).await;
    assert_refused(&served, &[("subscription { newBlock { hash } }", "NOT_READY")]).await;
    served.stop().await;
}
