//! Subscribers that watch scripts through everything that can happen to a chain and a mempool: those that reconnect
//! receive the same events in the same order as one that does not, and the events lead to the present state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Block, ScriptBuf};
use btcgraph::api;
use btcgraph::limits::Limits;
use btcgraph::sim::{Life, Mining, Profile, SimChain};
use btcgraph::view::{Head, View};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::following::Following;
use super::simulated::{live, start};
use super::streams::{listening, read_all};

const SEED: u64 = 23;
pub(super) const DOCUMENT: &str = "subscription ($watch: LedgerInput!, $after: String) {
    ledgerEvents(watch: $watch, after: $after, depths: [1, 2, 4]) {
        cursor kind depth reason replacedByTxid isCorrection entry { net received spent touched transaction { txid } }
    }
}";

/// The scripts that receive most outputs in a life, and the script of the miners.
pub(crate) fn scripts(seed: u64) -> Vec<ScriptBuf> {
    let (mut life, mut world) = Life::start(Profile::Hostile, seed, 1_800_000_000).unwrap();
    let mut paid: BTreeMap<ScriptBuf, usize> = BTreeMap::new();
    for _ in 0..400 {
        life.next(&mut world).unwrap();
    }
    for output in world.chain().active_blocks().flat_map(|block| &block.txdata).flat_map(|tx| &tx.output) {
        *paid.entry(output.script_pubkey.clone()).or_default() += 1;
    }
    let mut scripts: Vec<_> = paid.into_iter().filter(|(script, _)| !script.is_op_return()).collect();
    scripts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    scripts.truncate(60);
    let mut scripts: Vec<_> = scripts.into_iter().map(|(script, _)| script).collect();
    scripts.push(SimChain::miner().script_pubkey());
    scripts
}

/// The transactions of a ledger in a state: (in the chain, in the mempool).
pub(super) type Known = (BTreeSet<String>, BTreeSet<String>);

pub(super) fn known(head: &Arc<Head>, scripts: &[ScriptBuf]) -> Known {
    let view = View::new(Arc::clone(head));
    let ledger = view.ledger(scripts.iter().map(|script| sha256::Hash::hash(script.as_bytes())));
    let all = view.txnums(0.into()..view.tip().height.next()).unwrap();
    let movements = view.movements(&ledger, &all, true).unwrap();
    let confirmed = movements.map(|movement| view.txid_at(movement.unwrap().txnum).unwrap().to_string()).collect();
    let waiting = view.arrivals(&ledger, &(0..u64::MAX), true).map(|entry| entry.txid.to_string()).collect();
    (confirmed, waiting)
}

/// The state after these events. Each event must be possible in the state before it.
fn applied((mut confirmed, mut waiting): Known, events: &[Value]) -> Known {
    for event in events {
        let txid = event["entry"]["transaction"]["txid"].as_str().unwrap().to_owned();
        match event["kind"].as_str().unwrap() {
            "SEEN" => {
                assert!(!confirmed.contains(&txid), "{event}: it is confirmed already");
                assert!(waiting.insert(txid), "{event}: it is in the mempool already");
            }
            "REPLACED" | "CONFLICTED" | "REORGED_OUT" | "EVICTED" => {
                assert_eq!(
                    waiting.remove(&txid),
                    event["isCorrection"] == false,
                    "{event}: only a correction is about a transaction that left before"
                );
            }
            "CONFIRMED" => {
                waiting.remove(&txid);
                assert!(confirmed.insert(txid), "{event}: it is confirmed already");
            }
            "UNCONFIRMED_BY_REORG" => assert!(confirmed.remove(&txid), "{event}: it is not confirmed"),
            "DEPTH_REACHED" | "MATURED" => assert!(confirmed.contains(&txid), "{event}: it is not confirmed"),
            kind => panic!("{kind}"),
        }
    }
    (confirmed, waiting)
}

/// The events up to the one that confirms the coinbase with this txid. Events about greater depths follow it.
fn up_to<'e>(received: &'e [Value], coinbase: &Value) -> Option<&'e [Value]> {
    let confirms = |event: &Value| event["kind"] == "CONFIRMED" && &event["entry"]["transaction"]["txid"] == coinbase;
    Some(&received[..=received.iter().rposition(confirms)?])
}

/// Mines two blocks that end a life, and returns the second, which contains only its coinbase.
pub(crate) fn last_block(sim: &btcgraph::sim::SimNode) -> Arc<Block> {
    sim.with(|world| {
        world.mine(Mining::default()).unwrap();
        world.mine_exactly(Vec::new(), Mining::default()).unwrap()
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_stream_is_the_same_however_often_it_reconnects() {
    let scripts = scripts(SEED);
    let (mut life, sim) = start(Profile::Hostile, SEED);
    let following = Following::of_simulated(&sim, true);
    let first = following.assert_catches_up(&sim);
    let schema =
        api::schema(following.published.clone(), following.live.clone(), Limits::default(), api::Features::default());
    let from = known(&first, &scripts);
    drop(first);
    let (done, end) = watch::channel(None);
    let hexes: Vec<_> = scripts.iter().map(|script| script.to_hex_string()).collect();
    let readers = [usize::MAX, 3, 11, 60].map(|patience| {
        let (schema, end) = (schema.clone(), end.clone());
        let variables = json!({ "watch": { "scripts": hexes } });
        tokio::spawn(async move {
            let is_all = |received: &[Value], (_, coinbase): &(u64, Value)| up_to(received, coinbase).is_some();
            read_all(&schema, DOCUMENT, variables, patience, end, is_all).await
        })
    });
    while listening(&schema).await < readers.len() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (last, coinbase) = tokio::task::block_in_place(|| {
        for burst in 0..45 {
            live(&mut life, &sim, 1 + burst % 5);
            following.assert_catches_up(&sim);
        }
        let coinbase = last_block(&sim).txdata[0].compute_txid().to_string();
        (following.assert_catches_up(&sim), coinbase)
    });
    done.send(Some((0, json!(coinbase)))).unwrap();
    let mut streams = Vec::new();
    for reader in readers {
        streams.push(up_to(&reader.await.unwrap(), &json!(coinbase)).unwrap().to_vec());
    }
    let without_cursors = |events: &[Value]| {
        let mut events = events.to_vec();
        for event in &mut events {
            event.as_object_mut().unwrap().remove("cursor");
        }
        events
    };
    let kinds: BTreeSet<_> = streams[0].iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert!(kinds.len() >= 6, "only {kinds:?} in {} events", streams[0].len());
    assert_eq!(applied(from, &streams[0]), known(&last, &scripts));
    let expected = without_cursors(&streams[0]);
    for (reader, other) in streams.iter().enumerate().skip(1) {
        let other = without_cursors(other);
        for (number, (one, other)) in expected.iter().zip(&other).enumerate() {
            assert_eq!(one, other, "event {number} of reader {reader}");
        }
        assert_eq!(expected.len(), other.len());
    }
    tokio::task::block_in_place(|| {
        drop(schema);
        following.stop()
    });
}
