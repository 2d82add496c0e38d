//! Who opens a websocket: by the request that becomes one, or by its first message.

use std::time::Duration;

use btcgraph::server::{Options, Token, TokenPolicy, Tokens};
use btcgraph::sim::SimChain;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::connect_async;

use super::{Client, TRANSPORT, chain};
use crate::api::ledgers::descriptors::wallet;
use crate::support::api::Api;
use crate::support::test_server::TestServer;

async fn served(api: &Api, cost: u32) -> TestServer {
    let tokens: Tokens = Token::new("alice", "secret", cost, false).unwrap().to_string().parse().unwrap();
    let token_policy = TokenPolicy { tokens, require_token: true, ..TokenPolicy::default() };
    TestServer::with_options(&api.schema, Options { token_policy, ..Options::default() }).await
}

async fn introduced(served: &TestServer, payload: &Value) -> Client {
    let mut client = served.connect(TRANSPORT).await;
    client.say(&json!({ "type": "connection_init", "payload": payload })).await;
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_the_first_message_opens_the_socket() {
    let api = Api::of_chain(&chain());
    let served = served(&api, 0).await;
    for payload in [
        json!({ "authorization": "Bearer secret" }),
        json!({ "Authorization": "Bearer secret" }),
        json!({ "authorization": "secret", "more": 1 }),
    ] {
        let mut client = introduced(&served, &payload).await;
        assert_eq!(client.receive().await, json!({ "type": "connection_ack" }), "{payload}");
        client.ask("a", "{ tip { height } }").await;
        assert_eq!(client.receive().await["payload"]["data"]["tip"]["height"], json!(3));
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_token_or_with_a_wrong_one_it_is_closed_with_4403() {
    let api = Api::of_chain(&chain());
    let served = served(&api, 0).await;
    for payload in [json!(null), json!({}), json!({ "authorization": "Bearer guess" }), json!({ "authorization": 7 })] {
        let mut client = introduced(&served, &payload).await;
        assert_eq!(client.closed().await, (4403, "Forbidden".to_owned()), "{payload}");
    }
    let mut client = served.connect(TRANSPORT).await;
    client.ask("a", "{ tip { height } }").await;
    assert_eq!(client.closed().await.0, 4401, "who does not introduce itself is not asked who it is");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_the_request_that_becomes_a_websocket_is_enough_and_a_wrong_one_makes_none() {
    let api = Api::of_chain(&chain());
    let served = served(&api, 0).await;
    let protocol = ("Sec-WebSocket-Protocol", TRANSPORT);
    let known = served.handshake(&[protocol, ("Authorization", "Bearer secret")]);
    let mut client = Client { stream: connect_async(known).await.unwrap().0 };
    client.say(&json!({ "type": "connection_init" })).await;
    assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
    let unknown = served.handshake(&[protocol, ("Authorization", "Bearer guess")]);
    let refused = connect_async(unknown).await.unwrap_err();
    assert!(refused.to_string().contains("401"), "{refused}");
    served.stop().await;
}

/// The first message of a subscription to blocks. Nothing shows when the subscription has begun, so blocks are mined until then.
async fn first_message(client: &mut Client, api: &mut Api, chain: &mut SimChain) -> Value {
    for _ in 0..10 {
        api.connect(&chain.mine(Vec::new()).unwrap());
        if let Ok(message) = timeout(Duration::from_secs(1), client.receive()).await {
            return message;
        }
    }
    panic!("no message arrives");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_paid_for_and_a_subscription_ends_with_what_there_is_to_spend() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = served(&api, 5).await;
    let mut client = introduced(&served, &json!({ "authorization": "Bearer secret" })).await;
    assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
    // 2 an event
    client.ask("blocks", "subscription { newBlock { height } }").await;
    let height = |event: &Value| event["payload"]["data"]["newBlock"]["height"].as_u64();
    let first = height(&first_message(&mut client, &mut api, &mut chain).await).unwrap();
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(height(&client.receive().await), Some(first + 1));
    api.connect(&chain.mine(Vec::new()).unwrap());
    let last = client.receive().await;
    assert_eq!(last["payload"]["errors"][0]["extensions"]["code"], json!("RESOURCE_EXHAUSTED"), "{last}");
    assert_eq!(client.receive().await, json!({ "type": "complete", "id": "blocks" }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_cannot_pay_for_its_first_event_is_refused() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = served(&api, 1).await;
    let mut client = introduced(&served, &json!({ "authorization": "Bearer secret" })).await;
    assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
    client.ask("blocks", "subscription { newBlock { height } }").await;
    let refusal = first_message(&mut client, &mut api, &mut chain).await;
    assert_eq!((&refusal["type"], &refusal["id"]), (&json!("error"), &json!("blocks")), "{refusal}");
    assert_eq!(refusal["payload"][0]["extensions"]["code"], json!("RESOURCE_EXHAUSTED"), "{refusal}");
    assert!(client.is_silent().await);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stream_derives_is_paid_for_before_its_first_event() {
    let api = Api::of_chain(&chain());
    // each pays for a key and a batch of 64 scripts for each of two branches, 1,330 in all, while the others do: whatever
    // their order, all batches but the last are paid for
    let served = served(&api, 3_500).await;
    let mut client = introduced(&served, &json!({ "authorization": "Bearer secret" })).await;
    assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
    let watch = format!("{{ descriptors: [{{ text: {}, gapLimit: 3 }}] }}", json!(wallet()));
    for (id, field) in [("ledger", "ledgerEvents"), ("mempool", "unconfirmedTransaction"), ("third", "ledgerEvents")] {
        client.ask(id, &format!("subscription {{ {field}(watch: {watch}) {{ __typename }} }}")).await;
    }
    // which of them comes last does not follow from when they are asked for
    let refusal = client.receive().await;
    assert_eq!(refusal["type"], "error", "{refusal}");
    let extensions = &refusal["payload"][0]["extensions"];
    assert_eq!((&extensions["code"], &extensions["cost"]), (&json!("RESOURCE_EXHAUSTED"), &json!(640)), "{refusal}");
    assert!(extensions["retryAfterSeconds"].as_u64().is_some_and(|seconds| (1..=60).contains(&seconds)), "{refusal}");
    // the scripts of addresses are not derived
    client.ask("script", "subscription { ledgerEvents(watch: { scripts: [\"51\"] }) { cursor } }").await;
    assert!(client.is_silent().await);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_is_refused_costs_nothing() {
    let api = Api::of_chain(&chain());
    let served = served(&api, 2).await;
    let mut client = introduced(&served, &json!({ "authorization": "Bearer secret" })).await;
    assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
    client.ask("blocks", "subscription { newBlock(confirmations: 0) { height } }").await;
    assert_eq!(client.receive().await["type"], "error");
    client.ask("tip", "{ tip { height } }").await;
    assert_eq!(client.receive().await["payload"], json!({ "data": { "tip": { "height": 3 } } }));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_subprotocol_asks_for_the_token_too() {
    let api = Api::of_chain(&chain());
    let served = served(&api, 0).await;
    let mut client = served.connect("graphql-ws").await;
    client.say(&json!({ "type": "connection_init", "payload": { "Authorization": "Bearer secret" } })).await;
    assert_eq!(client.receive().await, json!({ "type": "connection_ack" }));
    let mut stranger = served.connect("graphql-ws").await;
    stranger.say(&json!({ "type": "connection_init" })).await;
    assert_eq!(stranger.receive().await["type"], "connection_error");
    served.stop().await;
}
