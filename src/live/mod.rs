//! Events, and the channel they are broadcast on.
//!
//! `sync` publishes an event once its state can be read. Events share one bounded ring; each carries its Head, so it is
//! resolved from that state however late it is read. The channel reports to a reader that it fell behind the ring, and the
//! reader replays the gap: each Head has the history that led to it, of its chain by blocks and of its mempool by numbered
//! events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{broadcast, watch};

use crate::index::Tip;
use crate::view::{Head, random_u64};

/// The number of events kept for the slowest reader. Each pins a Head, so the ring is short.
const RING: usize = 64;

/// A change of the active chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEvent {
    /// A block left the active chain. Precedes the event of the block that replaces it.
    Disconnected(Tip),
    /// A block joined the active chain.
    Connected(Tip),
}

/// A new state, and the changes that led to it.
#[derive(Clone)]
pub struct Event {
    /// The changes of the chain, in order; empty if only the mempool changed. The changes of the mempool are in its
    /// snapshot.
    pub chain: Vec<ChainEvent>,
    /// The state after it.
    pub head: Arc<Head>,
}

/// The broadcast channel. Cheap to clone; all clones share one channel.
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
        Self { sender, chain, changes: watch::Sender::default(), published: Arc::default(), run: random_u64() }
    }
}

impl Live {
    /// Sends an event to all receivers.
    pub fn publish(&self, event: Event) {
        let event = Arc::new(event);
        self.published.fetch_add(1, Ordering::Relaxed);
        // an error only means that there is no receiver
        if !event.chain.is_empty() {
            let _ = self.chain.send(Arc::clone(&event));
        }
        let _ = self.sender.send(event);
        self.changes.send_replace(());
    }

    /// A number that identifies this run of the server: each run numbers the events of the mempool from 1.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Notifies that an event was published, for readers of the newest state only. Any number of events is one notification
    /// to a reader that did not look since, and no Head is kept for it.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Receives all events from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }

    /// Receives only events that change the chain from now on: the receiver is not woken by the mempool, which changes some
    /// hundred times as often.
    #[must_use]
    pub fn subscribe_chain(&self) -> broadcast::Receiver<Arc<Event>> {
        self.chain.subscribe()
    }

    /// The number of events published since the start of the process.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// The number of receivers now, of either kind.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.sender.receiver_count().saturating_add(self.chain.receiver_count())
    }
}
