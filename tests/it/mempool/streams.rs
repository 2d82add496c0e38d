//! Subscribers that lose their connection and reconnect.

use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request, Variables};
use btcgraph::api::{self, Schema};
use btcgraph::limits::Limits;
use btcgraph::sim::Profile;
use btcgraph::view::Head;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::following::{Following, PATIENCE};
use super::simulated::{live, start};

/// The end that readers wait for: the sequence number of the last mempool event, and the tip.
pub(super) type End = watch::Receiver<Option<(u64, Value)>>;

/// Reads as a subscriber that loses its connection after every `patience` events, and resumes after the last.
async fn read(
    schema: &Schema,
    subscription: &str,
    patience: usize,
    end: End,
    is_all: impl Fn(&[Value], &(u64, Value)) -> bool,
) -> Vec<Value> {
    let document = format!("subscription ($after: String) {{ {subscription} }}");
    read_all(schema, &document, json!({}), patience, end, is_all).await
}

/// Reads like `read`, with a document that takes more variables than `after`.
pub(super) async fn read_all(
    schema: &Schema,
    document: &str,
    mut variables: Value,
    patience: usize,
    mut end: End,
    is_all: impl Fn(&[Value], &(u64, Value)) -> bool,
) -> Vec<Value> {
    let mut received: Vec<Value> = Vec::new();
    loop {
        let after = received.last().map_or(Value::Null, |event| event["cursor"].clone());
        variables["after"] = after;
        let request = Request::new(document).variables(Variables::from_json(variables.clone()));
        let mut stream = schema.execute_stream(request, None);
        let connected_at = received.len();
        while received.len() - connected_at < patience {
            if end.borrow_and_update().as_ref().is_some_and(|end| is_all(&received, end)) {
                return received;
            }
            let response = tokio::select! {
                response = stream.next() => response.unwrap(),
                _ = end.changed() => continue,
                () = tokio::time::sleep(PATIENCE) => panic!("no further event after {} events", received.len()),
            };
            assert!(response.errors.is_empty(), "{:?}", response.errors);
            let event = response.data.into_json().unwrap();
            received.push(event.as_object().unwrap().values().next().unwrap().clone());
        }
    }
}

const MEMPOOL: &str = "mempoolEvents(after: $after) {
    ... on TransactionAdded { cursor txid transaction { txid } }
    ... on TransactionRemoved { cursor txid reason replacedByTxid isCorrection block { hash } }
}";
const CHAIN: &str = "chainEvents(after: $after) {
    ... on BlockConnected { cursor joined: block { hash previousBlock { hash } } }
    ... on BlockDisconnected { cursor left: block { hash previousBlock { hash } } }
}";

/// How many subscriptions are open.
pub(super) async fn listening(schema: &Schema) -> usize {
    let answer = schema.execute(Request::new("{ server { subscriptionCount } }")).await.data.into_json().unwrap();
    answer["server"]["subscriptionCount"].as_u64().unwrap().try_into().unwrap()
}

/// The hashes of a chain after these events.
fn applied(mut chain: Vec<Value>, events: &[Value]) -> Vec<Value> {
    for event in events {
        if event["joined"].is_object() {
            assert_eq!(
                chain.last().unwrap(),
                &event["joined"]["previousBlock"]["hash"],
                "a block is connected to the tip"
            );
            chain.push(event["joined"]["hash"].clone());
        } else {
            assert_eq!(chain.pop().unwrap(), event["left"]["hash"], "the disconnected block is the tip");
        }
    }
    chain
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reconnects_receives_every_event() {
    let (mut life, sim) = start(Profile::Hostile, 21);
    let following = Following::of_simulated(&sim, true);
    let first = following.assert_catches_up(&sim);
    let schema =
        api::schema(following.published.clone(), following.live.clone(), Limits::default(), api::Features::default());
    let hashes = |head: &Head| -> Vec<Value> {
        let heights = 0..=head.tip.height.to_u32();
        heights.map(|height| json!(head.chain.block_hash(height.into()).unwrap().to_string())).collect()
    };
    let from = hashes(&first);
    let (done, end) = watch::channel(None);
    let readers = [usize::MAX, 1, 7].map(|patience| {
        let (schema, end, since) = (schema.clone(), end.clone(), first.mempool.sequence());
        tokio::spawn(async move {
            let is_all =
                |received: &[Value], (last, _): &(u64, Value)| u64::try_from(received.len()).unwrap() == last - since;
            read(&schema, MEMPOOL, patience, end, is_all).await
        })
    });
    let followers = [usize::MAX, 1, 5].map(|patience| {
        let (schema, end, from) = (schema.clone(), end.clone(), from.clone());
        tokio::spawn(async move {
            let is_all =
                |received: &[Value], (_, tip): &(u64, Value)| applied(from.clone(), received).last() == Some(tip);
            applied(from.clone(), &read(&schema, CHAIN, patience, end, is_all).await)
        })
    });
    while listening(&schema).await < readers.len() + followers.len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let last = tokio::task::block_in_place(|| {
        let bursts = (0..100).map(|burst| {
            live(&mut life, &sim, 1 + burst % 5);
            following.assert_catches_up(&sim)
        });
        bursts.last().unwrap()
    });
    done.send(Some((last.mempool.sequence(), json!(last.tip.hash.to_string())))).unwrap();

    let mut streams = Vec::new();
    for reader in readers {
        streams.push(reader.await.unwrap());
    }
    let ids = |events: &[Value]| {
        events.iter().map(|event| [&event["txid"], &event["reason"]].map(Value::clone)).collect::<Vec<_>>()
    };
    assert!(streams[0].len() > 200, "{} events are too few to see", streams[0].len());
    assert_eq!(ids(&streams[1]), ids(&streams[0]));
    assert_eq!(ids(&streams[2]), ids(&streams[0]));
    for follower in followers {
        assert_eq!(follower.await.unwrap(), hashes(&last));
    }
    tokio::task::block_in_place(|| {
        drop(schema);
        following.stop()
    });
}
