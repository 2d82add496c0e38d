use std::sync::Arc;

use async_graphql::{Context, Object};

use super::miner_totals::MinerTotalsObject;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, int};
use crate::api::types::block::{AUDITS, AuditTotals, Block, BlockRangeInput, compared_blocks};
use crate::api::types::chain::SeriesPoint;
use crate::api::types::enums::SeriesGroupEnum;
use crate::chain::pools::PoolId;
use crate::view::{BlockRange, MinerTotals, View};

/// What a point of a pool costs beyond that of the chain: two seeks in the running totals of the pool.
pub(super) const TOTALS: usize = 2;

/// A period of the chain, and the blocks of a pool in it.
pub(crate) struct MinerSeriesPoint {
    period: SeriesPoint,
    pool: PoolId,
    totals: MinerTotals,
}

impl MinerSeriesPoint {
    /// The periods of a range of blocks, oldest first.
    ///
    /// Errors: those of [`SeriesPoint::series`]; NOT_READY.
    pub(super) fn series(
        ctx: &Context<'_>,
        (view, pool): (&Arc<View>, PoolId),
        range: Option<BlockRangeInput>,
        group: Option<SeriesGroupEnum>,
        include_empty: Option<bool>,
    ) -> Result<Vec<Self>, ApiError> {
        let periods = SeriesPoint::series(ctx, view, range, group, include_empty)?;
        let point = |period: SeriesPoint| {
            costs::spend(ctx, TOTALS)?;
            let totals = match period.blocks() {
                Some(blocks) => view.miner_totals(Some(pool), &(blocks.from..blocks.to.next()))?,
                None => MinerTotals::default(),
            };
            Ok(Self { period, pool, totals })
        };
        periods.into_iter().map(point).collect()
    }

    /// The fraction of the blocks that are the pool's, `None` without blocks.
    fn fraction(&self) -> Option<f64> {
        let all = self.period.blocks()?.blocks();
        Some(f64::from(self.totals.blocks) / f64::from(all.max(1)))
    }

    fn block_at(&self, end: impl Fn(&BlockRange) -> crate::chain::Height) -> Option<Result<Block, ApiError>> {
        let view = self.period.view();
        Block::maybe(view, view.block_at(end(self.period.blocks()?)))
    }
}

impl FieldCacheability for MinerSeriesPoint {
    const UNTIL_NEXT_HEAD: &'static str = "startAt endAt firstBlock lastBlock blockCount share hashrate stats audits";
}

/// A period of the main chain, and the part that a mining pool has in it.
#[Object]
impl MinerSeriesPoint {
    /// The beginning of the period, as in `SeriesPoint.startAt`.
    async fn start_at(&self) -> DateTime {
        self.period.start()
    }

    /// The end of the period, as in `SeriesPoint.endAt`.
    async fn end_at(&self) -> DateTime {
        self.period.end()
    }

    /// The first block of the period within the range, of any miner. Null if the period has no block.
    async fn first_block(&self) -> Option<Result<Block, ApiError>> {
        self.block_at(|blocks| blocks.from)
    }

    /// The last block of the period within the range, of any miner. Null if the period has no block.
    async fn last_block(&self) -> Option<Result<Block, ApiError>> {
        self.block_at(|blocks| blocks.to)
    }

    /// The number of blocks of the period within the range, of all miners. Those of the pool are `stats.blockCount`.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.period.blocks().map_or(0, BlockRange::blocks))
    }

    /// The fraction of the blocks that are the pool's, from 0 to 1. Null if the period has no block.
    async fn share(&self) -> Option<f64> {
        self.fraction()
    }

    /// The hashrate of the pool, in hashes per second: its share of `SeriesPoint.stats.hashrate` of the period, with the error
    /// of `MinerShare.hashrate`. Null if the period has no block, or no time passed.
    async fn hashrate(&self) -> Result<Option<f64>, ApiError> {
        let span = self.period.blocks().map(BlockRange::span).transpose()?.flatten();
        Ok(span.zip(self.fraction()).map(|(span, share)| span.hashrate() * share))
    }

    /// How the pool's blocks in the period compare with the projected ones, as in `MinerShare.audits`. Null if the period has no
    /// block.
    #[graphql(complexity = "costs::more(AUDITS, child_complexity)")]
    async fn audits(&self, ctx: &Context<'_>) -> Option<Result<AuditTotals, ApiError>> {
        let (view, blocks) = (self.period.view(), self.period.blocks()?);
        let compared = compared_blocks(ctx, view, blocks.from..blocks.to.next());
        Some(compared.and_then(|compared| AuditTotals::of_miner(ctx, view, &compared, Some(self.pool))))
    }

    /// The totals of the pool's blocks in the period. All are 0 if it has none.
    async fn stats(&self) -> MinerTotalsObject {
        MinerTotalsObject(self.totals)
    }
}
