//! Events, and the channel they are broadcast on.
//!
//! `sync` publishes an event after the state it speaks of can be read. Events share one bounded ring; each carries the
//! Head it belongs to, so it is answered from that state however late it is read. A reader that falls behind the ring
//! is told so by the channel, and never skipped over silently: each Head knows the way that led to it, its chain by the
//! blocks and its mempool by the numbers of what happened there.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::sync::broadcast;

use crate::index::Tip;
use crate::view::Head;

/// How many events wait for the slowest reader. Each pins a Head, so the ring is short.
const RING: usize = 64;

/// Something that happened to the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEvent {
    /// A block left the active chain. Comes before the event of the block that replaces it.
    Disconnected(Tip),
    /// A block joined the active chain.
    Connected(Tip),
}

/// A new state, and how it came about.
#[derive(Clone)]
pub struct Event {
    /// What happened to the chain, in order; nothing if only the mempool changed. What happened to the mempool is in its
    /// snapshot.
    pub chain: Vec<ChainEvent>,
    /// The state after it.
    pub head: Arc<Head>,
}

/// The broadcast channel. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Live {
    sender: broadcast::Sender<Arc<Event>>,
    run: u64,
}

impl Default for Live {
    fn default() -> Self {
        // the hasher is keyed at random
        Self { sender: broadcast::channel(RING).0, run: RandomState::new().hash_one(0) }
    }
}

impl Live {
    /// Tells everybody who listens.
    pub fn publish(&self, event: Event) {
        // an error only says that nobody listens
        let _ = self.sender.send(Arc::new(event));
    }

    /// A number by which the runs of the server are told apart: what happens in the mempool is numbered anew in each.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Everything that is published from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }
}
