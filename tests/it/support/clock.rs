//! A clock that does not run by itself: docs/testing.md says which tests wait by it.

use tokio::runtime::{Builder, Runtime};

/// A runtime of the current thread whose clock is paused, for what runs in it alone: it does not stop to wait while something could
/// still happen, so that nothing is missed on a busy machine, and what has yielded is resumed before a timeout ends its `block_on`.
pub(crate) fn paused_runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}
