//! One state of chain and mempool, published whole.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::View;
use super::ask::{Ask, NodeAccess, NodeLimits};
use super::sync_state::{Known, LONGEST_SILENCE, SyncState};
use super::turns::{Turn, Turns};
use crate::index::{Snapshot, Tip};
use crate::mempool::MempoolSnapshot;
use crate::node::Node;

/// A committed state of the index that is not empty, and the mempool that belongs to it: a transaction is never in both.
/// It lives until the next is published and its last reader is done.
pub struct Head {
    /// The chain.
    pub chain: Arc<Snapshot>,
    /// Its newest block.
    pub tip: Tip,
    /// The transactions that wait for the next.
    pub mempool: MempoolSnapshot,
    /// When it was published.
    pub taken_at: SystemTime,
    /// How the chain came to it.
    pub turns: Turns,
    /// A number by which it is told from all others, of this process and of those before: drawn at random.
    pub mark: u64,
}

impl Head {
    /// This state as of now; `None` if there is no block yet.
    #[must_use]
    pub fn now(chain: Arc<Snapshot>, mempool: MempoolSnapshot) -> Option<Self> {
        let tip = chain.tip()?;
        Some(Self { chain, tip, mempool, taken_at: SystemTime::now(), turns: Turns::default(), mark: drawn() })
    }

    /// This state as of now, which comes behind another.
    #[must_use]
    pub fn behind(before: Option<&Self>, chain: Arc<Snapshot>, mempool: MempoolSnapshot) -> Option<Self> {
        let mut head = Self::now(chain, mempool)?;
        if let Some(before) = before {
            let (from, to) = (before.tip.hash, head.tip.hash);
            let turn = Turn { from, to, sequence: before.mempool.sequence() };
            head.turns = if from == to { before.turns.clone() } else { before.turns.with(turn) };
        }
        Some(head)
    }
}

/// A random number: what the keys make of nothing that the standard library draws for each of its hash maps.
pub(crate) fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Where `sync` puts the newest Head and everybody else finds it. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Published {
    head: Arc<ArcSwapOption<Head>>,
    known: Arc<ArcSwap<Known>>,
    longest_silence: Duration,
    node: NodeAccess,
}

impl Default for Published {
    fn default() -> Self {
        Self::with_node_limits(NodeLimits::default())
    }
}

impl Published {
    /// Nothing yet, to ask the node within these limits once it is there.
    #[must_use]
    pub fn with_node_limits(limits: NodeLimits) -> Self {
        let (head, known, node) = (Arc::default(), Arc::default(), NodeAccess::new(limits));
        Self { head, known, longest_silence: LONGEST_SILENCE, node }
    }

    /// This, where the node's last report of its newest block is taken to be true for so long.
    #[must_use]
    pub fn with_longest_silence(self, longest_silence: Duration) -> Self {
        Self { longest_silence, ..self }
    }

    /// Replaces the Head at once for everybody who asks from now on.
    pub fn publish(&self, head: Arc<Head>) {
        self.head.store(Some(head));
    }

    /// The newest Head, `None` until the first block is indexed, and as long as one that was told of is awaited again. Keep
    /// it for one request or one event.
    #[must_use]
    pub fn head(&self) -> Option<Arc<Head>> {
        self.head.load_full()
    }

    /// Changes how far the index has come. The node said nothing new of its newest block.
    pub fn change_state(&self, change: impl Fn(SyncState) -> SyncState) {
        self.known.rcu(|known| known.with(change(known.last_state()), Instant::now()));
    }

    /// Changes how far the index has come as follows from the node's report of its newest block, just now.
    pub fn hear_node(&self, change: impl Fn(SyncState) -> SyncState) {
        self.known.rcu(|known| known.heard(change(known.last_state()), Instant::now()));
    }

    /// How long ago the node reported its newest block; `None` if it never did.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        self.known.load().silence(Instant::now())
    }

    /// For how long the node's last report of its newest block is taken to be true. After that nothing is in sync.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        self.longest_silence
    }

    /// For how long the mempool has not been known to be the node's, zero while it is; `None` if it never was.
    #[must_use]
    pub fn mempool_behind(&self) -> Option<Duration> {
        self.known.load().mempool_behind(Instant::now(), self.longest_silence)
    }

    /// How far the index has come, as of now: once the node is silent for too long, as while it is away.
    #[must_use]
    pub fn state(&self) -> SyncState {
        self.known.load().at(Instant::now(), self.longest_silence)
    }

    /// Whether the newest Head is in sync: its newest block is the node's.
    #[must_use]
    pub fn is_in_sync(&self) -> bool {
        // in this order, or the state could be older than the Head
        self.head().is_some_and(|head| self.state().is_at(head.tip))
    }

    /// Says which node is asked for what the index does not know.
    pub fn set_node(&self, node: Node) {
        self.node.set(node);
    }

    /// For one answer: the way to ask the node.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask::new(&self.node)
    }

    /// For one answer: a view of this Head, with how far the index has come now, that may read and tell this many
    /// bytes of transactions.
    #[must_use]
    pub fn view_of(&self, head: Arc<Head>, bytes: usize, ask: Ask) -> View {
        View { state: self.state(), ask, ..View::with_allowance(head, bytes) }
    }
}
