//! What one client can keep of the server: who does not read, answer or leave is ended, and others do not notice.

use std::time::{Duration, Instant};

use btcgraph::limits::Limits;
use btcgraph::server::Options;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{TRANSPORT, chain, subscribe, until_subscriptions, within};
use crate::support::api::Api;
use crate::support::test_server::TestServer;

/// Its answer is a megabyte.
const LARGE: &str = "{ __schema { types { name description fields { name description args { name description } } } } }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_pinged_and_one_that_does_not_answer_is_cut_off() {
    let limits = Limits { socket_ping_interval: Duration::from_millis(200), ..Limits::default() };
    let served = TestServer::with_limits(&Api::of_chain(&chain()).schema, &limits).await;
    let (mut alive, mut dead) = (served.client().await, served.client().await);
    dead.ask("1", "subscription { newBlock { hash } }").await;
    until_subscriptions(&mut alive, 1).await;
    // a client answers pings while it reads
    let begin = Instant::now();
    let mut pings = 0;
    while pings < 5 {
        let frame = within(alive.stream.next()).await.unwrap().unwrap();
        pings += usize::from(frame.is_ping());
    }
    assert!(begin.elapsed() >= Duration::from_millis(800), "{:?}", begin.elapsed());
    until_subscriptions(&mut alive, 0).await;
    // without a close frame: nobody is there to read it
    let mut last = None;
    while let Some(frame) = within(dead.stream.next()).await {
        last = Some(frame);
    }
    assert!(matches!(last, None | Some(Ok(Message::Ping(_)) | Err(_))), "{last:?}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_and_never_reads_is_ended_and_others_are_answered_meanwhile() {
    let limits = Limits { write_timeout: Duration::from_secs(1), ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let served = TestServer::with_options(&Api::of_chain(&chain()).schema, options).await;
    let mut other = served.client().await;
    let mut stuck = served.client().await;
    stuck.ask("blocks", "subscription { newBlock { hash } }").await;
    until_subscriptions(&mut other, 1).await;
    for id in 0..90 {
        // it may be ended before it has said everything
        let _ = stuck.stream.send(Message::text(subscribe(&id.to_string(), LARGE).to_string())).await;
    }
    let begin = Instant::now();
    let mut slowest = Duration::ZERO;
    while begin.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        assert!(other.is_silent().await);
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    until_subscriptions(&mut other, 0).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_its_results_is_heard_when_it_stops_an_operation() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut other = served.client().await;
    let mut slow = served.client().await;
    slow.ask("blocks", "subscription { newBlock { hash } }").await;
    for id in 0..90 {
        slow.ask(&id.to_string(), LARGE).await;
    }
    until_subscriptions(&mut other, 1).await;
    slow.say(&json!({ "type": "complete", "id": "blocks" })).await;
    until_subscriptions(&mut other, 0).await;
    // and when it reads at last, everything is there
    let mut completed = 0;
    while completed < 90 {
        completed += usize::from(slow.receive().await["type"] == "complete");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_only_asks_is_not_read_for_ever() {
    let served = TestServer::start(&Api::of_chain(&chain())).await;
    let mut greedy = served.client().await;
    let ping = json!({ "type": "ping", "payload": { "x": "x".repeat(60_000) } }).to_string();
    // more than the system's buffers between the two hold
    let mut sent = 0;
    while sent < 1_000 {
        let sending = greedy.stream.send(Message::text(ping.clone()));
        if tokio::time::timeout(Duration::from_secs(2), sending).await.is_err() {
            break;
        }
        sent += 1;
    }
    assert!(sent < 1_000, "the server took 60 MB of questions and had nowhere to put the answers");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_too_many_is_refused_with_a_retry_time() {
    let limits = Limits { sockets: 2, ..Limits::default() };
    let served = TestServer::with_limits(&Api::of_chain(&chain()).schema, &limits).await;
    let (mut first, second) = (served.client().await, served.client().await);
    for protocol in [TRANSPORT, "graphql-ws"] {
        let reported = served.connect(protocol).await.closed().await;
        assert_eq!(reported, (1013, "the server has too many websockets: retry later".to_owned()));
    }
    assert!(first.is_silent().await);
    drop(second);
    within(async {
        loop {
            let mut client = served.connect(TRANSPORT).await;
            client.say(&json!({ "type": "connection_init" })).await;
            if matches!(client.message().await, Some(Ok(Message::Text(_)))) {
                break;
            }
        }
    })
    .await;
    served.stop().await;
}
