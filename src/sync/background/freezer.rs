//! The thread that packs blocks into a generation, and the state of freezing.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tracing::debug;

use super::super::error::SyncError;
use super::job::{BackgroundJob, Priority, Retry};
use crate::chain::Height;
use crate::index::{GenerationRange, RawStorage, Snapshot};
use crate::node::{BlockPositions, NodeBlocks};

/// What a failure to freeze means.
pub(super) const CANNOT_FREEZE: &str = "cannot freeze blocks; they stay in the index file";

/// Freezing, as far as it is under way.
#[derive(Default)]
pub(in crate::sync) struct Freezer {
    pub(super) job: Option<FreezeJob>,
    pub(in crate::sync) retry: Retry,
    /// When rows were deleted last.
    pub(super) swept_at: Option<Instant>,
    /// Whether no shadowed rows are left.
    pub(super) is_swept: bool,
    /// Whether the files that no commit names are adopted or removed. No job is started before.
    pub(super) is_tidy: bool,
}

impl Freezer {
    /// Whether something is under way that the loop has to go on with.
    pub(super) fn is_busy(&self) -> bool {
        !self.is_swept || self.job.is_some()
    }

    /// Whether the files that no commit names are adopted or removed.
    pub(super) fn is_tidy(&self) -> bool {
        self.is_tidy
    }

    /// Whether the thread runs, or what it built is not in force yet.
    pub(in crate::sync) fn is_running(&self) -> bool {
        self.job.is_some()
    }

    /// Ends the thread, if it has not ended, because of this.
    pub(in crate::sync) fn stop(&mut self, cause: &dyn Display) {
        if self.job.take_if(|job| !job.is_finished()).is_some() {
            self.retry.postpone(cause, CANNOT_FREEZE);
        }
    }

    /// Shadowed rows may be left.
    pub(super) fn sweep_again(&mut self) {
        self.is_swept = false;
    }
}

/// The blocks of a generation that was built, and where they are in the block files, as far as they were found.
pub(super) type FrozenBlocks = (GenerationRange, BlockPositions);

/// Packs blocks in the background.
pub(super) struct FreezeJob {
    pub(super) path: PathBuf,
    pub(super) began: Instant,
    pub(super) job: BackgroundJob<FrozenBlocks>,
}

impl FreezeJob {
    pub(super) fn start(
        snapshot: Arc<Snapshot>,
        heights: RangeInclusive<Height>,
        path: PathBuf,
        blocks: NodeBlocks,
        storage: RawStorage,
        priority: Priority,
    ) -> Result<Self, SyncError> {
        let (began, file) = (Instant::now(), path.clone());
        let pack = move |stop: &Arc<AtomicBool>| {
            // only these bytes are left afterwards
            let positions = match storage {
                RawStorage::Index => {
                    snapshot.store_raw_blocks(heights.clone(), stop)?;
                    BlockPositions::default()
                }
                RawStorage::Node => {
                    let hashes = snapshot.block_hashes(heights.clone())?;
                    let located = blocks.locate(*heights.start(), &hashes, &mut |_| {});
                    snapshot.check_raw_blocks(heights.clone(), stop)?;
                    located.unwrap_or_else(|error| {
                        debug!(%error, "blocks that are being frozen are requested from the node");
                        BlockPositions::default()
                    })
                }
            };
            Ok((snapshot.pack_until(heights, &file, stop)?, positions))
        };
        Ok(Self { path, began, job: BackgroundJob::start("freeze", priority, pack)? })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.job.is_finished()
    }
}
