//! The state that a reader is answered from, and for how long it may hold it.
//!
//! A state that was replaced is kept in memory, and its pages on disk, by the part that still reads from it. A reader that takes
//! one event in many seconds must not keep the state of minutes ago, nor thousands of such readers thousands of states:
//! a reader that comes for its next event and finds that it has kept a state for long switches to the newest, which it shares
//! with all others. So what slow readers pin is one state each at most, none for longer than [`MAX_LEASE`] and the time that
//! one event takes to be taken. A reader that does not come at all holds what it has until the server ends its connection,
//! since no write to it succeeds: 10 s.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::view::{Head, Published};

/// After so long a reader switches to the newest state.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(3);

/// A state that a reader holds.
#[derive(Clone)]
pub(crate) struct HeadLease {
    head: Arc<Head>,
    since: Instant,
}

impl HeadLease {
    /// This state from now on.
    pub(crate) fn new(head: Arc<Head>) -> Self {
        Self { head, since: Instant::now() }
    }

    /// The state.
    pub(crate) fn head(&self) -> &Arc<Head> {
        &self.head
    }

    /// The newest state, if this one was in use for long and is not the newest any more.
    pub(crate) fn newer_head(&mut self, published: &Published) -> Option<Arc<Head>> {
        if self.since.elapsed() < MAX_LEASE {
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
