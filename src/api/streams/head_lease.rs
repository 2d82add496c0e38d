//! The state that a reader is told from, and for how long he may hold it.
//!
//! A state that was replaced is kept in memory, and its pages on disk, by whoever still reads from it. A reader who takes
//! one event in many seconds must not keep the state of minutes ago, nor thousands of such readers thousands of states:
//! one who comes for his next event and finds that he has held a state for long goes on from the newest, which he shares
//! with all others. So what slow readers pin is one state each at most, none for longer than [`LONG`] and the time that
//! one event takes to be taken. One who does not come at all holds what he has until the server ends his connection,
//! since nothing can be written to it: 10 s.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::view::{Head, Published};

/// After so long a reader goes on from the newest state.
pub(crate) const LONG: Duration = Duration::from_secs(3);

/// A state that a reader holds.
#[derive(Clone)]
pub(crate) struct Held {
    head: Arc<Head>,
    since: Instant,
}

impl Held {
    /// This state from now on.
    pub(crate) fn new(head: Arc<Head>) -> Self {
        Self { head, since: Instant::now() }
    }

    /// The state.
    pub(crate) fn head(&self) -> &Arc<Head> {
        &self.head
    }

    /// The newest state, if this one was held for long and is not the newest any more.
    pub(crate) fn outlived(&mut self, published: &Published) -> Option<Arc<Head>> {
        if self.since.elapsed() < LONG {
            return None;
        }
        let newest = published.head()?;
        if Arc::ptr_eq(&newest, &self.head) {
            self.since = Instant::now();
            return None;
        }
        Some(newest)
    }
}
