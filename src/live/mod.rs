//! Events, and the channel they are broadcast on.
//!
//! `sync` publishes an event after the state it speaks of can be read. Events share one bounded ring; each carries the
//! Head it belongs to, so it is answered from that state however late it is read. A reader that falls behind the ring
//! is told so by the channel, and never skipped over silently.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::index::Tip;
use crate::view::Head;

/// How many events wait for the slowest reader. Each pins a Head, so the ring is short.
const RING: usize = 64;

/// Something that happened to the chain.
#[derive(Clone)]
pub enum ChainEvent {
    /// A block left the active chain. Comes before the event of the block that replaces it.
    Disconnected(Tip),
    /// A block joined the active chain.
    Connected(Tip),
}

/// An event and the state it belongs to. Events of one commit share their Head.
#[derive(Clone)]
pub struct Event {
    /// What happened.
    pub event: ChainEvent,
    /// The state after the commit that did it.
    pub head: Arc<Head>,
}

/// The broadcast channel. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Live {
    sender: broadcast::Sender<Arc<Event>>,
}

impl Default for Live {
    fn default() -> Self {
        Self { sender: broadcast::channel(RING).0 }
    }
}

impl Live {
    /// Tells everybody who listens.
    pub fn publish(&self, event: Event) {
        // an error only says that nobody listens
        let _ = self.sender.send(Arc::new(event));
    }

    /// Everything that is published from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.sender.subscribe()
    }
}
