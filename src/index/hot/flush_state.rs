//! Which commits are durable, and the thread that makes the others so.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Instant;

use super::super::error::IndexError;

/// Which commits are durable.
#[derive(Default)]
pub(in crate::index) struct FlushState {
    /// The time of the oldest commit that is not durable.
    pub(super) non_durable_since: Option<Instant>,
    /// The thread that flushes them.
    pub(super) thread: Option<FlushThread>,
}

/// A thread that flushes after a delay, unless `cancel` is dropped before.
pub(super) struct FlushThread {
    pub(super) cancel: Sender<()>,
    pub(super) thread: JoinHandle<Result<FlushEnd, IndexError>>,
}

/// How the thread ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushEnd {
    Flushed,
    Cancelled,
}

impl FlushState {
    /// Records a commit that is not durable.
    pub(in crate::index) fn mark_non_durable(&mut self) {
        self.non_durable_since.get_or_insert_with(Instant::now);
    }

    /// Records that all commits are durable.
    pub(in crate::index) fn mark_durable(&mut self) {
        self.non_durable_since = None;
    }

    /// Cancels the flush if it has not begun, or else waits for it.
    pub(in crate::index) fn finish(&mut self) -> Result<(), IndexError> {
        let Some(FlushThread { cancel, thread }) = self.thread.take() else { return Ok(()) };
        drop(cancel);
        if thread.join().unwrap_or(Err(IndexError::FlushPanicked))? == FlushEnd::Flushed {
            self.mark_durable();
        }
        Ok(())
    }
}
