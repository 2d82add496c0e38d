//! Subscribers that watch scripts and are disconnected for longer than events are kept: over restarts of the server,
//! and with a server that keeps few events. The events that they receive still lead to the present state.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_graphql::futures_util::StreamExt;
use async_graphql::{Executor, Request, Variables};
use bitcoin::ScriptBuf;
use btcgraph::api::{self, Schema};
use btcgraph::limits::Limits;
use btcgraph::mempool::MempoolLimits;
use btcgraph::sim::Profile;
use serde_json::{Value, json};

use super::following::{Following, How, PATIENCE};
use super::ledger_streams::{DOCUMENT, Known, known, scripts};
use super::simulated::{live, start};
use crate::support::indexed::in_memory;

/// After so long without an event, no more events are expected.
const QUIET: Duration = Duration::from_millis(400);

/// A client that keeps a list of the confirmed and of the unconfirmed transactions.
#[derive(Default)]
struct Client {
    known: Known,
    cursor: Option<Value>,
    /// Whether it received a `GAP` and no `GAP_END` yet.
    within_gap: bool,
    kinds: BTreeSet<String>,
    gaps: usize,
    /// Whether transactions may be removed whose arrival it did not receive, as after a gap.
    lacks_arrivals: bool,
}

impl Client {
    fn apply(&mut self, event: &Value) {
        let (confirmed, waiting) = &mut self.known;
        let txid = event["entry"]["transaction"]["txid"].as_str().map(str::to_owned);
        let kind = event["kind"].as_str().unwrap();
        match (kind, txid) {
            ("SEEN", Some(txid)) => {
                assert!(!confirmed.contains(&txid), "{event}: it is confirmed already");
                assert!(waiting.insert(txid), "{event}: it is in the mempool already");
            }
            ("REPLACED" | "CONFLICTED" | "REORGED_OUT" | "EVICTED", Some(txid)) => {
                assert!(!self.within_gap, "{event}: the gap is not over");
                let was_there = waiting.remove(&txid);
                let is_correction = event["isCorrection"] == true;
                assert!(
                    was_there != is_correction || self.lacks_arrivals,
                    "{event}: only a correction is about a transaction that left before"
                );
            }
            ("CONFIRMED", Some(txid)) => {
                waiting.remove(&txid);
                assert!(confirmed.insert(txid), "{event}: it is confirmed already");
            }
            ("UNCONFIRMED_BY_REORG", Some(txid)) => assert!(confirmed.remove(&txid), "{event}: it is not confirmed"),
            ("DEPTH_REACHED" | "MATURED", Some(txid)) => assert!(confirmed.contains(&txid), "{event}"),
            ("GAP", None) => {
                waiting.clear();
                (self.within_gap, self.lacks_arrivals, self.gaps) = (true, true, self.gaps + 1);
            }
            ("GAP_END", None) => assert!(std::mem::take(&mut self.within_gap), "GAP_END without a GAP"),
            _ => panic!("{event}"),
        }
        self.kinds.insert(kind.to_owned());
        self.cursor = Some(event["cursor"].clone());
    }

    /// Listens until it receives `most` events, or none for the time of `QUIET`.
    async fn listen(&mut self, schema: &Schema, scripts: &[ScriptBuf], most: usize) {
        let hexes: Vec<_> = scripts.iter().map(|script| script.to_hex_string()).collect();
        let variables = json!({ "watch": { "scripts": hexes }, "after": self.cursor });
        let request = Request::new(DOCUMENT).variables(Variables::from_json(variables));
        let mut events = schema.execute_stream(request, None);
        for _ in 0..most {
            let Ok(Some(response)) = tokio::time::timeout(QUIET, events.next()).await else { return };
            assert!(response.errors.is_empty(), "{:?}", response.errors);
            self.apply(&response.data.into_json().unwrap()["ledgerEvents"]);
        }
    }
}

/// Runs a life in which one client reconnects again and again and, with `restarts`, the server restarts now and then.
/// Returns how many gaps were reported to the client.
async fn reconnect_often(seed: u64, remembered: MempoolLimits, restarts: bool) -> usize {
    let scripts = scripts(seed);
    let (mut life, sim) = start(Profile::Hostile, seed);
    let directory = Arc::new(in_memory());
    let how = How { remembered, ..How::default() };
    let begin = || {
        let following = Following::within_with_options(&directory, &sim, how);
        let events = following.live.clone();
        let schema = api::schema(following.published.clone(), events, Limits::default(), api::Features::default());
        (following, schema)
    };
    let (mut following, mut schema) = tokio::task::block_in_place(begin);
    let head = tokio::task::block_in_place(|| following.assert_catches_up(&sim));
    let mut client = Client { known: known(&head, &scripts), ..Client::default() };
    drop(head);
    for round in 0..12 {
        // the first connection starts without a cursor and receives one
        if client.cursor.is_none() {
            let (mut first, schema, scripts) = (std::mem::take(&mut client), schema.clone(), scripts.clone());
            let listening = tokio::spawn(async move {
                first.listen(&schema, &scripts, usize::MAX).await;
                first
            });
            tokio::time::sleep(Duration::from_millis(50)).await;
            tokio::task::block_in_place(|| live(&mut life, &sim, 30));
            client = tokio::time::timeout(PATIENCE, listening).await.unwrap().unwrap();
        } else {
            // in most rounds it disconnects before it receives all events
            client.listen(&schema, &scripts, [3, usize::MAX, 40, 9][round % 4]).await;
        }
        tokio::task::block_in_place(|| live(&mut life, &sim, 25));
        if restarts && round % 3 != 1 {
            drop(schema);
            tokio::task::block_in_place(|| following.stop());
            tokio::task::block_in_place(|| live(&mut life, &sim, 20));
            (following, schema) = tokio::task::block_in_place(begin);
        }
        tokio::task::block_in_place(|| following.assert_catches_up(&sim));
    }
    let head = tokio::task::block_in_place(|| following.assert_catches_up(&sim));
    let listening_since = Instant::now();
    // on a busy machine the next event may come after the time of `QUIET`
    loop {
        client.listen(&schema, &scripts, usize::MAX).await;
        if client.known == known(&head, &scripts) || listening_since.elapsed() >= PATIENCE {
            break;
        }
    }
    assert!(!client.within_gap);
    assert_eq!(client.known, known(&head, &scripts), "seed {seed}");
    assert!(client.kinds.len() >= 5, "only {:?}", client.kinds);
    tokio::task::block_in_place(|| {
        drop((schema, head));
        following.stop()
    });
    client.gaps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resuming_at_a_restarted_server_ends_in_its_present_state() {
    for seed in [5, 6] {
        assert!(reconnect_often(seed, MempoolLimits::default(), true).await >= 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resuming_after_a_gap_ends_in_the_present_state() {
    let little = MempoolLimits { departed: 3, departed_bytes: 500, events: 12, ..MempoolLimits::default() };
    assert!(reconnect_often(7, little, false).await >= 3);
    // only the txid and the fee of each departed transaction are kept
    let only_txids = MempoolLimits { departed_bytes: 0, ..MempoolLimits::default() };
    assert!(reconnect_often(8, only_txids, false).await >= 1);
}
