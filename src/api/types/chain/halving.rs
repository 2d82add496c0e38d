use std::sync::Arc;

use async_graphql::Object;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, Sats, int};
use crate::chain::difficulty::retarget::time_ahead;
use crate::chain::{BLOCKS_PER_EPOCH, Height, subsidy};
use crate::view::{Dependency, View};

/// The next halving of the subsidy, as of the tip.
pub(crate) struct Halving {
    view: Arc<View>,
    next: Height,
}

impl Halving {
    /// `None` once the subsidy is zero.
    pub(crate) fn of(view: &Arc<View>) -> Option<Self> {
        view.read_set().depends_on(Dependency::Chain);
        let next = subsidy::next_halving(view.tip().height, view.network())?;
        Some(Self { view: view.clone(), next })
    }

    fn blocks_to_it(&self) -> u32 {
        self.next.to_u32().saturating_sub(self.view.tip().height.to_u32())
    }

    /// At the pace of the last 2,016 intervals, none of which begins with the genesis block: that is not a mined one.
    fn estimate(&self) -> Result<Option<u32>, ApiError> {
        let tip = self.view.tip().height.to_u32();
        let from = tip.saturating_sub(BLOCKS_PER_EPOCH).max(1);
        let Some(intervals) = tip.checked_sub(from).filter(|intervals| *intervals > 0) else { return Ok(None) };
        let last = self.view.tip_block()?.row.header.time;
        let first = self.view.main_block(from.into())?.row.header.time;
        Ok(last.checked_sub(first).and_then(|seconds| time_ahead(last, (seconds, intervals), self.blocks_to_it())))
    }
}

impl FieldCacheability for Halving {
    const UNTIL_NEXT_TIP: &'static str = "index subsidy nextSubsidy nextHeight remainingBlockCount estimatedAt";
}

/// The next halving: the block from which on the subsidy is half of what it was, every 210,000 blocks (150 on regtest).
#[Object]
impl Halving {
    /// The index of the halving epoch that the tip belongs to: the number of halvings so far.
    async fn index(&self) -> Result<i32, ApiError> {
        int(subsidy::halving_epoch(self.view.tip().height, self.view.network()))
    }

    /// The subsidy of a block before the halving, in satoshis.
    async fn subsidy(&self) -> Result<Sats, ApiError> {
        Sats::new(subsidy::subsidy(self.view.tip().height, self.view.network()).to_sat())
    }

    /// The subsidy of a block from the halving on, in satoshis: half of `subsidy`, rounded down.
    async fn next_subsidy(&self) -> Result<Sats, ApiError> {
        Sats::new(subsidy::subsidy(self.next, self.view.network()).to_sat())
    }

    /// The height of the first block with `nextSubsidy`.
    async fn next_height(&self) -> Result<i32, ApiError> {
        int(self.next.to_u32())
    }

    /// The number of blocks that will still have `subsidy`: 209,999 to 0. The block after them is the one at `nextHeight`.
    async fn remaining_block_count(&self) -> Result<i32, ApiError> {
        int(self.blocks_to_it().saturating_sub(1))
    }

    /// The expected time of the block at `nextHeight`, if blocks keep arriving at the mean pace of the last 2,016 intervals, by
    /// header timestamps; of fewer on a shorter chain, without the genesis block. It changes only with each block. Null while
    /// no time has passed between two mined blocks, and if it is after 2106-02-07, the last time that a header can have.
    async fn estimated_at(&self) -> Option<Result<DateTime, ApiError>> {
        self.estimate().map(|time| time.map(DateTime::from_unix)).transpose()
    }
}
