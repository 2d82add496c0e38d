use std::sync::Arc;

use async_graphql::{Context, Object};

use super::list::OrderPlace;
use super::mempool::unconfirmed;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::{RowPlace, Scope};
use crate::api::pagination::global_id::MEMPOOL_ID;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::{Sats, UInt53, int_of};
use crate::api::types::enums::SortOrder;
use crate::api::types::transaction::Transaction;
use crate::view::{self, Entry, FeeFraction, Remainder, View};

/// A block to come.
pub(crate) struct ProjectedBlockObject {
    view: Arc<View>,
    index: usize,
    block: Arc<view::ProjectedBlock>,
}

impl ProjectedBlockObject {
    pub(crate) fn new(view: &Arc<View>, index: usize, block: Arc<view::ProjectedBlock>) -> Self {
        Self { view: view.clone(), index, block }
    }

    /// The first blocks to come.
    pub(crate) fn first(view: &Arc<View>, count: usize) -> Vec<Self> {
        let blocks = view.mempool().projected_blocks(count, Remainder::Left).into_iter().enumerate();
        blocks.map(|(index, block)| Self::new(view, index, block)).collect()
    }

    /// What a summary of the block has: two blocks with the same figures need no second event.
    pub(crate) fn figures(&self) -> impl PartialEq + Send + use<> {
        let view::ProjectedBlock { weight, vsize, fees, feerates, sequences } = self.block.as_ref();
        (*weight, *vsize, *fees, *feerates, sequences.len())
    }

    fn entry(&self, position: u64) -> Result<&Arc<Entry>, ApiError> {
        let sequence = usize::try_from(position).ok().and_then(|position| self.block.sequences.get(position));
        let entry = sequence.and_then(|sequence| self.view.mempool().by_sequence(*sequence));
        entry.ok_or_else(|| ApiError::internal("a projected block contains a transaction that is not in the mempool"))
    }

    /// A page of its transactions. The cursor names the transaction, and not its position: that is another with each one
    /// that arrives.
    fn page(&self, ctx: &Context<'_>, args: &PageArgs) -> Result<Connection<Transaction>, ApiError> {
        let scope = Scope::new("transactions", format!("{MEMPOOL_ID} block {}", self.index));
        let request = args.read_by(limits(ctx)?, |given| {
            let stand = OrderPlace::find(&scope, given, &self.view)?;
            let place = self.view.mempool().projected_place(&stand.txid).filter(|place| place.block == self.index);
            let place = place.ok_or_else(ApiError::cursor_moved)?;
            let position = u64::try_from(place.position).map_err(|_| ApiError::internal("a position beyond memory"))?;
            Ok(RowPlace { position, block: None })
        })?;
        let count = UInt53::bound(self.block.sequences.len());
        let page = request.of(0..count.to_u64(), SortOrder::Asc);
        let cursor = |position| Ok(OrderPlace::of(self.entry(position)?).cursor(&scope));
        Connection::with_cursors(page, Some(count), cursor, |position, ()| {
            unconfirmed(&self.view, self.entry(position)?)
        })
    }
}

impl FieldCacheability for ProjectedBlockObject {
    const UNTIL_NEXT_HEAD: &'static str =
        "index maxWeight txCount vsize weight totalFees medianFeeRate feeRatePercentiles transactions";
}

/// A block that miners would assemble from the current mempool, by the rules of Bitcoin Core's miner: the highest
/// feerates first, together with unconfirmed ancestors. Header and coinbase are not included in the figures.
#[Object(name = "ProjectedBlock")]
impl ProjectedBlockObject {
    /// The number of blocks before it. 0 for the next block.
    async fn index(&self) -> Result<i32, ApiError> {
        int_of(self.index)
    }

    /// The weight at which a projected block is full, in weight units: the setting `mempool.block_weight` of the server, by
    /// default 3,992,000, because miners reserve 8,000 for header and coinbase.
    async fn max_weight(&self) -> Result<i32, ApiError> {
        int_of(self.view.mempool().block_weight())
    }

    /// The number of transactions.
    async fn tx_count(&self) -> Result<i32, ApiError> {
        int_of(self.block.sequences.len())
    }

    /// The total virtual size by which miners order the transactions (`adjustedVsize`), in vbytes. Where many are larger by their
    /// signature operations, this is more than `maxWeight` has room for: a transaction only has to fit by itself, by that size, into
    /// the weight that is left.
    async fn vsize(&self) -> Result<i32, ApiError> {
        int_of(self.block.vsize)
    }

    /// The total weight of the transactions, in weight units. At most `maxWeight`, unless it is of a single transaction.
    async fn weight(&self) -> Result<i32, ApiError> {
        int_of(self.block.weight)
    }

    /// The total fees of the transactions, in satoshis.
    async fn total_fees(&self) -> Result<Sats, ApiError> {
        Sats::new(self.block.fees)
    }

    /// The effective feerate at half of `vsize`, in sat/vB.
    async fn median_fee_rate(&self) -> f64 {
        self.block.median_feerate().to_sat_per_vb()
    }

    /// The effective feerates at 0, 10, 25, 50, 75, 90 and 100 percent of `vsize`, in sat/vB, in ascending
    /// order.
    #[graphql(complexity = "costs::list(costs::PERCENTILES, 0)")]
    async fn fee_rate_percentiles(&self) -> Vec<f64> {
        self.block.feerates.iter().copied().map(FeeFraction::to_sat_per_vb).collect()
    }

    /// The transactions in the order in which a miner includes them. The order belongs to the current state of the
    /// mempool, so pages from separate requests may not fit together. A cursor whose transaction has moved to another
    /// block fails with CURSOR_ORPHANED.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Transaction>, ApiError>> {
        Some(self.page(ctx, &PageArgs { first, after, last, before }))
    }
}
