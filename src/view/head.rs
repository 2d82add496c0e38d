//! One state of the chain, published whole.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::chain::Height;
use crate::index::{Snapshot, Tip};

/// A committed state of the index that is not empty. It lives until the next is published and its last reader is done.
pub struct Head {
    /// The chain.
    pub chain: Snapshot,
    /// Its newest block.
    pub tip: Tip,
    /// When it was published.
    pub taken_at: SystemTime,
}

/// How far the index has come, as `sync` last saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncState {
    /// The node's newest block, `None` until it was asked.
    pub node_height: Option<Height>,
    /// The node's newest header, `None` until it was asked.
    pub node_headers: Option<Height>,
    /// Whether the published Head was the node's tip when the node was last asked.
    pub in_sync: bool,
}

/// Where `sync` puts the newest Head and everybody else finds it. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Published {
    head: Arc<ArcSwapOption<Head>>,
    state: Arc<ArcSwap<SyncState>>,
}

impl Published {
    /// Replaces the Head at once for everybody who asks from now on.
    pub fn publish(&self, head: Arc<Head>) {
        self.head.store(Some(head));
    }

    /// The newest Head, `None` until the first block is indexed. Keep it for one request or one event.
    #[must_use]
    pub fn head(&self) -> Option<Arc<Head>> {
        self.head.load_full()
    }

    /// Says how far the index has come.
    pub fn set_state(&self, state: SyncState) {
        self.state.store(Arc::new(state));
    }

    /// How far the index has come.
    #[must_use]
    pub fn state(&self) -> SyncState {
        **self.state.load()
    }
}
