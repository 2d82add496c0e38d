//! A rolling upgrade: three replicas are replaced one after the other while blocks arrive, websockets follow the chain and clients
//! query, all through HAProxy.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use btcgraph::sim::Mining;
use futures_util::{SinkExt, StreamExt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::proxies::haproxy_for;
use super::{Fleet, PATIENCE, agent, ask};
use crate::support::bitcoind::wait_for;

/// Websockets. Each takes a file of this process, and two of HAProxy.
const SOCKETS: usize = 1_000;
/// Connections to HAProxy beside the websockets.
const OTHERS: usize = 100;
const BETWEEN_BLOCKS: Duration = Duration::from_millis(400);
/// Of so many blocks one comes with a reorganisation: three blocks replace the highest two.
const REORGANISED: u32 = 8;
const BETWEEN_QUERIES: Duration = Duration::from_millis(5);
/// Handshakes at the same time, for the machine.
const HANDSHAKES: usize = 50;

const QUERIES: [&str; 3] = [
    "{ tip { height hash } }",
    "{ tip { height hash } block(height: 5) { hash txCount } }",
    "{ tip { height hash } blocks(first: 3) { nodes { height hash } } }",
];
const EVENTS: &str = "subscription ($after: String) { chainEvents(after: $after) { \
                      __typename cursor ... on BlockConnected { block { height hash } } \
                      ... on BlockDisconnected { block { height hash } } } }";

/// What all clients share.
struct Observed {
    address: String,
    /// Height and header of the newest tip that any client has seen. Clients of HTTP carry it.
    newest: Mutex<(u64, Option<String>)>,
    /// The height at which websockets end.
    last: AtomicU64,
    stop: AtomicBool,
    requests: AtomicUsize,
    subscribed: AtomicUsize,
    /// How many websockets were closed, by the code of the server; 0 without one.
    closed: Mutex<BTreeMap<u16, usize>>,
    handshakes: tokio::sync::Semaphore,
}

impl Observed {
    fn see(&self, height: u64, tip: impl FnOnce() -> Option<String>) {
        let mut newest = self.newest.lock().unwrap();
        if height > newest.0 {
            *newest = (height, tip());
        }
    }

    /// Queries until it is stopped. Returns the longest time that an answer took.
    fn query(&self, keeps_connection: bool) -> Duration {
        let (mut agent, mut longest) = (agent(), Duration::ZERO);
        for query in QUERIES.iter().cycle() {
            if self.stop.load(Ordering::Acquire) {
                return longest;
            }
            if !keeps_connection {
                agent = super::agent();
            }
            let (seen, carried) = self.newest.lock().unwrap().clone();
            let began = Instant::now();
            let answer = ask(&agent, &self.address, query, carried.as_deref());
            longest = longest.max(began.elapsed());
            assert!(answer.status == 200 && answer.body.get("errors").is_none(), "{answer:?}");
            let height = answer.body["data"]["tip"]["height"].as_u64().unwrap();
            assert!(height >= seen, "{answer:?} after {seen}");
            self.see(height, || answer.tip.clone());
            self.requests.fetch_add(1, Ordering::AcqRel);
            std::thread::sleep(BETWEEN_QUERIES);
        }
        longest
    }

    /// Follows the chain over websockets, each of which resumes behind the last event. Returns the blocks that were connected and
    /// not disconnected since, and how many were.
    async fn follow(self: Arc<Self>) -> (Vec<(u64, String)>, usize) {
        let (mut cursor, mut chain, mut disconnected) = (Value::Null, Vec::new(), 0);
        loop {
            let permit = self.handshakes.acquire().await.unwrap();
            let mut request = format!("ws://{}/graphql", self.address).into_client_request().unwrap();
            request.headers_mut().insert("sec-websocket-protocol", "graphql-transport-ws".parse().unwrap());
            let (mut socket, _) = connect_async(request).await.expect("HAProxy has a replica for a websocket");
            drop(permit);
            let subscribe = json!({ "type": "subscribe", "id": "events",
                "payload": { "query": EVENTS, "variables": { "after": cursor } } });
            // it is answered once the events are subscribed to
            let ask = json!({ "type": "subscribe", "id": "tip", "payload": { "query": "{ tip { height } }" } });
            for message in [json!({ "type": "connection_init" }), subscribe, ask] {
                // a server that stops may close it at any time
                let _ = socket.send(Message::text(message.to_string())).await;
            }
            let mut code = 0;
            while let Some(Ok(message)) = socket.next().await {
                let text = match message {
                    Message::Text(text) => text,
                    Message::Close(Some(frame)) => {
                        code = frame.code.into();
                        continue;
                    }
                    _ => continue,
                };
                let message: Value = serde_json::from_str(&text).unwrap();
                match (message["type"].as_str(), message["id"].as_str()) {
                    (Some("next"), Some("events")) => {
                        let event = &message["payload"]["data"]["chainEvents"];
                        let block = &event["block"];
                        let height = block["height"].as_u64().unwrap_or_else(|| panic!("{message}"));
                        let hash = block["hash"].as_str().unwrap().to_owned();
                        cursor = event["cursor"].clone();
                        if event["__typename"] == "BlockDisconnected" {
                            assert_eq!(chain.pop(), Some((height, hash)), "the highest block leaves first");
                            disconnected += 1;
                            continue;
                        }
                        self.see(height, || Some(format!("{height}:{hash}")));
                        chain.push((height, hash));
                        if height >= self.last.load(Ordering::Acquire) {
                            return (chain, disconnected);
                        }
                    }
                    (Some("next"), Some("tip")) => {
                        self.subscribed.fetch_add(1, Ordering::AcqRel);
                    }
                    (Some("connection_ack"), _) | (Some("complete"), Some("tip")) => {}
                    _ => panic!("{message}"),
                }
            }
            *self.closed.lock().unwrap().entry(code).or_default() += 1;
        }
    }
}

/// Lets this process and those that it starts have as many files open as they may.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Mines a block each time the pause is over, and now and then reorganises the chain, until it is stopped.
fn mine(fleet: &Fleet, observed: &Arc<Observed>) -> JoinHandle<u32> {
    let (world, observed) = (Arc::clone(&fleet.world), Arc::clone(observed));
    std::thread::spawn(move || {
        let mut reorganisations = 0;
        for round in 1.. {
            if observed.stop.load(Ordering::Acquire) {
                break;
            }
            let mut world = world.lock().unwrap();
            if round % REORGANISED == 0 {
                world.reorg(2, 3, Vec::new(), &Mining::default()).unwrap();
                reorganisations += 1;
            } else {
                world.change_chain(|chain| chain.mine_empty(1)).unwrap();
            }
            drop(world);
            std::thread::sleep(BETWEEN_BLOCKS);
        }
        reorganisations
    })
}

#[test]
fn a_rolling_upgrade_fails_no_request_and_loses_no_event() {
    raise_file_limit();
    let mut fleet = Fleet::start(&["1", "1", "1"]);
    let Some(proxy) = haproxy_for(&fleet.addresses(), SOCKETS + OTHERS) else { return };
    let observed = Arc::new(Observed {
        address: proxy.address.clone(),
        newest: Mutex::default(),
        last: AtomicU64::new(u64::MAX),
        stop: AtomicBool::new(false),
        requests: AtomicUsize::new(0),
        subscribed: AtomicUsize::new(0),
        closed: Mutex::default(),
        handshakes: tokio::sync::Semaphore::new(HANDSHAKES),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let followers: Vec<_> = (0..SOCKETS).map(|_| runtime.spawn(Arc::clone(&observed).follow())).collect();
    wait_for("all websockets to be subscribed", PATIENCE, || {
        (observed.subscribed.load(Ordering::Acquire) == SOCKETS).then_some(())
    });
    let spread = fleet.websockets();
    assert!(spread.iter().all(|count| usize::try_from(*count).unwrap() > SOCKETS / 4), "{spread:?}");

    let queries = [true, true, false].map(|keeps_connection| {
        let observed = Arc::clone(&observed);
        std::thread::spawn(move || observed.query(keeps_connection))
    });
    let mining = mine(&fleet, &observed);
    // until each websocket has a cursor
    wait_for("blocks", PATIENCE, || (observed.newest.lock().unwrap().0 >= 15).then_some(()));
    for replica in 0..3 {
        fleet.replace(replica);
    }
    observed.stop.store(true, Ordering::Release);
    let reorganisations = mining.join().unwrap();
    let longest = queries.map(|queries| queries.join().unwrap()).into_iter().max().unwrap();
    let next = u64::from(fleet.world.lock().unwrap().chain().height().to_u32()) + 1;
    observed.last.store(next, Ordering::Release);
    fleet.mine();

    let world = fleet.world.lock().unwrap();
    let blocks = world.chain().active_blocks().skip(11).map(|block| block.block_hash().to_string());
    let expected: Vec<_> = (11..=next).zip(blocks).collect();
    drop(world);
    let mut disconnected = Vec::new();
    runtime.block_on(async {
        for follower in followers {
            let (chain, count) =
                tokio::time::timeout(PATIENCE, follower).await.expect("the last block arrives").unwrap();
            assert_eq!(chain, expected, "each block once and in order");
            disconnected.push(count);
        }
    });
    // a replica that is restarted meanwhile does not have the blocks that come and go
    let (fewest, most) = (disconnected.iter().min().unwrap(), disconnected.iter().max().unwrap());
    assert!(*fewest > 0 && reorganisations > 3, "{fewest} to {most} blocks in {reorganisations} reorganisations");
    let (requests, closed) = (observed.requests.load(Ordering::Acquire), observed.closed.lock().unwrap());
    println!(
        "{SOCKETS} websockets, {} blocks each, {fewest} to {most} disconnected in {reorganisations} reorganisations, closed by \
         code: {closed:?}; {requests} requests, the longest {longest:?}",
        expected.len(),
    );
    assert!(requests > 300, "{requests}");
    // those of each replica: a third, and then halves
    assert!(closed.keys().eq([&1012]) && closed.values().all(|count| *count >= SOCKETS), "{closed:?}");
}
