//! Events, and the channel they are broadcast on.
//!
//! `sync` publishes an event after the state it speaks of can be read. Events share one bounded ring; each carries the
//! Head it belongs to, so it is answered from that state however late it is read. A reader that falls behind the ring
//! is told so by the channel, and never skipped over silently: each Head knows the way that led to it, its chain by the
//! blocks and its mempool by the numbers of what happened there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{broadcast, watch};

use crate::index::Tip;
use crate::view::{Head, drawn};

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
    /// The events that change the chain.
    chain: broadcast::Sender<Arc<Event>>,
    changes: watch::Sender<()>,
    published: Arc<AtomicU64>,
    run: u64,
}

impl Default for Live {
    fn default() -> Self {
        let [sender, chain] = [broadcast::channel(RING).0, broadcast::channel(RING).0];
        Self { sender, chain, changes: watch::Sender::default(), published: Arc::default(), run: drawn() }
    }
}

impl Live {
    /// Tells everybody who listens.
    pub fn publish(&self, event: Event) {
        let event = Arc::new(event);
        self.published.fetch_add(1, Ordering::Relaxed);
        // an error only says that nobody listens
        if !event.chain.is_empty() {
            let _ = self.chain.send(Arc::clone(&event));
        }
        let _ = self.sender.send(event);
        self.changes.send_replace(());
    }

    /// A number by which the runs of the server are told apart: what happens in the mempool is numbered anew in each.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// That something was published, without what: for who looks at the newest state only. However much that was, it is
    /// one change to a reader who did not look, and no Head is kept for him.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Everything that is published from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }

    /// Of what is published from now on that which changes the chain: whoever wants no more sleeps while the mempool
    /// changes, some hundred times as often.
    #[must_use]
    pub fn subscribe_chain(&self) -> broadcast::Receiver<Arc<Event>> {
        self.chain.subscribe()
    }

    /// How many events were published since the process began.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// How many listen to events now, of either kind.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.sender.receiver_count().saturating_add(self.chain.receiver_count())
    }
}
