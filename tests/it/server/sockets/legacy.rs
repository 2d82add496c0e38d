//! The older subprotocol, `graphql-ws`, as clients of subscriptions-transport-ws speak it.

use std::time::Duration;

use btcgraph::limits::Limits;
use futures_util::StreamExt;
use serde_json::json;

use super::{Client, chain, until_subscriptions, within};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

pub(super) async fn legacy(served: &TestServer) -> Client {
    let mut client = served.connect("graphql-ws").await;
    client.say(&json!({ "type": "connection_init", "payload": {} })).await;
    assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_and_a_subscription_start_answer_and_stop() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut watching = served.client().await;
    let mut client = legacy(&served).await;
    client.say(&json!({ "type": "start", "id": "1", "payload": { "query": "{ tip { height } }" } })).await;
    let reported = json!({ "type": "data", "id": "1", "payload": { "data": { "tip": { "height": 3 } } } });
    assert_eq!(client.receive().await, reported);
    assert_eq!(client.receive().await, json!({ "type": "complete", "id": "1" }));

    let query = "subscription { newBlock { height } }";
    client.say(&json!({ "type": "start", "id": "2", "payload": { "query": query } })).await;
    until_subscriptions(&mut watching, 1).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(client.receive().await["payload"], json!({ "data": { "newBlock": { "height": 4 } } }));
    client.say(&json!({ "type": "stop", "id": "2" })).await;
    assert_eq!(client.receive().await, json!({ "type": "complete", "id": "2" }));
    until_subscriptions(&mut watching, 0).await;

    client.say(&json!({ "type": "connection_terminate" })).await;
    assert_eq!(client.closed().await.0, 1000);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_held_to_the_same_limits_and_times() {
    let limits = Limits { socket_ping_interval: Duration::from_millis(200), ..Limits::default() };
    let served = TestServer::with_limits(&Api::of_chain(&chain()).schema, &limits).await;
    let mut client = legacy(&served).await;
    for id in 0..=100 {
        let payload = json!({ "query": "subscription { newBlock { hash } }" });
        client.say(&json!({ "type": "start", "id": id.to_string(), "payload": payload })).await;
    }
    let reported = client.receive().await;
    assert_eq!((&reported["type"], &reported["id"]), (&json!("error"), &json!("100")), "{reported}");
    assert_eq!(reported["payload"]["errors"][0]["extensions"]["code"], json!("QUERY_LIMIT_EXCEEDED"), "{reported}");
    while !within(client.stream.next()).await.unwrap().unwrap().is_ping() {}
    let mut large = legacy(&served).await;
    large.say(&json!({ "type": "start", "payload": " ".repeat(65 * 1024) })).await;
    assert_eq!(large.closed().await.0, 1009);
    served.shutdown.cancel();
    assert_eq!(client.closed().await.0, 1012);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_takes_the_place_of_one_with_its_id() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut client = legacy(&served).await;
    let start = |id: &str, query: &str| json!({ "type": "start", "id": id, "payload": { "query": query } });
    for query in ["subscription { newBlock { hash } }", "subscription { newBlock { height } }"] {
        client.say(&start("1", query)).await;
    }
    // it is answered once they have begun
    client.say(&start("2", "{ tip { height } }")).await;
    for kind in ["data", "complete"] {
        let reported = client.receive().await;
        assert_eq!((&reported["id"], &reported["type"]), (&json!("2"), &json!(kind)), "{reported}");
    }
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(client.receive().await["payload"], json!({ "data": { "newBlock": { "height": 4 } } }));
    client.say(&start("3", "{ tip { height } }")).await;
    assert_eq!(client.receive().await["id"], json!("3"), "the first says nothing more");
    served.stop().await;
}
