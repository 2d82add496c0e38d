//! One state of chain and mempool, published as a unit.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use bitcoin::BlockHash;
use parking_lot::Mutex;

use super::node::{BoundedNode, NodeClient, NodeLimits};
use super::sync_state::{LONGEST_SILENCE, SyncRecord, SyncState, SyncStatus};
use super::tip_history::{TipChange, TipHistory};
use crate::index::{Snapshot, Tip};
use crate::mempool::MempoolSnapshot;
use crate::node::Node;

/// A committed state of a non-empty index, and the matching mempool: a transaction is never in both. It lives until the
/// next one is published and its last reader drops it.
pub struct Head {
    /// The chain.
    pub chain: Arc<Snapshot>,
    /// Its newest block.
    pub tip: Tip,
    /// The unconfirmed transactions.
    pub mempool: MempoolSnapshot,
    /// When it was published.
    pub taken_at: SystemTime,
    /// The changes of the tip that led to it.
    pub tip_history: TipHistory,
    /// A random number that identifies it among all Heads of all processes.
    pub id: u64,
}

impl Head {
    /// The first Head, of this state; `None` if there is no block yet.
    #[must_use]
    pub fn new(chain: Arc<Snapshot>, mempool: MempoolSnapshot) -> Option<Self> {
        let tip = chain.tip()?;
        Some(Self {
            chain,
            tip,
            mempool,
            taken_at: SystemTime::now(),
            tip_history: TipHistory::default(),
            id: random_u64(),
        })
    }

    /// The Head that follows `before`, of this state; `None` if there is no block yet.
    #[must_use]
    pub fn after(before: Option<&Self>, chain: Arc<Snapshot>, mempool: MempoolSnapshot) -> Option<Self> {
        let mut head = Self::new(chain, mempool)?;
        if let Some(before) = before {
            let (from, to) = (before.tip.hash, head.tip.hash);
            let change = TipChange { from, to, sequence: before.mempool.sequence() };
            head.tip_history = if from == to { before.tip_history.clone() } else { before.tip_history.with(change) };
        }
        Some(head)
    }
}

/// A random number, from the random keys that the standard library creates for each hash map.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The most blocks that are requested at a time. The node is asked for each of them once a second.
const MAX_BLOCK_REQUESTS: usize = 16;

/// The newest Head and state of synchronization: `sync` publishes them, everything else reads them. Cheap to clone; all
/// clones share one state.
#[derive(Clone)]
pub struct Published {
    head: Arc<ArcSwapOption<Head>>,
    sync: Arc<ArcSwap<SyncRecord>>,
    longest_silence: Duration,
    node: BoundedNode,
    /// Blocks that the index does not have and clients wait for, and until when.
    block_requests: Arc<Mutex<BTreeMap<BlockHash, Instant>>>,
}

impl Default for Published {
    fn default() -> Self {
        Self::with_node_limits(NodeLimits::default())
    }
}

impl Published {
    /// Creates it without a Head, with these limits on requests to the node.
    #[must_use]
    pub fn with_node_limits(limits: NodeLimits) -> Self {
        let (head, sync, node) = (Arc::default(), Arc::default(), BoundedNode::new(limits));
        Self { head, sync, longest_silence: LONGEST_SILENCE, node, block_requests: Arc::default() }
    }

    /// Sets the time for which the node's last report of its tip counts as current.
    #[must_use]
    pub fn with_longest_silence(self, longest_silence: Duration) -> Self {
        Self { longest_silence, ..self }
    }

    /// Replaces the Head for all later reads.
    pub fn publish(&self, head: Arc<Head>) {
        self.head.store(Some(head));
    }

    /// The newest Head, `None` before the first block is indexed, and while an announced block that a crash removed is
    /// awaited. Keep it for one request or one event.
    #[must_use]
    pub fn head(&self) -> Option<Arc<Head>> {
        self.head.load_full()
    }

    /// Changes the state of synchronization without a report of the node.
    pub fn change_state(&self, change: impl Fn(SyncState) -> SyncState) {
        self.sync.rcu(|record| record.with_state(change(record.last_state()), Instant::now()));
    }

    /// Changes the state of synchronization after a report of the node, made just now.
    pub fn report_node(&self, change: impl Fn(SyncState) -> SyncState) {
        self.sync.rcu(|record| record.with_report(change(record.last_state()), Instant::now()));
    }

    /// The time since the node's last report of its tip; `None` before its first report.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        self.sync.load().silence(Instant::now())
    }

    /// The time for which the node's last report of its tip counts as current. After it nothing is in sync.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        self.longest_silence
    }

    /// The state of synchronization now. After the longest silence it is as while the node is unreachable.
    #[must_use]
    pub fn state(&self) -> SyncState {
        self.sync.load().state_at(Instant::now(), self.longest_silence)
    }

    /// The state of synchronization and its age, from one record at one moment.
    #[must_use]
    pub fn status(&self) -> SyncStatus {
        self.sync.load().status_at(Instant::now(), self.longest_silence)
    }

    /// Whether the newest Head is in sync: its tip is the node's.
    #[must_use]
    pub fn is_in_sync(&self) -> bool {
        // in this order, or the state could be older than the Head
        self.head().is_some_and(|head| self.state().is_at(head.tip))
    }

    /// Requests a block that the index does not have, until this moment: the sync loop looks for it among the node's branches.
    /// Ignored while many others are requested.
    pub fn request_block(&self, hash: BlockHash, until: Instant) {
        let mut requests = self.block_requests.lock();
        if requests.len() < MAX_BLOCK_REQUESTS || requests.contains_key(&hash) {
            requests.insert(hash, until);
        }
    }

    /// The blocks that are requested now.
    #[must_use]
    pub fn requested_blocks(&self) -> Vec<BlockHash> {
        let (mut requests, now) = (self.block_requests.lock(), Instant::now());
        requests.retain(|_, until| *until > now);
        requests.keys().copied().collect()
    }

    /// Sets the node that answers what the index does not contain.
    pub fn set_node(&self, node: Node) {
        self.node.set(node);
    }

    /// The node requests of one answer.
    #[must_use]
    pub fn node_client(&self) -> NodeClient {
        NodeClient::new(&self.node)
    }
}
