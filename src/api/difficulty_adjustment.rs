use std::sync::Arc;

use async_graphql::Object;

use super::difficulty_epoch::DifficultyEpoch;
use super::error::ApiError;
use super::scalars::{DateTime, int};
use crate::chain::BLOCKS_PER_EPOCH;
use crate::chain::retarget::{EpochSoFar, SECONDS_PER_BLOCK};
use crate::view::View;

/// The next change of the difficulty.
pub(super) struct DifficultyAdjustment {
    epoch: DifficultyEpoch,
    so_far: EpochSoFar,
}

impl DifficultyAdjustment {
    /// As of the tip.
    pub(super) fn of(view: &Arc<View>) -> Result<Self, ApiError> {
        let epoch = DifficultyEpoch::newest(view)?;
        let so_far = epoch.so_far();
        Ok(Self { epoch, so_far })
    }
}

/// What the blocks of the epoch of the tip make of the difficulty of the next epoch, if those to come take as long as
/// those that came. Like the rule, it goes by the times in the headers of blocks, and not by a clock: it changes with
/// each block only. What is measured is null while there is only one block, or no time between the first and the tip.
#[Object]
impl DifficultyAdjustment {
    /// The epoch of the tip.
    async fn epoch(&self) -> DifficultyEpoch {
        self.epoch.clone()
    }

    /// The share of its blocks that are there, above 0 and up to 1.
    async fn progress(&self) -> f64 {
        f64::from(self.so_far.blocks) / f64::from(BLOCKS_PER_EPOCH)
    }

    /// How many of its blocks are there: 1 to 2,016.
    async fn blocks_done(&self) -> Result<i32, ApiError> {
        int(self.so_far.blocks)
    }

    /// How many of its blocks are yet to come: 2,015 to 0.
    async fn blocks_remaining(&self) -> Result<i32, ApiError> {
        int(self.so_far.left())
    }

    /// By how much the next epoch is going to be harder than this one, as a fraction: 0.05 is 5 % harder. Exact once no
    /// block remains. At least -0.75 and at most 3, and 0 where the difficulty never changes, as on regtest.
    async fn estimated_change(&self) -> Option<f64> {
        self.so_far.next_change()
    }

    /// When the first block of the next epoch is to be expected.
    async fn estimated_at(&self) -> Option<DateTime> {
        self.so_far.next_epoch_at().map(DateTime::from_seconds)
    }

    /// The height of the first block of the next epoch.
    async fn next_height(&self) -> Result<i32, ApiError> {
        int(self.epoch.end().to_u32())
    }

    /// The mean time from block to block in this epoch, in seconds. The difficulty is made for 600.
    async fn average_interval(&self) -> Option<f64> {
        self.so_far.measured().map(|(seconds, intervals)| f64::from(seconds) / f64::from(intervals))
    }

    /// How many blocks there would be by the time of the tip if one had come each ten minutes since the first, that one
    /// included: more than `blocksDone` means that blocks are slow.
    async fn expected_blocks(&self) -> Option<f64> {
        self.so_far.measured().map(|(seconds, _)| 1.0 + f64::from(seconds) / f64::from(SECONDS_PER_BLOCK))
    }

    /// By how much this epoch is harder than the one before it, as a fraction. Null in the first epoch.
    async fn previous_change(&self) -> Option<Result<f64, ApiError>> {
        self.epoch.change_at_start().transpose()
    }
}
