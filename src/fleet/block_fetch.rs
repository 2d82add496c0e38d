//! A fetch of missing blocks that others wait for.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::index::Unfetched;

/// Blocks that are being fetched, for those who wait for them.
#[derive(Default)]
pub(super) struct BlockFetch {
    result: Mutex<Option<Result<(), Unfetched>>>,
    ended: Condvar,
}

impl BlockFetch {
    pub(super) fn has_ended(&self) -> bool {
        self.result.lock().is_some()
    }

    pub(super) fn end(&self, result: Result<(), Unfetched>) {
        self.result.lock().get_or_insert(result);
        self.ended.notify_all();
    }

    /// Its result, or an error if there is none by then.
    pub(super) fn wait(&self, until: Instant) -> Result<(), Unfetched> {
        let mut result = self.result.lock();
        while result.is_none() {
            if self.ended.wait_until(&mut result, until).timed_out() {
                break;
            }
        }
        result.clone().unwrap_or_else(|| Err(Unfetched("the store does not answer in time".to_owned())))
    }
}
