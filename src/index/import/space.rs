//! Counts the bytes of the temporary runs of an import.

use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of the most needed bytes that the consumed ones may add to those: before a checkpoint is begun to remove them, and before
/// one that is being flushed is waited for, which keeps the threads from working.
const EXTRA: u64 = 32;
const EXTRA_WHILE_FLUSHING: u64 = 16;

/// Bytes of all runs of an import.
#[derive(Debug, Default)]
pub(super) struct TemporarySpace {
    now: AtomicU64,
    peak: AtomicU64,
    consumed: AtomicU64,
    /// The most bytes at a time that were not consumed.
    needed_peak: AtomicU64,
}

impl TemporarySpace {
    pub(super) fn take(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
        self.needed_peak.fetch_max(now.saturating_sub(self.consumed()), Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that no later phase reads, of files that stay until the next checkpoint.
    pub(super) fn add_consumed(&self, bytes: u64) {
        self.consumed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The files of so many consumed bytes are removed.
    pub(super) fn give_back_consumed(&self, bytes: u64) {
        self.consumed.fetch_sub(bytes, Ordering::Relaxed);
        self.give_back(bytes);
    }

    /// Whether a checkpoint is needed to remove what is consumed, or the one that is being flushed must be completed: files take more
    /// space than without checkpoints.
    pub(super) fn is_exceeded(&self, is_flushing: bool) -> bool {
        let needed = self.needed_peak.load(Ordering::Relaxed);
        let extra = needed / if is_flushing { EXTRA_WHILE_FLUSHING } else { EXTRA };
        self.consumed() > 0 && self.now() > needed + extra
    }

    /// The bytes on the disk.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The most bytes on the disk at a time.
    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Continues with the peak of the process before this one.
    pub(super) fn set_least_peak(&self, peak: u64) {
        self.peak.fetch_max(peak, Ordering::Relaxed);
        self.needed_peak.fetch_max(peak, Ordering::Relaxed);
    }

    /// The consumed bytes whose files stay until a checkpoint without them is durable.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }
}
