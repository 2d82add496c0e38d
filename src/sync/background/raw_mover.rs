//! The state of moving the bytes of frozen blocks to where they are to be stored.

use std::time::{Duration, Instant};

use tracing::info;

use super::job::{BackgroundJob, Retry};
use crate::chain::Height;
use crate::index::{RawStorage, Tip};

/// The interval between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// The storage of raw bytes, and what is under way to reach it.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "what is so or was logged, each by its own name")]
pub(in crate::sync) struct RawMover {
    /// As the index records it; `None` before the first contact with the node.
    pub(in crate::sync) storage: Option<RawStorage>,
    /// The lowest height from which the node has all blocks.
    pub(super) kept_from: Height,
    /// Whether the node deletes old blocks.
    pub(super) is_node_pruning: bool,
    pub(super) job: Option<BackgroundJob<RawStep>>,
    pub(in crate::sync) retry: Retry,
    /// When a line about the progress was logged last; `None` if nothing is under way.
    pub(super) logged_at: Option<Instant>,
    /// All blocks below are stored as they should be, as far as the node has them.
    pub(super) next: Height,
    /// Whether raw files that the storage does not need are removed.
    pub(super) is_tidy: bool,
    /// Whether it was logged that the node lacks blocks.
    pub(super) is_lack_logged: bool,
    /// Whether it was logged that raw files stay because the node prunes.
    pub(super) is_keeping_logged: bool,
}

/// What a job did.
pub(super) enum RawStep {
    /// Blocks at these heights were copied.
    Copied(Vec<Height>),
    /// All blocks up to this one were read back.
    ReadBack(Option<Tip>),
}

impl RawMover {
    /// Logs the progress now and then.
    pub(super) fn report(&mut self, what: &str, done_bytes: u64, all_bytes: u64) {
        if self.logged_at.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            info!(done_mib = done_bytes >> 20, all_mib = all_bytes >> 20, "{what}");
            self.logged_at = Some(Instant::now());
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.job.is_some()
    }
}
