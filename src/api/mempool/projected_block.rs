use std::sync::Arc;

use async_graphql::{Context, Object};

use super::super::connection::Connection;
use super::super::costs;
use super::super::cursor::{Place, Scope};
use super::super::enums::SortOrder;
use super::super::error::ApiError;
use super::super::page::PageArgs;
use super::super::request::limits;
use super::super::scalars::{Sats, UInt53, int_of};
use super::super::transaction::Transaction;
use super::list::Stand;
use super::{MEMPOOL_ID, unconfirmed};
use crate::view::{self, Entry, FeeFraction, View};

/// A block to come.
pub(super) struct ProjectedBlock {
    view: Arc<View>,
    index: usize,
    block: Arc<view::ProjectedBlock>,
}

impl ProjectedBlock {
    pub(super) fn new(view: &Arc<View>, index: usize, block: Arc<view::ProjectedBlock>) -> Self {
        Self { view: view.clone(), index, block }
    }

    fn entry(&self, position: u64) -> Result<&Arc<Entry>, ApiError> {
        let sequence = usize::try_from(position).ok().and_then(|position| self.block.sequences.get(position));
        let entry = sequence.and_then(|sequence| self.view.mempool().by_sequence(*sequence));
        entry.ok_or_else(|| ApiError::internal("a projected block holds what is not in the mempool"))
    }

    /// A page of its transactions. The cursor names the transaction, and not its position: that is another with each one
    /// that arrives.
    fn page(&self, ctx: &Context<'_>, args: &PageArgs) -> Result<Connection<Transaction, Option<UInt53>>, ApiError> {
        let scope = Scope::new("transactions", format!("{MEMPOOL_ID} block {}", self.index));
        let request = args.read_by(limits(ctx)?, |cursor| {
            let stand = Stand::find(&scope, cursor, &self.view)?;
            let place = self.view.mempool().projected_place(&stand.txid).filter(|place| place.block == self.index);
            let place = place.ok_or_else(ApiError::cursor_moved)?;
            let position = u64::try_from(place.position).map_err(|_| ApiError::internal("a position beyond memory"))?;
            Ok(Place { position, block: None })
        })?;
        let count = UInt53::bound(self.block.sequences.len());
        let page = request.of(0..count.to_u64(), SortOrder::Asc);
        let cursor = |position| Ok(Stand::of(self.entry(position)?).cursor(&scope));
        Connection::with_cursors(page, Some(count), cursor, |position, ()| {
            unconfirmed(&self.view, self.entry(position)?)
        })
    }
}

/// A block that miners would make of the mempool as it is, by the rules of Bitcoin Core's miner: what pays most for its
/// weight first, together with what it stands on. Header and coinbase are not counted.
#[Object]
impl ProjectedBlock {
    /// How many blocks come before it: 0 for the next block.
    async fn index(&self) -> Result<i32, ApiError> {
        int_of(self.index)
    }

    /// How many transactions it has.
    async fn tx_count(&self) -> Result<i32, ApiError> {
        int_of(self.block.sequences.len())
    }

    /// Their virtual sizes together, each rounded up, in vbytes.
    async fn vsize(&self) -> Result<i32, ApiError> {
        int_of(self.block.vsize)
    }

    /// Their weights together, in weight units; at most 3,992,000, for miners keep 8,000 for header and coinbase.
    async fn weight(&self) -> Result<i32, ApiError> {
        int_of(self.block.weight)
    }

    /// Their fees together, in satoshis.
    async fn total_fees(&self) -> Result<Sats, ApiError> {
        Sats::new(self.block.fees)
    }

    /// The effective feerate, in sat/vB, at half of its vbytes.
    async fn median_fee_rate(&self) -> f64 {
        self.block.median_feerate().to_sat_per_vb()
    }

    /// The effective feerates, in sat/vB, at 0, 10, 25, 50, 75, 90 and 100 percent of its vbytes, from the lowest to the
    /// highest.
    async fn fee_rate_percentiles(&self) -> Vec<f64> {
        self.block.feerates.iter().copied().map(FeeFraction::to_sat_per_vb).collect()
    }

    /// Its transactions in the order in which a miner takes them. That order is of this state of the mempool: pages asked
    /// for one after another need not fit together. A cursor whose transaction is in another block by then is
    /// CURSOR_ORPHANED.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "At most this many from the front, or behind `after`. 25 if neither first nor last is given."
        )]
        first: Option<i32>,
        #[graphql(desc = "Only what comes behind the row with this cursor.")] after: Option<String>,
        #[graphql(desc = "At most this many from the end, or in front of `before`.")] last: Option<i32>,
        #[graphql(desc = "Only what comes in front of the row with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Transaction, Option<UInt53>>, ApiError>> {
        Some(self.page(ctx, &PageArgs { first, after, last, before }))
    }
}
