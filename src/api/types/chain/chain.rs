use std::sync::Arc;

use async_graphql::{Context, ID, Object};

use super::chain_summary::ChainSummary;
use super::deployment::DeploymentObject;
use super::difficulty_adjustment::DifficultyAdjustment;
use super::difficulty_epoch::DifficultyEpochObject;
use super::halving::Halving;
use super::range_totals::RangeTotals;
use super::series_point::SeriesPoint;
use super::supply::SupplyObject;
use super::utxo_set::UtxoSetObject;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::engine::List;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::CHAIN_ID;
use crate::api::pagination::page::{PageArgs, count_of, height_at};
use crate::api::scalars::BlockHash;
use crate::api::types::block::{BlockAt, BlockRangeInput};
use crate::api::types::enums::{NetworkEnum, SeriesGroupEnum, SortOrder};
use crate::api::types::miner::{Miner, MinerShare, POOLS};
use crate::chain::{self, BLOCKS_PER_EPOCH, network};
use crate::view::View;

/// How many soft forks a node is taken to know.
const DEPLOYMENTS: usize = 10;

/// The main chain.
#[derive(Clone)]
pub(crate) struct Chain {
    view: Arc<View>,
}

impl Chain {
    pub(crate) fn new(view: Arc<View>) -> Self {
        Self { view }
    }

    fn sum(&self, of: Option<BlockRangeInput>) -> Result<RangeTotals, ApiError> {
        let (first, last) = BlockRangeInput::first_and_last("of", of, &self.view)?;
        Ok(RangeTotals(self.view.range(first, last)?))
    }

    async fn soft_forks(&self, ctx: &Context<'_>) -> Result<Vec<DeploymentObject>, ApiError> {
        costs::spend(ctx, costs::NODE)?;
        let found = self.view.node_client().deployments(self.view.tip().hash).await;
        let found = found.map_err(|error| ApiError::node_unavailable(&error))?;
        Ok(found.0.iter().cloned().map(DeploymentObject).collect())
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

impl FieldCacheability for Chain {
    const IMMUTABLE: &'static str = "id network genesisHash";
    const BY_ARGUMENT: &'static str = "supply range series utxoSet epoch";
    const UNTIL_NEXT_TIP: &'static str = "summary difficultyAdjustment epochs halving";
    const UNTIL_NEXT_HEAD: &'static str = "miners miner";
    const NEVER: &'static str = "deployments";
}

/// The main chain as a whole.
#[Object]
impl Chain {
    /// Always `Chain:main`.
    pub(crate) async fn id(&self) -> ID {
        CHAIN_ID.into()
    }

    /// The network of the chain.
    async fn network(&self) -> NetworkEnum {
        self.view.network().into()
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

    /// Totals over consecutive blocks of any number.
    async fn range(
        &self,
        #[graphql(
            desc = "The blocks, of which there must be at least one. Heights must exist. The whole chain if not given."
        )]
        of: Option<BlockRangeInput>,
    ) -> Option<Result<RangeTotals, ApiError>> {
        Some(self.sum(of))
    }

    /// The chain over time: totals for each period that has a block, oldest first, and the state at its end. At most
    /// `server.limits.pages.pointsPerSeries`; beyond it, give a range or a longer period. Empty where the range has no block: heights
    /// may be above the tip, and times in the future. The time that a point takes does not depend
    /// on how many blocks it has. Example: `{ chain { series(range: { times: { from: "2026-01-01T00:00:00Z" } }, group: DAY) {
    /// startAt stats { txCount fees hashrate } utxoSet { unspentCount } } } }`.
    #[graphql(complexity = "BlockRangeInput::series_cost(range, group, include_empty, child_complexity)")]
    async fn series(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The blocks. The whole chain if not given.")] range: Option<BlockRangeInput>,
        #[graphql(desc = "What a point stands for.", default_with = "Some(SeriesGroupEnum::Day)")] group: Option<
            SeriesGroupEnum,
        >,
        #[graphql(
            desc = "Whether to include the periods without blocks: a point for each, as a chart needs; with \
                    `range.times` from its start to its end, but for what is before the genesis block and after the tip.",
            default_with = "Some(false)"
        )]
        include_empty: Option<bool>,
    ) -> Option<Result<List<SeriesPoint>, ApiError>> {
        Some(SeriesPoint::series(ctx, &self.view, range, group, include_empty).map(List))
    }

    /// The number and value of all unspent outputs, also by script type.
    async fn utxo_set(
        &self,
        #[graphql(desc = "The block after which to report. The tip if not given.")] at: Option<BlockAt>,
    ) -> Option<Result<UtxoSetObject, ApiError>> {
        let block = BlockAt::resolve(at, &self.view);
        Some(block.map(|block| UtxoSetObject::after(block.height, block.row)))
    }

    /// The mining pools that the blocks of a range are ascribed to, most blocks first, and among them all blocks together that
    /// are ascribed to none. As many as there are pools in the table of the server at most. NOT_READY while the blocks of the
    /// chain are still assigned to pools: with a new index, and after a change of the table.
    #[graphql(complexity = "costs::list(POOLS, child_complexity.saturating_add(1))")]
    async fn miners(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The blocks, of which there must be at least one. Heights must exist. The whole chain if not given."
        )]
        range: Option<BlockRangeInput>,
    ) -> Option<Result<List<MinerShare>, ApiError>> {
        Some(MinerShare::all(ctx, &self.view, range).map(List))
    }

    /// A mining pool by its slug. Null if the server knows none with this slug, and BAD_USER_INPUT for a text that is no slug.
    async fn miner(
        &self,
        #[graphql(desc = "The slug of the pool: its name in lower case, with letters and digits only.")] slug: String,
    ) -> Option<Result<Miner, ApiError>> {
        if let Err(error) = Miner::check_slug("slug", &slug) {
            return Some(Err(error));
        }
        Miner::find(&self.view, &slug).map(Ok)
    }

    /// The soft forks that the Bitcoin node knows, by name, with their state at the tip of this answer. NODE_UNAVAILABLE if it
    /// does not respond, or does not know the tip. As many as the node knows, some ten.
    #[graphql(complexity = "costs::list(DEPLOYMENTS, child_complexity).saturating_add(costs::NODE)")]
    async fn deployments(&self, ctx: &Context<'_>) -> Option<Result<Vec<DeploymentObject>, ApiError>> {
        Some(self.soft_forks(ctx).await)
    }

    /// The projected difficulty of the next epoch, from the blocks of the current epoch so far.
    async fn difficulty_adjustment(&self) -> Result<DifficultyAdjustment, ApiError> {
        DifficultyAdjustment::of(&self.view)
    }

    /// The next halving of the subsidy. Null once the subsidy is zero.
    async fn halving(&self) -> Option<Halving> {
        Halving::of(&self.view)
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
        #[graphql(desc = "Newest first (DESC) or oldest first (ASC).", default_with = "Some(SortOrder::Desc)")]
        order: Option<SortOrder>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<DifficultyEpochObject>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(self.epochs_page(ctx, &args, order.unwrap_or(SortOrder::Desc)))
    }
}
