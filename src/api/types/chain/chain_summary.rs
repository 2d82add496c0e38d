use std::sync::Arc;

use async_graphql::{Context, Object};

use super::range_totals::RangeTotals;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Sats, int};
use crate::api::types::block::{CumulativeTotals, median_fee};
use crate::chain::difficulty::difficulty;
use crate::view::{BlockRange, BlockRow, View};

const DAY: u32 = 86_400;
const STALE_BLOCK_DAYS: u32 = 30;

/// The main figures of the chain at the tip.
pub(crate) struct ChainSummary {
    view: Arc<View>,
    /// The blocks of the last day.
    day: BlockRange,
}

impl ChainSummary {
    pub(crate) fn of(view: &Arc<View>) -> Result<Self, ApiError> {
        let day = view.range(view.first_height_within(DAY)?, view.tip().height)?;
        Ok(Self { view: view.clone(), day })
    }

    fn median_of_blocks(&self, ctx: &Context<'_>) -> Result<Option<Sats>, ApiError> {
        let mut medians = Vec::new();
        let heights = self.day.from.to_u32()..=self.day.to.to_u32();
        let count = heights.end().abs_diff(*heights.start()).saturating_add(1);
        costs::spend(ctx, costs::rows_in_a_row(count))?;
        for height in heights {
            self.view.count(size_of::<BlockRow>())?;
            let row = self.view.main_block(height.into())?.row;
            if row.transactions > 1 {
                medians.push(median_fee(&row));
            }
        }
        medians.sort_unstable();
        let middle = medians.len().saturating_sub(1) / 2;
        medians.get(middle).copied().map(Sats::new).transpose()
    }
}

impl FieldCacheability for ChainSummary {
    const UNTIL_NEXT_TIP: &'static str = "blockCount difficulty totals last24h medianFee24h";
    const UNTIL_NEXT_HEAD: &'static str = "recentStaleBlockCount";
}

/// The key figures of the chain at its tip. Time windows use median time past: the last 24 hours are the blocks whose
/// median time past is less than 24 hours before that of the tip, and always include the tip.
#[Object]
impl ChainSummary {
    /// The number of blocks on the main chain, genesis block included.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.view.tip().height.next().to_u32())
    }

    /// The difficulty of the tip.
    async fn difficulty(&self) -> f64 {
        difficulty(self.day.last.header.bits)
    }

    /// The totals of all blocks.
    async fn totals(&self) -> CumulativeTotals {
        CumulativeTotals::of(&self.day.last.running)
    }

    /// The totals of the blocks of the last 24 hours.
    #[graphql(name = "last24h")]
    async fn last_24h(&self) -> RangeTotals {
        RangeTotals(self.day.clone())
    }

    /// The median fee of the last 24 hours, in satoshis: the median of the median fees (`BlockFeeStats.medianFee`) of the blocks
    /// with more than a coinbase; of an even number the lower of the two middle ones. Null if there is no such block.
    #[graphql(name = "medianFee24h", complexity = "costs::more(costs::rows_in_a_row(costs::MOST_BLOCKS_OF_DAY), 0)")]
    async fn median_fee_24h(&self, ctx: &Context<'_>) -> Option<Result<Sats, ApiError>> {
        self.median_of_blocks(ctx).transpose()
    }

    /// The number of stale blocks that the server stores (`Query.staleBlocks`) at the heights of the main chain's last 30 days.
    #[graphql(complexity = "costs::more(costs::STALE_MONTH, 0)")]
    async fn recent_stale_block_count(&self, ctx: &Context<'_>) -> Result<i32, ApiError> {
        costs::spend(ctx, costs::STALE_MONTH)?;
        let first = self.view.first_height_within(STALE_BLOCK_DAYS * DAY)?;
        int(self.view.stale_blocks_from(first)?)
    }
}
