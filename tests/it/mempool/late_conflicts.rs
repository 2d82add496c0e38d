//! Departures that the node announces long before the transaction that caused them: the reason is UNKNOWN until it
//! arrives, and is corrected everywhere then.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::futures_util::stream::BoxStream;
use async_graphql::{Executor, Request, Response};
use bitcoin::consensus::serialize;
use bitcoin::{Transaction, Txid};
use btcgraph::index::Index;
use btcgraph::mempool::{Departed, Departure, MempoolEventKind, MempoolLimits};
use btcgraph::sim::{Mining, SimNode, Spendable};
use btcgraph::sync::PersistentMempool;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::following::{Following, How, PATIENCE};
use super::journal::{ask, next, schema, subscribe};
use super::reasons::wait_for_silence;
use super::simulated::{owner, pay, pay_on, quiet, send};
use crate::support::bitcoind::wait_for;
use crate::support::indexed::{in_memory, options};

/// Follows the messages of the node, and polls for blocks.
fn following(directory: &Arc<TempDir>, sim: &SimNode) -> Following {
    Following::within_with_options(directory, sim, How { poll: Duration::from_millis(500), ..How::default() })
}

/// Two payments, the second of which spends the first.
fn family(sim: &SimNode, coin: &Spendable) -> [Txid; 2] {
    let parent = pay(coin, 5);
    [send(sim, &parent), send(sim, &pay_on(&parent, 5))]
}

fn departure(following: &Following, txid: &Txid) -> Option<Departure> {
    following.head().mempool.departed(txid).map(|departed| departed.departure)
}

/// Sends the node a replacement. The node announces these removals, and withholds the arrival of the replacement.
fn replace_in_silence(sim: &SimNode, following: &Following, left: &[Txid], replacement: &Transaction) -> Txid {
    sim.buffer_messages_after(u32::try_from(left.len()).unwrap());
    let by = send(sim, replacement);
    for txid in left {
        let departure = wait_for("the departure", PATIENCE, || departure(following, txid));
        assert_eq!(departure, Departure::Unknown, "the replacement is not announced");
    }
    by
}

fn kept(directory: &Arc<TempDir>, txid: &Txid) -> Departed {
    let index = Index::open(&options(directory.path())).unwrap();
    let kept = PersistentMempool::load(&index, MempoolLimits::default()).unwrap().snapshot();
    Departed::clone(kept.departed(txid).unwrap())
}

/// The next events.
async fn take(stream: &mut BoxStream<'static, Response>, count: usize) -> Vec<Value> {
    let mut received = Vec::new();
    for _ in 0..count {
        let event = next(stream).await;
        received.push(event.as_object().unwrap().values().next().unwrap().clone());
    }
    received
}

/// Compares events without their cursors and in any order: the node chooses which departure it announces first.
#[track_caller]
fn assert_events(received: &[Value], expected: impl IntoIterator<Item = Value>) {
    let without_cursor = |event: &Value| {
        let mut event = event.clone();
        event.as_object_mut().unwrap().remove("cursor");
        event
    };
    let sorted = |mut events: Vec<Value>| {
        events.sort_by_key(Value::to_string);
        events
    };
    assert_eq!(sorted(received.iter().map(without_cursor).collect()), sorted(expected.into_iter().collect()));
}

/// The argument that resumes after the last of these events.
fn after_last(received: &[Value]) -> String {
    format!("after: {}", received.last().unwrap()["cursor"])
}

fn mempool_events(arguments: &str) -> String {
    // an empty pair of brackets is not valid GraphQL
    let arguments = if arguments.is_empty() { String::new() } else { format!("({arguments})") };
    format!(
        "subscription {{ mempoolEvents{arguments} {{
            ... on TransactionAdded {{ cursor txid }}
            ... on TransactionRemoved {{ cursor txid reason replacedByTxid isCorrection }}
        }} }}"
    )
}

fn ledger_events(arguments: &str) -> String {
    let script = owner().script_pubkey().to_hex_string();
    format!(
        "subscription {{ ledgerEvents(watch: {{ scripts: [\"{script}\"] }} {arguments}) {{
            cursor kind reason replacedByTxid isCorrection entry {{ transaction {{ txid }} }}
        }} }}"
    )
}

fn removed(txid: &Txid, reason: &str, by: Option<&Txid>, is_correction: bool) -> Value {
    let by = by.map(Txid::to_string);
    json!({ "txid": txid.to_string(), "reason": reason, "replacedByTxid": by, "isCorrection": is_correction })
}

fn in_ledger(kind: &str, txid: &Txid, reason: Option<&str>, by: Option<&Txid>, is_correction: bool) -> Value {
    let (by, entry) = (by.map(Txid::to_string), json!({ "transaction": { "txid": txid.to_string() } }));
    json!({ "kind": kind, "reason": reason, "replacedByTxid": by, "isCorrection": is_correction, "entry": entry })
}

fn status(txid: &Txid, state: &str, by: Option<&Txid>) -> Value {
    json!({ "txid": txid.to_string(), "state": state, "replacedByTxid": by.map(Txid::to_string) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_replacement_corrects_every_announcement() {
    let (sim, coins) = quiet();
    let following = following(&Arc::new(in_memory()), &sim);
    wait_for_silence(&sim, &following);
    let left = family(&sim, &coins[0]);
    following.assert_catches_up(&sim);
    let schema = schema(&following);
    let mut events = subscribe(&schema, &mempool_events(""));
    let mut ledger = subscribe(&schema, &ledger_events(""));
    let txids = left.map(|txid| format!("\"{txid}\"")).join(", ");
    let watch = format!("subscription {{ transactionStatus(txids: [{txids}]) {{ txid state replacedByTxid }} }}");
    let mut states = schema.execute_stream(Request::new(watch), None);
    assert_events(&take(&mut states, 2).await, left.map(|txid| status(&txid, "MEMPOOL", None)));

    let by = replace_in_silence(&sim, &following, &left, &pay(&coins[0], 50));
    let before = take(&mut events, 2).await;
    assert_events(&before, left.map(|txid| removed(&txid, "UNKNOWN", None, false)));
    let before_in_ledger = take(&mut ledger, 2).await;
    assert_events(&before_in_ledger, left.map(|txid| in_ledger("EVICTED", &txid, Some("UNKNOWN"), None, false)));
    assert_events(&take(&mut states, 2).await, left.map(|txid| status(&txid, "EVICTED", None)));

    sim.release_messages();
    following.assert_catches_up(&sim);
    let corrections = left.map(|txid| removed(&txid, "REPLACED", Some(&by), true));
    let expected = || corrections.iter().cloned().chain([json!({ "txid": by.to_string() })]);
    let received = take(&mut events, 3).await;
    assert_events(&received, expected());
    assert_eq!(received[2]["txid"], json!(by.to_string()), "corrections precede the arrival that explains them");
    let corrections = left.map(|txid| in_ledger("REPLACED", &txid, Some("REPLACED"), Some(&by), true));
    let expected_in_ledger = || corrections.iter().cloned().chain([in_ledger("SEEN", &by, None, None, false)]);
    let received_in_ledger = take(&mut ledger, 3).await;
    assert_events(&received_in_ledger, expected_in_ledger());
    assert_eq!(received_in_ledger[2]["kind"], json!("SEEN"));
    assert_events(&take(&mut states, 2).await, left.map(|txid| status(&txid, "REPLACED", Some(&by))));

    // a subscriber that resumes before the corrections receives the same events
    events = schema.execute_stream(Request::new(mempool_events(&after_last(&before))), None);
    assert_eq!(take(&mut events, 3).await, received);
    ledger = schema.execute_stream(Request::new(ledger_events(&after_last(&before_in_ledger))), None);
    assert_eq!(take(&mut ledger, 3).await, received_in_ledger);

    let fields = "txid state replacedBy { txid } conflicts rbfTree { txid replacedNodes { txid } }";
    let asked = format!(
        "{{ transactionsByTxid(txids: [{txids}, \"{by}\"]) {{ {fields} }} mempool {{ replacements {{ nodes {{ txid }} }} }} }}"
    );
    let [first, above, by] = [left[0], left[1], by].map(|txid| json!(txid.to_string()));
    let tree = json!({ "txid": by, "replacedNodes": [{ "txid": first }] });
    let expected = json!([
        { "txid": first, "state": "REPLACED", "replacedBy": { "txid": by }, "conflicts": [by], "rbfTree": tree },
        { "txid": above, "state": "REPLACED", "replacedBy": null, "conflicts": [], "rbfTree": null },
        { "txid": by, "state": "MEMPOOL", "replacedBy": null, "conflicts": [first], "rbfTree": tree },
    ]);
    let expected =
        json!({ "transactionsByTxid": expected, "mempool": { "replacements": { "nodes": [{ "txid": by }] } } });
    assert_eq!(ask(&schema, asked).await, expected);
    drop((schema, events, ledger, states));
    following.stop();
}

#[test]
fn a_departure_of_an_earlier_run_is_corrected_for_good() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let first = following(&directory, &sim);
    wait_for_silence(&sim, &first);
    let left = family(&sim, &coins[0]);
    first.assert_catches_up(&sim);
    let by = replace_in_silence(&sim, &first, &left, &pay(&coins[0], 50));
    first.stop();
    let unexplained = left.map(|txid| kept(&directory, &txid));
    assert!(unexplained.iter().all(|departed| departed.departure == Departure::Unknown));

    sim.release_messages();
    let second = following(&directory, &sim);
    second.assert_catches_up(&sim);
    let replaced = Some(Departure::Replaced { by });
    assert_eq!(left.map(|txid| departure(&second, &txid)), [replaced; 2]);
    second.stop();
    let corrected = left.map(|txid| kept(&directory, &txid));
    for (departed, before) in corrected.iter().zip(&unexplained) {
        assert_eq!(Some(departed.departure), replaced);
        assert_eq!((&departed.entry, departed.at), (&before.entry, before.at), "only the reason is corrected");
    }
    assert_eq!(corrected.map(|departed| departed.replaced_by()), [Some(by), None]);
}

#[test]
fn a_conflict_seen_only_in_a_block_corrects_the_reason() {
    let (sim, coins) = quiet();
    let following = following(&Arc::new(in_memory()), &sim);
    wait_for_silence(&sim, &following);
    let left = family(&sim, &coins[0]);
    following.assert_catches_up(&sim);
    let conflict = pay(&coins[0], 50);
    let by = replace_in_silence(&sim, &following, &left, &conflict);
    let mined = sim.with(|world| world.mine_exactly(vec![conflict], Mining::default())).unwrap().unwrap();
    following.assert_catches_up(&sim);
    let conflicted = Some(Departure::Conflicted { by, block: mined.block_hash() });
    assert_eq!(left.map(|txid| departure(&following, &txid)), [conflicted; 2]);
    following.stop();
}

#[test]
fn a_conflict_imported_between_two_runs_corrects_the_reason() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let first = following(&directory, &sim);
    wait_for_silence(&sim, &first);
    let left = family(&sim, &coins[0]);
    first.assert_catches_up(&sim);
    let conflict = pay(&coins[0], 50);
    let by = replace_in_silence(&sim, &first, &left, &conflict);
    first.stop();
    let mined = sim.with(|world| world.mine_exactly(vec![conflict], Mining::default())).unwrap().unwrap();
    let mut index = Index::open(&options(directory.path())).unwrap();
    let block = index.parser().parse(mined.block_hash(), serialize(&*mined)).unwrap();
    let mut update = index.update().unwrap();
    update.connect(&[block]).unwrap();
    update.commit().unwrap();
    drop(index);

    sim.release_messages();
    let second = following(&directory, &sim);
    let head = second.assert_catches_up(&sim);
    let conflicted = Departure::Conflicted { by, block: mined.block_hash() };
    assert_eq!(left.map(|txid| departure(&second, &txid)), [Some(conflicted); 2]);
    let events: Vec<_> = head.mempool.events_after(0).unwrap().map(|event| event.kind).collect();
    assert_eq!(events, left.map(|txid| MempoolEventKind::Corrected { txid, departure: conflicted }));
    second.stop();
    assert_eq!(left.map(|txid| kept(&directory, &txid).departure), [conflicted; 2]);
}
