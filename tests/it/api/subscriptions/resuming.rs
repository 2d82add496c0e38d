//! Query first, subscribe behind the answer: `Snapshot.cursor`, and the numbers of events that go on from a cursor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request};
use bitcoin::{Block, Network, OutPoint, Transaction};
use btcgraph::mempool::Departure;
use btcgraph::node::{Auth, Node, NodeOptions, StopFlag};
use btcgraph::sim::{Owner, ScriptKind, SimChain, SimNode, SimNodeOptions, World};
use serde_json::{Value, json};

use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::{Api, branch, response_json, sat, spend_outputs};
use crate::support::clock::paused_runtime;

/// The owner of the coins of [`chain_with_coins`].
const PAYER: Owner = Owner::new(ScriptKind::BareTrue, 1);
const SHOP: Owner = Owner::new(ScriptKind::P2wpkh, 7);

fn to_shop(coin: OutPoint, fee: u64) -> Transaction {
    spend_outputs(PAYER, &[coin], &[PAYER.output(sat(100_000))], vec![SHOP.output(sat(100_000 - fee))])
}

/// The fields of an event of the chain.
const BLOCKS: &str = "__typename ... on BlockConnected { block { hash txCount } } \
                      ... on BlockDisconnected { block { hash txCount } }";

/// The events that a subscription has at once.
fn events(api: &Api, field: &str) -> Vec<Value> {
    let runtime = paused_runtime();
    let mut stream = api.schema.execute_stream(Request::new(format!("subscription {{ event: {field} }}")), None);
    let mut found = Vec::new();
    let wait = Duration::from_millis(100);
    while let Ok(Some(response)) = runtime.block_on(async { tokio::time::timeout(wait, stream.next()).await }) {
        let mut response = response_json(response);
        assert_eq!(response.get("errors"), None, "{field}: {response:#}");
        found.push(response["data"]["event"].take());
    }
    found
}

fn refusal(api: &Api, field: &str) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut stream = api.schema.execute_stream(Request::new(format!("subscription {{ event: {field} }}")), None);
    let response = runtime.block_on(stream.next()).expect("a refusal");
    response_json(response)["errors"][0].take()
}

fn ledger_events(arguments: &str, fields: &str) -> String {
    let script = SHOP.script_pubkey().to_hex_string();
    format!("ledgerEvents(watch: {{ scripts: [\"{script}\"] }}, {arguments}) {{ {fields} }}")
}

/// What a client queries before it subscribes.
fn snapshot(api: &Api) -> (String, u64) {
    let data = api.data("{ snapshot { cursor } mempool { stats { txCount } } }");
    (data["snapshot"]["cursor"].to_string(), data["mempool"]["stats"]["txCount"].as_u64().unwrap())
}

fn pair(seq: u64, kind: &str) -> Value {
    json!({ "seq": seq, "kind": kind })
}

#[test]
fn every_stream_begins_behind_the_snapshot_of_a_query() {
    let (mut chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let (known, unseen, late) = (to_shop(coins[0], 1_000), to_shop(coins[1], 2_000), to_shop(coins[2], 3_000));
    api.arrive([&known]);
    let (cursor, count) = snapshot(&api);
    assert_eq!(count, 1);
    // between the query and the subscriptions
    api.arrive([&unseen]);
    let block = chain.mine(vec![known.clone()]).unwrap();
    api.connect(&block);
    api.arrive([&late]);

    let fields = "__typename seq ... on BlockConnected { block { hash } }";
    let expected = json!({
        "__typename": "BlockConnected", "seq": 1, "block": { "hash": block.block_hash().to_string() },
    });
    assert_eq!(events(&api, &format!("chainEvents(after: {cursor}) {{ {fields} }}")), [expected]);

    let fields = "seq ... on TransactionAdded { added: txid } ... on TransactionRemoved { removed: txid reason }";
    let txid = |of: &Transaction| of.compute_txid().to_string();
    let expected = [
        json!({ "seq": 1, "added": txid(&unseen) }),
        json!({ "seq": 2, "removed": txid(&known), "reason": "CONFIRMED" }),
        json!({ "seq": 3, "added": txid(&late) }),
    ];
    assert_eq!(events(&api, &format!("mempoolEvents(after: {cursor}) {{ {fields} }}")), expected);

    let arguments = format!("after: {cursor}");
    let expected = [pair(1, "SEEN"), pair(2, "CONFIRMED"), pair(3, "SEEN")];
    assert_eq!(events(&api, &ledger_events(&arguments, "seq kind")), expected);
    // the newest snapshot has nothing behind it
    let (newest, _) = snapshot(&api);
    for stream in ["chainEvents", "mempoolEvents"] {
        assert_eq!(events(&api, &format!("{stream}(after: {newest}) {{ seq cursor }}")), Vec::<Value>::new());
    }
    assert_eq!(events(&api, &ledger_events(&format!("after: {newest}"), "seq")), Vec::<Value>::new());
}

#[test]
fn a_snapshot_of_a_block_that_left_leads_over_the_fork() {
    let mut chain = SimChain::new(91);
    let mined = chain.mine_empty(3).unwrap();
    let mut api = Api::of_chain(&chain);
    let (cursor, _) = snapshot(&api);
    let joined = branch(&mut chain, mined[1].block_hash(), 2, &[]);
    api.change(1, joined.iter().map(AsRef::as_ref));
    let kinds = ["BlockDisconnected", "BlockConnected", "BlockConnected"];
    let expected: Vec<_> = (1..).zip(kinds).map(|(seq, kind)| json!({ "seq": seq, "__typename": kind })).collect();
    assert_eq!(events(&api, &format!("chainEvents(after: {cursor}) {{ seq __typename }}")), expected);
}

#[test]
fn a_stream_goes_on_behind_a_stale_block_that_this_server_never_had() {
    let mut chain = SimChain::new(91);
    let mined = chain.mine_empty(3).unwrap();
    let other = Api::of_chain(&chain);
    let (cursor, _) = snapshot(&other);
    let won = branch(&mut chain, mined[0].block_hash(), 3, &[]);
    let mut api = Api::of_chain(&chain);

    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
    let stop = StopFlag::new();
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth)).unwrap().with_stop(stop.clone());
    let document = format!("subscription {{ event: chainEvents(after: {cursor}) {{ {BLOCKS} }} }}");
    let mut stream = api.schema.execute_stream(Request::new(document), None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let moment = Duration::from_millis(100);
    runtime.block_on(async { tokio::time::timeout(moment, stream.next()).await }).unwrap_err();
    assert_eq!(api.requested_blocks(), [mined[2].block_hash()], "it is searched on the node's branches");
    let events: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| api.keep_following(&node));
        let events = (0..5).map(|_| response_json(runtime.block_on(stream.next()).unwrap())).collect();
        stop.raise();
        events
    });
    let event = |kind: &str, block: &Block| {
        let block = json!({ "hash": block.block_hash().to_string(), "txCount": 1 });
        json!({ "data": { "event": { "__typename": kind, "block": block } } })
    };
    let left = mined[1..].iter().rev().map(|block| event("BlockDisconnected", block));
    let joined = won.iter().map(|block| event("BlockConnected", block));
    assert_eq!(events, left.chain(joined).collect::<Vec<_>>());
}

#[test]
fn the_numbers_of_a_resumed_stream_go_on() {
    let (mut chain, coins) = chain_with_coins(3);
    let mut api = Api::of_chain(&chain);
    let (cursor, _) = snapshot(&api);
    for coin in coins {
        let payment = to_shop(coin, 1_000);
        api.arrive([&payment]);
        api.connect(&chain.mine(vec![payment]).unwrap());
    }
    let document = |stream: &str, after: &str| match stream {
        "ledgerEvents" => ledger_events(&format!("after: {after}"), "seq cursor"),
        stream => format!("{stream}(after: {after}) {{ seq cursor }}"),
    };
    for stream in ["chainEvents", "mempoolEvents", "ledgerEvents"] {
        let all = events(&api, &document(stream, &cursor));
        let count = u64::try_from(all.len()).unwrap();
        assert!(count >= 3, "{stream}: {all:?}");
        let numbers: Vec<_> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "{stream}");
        // the rest, with its numbers and its cursors
        assert_eq!(events(&api, &document(stream, &all[1]["cursor"].to_string())), all[2..], "{stream}");
    }
}

#[test]
fn a_client_that_resumes_within_a_gap_goes_on_there() {
    let (mut chain, coins) = chain_with_coins(4);
    let (cursor, _) = snapshot(&Api::of_chain(&chain));
    // another run of the server, with another mempool
    let mut api = Api::of_chain(&chain);
    let [leaves, waits, mined, late] = [0, 1, 2, 3].map(|coin| to_shop(coins[coin], 1_000));
    api.arrive([&leaves, &waits, &mined]);
    let behind = |api: &Api, cursor: &str| {
        let fields = "seq kind cursor entry { transaction { txid } }";
        events(api, &ledger_events(&format!("after: {cursor}"), fields))
    };
    let short = |events: &[Value]| -> Vec<Value> {
        events.iter().map(|event| json!([event["seq"], event["kind"], event["entry"]["transaction"]["txid"]])).collect()
    };
    let of = |seq: u64, kind: &str, transaction: &Transaction| json!([seq, kind, transaction.compute_txid()]);
    let whole = behind(&api, &cursor);
    let seen = [of(2, "SEEN", &leaves), of(3, "SEEN", &waits), of(4, "SEEN", &mined)];
    assert_eq!(short(&whole), [&[json!([1, "GAP", null])], &seen[..], &[json!([5, "GAP_END", null])]].concat());
    for (number, event) in whole.iter().enumerate() {
        assert_eq!(behind(&api, &event["cursor"].to_string()), whole[number + 1..], "behind event {number}");
    }

    // what happens while it is away follows the gap
    api.depart(&leaves.compute_txid(), Departure::Expired);
    api.connect(&chain.mine(vec![mined.clone()]).unwrap());
    api.arrive([&late]);
    let within = whole[1]["cursor"].to_string();
    let expected = [
        of(3, "SEEN", &waits),
        json!([4, "GAP_END", null]),
        of(5, "EVICTED", &leaves),
        of(6, "CONFIRMED", &mined),
        of(7, "SEEN", &late),
    ];
    assert_eq!(short(&behind(&api, &within)), expected);
    // in yet another run the gap is another one
    let expected = [of(3, "CONFIRMED", &mined), json!([4, "GAP", null]), json!([5, "GAP_END", null])];
    assert_eq!(short(&behind(&Api::of_chain(&chain), &within)), expected);
}

#[test]
fn only_the_requested_kinds_are_sent_and_a_gap_always() {
    let (mut chain, coins) = chain_with_coins(2);
    let mut api = Api::of_chain(&chain);
    let (cursor, _) = snapshot(&api);
    let [confirmed, expired] = [to_shop(coins[0], 1_000), to_shop(coins[1], 2_000)];
    api.arrive([&confirmed, &expired]);
    api.connect(&chain.mine(vec![confirmed]).unwrap());
    api.depart(&expired.compute_txid(), Departure::Expired);
    let of_kinds = |kinds: &str, after: &str| {
        events(&api, &ledger_events(&format!("after: {after}, kinds: [{kinds}]"), "seq kind cursor"))
    };
    let kinds = |events: &[Value]| events.iter().map(|event| event["kind"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&of_kinds("SEEN, CONFIRMED, EVICTED", &cursor)), ["SEEN", "SEEN", "CONFIRMED", "EVICTED"]);
    let seen = of_kinds("SEEN", &cursor);
    assert_eq!(kinds(&seen), ["SEEN", "SEEN"]);
    // a cursor is good for other kinds, too
    let rest = of_kinds("CONFIRMED", &seen[1]["cursor"].to_string());
    assert_eq!((kinds(&rest), &rest[0]["seq"]), (vec![json!("CONFIRMED")], &json!(3)));

    // another server of the chain does not know what happened in the mempool of this one
    let other = Api::of_chain(&chain);
    let sent = events(&other, &ledger_events(&format!("after: {cursor}, kinds: [MATURED]"), "kind"));
    assert_eq!(kinds(&sent), ["GAP", "GAP_END"]);
    let refused = refusal(&other, &format!("mempoolEvents(after: {cursor}) {{ seq }}"));
    assert_eq!(refused["extensions"], json!({ "code": "CURSOR_EXPIRED", "argument": "after" }));

    let refused = refusal(&api, &ledger_events("kinds: []", "seq"));
    assert_eq!(refused["extensions"]["code"], json!("BAD_USER_INPUT"));
    assert_eq!(refused["message"], json!("kinds is empty: give at least one kind, or leave it out for all"));
}
