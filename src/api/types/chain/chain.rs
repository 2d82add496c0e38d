use std::sync::Arc;

use async_graphql::{Context, ID, Object};

use super::chain_summary::ChainSummary;
use super::difficulty_adjustment::DifficultyAdjustment;
use super::difficulty_epoch::DifficultyEpochObject;
use super::range_stats::RangeStats;
use super::supply::SupplyObject;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::CHAIN_ID;
use crate::api::pagination::page::{PageArgs, count_of, height_at};
use crate::api::scalars::BlockHash;
use crate::api::types::block::{BlockAt, height_of};
use crate::api::types::enums::SortOrder;
use crate::chain::{self, BLOCKS_PER_EPOCH, Height, network};
use crate::view::{Dependency, View};

/// The main chain.
#[derive(Clone)]
pub(crate) struct Chain {
    view: Arc<View>,
}

impl Chain {
    pub(crate) fn new(view: Arc<View>) -> Self {
        Self { view }
    }

    fn sum(&self, from: Option<i32>, to: Option<i32>, last: Option<i32>) -> Result<RangeStats, ApiError> {
        let (first, end) = ends(from, to, last, self.view.tip().height)?;
        match to {
            Some(_) => self.view.note_chain_up_to(end),
            None => self.view.read_set().depends_on(Dependency::Chain),
        }
        Ok(RangeStats(self.view.range(first, end)?))
    }

    /// A page of the epochs of the difficulty. The row at a position is the epoch of that number, which its first block
    /// stands for in cursors.
    fn epochs_page(
        &self,
        ctx: &Context<'_>,
        args: &PageArgs,
        order: SortOrder,
    ) -> Result<Connection<DifficultyEpochObject>, ApiError> {
        let scope = Scope::new("epochs", CHAIN_ID.to_owned()).filtered(format!("{order:?}"));
        let count = chain::DifficultyEpoch::of(self.view.tip().height).index().saturating_add(1);
        let page = args.read(&scope, &self.view, limits(ctx)?)?.of(0..count.into(), order);
        let first = |index: u64| height_at(index.saturating_mul(BLOCKS_PER_EPOCH.into()));
        Connection::new(
            &scope,
            page,
            Some(count.into()),
            |index| Ok(Some(self.view.block_hash(first(index)?)?)),
            |index, ()| {
                let index = height_at(index)?.to_u32();
                let found = DifficultyEpochObject::find(&self.view, index)?;
                found.ok_or_else(|| ApiError::internal("an epoch that has not begun"))
            },
        )
    }
}

/// The first and the last height of the range that is asked for.
///
/// Errors: BAD_USER_INPUT for arguments that contradict each other, and for blocks that do not exist (yet).
fn ends(from: Option<i32>, to: Option<i32>, last: Option<i32>, tip: Height) -> Result<(Height, Height), ApiError> {
    if let Some(last) = last {
        if from.is_some() || to.is_some() {
            return Err(ApiError::bad_user_input(
                "last and heights cannot be combined: give last, or fromHeight and toHeight",
            ));
        }
        let blocks = u32::try_from(last).ok().filter(|blocks| *blocks > 0);
        let blocks = blocks
            .ok_or_else(|| ApiError::bad_user_input(format!("last is {last}: a range has at least one block")))?;
        return Ok((tip.to_u32().saturating_sub(blocks - 1).into(), tip));
    }
    let from = from.map_or(Ok(Height::GENESIS), |height| height_of("fromHeight", height))?;
    let to = to.map_or(Ok(tip), |height| height_of("toHeight", height))?;
    for (name, height) in [("fromHeight", from), ("toHeight", to)] {
        if height > tip {
            return Err(ApiError::bad_user_input(format!(
                "{name} is {height}, and there is no such block yet: the tip is at {tip}"
            )));
        }
    }
    if from > to {
        return Err(ApiError::bad_user_input(format!("fromHeight is {from}, which is above the toHeight {to}")));
    }
    Ok((from, to))
}

/// The main chain as a whole.
#[Object]
impl Chain {
    /// Always `Chain:main`.
    pub(crate) async fn id(&self) -> ID {
        CHAIN_ID.into()
    }

    /// The network: mainnet, testnet3, testnet4, signet or regtest.
    async fn network(&self) -> &'static str {
        network::name(self.view.network())
    }

    /// The hash of the genesis block.
    async fn genesis_hash(&self) -> BlockHash {
        BlockHash(network::genesis_hash(self.view.network()))
    }

    /// The key figures of the chain at its tip.
    async fn summary(&self) -> Result<ChainSummary, ApiError> {
        ChainSummary::of(&self.view)
    }

    /// How many coins exist, and how many can never be spent.
    async fn supply(
        &self,
        #[graphql(desc = "The block after which to report. The tip if not given.")] at: Option<BlockAt>,
    ) -> Option<Result<SupplyObject, ApiError>> {
        let block = BlockAt::resolve(at, &self.view);
        Some(block.and_then(|block| SupplyObject::of(&self.view, block)))
    }

    /// Totals over a range of blocks of any length: from one height to another, the last blocks, or the whole chain if
    /// no argument is given.
    async fn range(
        &self,
        #[graphql(desc = "The height of the first block, which must exist; default 0.")] from_height: Option<i32>,
        #[graphql(desc = "The height of the last block, which must exist; default the tip.")] to_height: Option<i32>,
        #[graphql(
            desc = "The number of blocks up to the tip, at least 1; not together with heights. All blocks if the chain \
                    has fewer."
        )]
        last: Option<i32>,
    ) -> Option<Result<RangeStats, ApiError>> {
        Some(self.sum(from_height, to_height, last))
    }

    /// The projected difficulty of the next epoch, from the blocks of the current epoch so far.
    async fn difficulty_adjustment(&self) -> Result<DifficultyAdjustment, ApiError> {
        DifficultyAdjustment::of(&self.view)
    }

    /// A difficulty epoch by its index. Null if the epoch has not begun.
    async fn epoch(
        &self,
        #[graphql(desc = "The index of the epoch: the number of epochs before it.")] index: i32,
    ) -> Option<Result<DifficultyEpochObject, ApiError>> {
        let index = count_of("index", index);
        index.and_then(|index| DifficultyEpochObject::find(&self.view, index)).transpose()
    }

    /// All difficulty epochs, including the current one, which may be incomplete. A cursor is valid while the first
    /// block of its epoch is on the main chain.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn epochs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
        #[graphql(desc = "Newest first (DESC) or oldest first (ASC).", default_with = "Some(SortOrder::Desc)")]
        order: Option<SortOrder>,
    ) -> Option<Result<Connection<DifficultyEpochObject>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(self.epochs_page(ctx, &args, order.unwrap_or(SortOrder::Desc)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_named_by_heights_by_its_length_or_not_at_all() {
        for (from, to, last, first, end) in [
            (None, None, None, 0, 9),
            (Some(3), None, None, 3, 9),
            (None, Some(3), None, 0, 3),
            (Some(3), Some(3), None, 3, 3),
            (Some(9), Some(9), None, 9, 9),
            (None, None, Some(1), 9, 9),
            (None, None, Some(10), 0, 9),
            (None, None, Some(i32::MAX), 0, 9),
        ] {
            assert_eq!(ends(from, to, last, 9.into()), Ok((first.into(), end.into())), "{from:?} {to:?} {last:?}");
        }
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        for (from, to, last) in [
            (Some(-1), None, None),
            (None, Some(-1), None),
            (Some(10), None, None),
            (None, Some(10), None),
            (Some(4), Some(3), None),
            (None, None, Some(0)),
            (None, None, Some(i32::MIN)),
            (Some(1), None, Some(1)),
            (None, Some(1), Some(1)),
        ] {
            let refusal = ends(from, to, last, 9.into()).unwrap_err();
            assert_eq!(refusal.code(), "BAD_USER_INPUT", "{from:?} {to:?} {last:?}");
        }
    }
}
