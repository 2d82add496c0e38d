use std::sync::Arc;

use async_graphql::Object;

use super::difficulty_epoch::DifficultyEpochObject;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, int};
use crate::chain::BLOCKS_PER_EPOCH;
use crate::chain::difficulty::retarget::EpochSoFar;
use crate::view::View;

/// The next change of the difficulty.
pub(crate) struct DifficultyAdjustment {
    epoch: DifficultyEpochObject,
    so_far: EpochSoFar,
}

impl DifficultyAdjustment {
    /// As of the tip.
    pub(crate) fn of(view: &Arc<View>) -> Result<Self, ApiError> {
        let epoch = DifficultyEpochObject::newest(view)?;
        let so_far = epoch.so_far()?;
        Ok(Self { epoch, so_far })
    }
}

impl FieldCacheability for DifficultyAdjustment {
    const UNTIL_NEXT_TIP: &'static str = "epoch progress minedBlockCount remainingBlockCount estimatedChange \
        estimatedAt nextHeight averageInterval expectedBlockCount previousChange";
}

/// The projected difficulty of the next epoch, if the remaining blocks of the tip's epoch arrive at the pace of those
/// so far. Like the consensus rule, it uses header timestamps rather than a clock, so it changes only with each block.
/// Measured values are null while the epoch has only one mined block, or while no time has passed between that block and
/// the tip. The genesis block is not a mined one: in the first epoch, the pace is that of the blocks from height 1.
#[Object]
impl DifficultyAdjustment {
    /// The current epoch, which contains the tip.
    async fn epoch(&self) -> DifficultyEpochObject {
        self.epoch.clone()
    }

    /// The share of the epoch's blocks found so far, above 0 and up to 1.
    async fn progress(&self) -> f64 {
        f64::from(self.so_far.blocks) / f64::from(BLOCKS_PER_EPOCH)
    }

    /// The number of the epoch's blocks found so far: 1 to 2,016.
    async fn mined_block_count(&self) -> Result<i32, ApiError> {
        int(self.so_far.blocks)
    }

    /// The number of remaining blocks of the epoch: 2,015 to 0.
    async fn remaining_block_count(&self) -> Result<i32, ApiError> {
        int(self.so_far.left())
    }

    /// The expected change of the difficulty, as a fraction: 0.05 means 5 % harder. Exact once no blocks remain. At
    /// least -0.75 and at most 3; 0 where the difficulty never changes, as on regtest.
    async fn estimated_change(&self) -> Option<f64> {
        self.so_far.next_change()
    }

    /// The expected time of the first block of the next epoch. Null also if that is after 2106-02-07, the last time that a
    /// header can have.
    async fn estimated_at(&self) -> Option<DateTime> {
        self.so_far.next_epoch_at().map(DateTime::from_unix)
    }

    /// The height of the first block of the next epoch.
    async fn next_height(&self) -> Result<i32, ApiError> {
        int(self.epoch.end().to_u32())
    }

    /// The mean time between blocks in this epoch, in seconds. The difficulty targets 600 seconds.
    async fn average_interval(&self) -> Option<f64> {
        self.so_far.measured().map(|(seconds, intervals)| f64::from(seconds) / f64::from(intervals))
    }

    /// The number of blocks, including the first, that would exist by the tip's timestamp at one block per ten minutes.
    /// Blocks are slow if this exceeds `minedBlockCount`.
    async fn expected_block_count(&self) -> Option<f64> {
        self.so_far.expected_blocks()
    }

    /// The change of the difficulty from the previous epoch to this one, as a fraction: 0.05 means 5 % harder. Null in
    /// the first epoch.
    async fn previous_change(&self) -> Option<Result<f64, ApiError>> {
        self.epoch.change_at_start().transpose()
    }
}
