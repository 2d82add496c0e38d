//! Blocks.

use std::sync::Arc;

use async_graphql::futures_util::future::try_join_all;
use async_graphql::{Context, Object};

use super::root::{LookedUp, QueryRoot};
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::page::{PageArgs, height_at};
use crate::api::scalars::{BlockHash, DateTime};
use crate::api::types::block::{
    Block, BlockClock, BlockFilter, BlockHeader, BlockRangeInput, CompactFilterObject, TimeLookup, height_of,
};
use crate::api::types::chain::Reorg;
use crate::api::types::enums::SortOrder;

type Blocks = Connection<Block>;
type Reorgs = Connection<Reorg>;

/// Finds blocks.
pub(crate) struct BlockQuery(pub(crate) QueryRoot);

impl BlockQuery {
    fn find(&self, ctx: &Context<'_>, hash: Option<BlockHash>, height: Option<i32>) -> Result<Option<Block>, ApiError> {
        let view = self.0.view(ctx)?;
        let found = match (hash, height) {
            (Some(hash), None) => view.block(hash.0)?,
            (None, Some(height)) => view.block_at(height_of("height", height)?)?,
            _ => return Err(ApiError::not_exactly_one(&[("hash", hash.is_some()), ("height", height.is_some())])),
        };
        Ok(found.map(|block| Block::new(&view, block)))
    }

    fn page(
        &self,
        ctx: &Context<'_>,
        args: &PageArgs,
        order: SortOrder,
        (range, filter): (Option<BlockRangeInput>, Option<BlockFilter>),
    ) -> Result<Blocks, ApiError> {
        if let Some(filter) = BlockFilter::checked(filter)? {
            return self.filtered_page(ctx, args, order, range, &filter);
        }
        let view = self.0.view(ctx)?;
        // the arguments as given, and not the heights that they stand for: these change when blocks arrive
        let scope = Scope::new("blocks", "Query".to_owned()).filtered(format!("{order:?} {range:?}"));
        let heights = BlockRangeInput::heights("range", range, &view)?;
        let (start, end) = (heights.start.to_u32(), heights.end.to_u32());
        let page = args.read(&scope, &view, limits(ctx)?)?.of(start.into()..end.into(), order);
        Connection::new(
            &scope,
            page,
            Some(end.saturating_sub(start).into()),
            |position| Ok(Some(view.block_hash(height_at(position)?)?)),
            |position, ()| Ok(Block::new(&view, view.main_block(height_at(position)?)?)),
        )
    }

    fn filtered_page(
        &self,
        ctx: &Context<'_>,
        args: &PageArgs,
        order: SortOrder,
        range: Option<BlockRangeInput>,
        filter: &BlockFilter,
    ) -> Result<Blocks, ApiError> {
        let (view, limits) = (self.0.view(ctx)?, limits(ctx)?);
        let scope = Scope::new("blocks", "Query".to_owned()).filtered(format!("{order:?} {range:?} {filter:?}"));
        let heights = BlockRangeInput::heights("range", range, &view)?;
        let request = args.read(&scope, &view, limits)?;
        let (page, total) = filter.page(ctx, &view, &request, (heights, order), limits)?;
        let hash = |position| Ok(Some(view.block_hash(height_at(position)?)?));
        Connection::new(&scope, page, total, hash, |_, height| Ok(Block::new(&view, view.main_block(height)?)))
    }

    fn stale_page(&self, ctx: &Context<'_>, args: &PageArgs) -> Result<Blocks, ApiError> {
        let view = self.0.view(ctx)?;
        let scope = Scope::new("staleBlocks", "Query".to_owned());
        let request = args.read(&scope, &view, limits(ctx)?)?;
        let walk = request.walk(0..u64::MAX, SortOrder::Desc);
        let rows = view.stale_blocks(walk.positions)?.map(|row| row.map(|(position, place)| (position, Some(place))));
        let page = if walk.ascending { request.page(|_| false, rows)? } else { request.page(|_| false, rows.rev())? };
        let count = u32::try_from(view.stale_block_count()?).map_err(|_| ApiError::internal("too many blocks"))?;
        Connection::new(
            &scope,
            page,
            Some(count.into()),
            // a stale block stays one, whatever happens to the main chain
            |_| Ok(None),
            |_, (height, hash)| Ok(Block::new(&view, view.stale_block(height, hash)?)),
        )
    }

    fn reorg_page(&self, ctx: &Context<'_>, args: &PageArgs) -> Result<Reorgs, ApiError> {
        let view = self.0.view(ctx)?;
        let scope = Scope::new("reorgs", "Query".to_owned());
        let kept = view.kept_reorgs()?;
        let count = u32::try_from(kept.end.saturating_sub(kept.start)).map_err(|_| ApiError::internal("too many"))?;
        let page = args.read(&scope, &view, limits(ctx)?)?.of(kept, SortOrder::Desc);
        Connection::new(
            &scope,
            page,
            Some(count.into()),
            // what happened stays so, whatever happens to the chain
            |_| Ok(None),
            |number, ()| {
                let found = view.reorgs(number..number.saturating_add(1))?.next().transpose()?;
                let (_, reorg) = found.ok_or_else(|| ApiError::internal("a kept reorganisation is missing"))?;
                Reorg::new(&view, reorg)
            },
        )
    }

    fn each(&self, ctx: &Context<'_>, hashes: &[BlockHash]) -> Result<LookedUp<Block>, ApiError> {
        let view = self.0.view_of_list(ctx, "hashes", hashes.len())?;
        Ok(hashes.iter().map(|hash| Block::maybe(&view, view.block(hash.0))).collect())
    }

    fn headers_of(&self, ctx: &Context<'_>, range: BlockRangeInput) -> Result<Vec<BlockHeader>, ApiError> {
        let (view, limit) = (self.0.view(ctx)?, limits(ctx)?.headers);
        let heights = BlockRangeInput::heights("range", Some(range), &view)?;
        let (start, end) = (heights.start.to_u32(), heights.end.to_u32());
        let count = end.saturating_sub(start);
        if count > limit {
            return Err(ApiError::argument_exceeds("range", "headersPerList", limit.into(), count.into()));
        }
        costs::spend(ctx, usize::try_from(count).unwrap_or(usize::MAX))?;
        let header = |height: u32| {
            let block = view.main_block(height.into())?;
            Ok(BlockHeader { hash: block.row.hash, height: block.height, header: block.row.header })
        };
        (start..end).map(header).collect()
    }

    async fn filters_of(
        &self,
        ctx: &Context<'_>,
        range: BlockRangeInput,
    ) -> Result<Vec<CompactFilterObject>, ApiError> {
        let (view, limit) = (self.0.view(ctx)?, limits(ctx)?.compact_filters);
        let heights = BlockRangeInput::heights("range", Some(range), &view)?;
        let (start, end) = (heights.start.to_u32(), heights.end.to_u32());
        let count = end.saturating_sub(start);
        if count > limit {
            return Err(ApiError::argument_exceeds("range", "compactFiltersPerList", limit.into(), count.into()));
        }
        costs::spend(ctx, usize::try_from(count).unwrap_or(usize::MAX))?;
        let view = &view;
        // those that the node has are requested together
        try_join_all((start..end).map(|height| async move {
            let block = Arc::new(view.main_block(height.into())?);
            view.note_block(&block);
            CompactFilterObject::find(ctx, view, &block, costs::FILTER_OF_MANY).await
        }))
        .await
    }
}

impl FieldCacheability for BlockQuery {
    const IMMUTABLE_IF_FOUND: &'static str = "block blocksByHash";
    const BY_ARGUMENT: &'static str = "blockAtTime blocks headers";
    const UNTIL_NEXT_TIP: &'static str = "tip";
    const UNTIL_NEXT_HEAD: &'static str = "staleBlocks reorgs";
    const NEVER: &'static str = "compactFilters";
}

#[Object]
impl BlockQuery {
    /// The tip: the newest block of the main chain.
    /// Example: `{ tip { height hash time txCount } }`.
    async fn tip(&self, ctx: &Context<'_>) -> Option<Result<Block, ApiError>> {
        Some(self.0.view(ctx).and_then(|view| Ok(Block::new(&view, view.tip_block()?))))
    }

    /// A block by its hash, on the main chain or stale, or by its height on the main chain. Give exactly one of the
    /// two. Null for an unknown hash, and for a height above the tip.
    /// Example: `{ block(height: 170) { hash time transactions { nodes { txid } } } }`.
    async fn block(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The hash of the block.")] hash: Option<BlockHash>,
        #[graphql(desc = "The height of the block on the main chain, from 0.")] height: Option<i32>,
    ) -> Option<Result<Block, ApiError>> {
        self.find(ctx, hash, height).transpose()
    }

    /// The block of the main chain at a time: by default the one that was the tip, the highest block whose median time past (BIP113)
    /// is at or before it. Null if there is no block on that side of the time.
    /// Example: `{ blockAtTime(time: "2009-01-12T06:00:00Z") { height hash medianTime } }`.
    #[graphql(complexity = "costs::more(TimeLookup::cost(mode, clock), child_complexity)")]
    async fn block_at_time(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The time.")] time: DateTime,
        #[graphql(desc = "Which time of a block counts.", default_with = "Some(BlockClock::MedianTime)")] clock: Option<
            BlockClock,
        >,
        #[graphql(desc = "On which side of the time to look.", default_with = "Some(TimeLookup::AtOrBefore)")]
        mode: Option<TimeLookup>,
    ) -> Option<Result<Block, ApiError>> {
        let find = || {
            let view = self.0.view(ctx)?;
            costs::spend(ctx, TimeLookup::cost(mode, clock))?;
            let found = mode.unwrap_or_default().find(clock.unwrap_or_default(), time, &view)?;
            Ok(found.map(|block| Block::new(&view, block)))
        };
        find().transpose()
    }

    /// The blocks of the main chain, or of a part of it.
    /// Example: `{ blocks(first: 10) { nodes { height hash txCount totalFees } pageInfo { hasNextPage endCursor } } }`.
    #[graphql(complexity = "BlockFilter::page_cost(filter.as_ref(), first, last, child_complexity)")]
    async fn blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only blocks that meet all of these conditions.")] filter: Option<BlockFilter>,
        #[graphql(desc = "Only these blocks. Heights may be above the tip.")] range: Option<BlockRangeInput>,
        #[graphql(
            desc = "By height: descending from the tip (DESC), or ascending (ASC).",
            default_with = "Some(SortOrder::Desc)"
        )]
        order: Option<SortOrder>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Blocks, ApiError>> {
        let order = order.unwrap_or(SortOrder::Desc);
        Some(self.page(ctx, &PageArgs { first, after, last, before }, order, (range, filter)))
    }

    /// Blocks by their hashes, on the main chain or stale: one entry per hash, in the given order. Null for an unknown
    /// hash.
    /// Example: `{ blocksByHash(hashes: ["000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"]) { height
    /// chainStatus } }`.
    #[graphql(complexity = "costs::list(hashes.len(), child_complexity.saturating_add(1))")]
    async fn blocks_by_hash(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The block hashes, at most `server.limits.pages.idsPerList`.")] hashes: Vec<BlockHash>,
    ) -> Option<Result<LookedUp<Block>, ApiError>> {
        Some(self.each(ctx, &hashes))
    }

    /// The headers of consecutive blocks of the main chain, lowest first. At most `server.limits.pages.headersPerList`.
    /// Example: `{ headers(range: { heights: { from: 0, to: 99 } }) { height hash hex } }`.
    #[graphql(complexity = "costs::list(range.most_blocks(costs::HEADERS), child_complexity.saturating_add(1))")]
    async fn headers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The blocks. Heights may be above the tip.")] range: BlockRangeInput,
    ) -> Option<Result<Vec<BlockHeader>, ApiError>> {
        Some(self.headers_of(ctx, range))
    }

    /// The basic compact filters (BIP158) of consecutive blocks of the main chain, lowest first, for a light client that matches
    /// them on its own machine. Each is found as `Block.compactFilter` is, and the field fails if one of them cannot be found.
    /// At most `server.limits.pages.compactFiltersPerList`. Without `hex`, filter headers (BIP157) alone are cheap if the
    /// server has the feature BLOCK_FILTERS. With `hex`, a filter that the server computes costs 1 for each transaction of its block
    /// and 3 for each input, 24,000 for 3,000 transactions with 7,000 inputs: `server.limits.requests.complexity`, 50,000 by
    /// default, then allows 2 such blocks in one answer. A filter of the node costs 10.
    /// Example: `{ compactFilters(range: { heights: { from: 0, to: 9 } }) { blockHash hex filterHeader } }`.
    #[graphql(
        complexity = "costs::list(range.most_blocks(costs::COMPACT_FILTERS), child_complexity.saturating_add(costs::FILTER_OF_MANY))"
    )]
    async fn compact_filters(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The blocks. Heights may be above the tip.")] range: BlockRangeInput,
    ) -> Option<Result<Vec<CompactFilterObject>, ApiError>> {
        Some(self.filters_of(ctx, range).await)
    }

    /// The stale blocks that this server stores, highest first: those that it saw leave the main chain, and most of those that
    /// the Bitcoin node has on other branches near the tip. So servers differ in them, and a new server has only the latter.
    /// Example: `{ staleBlocks(first: 5) { nodes { height hash reorg { depth } } } }`.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn stale_blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Blocks, ApiError>> {
        Some(self.stale_page(ctx, &PageArgs { first, after, last, before }))
    }

    /// The reorgs that this server followed, newest first. It knows no others; a new server knows none.
    /// Example: `{ reorgs(first: 5) { nodes { observedAt depth forkHeight disconnected { nodes { block { hash } } } } } }`.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn reorgs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Reorgs, ApiError>> {
        Some(self.reorg_page(ctx, &PageArgs { first, after, last, before }))
    }
}
