//! An index and a mempool that follow a node, each of whose states is checked.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bitcoin::{Amount, BlockHash, Txid};
use btcgraph::live::Live;
use btcgraph::mempool::{Mempool, MempoolSnapshot};
use btcgraph::node::{Auth, Node, NodeSettings, Signals, StopFlag};
use btcgraph::sim::{SimNode, World};
use btcgraph::sync::{Follow, SyncError, Until, Wake, run};
use btcgraph::view::{Head, Published};
use serde_json::{Value, json};

use super::check::check_each;
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::indexed::Indexed;

/// How long anything may take before it counts as lost.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// An index and a mempool that follow a node on a thread of their own.
pub(super) struct Following {
    pub(super) published: Published,
    pub(super) live: Live,
    stop: StopFlag,
    thread: Option<JoinHandle<Result<(), SyncError>>>,
    checking: Option<JoinHandle<usize>>,
}

impl Following {
    pub(super) fn start(url: String, auth: Auth, listening: bool) -> Self {
        let stop = StopFlag::new();
        let mut settings = NodeSettings::new(bitcoin::Network::Regtest, url, auth);
        settings.stop = stop.clone();
        let node = Node::connect(settings).unwrap();
        let (published, live, wake) = (Published::default(), Live::default(), Wake::default());
        let checking = thread::spawn({
            let events = live.subscribe();
            move || check_each(events)
        });
        let thread = thread::spawn({
            let (published, stop, live) = (published.clone(), stop.clone(), live.clone());
            move || {
                let mut indexed = Indexed::within(crate::support::indexed::in_memory());
                let mut mempool = Mempool::default();
                let woken = wake.clone();
                let endpoint = node.signal_endpoint().unwrap().filter(|_| listening);
                let signals =
                    endpoint.map(|endpoint| Signals::start(&endpoint, 10_000, &stop, move || woken.wake()).unwrap());
                run(Follow {
                    node: &node,
                    index: &mut indexed.index,
                    published: &published,
                    live: &live,
                    mempool: Some(&mut mempool),
                    signals: signals.as_ref(),
                    until: Until::Stopped,
                    poll: Duration::from_millis(100),
                    wake: &wake,
                    connections: NonZeroUsize::MIN,
                    buffer_bytes: 64 << 20,
                })
            }
        });
        Self { published, live, stop, thread: Some(thread), checking: Some(checking) }
    }

    pub(super) fn of_simulated(sim: &SimNode, listening: bool) -> Self {
        Self::start(sim.url(), Auth::UserPassword { user: "user".into(), password: "password".into() }, listening)
    }

    /// Waits until what is published is the node's, transaction by transaction.
    #[track_caller]
    pub(super) fn assert_catches_up(&self, node: &impl Says) -> Arc<Head> {
        let said = || (node.tip(), node.mempool());
        wait_for("the mempool to be the node's", PATIENCE, || {
            let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
            assert!(!ended, "following has ended");
            let (tip, expected) = said();
            let head = self.published.head().filter(|head| head.tip.hash == tip)?;
            (found(&head.mempool) == expected && said() == (tip, expected)).then_some(head)
        })
    }

    /// Ends it, and tells how many states were checked.
    pub(super) fn stop(self) -> usize {
        let Self { stop, mut thread, mut checking, live, .. } = self;
        stop.raise();
        thread.take().unwrap().join().unwrap().unwrap();
        drop(live);
        checking.take().unwrap().join().unwrap()
    }
}

/// (txid, fee in sat, weight)
pub(super) type Known = BTreeSet<(Txid, u64, u64)>;

/// What a node says of itself.
pub(super) trait Says {
    fn tip(&self) -> BlockHash;
    fn mempool(&self) -> Known;
}

impl Says for SimNode {
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

impl Says for RealNode {
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
