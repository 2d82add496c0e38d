//! An index and a mempool that follow a node. Each state that they publish is checked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bitcoin::{Amount, BlockHash, Txid};
use btcgraph::index::{Index, IndexOptions};
use btcgraph::live::Live;
use btcgraph::mempool::{MempoolLimits, MempoolSnapshot};
use btcgraph::node::{Auth, Node, NodeOptions, Signals, StopFlag};
use btcgraph::sim::{SimNode, World};
use btcgraph::sync::{Follow, FreezeBounds, PersistentMempool, SyncError, Until, Wake, run};
use btcgraph::view::{Head, Published};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::check::check_each;
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::following;
use crate::support::indexed::{in_memory, options};

/// How long a test waits before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// An index and a mempool that follow a node on a thread of their own.
pub(crate) struct Following {
    pub(crate) published: Published,
    pub(crate) live: Live,
    pub(crate) wake: Wake,
    stop: StopFlag,
    thread: Option<JoinHandle<Result<(), SyncError>>>,
    checking: Option<JoinHandle<usize>>,
}

/// How a node is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Whether its signals are received.
    pub(crate) listening: bool,
    pub(crate) poll: Duration,
    /// How long it may be unreachable before following it is interrupted.
    pub(crate) patience: Duration,
    pub(crate) stale_blocks_kept: u64,
    /// How many events and departures of its mempool are kept.
    pub(crate) remembered: MempoolLimits,
    pub(crate) cache_bytes: usize,
    /// Which blocks are imported in bulk and frozen; `None` if all are live.
    pub(crate) freezes: Option<FreezeBounds>,
}

impl Default for How {
    fn default() -> Self {
        let poll = Duration::from_millis(100);
        let (patience, remembered) = (Duration::from_mins(1), MempoolLimits::default());
        let (stale_blocks_kept, cache_bytes, freezes) = (1_000, 64 << 20, None);
        Self { listening: true, poll, patience, stale_blocks_kept, remembered, cache_bytes, freezes }
    }
}

impl Following {
    pub(crate) fn start(url: String, auth: Auth, how: How) -> Self {
        Self::start_within(Arc::new(in_memory()), url, auth, how)
    }

    /// With the index in this directory, new or as it was left there.
    pub(crate) fn within(directory: &Arc<TempDir>, sim: &SimNode) -> Self {
        Self::within_with_options(directory, sim, How::default())
    }

    pub(crate) fn within_with_options(directory: &Arc<TempDir>, sim: &SimNode, how: How) -> Self {
        Self::start_within(Arc::clone(directory), sim.url(), password(), how)
    }

    fn start_within(directory: Arc<TempDir>, url: String, auth: Auth, how: How) -> Self {
        let stop = StopFlag::new();
        let mut settings = NodeOptions::new(bitcoin::Network::Regtest, url, auth);
        settings.stop = stop.clone();
        settings.retry.patience = how.patience;
        let node = Node::connect(settings).unwrap();
        let (published, live, wake) = (Published::default(), Live::default(), Wake::default());
        // a mempool that keeps few events cannot be checked against all events that it published
        let checking = (how.remembered == MempoolLimits::default()).then(|| {
            let events = live.subscribe();
            // enough for every reorganisation in these tests
            thread::spawn(move || check_each(events, how.stale_blocks_kept >= 100))
        });
        let thread = thread::spawn({
            let (published, stop, live, wake) = (published.clone(), stop.clone(), live.clone(), wake.clone());
            move || {
                let How { stale_blocks_kept, cache_bytes, remembered, .. } = how;
                let options = IndexOptions { stale_blocks_kept, cache_bytes, ..options(directory.path()) };
                let mut index = Index::open(&options).unwrap();
                let mut mempool = PersistentMempool::load(&index, remembered).unwrap();
                let woken = wake.clone();
                let endpoint = node.signal_endpoint().unwrap().filter(|_| how.listening);
                let signals =
                    endpoint.map(|endpoint| Signals::start(&endpoint, 10_000, &stop, move || woken.wake()).unwrap());
                // the last states are checked when following has ended, and their frozen blocks are read from the node then
                let unstopped = node.with_stop(StopFlag::new());
                let freezing =
                    how.freezes.map(|bounds| following::freezing(&index, &unstopped, directory.path(), bounds));
                run(Follow {
                    mempool: Some(&mut mempool),
                    signals: signals.as_ref(),
                    until: Until::Stopped,
                    poll: how.poll,
                    freezing,
                    ..following::follow(&node, &mut index, &published, &live, &wake)
                })
            }
        });
        Self { published, live, wake, stop, thread: Some(thread), checking }
    }

    pub(crate) fn of_simulated(sim: &SimNode, listening: bool) -> Self {
        Self::with_options(sim, How { listening, ..How::default() })
    }

    pub(crate) fn with_options(sim: &SimNode, how: How) -> Self {
        Self::start(sim.url(), password(), how)
    }

    /// The published state.
    pub(crate) fn head(&self) -> Arc<Head> {
        self.published.head().expect("something is published")
    }

    pub(crate) fn is_mempool_in_sync(&self) -> bool {
        self.published.state().mempool_in_sync
    }

    /// Waits until the published tip and mempool equal those of the node, transaction by transaction.
    #[track_caller]
    pub(crate) fn assert_catches_up(&self, node: &impl ReportsMempool) -> Arc<Head> {
        let reported = || (node.tip(), node.mempool());
        wait_for("the mempool to be the node's", PATIENCE, || {
            let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!ended, "following has ended");
            let (tip, expected) = reported();
            let head = self.published.head().filter(|head| head.tip.hash == tip)?;
            (found(&head.mempool) == expected && reported() == (tip, expected)).then_some(head)
        })
    }

    /// Stops following, and returns how many states were checked.
    pub(crate) fn stop(self) -> usize {
        let Self { stop, mut thread, mut checking, live, .. } = self;
        stop.raise();
        thread.take().unwrap().join().unwrap().unwrap();
        drop(live);
        checking.take().map_or(0, |checking| checking.join().unwrap())
    }
}

/// The credentials that a simulated node expects.
pub(super) fn password() -> Auth {
    Auth::UserPassword { user: "user".into(), password: "password".into() }
}

/// (txid, fee in sat, weight)
pub(crate) type Known = BTreeSet<(Txid, u64, u64)>;

/// What a node reports about itself.
pub(crate) trait ReportsMempool {
    fn tip(&self) -> BlockHash;
    fn mempool(&self) -> Known;
}

impl ReportsMempool for SimNode {
    fn tip(&self) -> BlockHash {
        self.with(|world| world.chain().tip()).unwrap()
    }

    fn mempool(&self) -> Known {
        let of = |world: &mut World| {
            let entries = world.mempool().entries();
            entries.map(|entry| (entry.txid, entry.fee.to_sat(), entry.tx.weight().to_wu())).collect()
        };
        self.with(of).unwrap()
    }
}

impl ReportsMempool for RealNode {
    fn tip(&self) -> BlockHash {
        serde_json::from_value(self.must("getbestblockhash", &[])).unwrap()
    }

    fn mempool(&self) -> Known {
        let listed = self.must("getrawmempool", &[json!(true)]);
        let entry = |(txid, entry): (&String, &Value)| {
            let fee = Amount::from_btc(entry["fees"]["base"].as_f64().unwrap()).unwrap();
            (txid.parse().unwrap(), fee.to_sat(), entry["weight"].as_u64().unwrap())
        };
        listed.as_object().unwrap().iter().map(entry).collect()
    }
}

fn found(mempool: &MempoolSnapshot) -> Known {
    mempool.by_arrival(..).map(|entry| (entry.txid, entry.fee, entry.weight)).collect()
}
