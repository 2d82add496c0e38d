use std::sync::Arc;

use async_graphql::{Context, ID, Object};

use super::range_totals::RangeTotals;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::difficulty_epoch_id;
use crate::api::pagination::page::{PageArgs, height_at};
use crate::api::scalars::{DateTime, Int53, UInt53, int};
use crate::api::types::block::Block;
use crate::api::types::enums::SortOrder;
use crate::chain::difficulty::difficulty;
use crate::chain::difficulty::retarget::{EpochSoFar, change};
use crate::chain::{self, BLOCKS_PER_EPOCH, Height};
use crate::view::{self, BlockRange, BlockRow, Dependency, View};

/// An epoch of the difficulty, as far as its blocks are there.
#[derive(Clone)]
pub(crate) struct DifficultyEpochObject {
    view: Arc<View>,
    epoch: chain::DifficultyEpoch,
    first: Arc<BlockRow>,
    blocks: Arc<BlockRange>,
}

impl DifficultyEpochObject {
    /// The epoch of this number, counted from 0; `None` if it has not begun. Its fields are as cacheable as its last
    /// block, once that is there.
    pub(crate) fn find(view: &Arc<View>, index: u32) -> Result<Option<Self>, ApiError> {
        let tip = view.tip().height;
        if index > chain::DifficultyEpoch::of(tip).index() {
            view.read_set().depends_on(Dependency::Chain);
            return Ok(None);
        }
        // not above that of the tip, so that its heights are heights
        let epoch = chain::DifficultyEpoch::of((index * BLOCKS_PER_EPOCH).into());
        if epoch.last() <= tip {
            view.note_chain_up_to(epoch.last());
        } else {
            view.read_set().depends_on(Dependency::Chain);
        }
        let blocks = Arc::new(view.range(epoch.first(), epoch.last().min(tip))?);
        let first = view.main_block(epoch.first())?.row;
        Ok(Some(Self { view: view.clone(), epoch, first, blocks }))
    }

    /// The epoch that this block of the main chain is the first of; `None` if it is not the first of any.
    pub(crate) fn beginning_with(view: &Arc<View>, first: bitcoin::BlockHash) -> Result<Option<Self>, ApiError> {
        let Some(block) = view.block(first)?.filter(view::Block::is_main) else { return Ok(None) };
        let epoch = chain::DifficultyEpoch::of(block.height);
        if epoch.first() == block.height { Self::find(view, epoch.index()) } else { Ok(None) }
    }

    /// That of the tip.
    pub(crate) fn newest(view: &Arc<View>) -> Result<Self, ApiError> {
        let index = chain::DifficultyEpoch::of(view.tip().height).index();
        Self::find(view, index)?.ok_or_else(|| ApiError::internal("the epoch of the tip has not begun"))
    }

    /// Its blocks so far, to see what they make of the difficulty.
    pub(crate) fn so_far(&self) -> Result<EpochSoFar, ApiError> {
        let (first, last) = (&self.first.header, &self.blocks.last.header);
        let is_first = self.epoch.first() == Height::GENESIS && self.blocks.blocks() > 1;
        let second = is_first.then(|| self.view.main_block(Height::GENESIS.next())).transpose()?;
        Ok(EpochSoFar {
            network: self.view.network(),
            blocks: self.blocks.blocks(),
            first_bits: first.bits,
            first_time: first.time,
            second_time: second.map(|block| block.row.header.time),
            last_bits: last.bits,
            last_time: last.time,
        })
    }

    /// A page of its blocks so far. The row at a position is the block at that height.
    fn blocks_page(&self, ctx: &Context<'_>, args: &PageArgs, order: SortOrder) -> Result<Connection<Block>, ApiError> {
        let id = difficulty_epoch_id(self.first.header.block_hash());
        let scope = Scope::new("blocks", id).filtered(format!("{order:?}"));
        let (start, count) = (u64::from(self.epoch.first().to_u32()), self.blocks.blocks());
        let page = args.read(&scope, &self.view, limits(ctx)?)?.of(start..start.saturating_add(count.into()), order);
        Connection::new(
            &scope,
            page,
            Some(count.into()),
            |position| Ok(Some(self.view.block_hash(height_at(position)?)?)),
            |position, ()| Ok(Block::new(&self.view, self.view.main_block(height_at(position)?)?)),
        )
    }

    /// The height of the first block that is not in it any more.
    pub(crate) fn end(&self) -> chain::Height {
        self.epoch.last().next()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.epoch.last() <= self.view.tip().height
    }

    /// By how much it is harder than the one before it.
    pub(crate) fn change_at_start(&self) -> Result<Option<f64>, ApiError> {
        let Some(before) = self.epoch.first().previous() else { return Ok(None) };
        let before = self.view.main_block(chain::DifficultyEpoch::of(before).first())?;
        Ok(Some(change(before.row.header.bits, self.first.header.bits)))
    }
}

impl FieldCacheability for DifficultyEpochObject {
    const IMMUTABLE: &'static str = "id index startHeight endHeight startedAt endedAt bits difficulty change \
        actualTimespan stats blocks isComplete";
}

/// A run of 2,016 main chain blocks with the same difficulty, after which the difficulty is adjusted. Times are header
/// timestamps, which the consensus rule uses.
#[Object(name = "DifficultyEpoch")]
impl DifficultyEpochObject {
    /// `DifficultyEpoch:` followed by the hash of its first block.
    pub(crate) async fn id(&self) -> ID {
        difficulty_epoch_id(self.first.header.block_hash()).into()
    }

    /// The index of the epoch: the number of epochs before it.
    async fn index(&self) -> Result<i32, ApiError> {
        int(self.epoch.index())
    }

    /// The height of the epoch's first block.
    async fn start_height(&self) -> Result<i32, ApiError> {
        int(self.epoch.first().to_u32())
    }

    /// The height of the epoch's last block, whether it exists yet or not.
    async fn end_height(&self) -> Result<i32, ApiError> {
        int(self.epoch.last().to_u32())
    }

    /// The header timestamp of the first block.
    async fn started_at(&self) -> DateTime {
        DateTime::from_unix(self.first.header.time)
    }

    /// The header timestamp of the last block. Null until that block exists.
    async fn ended_at(&self) -> Option<DateTime> {
        self.has_ended().then(|| DateTime::from_unix(self.blocks.last.header.time))
    }

    /// The target of the first block in compact form. On test networks, individual blocks of the epoch may have an
    /// easier target.
    async fn bits(&self) -> UInt53 {
        self.first.header.bits.to_consensus().into()
    }

    /// The difficulty of the first block.
    async fn difficulty(&self) -> f64 {
        difficulty(self.first.header.bits)
    }

    /// The change of the difficulty from the previous epoch to this one, as a fraction: 0.05 means 5 % harder. Null for
    /// the first epoch.
    async fn change(&self) -> Option<Result<f64, ApiError>> {
        self.change_at_start().transpose()
    }

    /// The time from the first block to the last, in seconds; it spans 2,015 intervals. The next difficulty scales with
    /// two weeks divided by this time. Null until the last block exists.
    async fn actual_timespan(&self) -> Option<Result<Int53, ApiError>> {
        let seconds = || i64::from(self.blocks.last.header.time) - i64::from(self.first.header.time);
        self.has_ended().then(|| Int53::new(seconds()))
    }

    /// Totals over the epoch's blocks so far.
    async fn stats(&self) -> RangeTotals {
        RangeTotals(self.blocks.as_ref().clone())
    }

    /// The epoch's blocks so far.
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

    /// Whether the last block of the epoch exists.
    async fn is_complete(&self) -> bool {
        self.has_ended()
    }
}
