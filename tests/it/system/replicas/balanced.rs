//! Replicas behind HAProxy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::proxies::haproxy;
use super::{Fleet, PATIENCE, agent, ask, status};
use crate::support::bitcoind::wait_for;

const TIP: &str = "{ tip { height hash } }";

/// The height of the tip that an answer has.
fn height(body: &Value) -> u64 {
    body["data"]["tip"]["height"].as_u64().unwrap_or_else(|| panic!("{body}"))
}

#[test]
fn no_client_that_carries_the_tip_sees_an_older_one() {
    // the second asks its node seldom, and is behind after each block
    let fleet = Fleet::start(&["1", "3"]);
    let Some(proxy) = haproxy(&fleet.addresses()) else { return };
    let (agent, mut stale, mut rounds) = (agent(), 0, 0);
    let mut carried: Option<String> = None;
    // the second may happen to ask its node right after a block, and is not behind then
    while rounds < 2 || stale == 0 {
        rounds += 1;
        assert!(rounds <= 20, "without the tip clients see both states");
        let mined = u64::from(fleet.mine());
        wait_for("the first replica to have the block", PATIENCE, || {
            (height(&fleet.replicas[0].query(TIP)) == mined).then_some(())
        });
        let first = ask(&agent, &fleet.replicas[0].address, TIP, carried.as_deref());
        let tip = first.tip.unwrap();
        assert_eq!(tip, format!("{mined}:{}", first.body["data"]["tip"]["hash"].as_str().unwrap()));
        for _ in 0..6 {
            stale += u32::from(height(&ask(&agent, &proxy.address, TIP, None).body) < mined);
        }
        for _ in 0..6 {
            let answer = ask(&agent, &proxy.address, TIP, Some(&tip));
            assert_eq!((answer.status, height(&answer.body), answer.tip.as_deref()), (200, mined, Some(tip.as_str())));
        }
        carried = Some(tip);
    }
    let spread = fleet.executed();
    assert!(spread.iter().all(|count| *count >= 6), "{spread:?}");
}

#[test]
fn no_request_fails_while_a_replica_drains_and_stops() {
    let mut fleet = Fleet::start(&["1", "1", "1"]);
    let Some(proxy) = haproxy(&fleet.addresses()) else { return };
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let client = |connections_last: bool| {
        let (stop, count, address) = (stop.clone(), count.clone(), proxy.address.clone());
        std::thread::spawn(move || {
            let (mut agent, mut carried, mut seen) = (agent(), None, 0);
            while !stop.load(Ordering::Acquire) {
                if !connections_last {
                    agent = super::agent();
                }
                let answer = ask(&agent, &address, TIP, carried.as_deref());
                assert!(answer.status == 200 && answer.body.get("errors").is_none(), "{answer:?}");
                assert!(height(&answer.body) >= seen, "{answer:?} after {seen}");
                seen = height(&answer.body);
                carried = answer.tip;
                count.fetch_add(1, Ordering::AcqRel);
            }
        })
    };
    let clients = [client(true), client(true), client(false)];
    let more = |requests: usize| {
        let before = count.load(Ordering::Acquire);
        wait_for("more requests", PATIENCE, || (count.load(Ordering::Acquire) >= before + requests).then_some(()));
    };
    more(60);
    wait_for("all replicas to answer", PATIENCE, || fleet.executed().iter().all(|count| *count >= 10).then_some(()));
    fleet.mine();
    fleet.drain(0);
    assert_eq!(status(&fleet.replicas[0].address, "/health/ready"), 503);
    // until HAProxy has seen it, and its last request is answered
    wait_for("the drained replica to have no requests", PATIENCE, || {
        let before = fleet.executed()[0];
        more(40);
        (fleet.executed()[0] == before).then_some(())
    });
    assert!(fleet.replicas[0].stop().success());
    more(40);
    // HAProxy repeats what the next one does not answer any more
    assert!(fleet.replicas[1].stop().success());
    fleet.mine();
    more(40);
    stop.store(true, Ordering::Release);
    for client in clients {
        client.join().unwrap();
    }
}

const EVENTS: &str = "subscription ($after: String) { chainEvents(after: $after) { \
                      ... on BlockConnected { cursor block { height } } ... on BlockDisconnected { cursor } } }";

/// What a websocket client reports.
enum Report {
    /// It is subscribed, the second time as well.
    Subscribed,
    /// The height of a connected block.
    Height(u64),
    /// The server closed the connection, with this code.
    Closed(u16),
}

/// Follows the chain, and resumes behind its last cursor when the connection ends.
async fn follow(address: String, reports: mpsc::UnboundedSender<Report>) {
    let mut cursor = Value::Null;
    loop {
        let mut request = format!("ws://{address}/graphql").into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
        let Ok((mut socket, _)) = connect_async(request).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        socket.send(Message::text(json!({ "type": "connection_init" }).to_string())).await.unwrap();
        let subscribe = json!({ "type": "subscribe", "id": "1",
            "payload": { "query": EVENTS, "variables": { "after": cursor } } });
        socket.send(Message::text(subscribe.to_string())).await.unwrap();
        // it is subscribed once the server answers what is asked behind it
        let ask = json!({ "type": "subscribe", "id": "2", "payload": { "query": "{ tip { height } }" } });
        socket.send(Message::text(ask.to_string())).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            match message {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    if message["type"] == "next" && message["id"] == "2" {
                        let _ = reports.send(Report::Subscribed);
                    } else if message["type"] == "next" {
                        let event = &message["payload"]["data"]["chainEvents"];
                        cursor = event["cursor"].clone();
                        let _ = reports.send(Report::Height(event["block"]["height"].as_u64().unwrap()));
                    } else {
                        assert!(matches!(message["type"].as_str(), Some("connection_ack" | "complete")), "{message}");
                    }
                }
                Message::Close(Some(frame)) => {
                    let _ = reports.send(Report::Closed(frame.code.into()));
                }
                _ => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_resumes_on_another_replica_without_losing_an_event() {
    let mut fleet = tokio::task::spawn_blocking(|| Fleet::start(&["1", "1"])).await.unwrap();
    let Some(proxy) = haproxy(&fleet.addresses()) else { return };
    let mut clients: Vec<_> = (0..4)
        .map(|_| {
            let (sender, reports) = mpsc::unbounded_channel();
            tokio::spawn(follow(proxy.address.clone(), sender));
            (reports, Vec::new(), Vec::new())
        })
        .collect();
    let next = async |reports: &mut mpsc::UnboundedReceiver<Report>| {
        tokio::time::timeout(PATIENCE, reports.recv()).await.unwrap().unwrap()
    };
    for (reports, ..) in &mut clients {
        assert!(matches!(next(reports).await, Report::Subscribed));
    }
    assert_eq!(tokio::task::block_in_place(|| fleet.websockets()), [2, 2], "websockets are spread");
    let mut mined: Vec<u64> = vec![fleet.mine().into()];
    tokio::task::block_in_place(|| {
        fleet.replicas.iter().for_each(|replica| replica.wait_for_height(11));
        fleet.drain(0);
        wait_for("HAProxy to see it", PATIENCE, || {
            let all: BTreeSet<_> = (0..4).map(|_| status(&proxy.address, "/health/ready")).collect();
            (all == BTreeSet::from([200])).then_some(())
        });
        // clients that it still has are served until it stops, and the next block comes while they reconnect
        assert!(fleet.replicas[0].stop().success());
        mined.push(fleet.mine().into());
        fleet.replicas[1].wait_for_height(12);
        mined.push(fleet.mine().into());
    });
    let mut closed = 0;
    for (reports, heights, codes) in &mut clients {
        while heights.len() < mined.len() {
            match next(reports).await {
                Report::Height(height) => heights.push(height),
                Report::Closed(code) => codes.push(code),
                Report::Subscribed => {}
            }
        }
        assert_eq!(*heights, mined);
        assert!(codes.is_empty() || *codes == [1012], "{codes:?}");
        closed += codes.len();
    }
    assert_eq!(closed, 2, "the sockets of one replica are closed");
}
