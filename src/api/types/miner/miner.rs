use std::sync::Arc;

use async_graphql::{Context, ID, Object};

use super::miner_series_point::{MinerSeriesPoint, TOTALS};
use super::miner_share::{MinerShare, POOLS};
use super::miner_totals::MinerTotalsObject;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::engine::List;
use crate::api::error::{ApiError, shown};
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::miner_id;
use crate::api::pagination::page::{PageArgs, height_at};
use crate::api::types::block::{Block, BlockRangeInput};
use crate::api::types::enums::{SeriesGroupEnum, SortOrder};
use crate::api::types::ledger::Address;
use crate::chain::Height;
use crate::chain::pools::{Pool, PoolId, slug};
use crate::view::View;

/// A mining pool of the server's table, and the view that it was found in.
#[derive(Clone)]
pub(crate) struct Miner {
    view: Arc<View>,
    pool: PoolId,
}

impl Miner {
    pub(crate) fn new(view: &Arc<View>, pool: PoolId) -> Self {
        Self { view: view.clone(), pool }
    }

    /// Whether a text, given under this name, can be a slug. Errors: BAD_USER_INPUT.
    pub(crate) fn check_slug(name: &str, text: &str) -> Result<(), ApiError> {
        if !text.is_empty() && text == slug(text) {
            return Ok(());
        }
        let rule = "a slug is the name of a pool in lower case, with letters and digits only, at least one";
        Err(ApiError::bad_argument(name, format!("is {}: {rule}", shown(text))))
    }

    /// The pool with this slug.
    pub(crate) fn find(view: &Arc<View>, slug: &str) -> Option<Self> {
        view.pools().find(slug).map(|pool| Self::new(view, pool))
    }

    /// The pool that a block with this coinbase is ascribed to.
    pub(crate) fn of_coinbase(view: &Arc<View>, raw: &[u8]) -> Result<Option<Self>, ApiError> {
        Ok(view.miner_of(raw)?.map(|(pool, _)| Self::new(view, pool)))
    }

    fn row(&self) -> Result<&Pool, ApiError> {
        self.view.pools().get(self.pool).ok_or_else(|| ApiError::internal("a pool is not in its table"))
    }

    fn sum(&self, range: Option<BlockRangeInput>) -> Result<MinerTotalsObject, ApiError> {
        let heights = BlockRangeInput::heights("range", range, &self.view)?;
        let end = heights.end.min(self.view.tip().height.next());
        Ok(MinerTotalsObject(self.view.miner_totals(Some(self.pool), &(heights.start.min(end)..end))?))
    }

    fn blocks_page(&self, ctx: &Context<'_>, args: &PageArgs, order: SortOrder) -> Result<Connection<Block>, ApiError> {
        let scope = Scope::new("blocks", miner_id(&self.row()?.slug)).filtered(format!("{order:?}"));
        let request = args.read(&scope, &self.view, limits(ctx)?)?;
        let end = self.view.tip().height.next();
        let walk = request.walk(0..u64::from(end.to_u32()), order);
        let heights = height_at(walk.positions.start)?..height_at(walk.positions.end)?;
        let rows = self.view.miner_blocks(Some(self.pool), &heights, walk.ascending)?;
        let rows = rows.map(|row| row.map(|height| (u64::from(height.to_u32()), Some(height))));
        let page = request.page(|_| false, rows)?;
        let total = self.view.miner_totals(Some(self.pool), &(Height::GENESIS..end))?.blocks;
        let hash = |position| Ok(Some(self.view.block_hash(height_at(position)?)?));
        Connection::new(&scope, page, Some(total.into()), hash, |_, height| self.block(height))
    }

    fn block(&self, height: Height) -> Result<Block, ApiError> {
        Ok(Block::new(&self.view, self.view.main_block(height)?))
    }

    /// The lowest or the highest block of the pool.
    fn end(&self, lowest: bool) -> Result<Option<Block>, ApiError> {
        let all = Height::GENESIS..self.view.tip().height.next();
        let found = self.view.miner_blocks(Some(self.pool), &all, lowest)?.next().transpose()?;
        found.map(|height| self.block(height)).transpose()
    }
}

impl FieldCacheability for Miner {
    const IMMUTABLE: &'static str = "id slug";
    const UNTIL_NEXT_HEAD: &'static str =
        "name link tags payoutAddresses stats minerShare series firstBlock lastBlock blocks";
}

/// A mining pool. The server recognises the pools of its table, which the setting `index.pools_file` extends, by the
/// coinbases of their blocks. All but `name`, `link`, `tags` and `payoutAddresses` is NOT_READY while the blocks of the chain are
/// still assigned to pools: with a new index, and after a change of the table.
#[Object]
impl Miner {
    /// `Miner:` followed by the slug.
    pub(crate) async fn id(&self) -> Result<ID, ApiError> {
        Ok(miner_id(&self.row()?.slug).into())
    }

    /// The name in lower case, with letters and digits only, as it stands in the id.
    async fn slug(&self) -> Result<&str, ApiError> {
        Ok(&self.row()?.slug)
    }

    /// The name of the pool.
    async fn name(&self) -> Result<&str, ApiError> {
        Ok(&self.row()?.name)
    }

    /// The web page of the pool, as the table of pools has it. Null if it has none.
    async fn link(&self) -> Result<Option<&str>, ApiError> {
        Ok(self.row()?.link.as_deref())
    }

    /// The texts in the scriptSig of a coinbase by which the pool is recognised, whatever the case of their ASCII letters, in the
    /// order of the table of pools. As many as that has for it.
    #[graphql(complexity = "costs::list(costs::POOL_MARKS, 0)")]
    async fn tags(&self) -> Result<List<String>, ApiError> {
        Ok(self.row()?.tags.clone().into())
    }

    /// The addresses by which the pool is recognised where a coinbase has no tag and pays one. As many as the table of pools has for
    /// it on this network.
    #[graphql(complexity = "costs::list(costs::POOL_MARKS, child_complexity)")]
    async fn payout_addresses(&self) -> Result<Vec<Address>, ApiError> {
        Ok(self.row()?.payout_scripts.iter().filter_map(|script| Address::of(&self.view, script.clone())).collect())
    }

    /// The totals of the pool's blocks on the main chain, or on a part of it. Null only together with an error.
    async fn stats(
        &self,
        #[graphql(desc = "Only these blocks. Heights may be above the tip.")] range: Option<BlockRangeInput>,
    ) -> Option<Result<MinerTotalsObject, ApiError>> {
        Some(self.sum(range))
    }

    /// The part that the pool has in a range of main chain blocks, as `Chain.miners` lists it: also where it has none of them. Null only
    /// together with an error.
    #[graphql(complexity = "costs::more(POOLS, child_complexity)")]
    async fn miner_share(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The blocks, of which there must be at least one. Heights must exist. The whole chain if not given."
        )]
        range: Option<BlockRangeInput>,
    ) -> Option<Result<MinerShare, ApiError>> {
        Some(MinerShare::of(ctx, &self.view, self.pool, range))
    }

    /// The pool over time: its blocks, its share and its hashrate in each period in which the chain has a block, oldest first.
    /// The periods are those of `Chain.series`; in some the pool may have no block. At most `server.limits.pages.pointsPerSeries`; beyond
    /// it, give a range or a longer period. The time that a point takes does not depend on how many blocks it has. Example:
    /// `{ chain { miner(slug: "f2pool") { series(range: { times: { from: "2026-01-01T00:00:00Z" } }, group: WEEK) { startAt share
    /// hashrate stats { blockCount reward } } } } }`.
    #[graphql(
        complexity = "BlockRangeInput::series_cost(range, group, include_empty, child_complexity.saturating_add(TOTALS))"
    )]
    async fn series(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The blocks. The whole chain if not given.")] range: Option<BlockRangeInput>,
        #[graphql(desc = "What a point stands for.", default_with = "Some(SeriesGroupEnum::Day)")] group: Option<
            SeriesGroupEnum,
        >,
        #[graphql(
            desc = "Whether to include the periods in which the chain has no block: a point for each, as a chart needs; with \
                    `range.times` from its start to its end, but for what is before the genesis block and after the tip.",
            default_with = "Some(false)"
        )]
        include_empty: Option<bool>,
    ) -> Option<Result<Vec<MinerSeriesPoint>, ApiError>> {
        Some(MinerSeriesPoint::series(ctx, (&self.view, self.pool), range, group, include_empty))
    }

    /// The lowest main chain block of the pool. Null if it has none.
    async fn first_block(&self) -> Option<Result<Block, ApiError>> {
        self.end(true).transpose()
    }

    /// The highest main chain block of the pool. Null if it has none.
    async fn last_block(&self) -> Option<Result<Block, ApiError>> {
        self.end(false).transpose()
    }

    /// The main chain blocks of the pool.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "By height: descending from the newest (DESC), or ascending (ASC).",
            default_with = "Some(SortOrder::Desc)"
        )]
        order: Option<SortOrder>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Block>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(self.blocks_page(ctx, &args, order.unwrap_or(SortOrder::Desc)))
    }
}
