use std::sync::Arc;

use async_graphql::{Context, Object};

use super::range_totals::RangeTotals;
use super::utxo_set::UtxoSetObject;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, int};
use crate::api::types::block::{AUDITS, AuditTotals, Block, BlockRangeInput, compared_blocks};
use crate::api::types::enums::SeriesGroupEnum;
use crate::chain::Height;
use crate::chain::difficulty::difficulty;
use crate::view::{BlockRange, BlockRow, ChainPeriod, SeriesShape, TooManyPeriods, View};

/// The row that a point has: that of its last block. The one before it is of the point before.
const POINT_BYTES: usize = size_of::<BlockRow>();

/// A period of the chain.
pub(crate) struct SeriesPoint {
    view: Arc<View>,
    found: ChainPeriod,
}

impl SeriesPoint {
    /// The periods of a range of blocks, oldest first.
    ///
    /// Errors: BAD_USER_INPUT for a range that is none; QUERY_LIMIT_EXCEEDED for too many points.
    pub(crate) fn series(
        ctx: &Context<'_>,
        view: &Arc<View>,
        range: Option<BlockRangeInput>,
        group: Option<SeriesGroupEnum>,
        include_empty: Option<bool>,
    ) -> Result<Vec<Self>, ApiError> {
        let most = limits(ctx)?.points;
        let group = group.unwrap_or_default().into();
        let blocks = BlockRangeInput::heights("range", range, view)?;
        let include_empty = include_empty.unwrap_or_default();
        let empty_within = range.filter(|_| include_empty).and_then(|range| range.seconds());
        let shape = SeriesShape { group, include_empty, empty_within, most };
        let found = view.series(&blocks, shape, || {
            costs::spend(ctx, costs::PERIOD)?;
            Ok::<_, ApiError>(view.count(POINT_BYTES)?)
        })?;
        let found = found.map_err(|TooManyPeriods(periods)| {
            ApiError::argument_exceeds("range", "pointsPerSeries", most.into(), periods.into())
        })?;
        Ok(found.into_iter().map(|found| Self { view: view.clone(), found }).collect())
    }

    /// The view that the period was found in.
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The blocks of the period within the range, `None` if there are none.
    pub(crate) fn blocks(&self) -> Option<&BlockRange> {
        self.found.blocks.as_ref()
    }

    /// The beginning of the period.
    pub(crate) fn start(&self) -> DateTime {
        let first = || self.found.blocks.as_ref().map_or(self.found.last.median_time, |blocks| blocks.started_at);
        DateTime::from_unix(self.found.period.seconds.map_or_else(first, |(start, _)| start))
    }

    /// The end of the period.
    pub(crate) fn end(&self) -> DateTime {
        DateTime::from_unix(self.found.period.seconds.map_or(self.found.last.median_time, |(_, end)| end))
    }

    /// The height of the newest block at the end of the period, in it or before it.
    fn last_height(&self) -> Height {
        self.found.period.blocks.end.previous().unwrap_or(Height::GENESIS)
    }
}

impl FieldCacheability for SeriesPoint {
    const IMMUTABLE: &'static str = "startAt endAt firstBlock lastBlock blockCount stats difficulty utxoSet";
    const UNTIL_NEXT_HEAD: &'static str = "audits";
}

/// A period of the main chain: the totals of its blocks, and the state after the last of them.
#[Object]
impl SeriesPoint {
    /// The beginning of the period. Of an hour, a day, a week or a month its first second in UTC, even if the range begins
    /// later; of other groups the median time past of the first block.
    async fn start_at(&self) -> DateTime {
        self.start()
    }

    /// The end of the period. Of an hour, a day, a week or a month its last second in UTC, even if the range, or the chain,
    /// ends earlier; of other groups the median time past of the last block.
    async fn end_at(&self) -> DateTime {
        self.end()
    }

    /// The first block of the period within the range. Null if the period has no block.
    async fn first_block(&self) -> Option<Result<Block, ApiError>> {
        let blocks = self.found.blocks.as_ref()?;
        Block::maybe(&self.view, self.view.block_at(blocks.from))
    }

    /// The last block of the period within the range. Null if the period has no block.
    async fn last_block(&self) -> Option<Result<Block, ApiError>> {
        let blocks = self.found.blocks.as_ref()?;
        Block::maybe(&self.view, self.view.block_at(blocks.to))
    }

    /// The number of blocks of the period within the range.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.found.blocks.as_ref().map_or(0, BlockRange::blocks))
    }

    /// The totals of the blocks of the period within the range: `Chain.range` of them. Null if the period has no block.
    async fn stats(&self) -> Option<RangeTotals> {
        self.found.blocks.clone().map(RangeTotals)
    }

    /// How the blocks of the period within the range compare with the projected ones: all that this server compared. A row is read
    /// for each block that it saw arrive, and three count as a field against the limit of an answer, as does each part of the period
    /// without a gap in what was compared. Null if the period has no block.
    #[graphql(complexity = "costs::more(AUDITS, child_complexity)")]
    async fn audits(&self, ctx: &Context<'_>) -> Option<Result<AuditTotals, ApiError>> {
        let blocks = self.found.blocks.as_ref()?;
        let compared = compared_blocks(ctx, &self.view, blocks.from..blocks.to.next());
        Some(compared.and_then(|compared| AuditTotals::of(ctx, &self.view, &compared)))
    }

    /// The difficulty of the last block; of a period without blocks, of the block before it.
    async fn difficulty(&self) -> f64 {
        difficulty(self.found.last.header.bits)
    }

    /// The UTXO set right after the last block: `Chain.utxoSet(at:)` of that block. Of a period without blocks, that after the
    /// block before it.
    async fn utxo_set(&self) -> UtxoSetObject {
        UtxoSetObject::after(self.last_height(), self.found.last.clone())
    }
}
