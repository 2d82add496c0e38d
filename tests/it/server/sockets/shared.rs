//! Subscriptions that many clients have: executed once for all of them, and sent to each.

use std::time::Duration;

use bitcoin::absolute::LockTime;
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};
use btcgraph::sim::SimChain;
use btcgraph::view::{SyncPhase, SyncState};
use serde_json::{Value, json};

use super::{Client, chain, subscriptions, until_subscriptions, within};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

async fn ask_with(client: &mut Client, query: &str, variables: Value) {
    let payload = json!({ "query": query, "variables": variables });
    client.say(&json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
    // what was asked before has begun by the answer to this
    subscriptions(client).await;
}

async fn reported(client: &mut Client) -> Value {
    let mut message = client.receive().await;
    assert_eq!((&message["type"], &message["id"]), (&json!("next"), &json!("1")), "{message}");
    message["payload"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_subscribers_of_the_same_are_one_execution_and_all_of_them_count() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let mut watching = served.client().await;
    let mut clients = Vec::new();
    for number in 0..50 {
        let mut client = served.client().await;
        // one that subscribes later receives the same
        ask_with(&mut client, "subscription { newBlock { hash height } }", json!({})).await;
        assert_eq!(subscriptions(&mut watching).await, number + 1);
        clients.push(client);
    }
    assert_eq!(api.listeners(), 1);
    for height in 4..8 {
        let block = chain.mine(Vec::new()).unwrap();
        api.connect(&block);
        let expected = json!({ "data": { "newBlock": { "hash": block.block_hash().to_string(), "height": height } } });
        for client in &mut clients {
            assert_eq!(reported(client).await, expected);
        }
    }
    // whoever leaves first, the others go on
    drop(clients.drain(..49));
    until_subscriptions(&mut watching, 1).await;
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(reported(&mut clients[0]).await["data"]["newBlock"]["height"], 8);
    clients[0].say(&json!({ "type": "complete", "id": "1" })).await;
    until_subscriptions(&mut watching, 0).await;
    assert!(clients[0].is_silent().await);
    assert_eq!(api.listeners(), 0);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_shows_to_all_who_share_a_subscription() {
    let chain = chain();
    let api = Api::of_chain_believing_for(&chain, Duration::from_secs(1));
    let (node_height, node_tip) = (Some(chain.height()), Some(chain.tip()));
    api.set_state(SyncState { phase: SyncPhase::Following, node_height, node_tip, ..SyncState::default() });
    let served = TestServer::start(&api).await;
    let (mut first, mut late) = (served.client().await, served.client().await);
    let query = "subscription { syncProgress { phase isReady } }";
    first.ask("1", query).await;
    let silent = json!({ "data": { "syncProgress": { "phase": "WAITING_FOR_NODE", "isReady": false } } });
    // on a slow machine the silence is long before the first event
    within(async { while reported(&mut first).await != silent {} }).await;
    late.ask("1", query).await;
    assert_eq!(reported(&mut late).await, silent);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_variables_are_another_execution() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let query = "subscription($n: Int) { newBlock(confirmations: $n) { height } }";
    let mut clients = Vec::new();
    for confirmations in [1, 2, 1, 2] {
        let mut client = served.client().await;
        ask_with(&mut client, query, json!({ "n": confirmations })).await;
        clients.push((client, 5 - confirmations));
    }
    assert_eq!(api.listeners(), 2);
    api.connect(&chain.mine(Vec::new()).unwrap());
    for (client, height) in &mut clients {
        assert_eq!(reported(client).await["data"]["newBlock"]["height"], *height);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_refused_to_each() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    for _ in 0..3 {
        let mut client = served.client().await;
        client.ask("1", "subscription { newBlock(confirmations: 0) { hash } }").await;
        let answer = client.receive().await;
        assert!(answer.to_string().contains("BAD_USER_INPUT"), "{answer}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrivals_are_shared_by_those_with_the_same_filter() {
    let mut chain = SimChain::new(41);
    chain.mine_empty(103).unwrap();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let query = "subscription($f: TransactionFilter) { unconfirmedTransaction(filter: $f) { txid } }";
    let mut clients = Vec::new();
    for least in ["0", "2000", "2000", "0"] {
        let mut client = served.client().await;
        ask_with(&mut client, query, json!({ "f": { "minValue": least } })).await;
        clients.push((client, least));
    }
    assert_eq!(api.listeners(), 2);
    let coinbase = |height: u32| {
        let block = chain.active_blocks().nth(usize::try_from(height).unwrap()).unwrap();
        OutPoint::new(block.txdata[0].compute_txid(), 0)
    };
    let (small, large) = (paying(coinbase(1), 1_000), paying(coinbase(2), 3_000));
    api.arrive([&small, &large]);
    for (client, least) in &mut clients {
        let expected = if *least == "0" { vec![&small, &large] } else { vec![&large] };
        for transaction in expected {
            let txid = transaction.compute_txid().to_string();
            assert_eq!(reported(client).await, json!({ "data": { "unconfirmedTransaction": { "txid": txid } } }));
        }
    }
    served.stop().await;
}

/// Spends a coin and pays so many satoshis; the rest is fee.
fn paying(coin: OutPoint, satoshis: u64) -> Transaction {
    let input =
        TxIn { previous_output: coin, script_sig: ScriptBuf::new(), sequence: Sequence::MAX, witness: Witness::new() };
    let output = TxOut { value: Amount::from_sat(satoshis), script_pubkey: ScriptBuf::from_hex("51").unwrap() };
    Transaction { version: Version::TWO, lock_time: LockTime::ZERO, input: vec![input], output: vec![output] }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_subscribers_get_a_value_at_once() {
    let mut chain = chain();
    let mut api = Api::of_chain(&chain);
    let served = TestServer::start(&api).await;
    let query = "subscription { difficultyAdjustment { minedBlockCount } }";
    let expected = |done: u32| json!({ "data": { "difficultyAdjustment": { "minedBlockCount": done } } });
    let mut first = served.client().await;
    first.ask("1", query).await;
    assert_eq!(reported(&mut first).await, expected(4));
    api.connect(&chain.mine(Vec::new()).unwrap());
    assert_eq!(reported(&mut first).await, expected(5));
    let mut second = served.client().await;
    second.ask("1", query).await;
    assert_eq!(reported(&mut second).await, expected(5));
    assert!(first.is_silent().await);
    api.connect(&chain.mine(Vec::new()).unwrap());
    for client in [&mut first, &mut second] {
        assert_eq!(reported(client).await, expected(6));
    }
    served.stop().await;
}
