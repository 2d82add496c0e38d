//! Subscriptions that go on behind a cursor.

use std::time::Duration;

use btcgraph::limits::Limits;
use btcgraph::server::Options;
use serde_json::{Value, json};

use super::{PATIENCE, chain, within};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

const CHAIN: &str = "subscription ($after: String) { chainEvents(after: $after) { ... on BlockConnected { cursor } } }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_subscription_leaves_its_place_to_others() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let limits = Limits { executions: 1, waiting: 0, timeout: PATIENCE, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let served = TestServer::with_options(&api.schema, options).await;
    let mut client = served.client().await;
    let subscribe = |id: &str, after: &Value| json!({ "type": "subscribe", "id": id, "payload": { "query": CHAIN, "variables": { "after": after } } });
    client.say(&subscribe("1", &Value::Null)).await;
    // not by a question, which could take the only place before the subscription does
    within(async {
        while api.listeners() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    let after = client.receive().await["payload"]["data"]["chainEvents"]["cursor"].take();
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(client.receive().await["id"], "1");
    // there is an event for it at once
    client.say(&subscribe("2", &after)).await;
    assert_eq!(client.receive().await["id"], "2");
    client.ask("3", "{ tip { height } }").await;
    assert_eq!(client.receive().await["payload"], json!({ "data": { "tip": { "height": 5 } } }));
    served.stop().await;
}
