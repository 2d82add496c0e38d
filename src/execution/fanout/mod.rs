//! One execution for all clients with the same subscription: its events are found once, encoded as JSON once, and shared.
//!
//! ```text
//!   subscribe ──► the same document, operation and variables as of one that runs?
//!                    │ no: start                     │ yes: join
//!                    ▼                               ▼
//!   api::Schema ──► SharedStream ── a task ──► ring.rs ──► Reader ──► socket        stream.rs
//!                    ▲ demands the next once some          Reader ──► socket
//!                    └ reader has read all                 Reader ──► socket
//! ```
//!
//! No reader waits for another. The task takes the next payload when the fastest reader demands it, so that a single reader
//! is served as if nothing were shared: what it is too slow for remains in the schema, which knows how to resume. A reader
//! slower than others finds the older payloads in the ring. If that is evicted, it continues alone, with an execution of its own
//! behind what it has; a subscription that cannot resume ends with an error.
//!
//! The bytes in all rings are bounded together, too. Above that the largest ring evicts its oldest payloads: readers of few
//! bytes, or fast ones, do not lose by those that leave much unread.
//!
//! `tokio::sync::broadcast` is not used: its ring is bounded by a number of payloads and not by bytes, its slots live until
//! the slowest receiver is past them, and a receiver cannot tell the source that it demands more.
//!
//! Which subscriptions may be shared, and what a new reader gets first, is up to the schema ([`Sharing`]). A client that
//! joins a stream "from now on" may receive events of the second before.

pub(crate) mod ring;
pub(crate) mod stream;

use std::sync::{Arc, Weak};

use crate::api::{OpenSubscriptions, ResumePoint, Sharing};
use crate::execution::document::request_key::RequestKey;
use ring::RingBounds;
use stream::{Reader, SharedStream, StartedStream, Streams};

/// The bounds of what readers may be behind by. Of large payloads at least one is kept, which all readers that are not
/// stuck have taken before the next.
const BOUNDS: RingBounds = RingBounds { count: 1_024, bytes: 1 << 20, all_bytes: 64 << 20 };

/// The shared streams of a server. A clone is the same.
#[derive(Clone)]
pub(crate) struct Fanout(Arc<Streams>);

impl Fanout {
    pub(crate) fn new(open: OpenSubscriptions) -> Self {
        Self::bounded(open, BOUNDS)
    }

    fn bounded(open: OpenSubscriptions, bounds: RingBounds) -> Self {
        Self(Arc::new(Streams::new(open, bounds)))
    }

    /// The payloads of a stream that all clients with this key share. To drop them is to leave it.
    ///
    /// `start` starts an execution: for all, and once more for each client that joins when it is about to end.
    pub(crate) fn join(
        &self,
        key: RequestKey,
        sharing: Sharing,
        start: impl Fn(Option<ResumePoint>) -> StartedStream + Send + Sync + 'static,
    ) -> StartedStream {
        let key = Arc::new(key);
        let mut unfit: Option<Arc<SharedStream>> = None;
        loop {
            let mut running = self.0.running.lock();
            let found = running.get(&key).and_then(Weak::upgrade);
            let found = found.filter(|found| unfit.as_ref().is_none_or(|unfit| !Arc::ptr_eq(unfit, found)));
            let Some(found) = found else {
                let shared = self.0.add(&mut running, key, sharing, Box::new(start));
                // dropped after the lock, which it takes, if the source panics
                let reader;
                // a client that joins meanwhile waits here until it has begun, and those of other keys do not
                let mut state = shared.state.lock();
                drop(running);
                reader = Reader::new(&shared, &mut state);
                shared.begin(&mut state);
                drop(state);
                return reader.into_stream();
            };
            drop(running);
            let mut state = found.state.lock();
            if state.is_current() {
                let reader = Reader::new(&found, &mut state);
                drop(state);
                return reader.into_stream();
            }
            drop(state);
            unfit = Some(found);
        }
    }

    /// How many streams run.
    pub(crate) fn count(&self) -> usize {
        self.0.running.lock().len()
    }
}

#[cfg(test)]
mod tests;
