//! Subscribers who watch scripts and were away for longer than is remembered: over restarts of the server, and with one
//! that remembers little. What they are told leads to what is there all the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

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

/// For so long nothing is told, so that nothing more comes.
const QUIET: Duration = Duration::from_millis(400);

/// A client that keeps what is in the chain and what waits.
#[derive(Default)]
struct Client {
    known: Known,
    cursor: Option<Value>,
    /// Whether it was told of a gap, and not yet that it is over.
    within_gap: bool,
    kinds: BTreeSet<String>,
    gaps: usize,
    /// What can be told to leave and was not told to wait.
    unheard: bool,
}

impl Client {
    fn hear(&mut self, event: &Value) {
        let (confirmed, waiting) = &mut self.known;
        let txid = event["entry"]["transaction"]["txid"].as_str().map(str::to_owned);
        let kind = event["kind"].as_str().unwrap();
        match (kind, txid) {
            ("SEEN", Some(txid)) => {
                assert!(!confirmed.contains(&txid), "{event}: it is confirmed");
                assert!(waiting.insert(txid), "{event}: it was there");
            }
            ("REPLACED" | "EVICTED", Some(txid)) => {
                assert!(!self.within_gap, "{event}: not all that waits was told yet");
                let was_there = waiting.remove(&txid);
                let is_correction = event["isCorrection"] == true;
                assert!(was_there != is_correction || self.unheard, "{event}: whether it was there");
            }
            ("CONFIRMED", Some(txid)) => {
                waiting.remove(&txid);
                assert!(confirmed.insert(txid), "{event}: it was confirmed");
            }
            ("UNCONFIRMED_BY_REORG", Some(txid)) => assert!(confirmed.remove(&txid), "{event}: it was not confirmed"),
            ("DEPTH_REACHED" | "MATURED", Some(txid)) => assert!(confirmed.contains(&txid), "{event}"),
            ("GAP", None) => {
                waiting.clear();
                (self.within_gap, self.unheard, self.gaps) = (true, true, self.gaps + 1);
            }
            ("GAP_END", None) => assert!(std::mem::take(&mut self.within_gap), "there was no gap"),
            _ => panic!("{event}"),
        }
        self.kinds.insert(kind.to_owned());
        self.cursor = Some(event["cursor"].clone());
    }

    /// Listens until it has heard `most` events or is told nothing for a while.
    async fn listen(&mut self, schema: &Schema, scripts: &[ScriptBuf], most: usize) {
        let hexes: Vec<_> = scripts.iter().map(|script| script.to_hex_string()).collect();
        let variables = json!({ "watch": { "scripts": hexes }, "after": self.cursor });
        let request = Request::new(DOCUMENT).variables(Variables::from_json(variables));
        let mut events = schema.execute_stream(request, None);
        for _ in 0..most {
            let Ok(Some(response)) = tokio::time::timeout(QUIET, events.next()).await else { return };
            assert!(response.errors.is_empty(), "{:?}", response.errors);
            self.hear(&response.data.into_json().unwrap()["ledgerEvents"]);
        }
    }
}

/// A life in which the server is started anew now and then, or not, and one client comes and goes: how often it was told
/// of a gap.
async fn comes_and_goes(seed: u64, remembered: MempoolLimits, restarts: bool) -> usize {
    let scripts = scripts(seed);
    let (mut life, sim) = start(Profile::Hostile, seed);
    let directory = Arc::new(in_memory());
    let how = How { remembered, ..How::default() };
    let begin = || {
        let following = Following::within_as_said(&directory, &sim, how);
        let events = following.live.clone();
        let schema = api::schema(following.published.clone(), events, Limits::default(), api::Features::default());
        (following, schema)
    };
    let (mut following, mut schema) = tokio::task::block_in_place(begin);
    let head = tokio::task::block_in_place(|| following.assert_catches_up(&sim));
    let mut client = Client { known: known(&head, &scripts), ..Client::default() };
    drop(head);
    for round in 0..12 {
        // the first time from the beginning, so that it has a cursor
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
            // many a time it leaves while it is being told
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
    client.listen(&schema, &scripts, usize::MAX).await;
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
        assert!(comes_and_goes(seed, MempoolLimits::default(), true).await >= 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resuming_after_a_gap_ends_in_the_present_state() {
    let little = MempoolLimits { departed: 3, departed_bytes: 500, events: 12 };
    assert!(comes_and_goes(7, little, false).await >= 3);
    // of each transaction that left the name and the fee
    let names = MempoolLimits { departed_bytes: 0, ..MempoolLimits::default() };
    assert!(comes_and_goes(8, names, false).await >= 1);
}
