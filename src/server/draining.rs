use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server shows itself as not ready, so that load balancers send it no more clients. Those that it has are served
/// as before. All clones are one.
#[derive(Clone, Debug, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    /// Begins or ends it.
    pub fn set(&self, is_draining: bool) {
        self.0.store(is_draining, Ordering::Relaxed);
    }

    /// Whether the server drains.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PartialEq for Draining {
    fn eq(&self, other: &Self) -> bool {
        self.is_set() == other.is_set()
    }
}

impl Eq for Draining {}
