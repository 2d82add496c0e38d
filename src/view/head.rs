//! One state of chain and mempool, published whole.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use bitcoin::BlockHash;

use super::View;
use super::ask::{Ask, NodeAccess, NodeLimits};
use super::turns::{Turn, Turns};
use crate::chain::Height;
use crate::index::{DiskShortage, Snapshot, Tip};
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

/// What following the node is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPhase {
    /// The node was not reached yet, is away or behind, or the disk that holds the index is full.
    #[default]
    WaitingForNode,
    /// The index is far behind the node's tip.
    CatchingUp,
    /// The index is at the node's tip, or a few blocks behind.
    Following,
}

/// How fast catching up is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Blocks a second.
    pub blocks_per_second: f64,
    /// The time to the node's tip if it goes on like that. Younger blocks are larger, so it is rather short.
    pub left: Duration,
}

/// How far the index has come, as `sync` last saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SyncState {
    /// What is being done.
    pub phase: SyncPhase,
    /// The node's newest block, as last told; `None` until it was asked.
    pub node_height: Option<Height>,
    /// The node's newest header, as last told; `None` until it was asked.
    pub node_headers: Option<Height>,
    /// The hash of the node's newest block; `None` until it was asked, and while it is away.
    pub node_tip: Option<BlockHash>,
    /// How fast catching up is; `None` at other times, and until it shows.
    pub pace: Option<Pace>,
    /// Whether the mempool was found to be the node's, and everything that happened to that since was followed.
    pub mempool_in_sync: bool,
    /// What the disk of the index lacks, while the node is not followed for that.
    pub disk_shortage: Option<DiskShortage>,
}

impl SyncState {
    /// Whether this block was the node's newest when the node was last asked.
    #[must_use]
    pub fn is_at(&self, tip: Tip) -> bool {
        self.node_tip == Some(tip.hash)
    }
}

/// Where `sync` puts the newest Head and everybody else finds it. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Published {
    head: Arc<ArcSwapOption<Head>>,
    state: Arc<ArcSwap<SyncState>>,
    heard: Arc<ArcSwapOption<Instant>>,
    /// Since when the mempool is not the node's any more that was.
    mempool_lost: Arc<ArcSwapOption<Instant>>,
    node: NodeAccess,
}

impl Published {
    /// Nothing yet, to ask the node within these limits once it is there.
    #[must_use]
    pub fn with_node_limits(limits: NodeLimits) -> Self {
        Self { node: NodeAccess::new(limits), ..Self::default() }
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

    /// Says how far the index has come.
    pub fn set_state(&self, state: SyncState) {
        let before = self.state.swap(Arc::new(state));
        if before.mempool_in_sync && !state.mempool_in_sync {
            self.mempool_lost.store(Some(Arc::new(Instant::now())));
        }
    }

    /// Says that the node told its newest block just now.
    pub fn node_was_heard(&self) {
        self.heard.store(Some(Arc::new(Instant::now())));
    }

    /// How long ago the node told its newest block; `None` if it never did.
    #[must_use]
    pub fn last_heard(&self) -> Option<Duration> {
        self.heard.load().as_ref().map(|heard| heard.elapsed())
    }

    /// For how long the mempool has not been the node's, zero while it is; `None` if it never was.
    #[must_use]
    pub fn mempool_behind(&self) -> Option<Duration> {
        if self.state().mempool_in_sync {
            return Some(Duration::ZERO);
        }
        self.mempool_lost.load().as_ref().map(|lost| lost.elapsed())
    }

    /// How far the index has come.
    #[must_use]
    pub fn state(&self) -> SyncState {
        **self.state.load()
    }

    /// Whether the newest Head was the node's newest block, too, when the node was last asked.
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
