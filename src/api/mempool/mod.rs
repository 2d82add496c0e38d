//! The unconfirmed transactions: those that wait for a block, what they pay, and the blocks that they would make.
//!
//! ```text
//!   mod.rs      Mempool           what can be asked of all of them
//!     ├─ stats.rs                 their figures
//!     ├─ list.rs                  pages of them
//!     ├─ fee_bin.rs               how much pays how much
//!     ├─ projected_block.rs       the blocks to come
//!     └─ rbf_node.rs              which replaced which
//!   entry.rs    MempoolEntry      one of them among the others
//! ```

mod entry;
mod fee_bin;
mod list;
mod projected_block;
mod rbf_node;
mod stats;

use std::sync::Arc;

use async_graphql::{Context, ID, Object};

use super::connection::Connection;
use super::error::ApiError;
use super::limits::Limits;
use super::node::MEMPOOL_ID;
use super::page::{self, PageArgs, count_of};
use super::request::limits;
use super::scalars::{Txid, UInt53};
use super::transaction::Transaction;
use crate::view::{Entry, Remainder, View};
pub(super) use entry::MempoolEntry;
use fee_bin::FeeBin;
use list::{MempoolOrder, TransactionFilter};
use projected_block::ProjectedBlock;
pub(super) use rbf_node::{REPLACED, RbfNode};
use stats::MempoolStats;

/// How many transactions `recent` tells if nothing else is asked for.
const RECENT: i32 = 10;
/// How many blocks are projected if nothing else is asked for.
const PROJECTED: i32 = 8;
/// How many trees of replacements are told if nothing else is asked for.
const REPLACEMENTS: i32 = 25;
/// How many bins a histogram cut by size is taken to have before they are counted.
const BINS: usize = 100;

/// The transactions that wait for a block, and the view they were found in.
#[derive(Clone)]
pub(super) struct Mempool {
    view: Arc<View>,
}

impl Mempool {
    pub(super) fn new(view: Arc<View>) -> Self {
        Self { view }
    }

    fn newest(&self, ctx: &Context<'_>, first: i32) -> Result<Vec<Transaction>, ApiError> {
        let count = list_size(ctx, first)?;
        let newest = self.view.mempool().by_arrival(..).rev().take(count);
        newest.map(|entry| unconfirmed(&self.view, entry)).collect()
    }

    fn histogram(
        &self,
        ctx: &Context<'_>,
        bins: Option<&[f64]>,
        bin_vsize: i32,
        effective: bool,
    ) -> Result<Vec<FeeBin>, ApiError> {
        let points = limits(ctx)?.points;
        let bins = match bins {
            Some(rates) => fee_bin::at(rates, points)?,
            None => fee_bin::filled(bin_vsize, self.view.mempool().totals().vsize, points)?,
        };
        self.view.mempool().fee_histogram(fee_bin::kind(effective), &bins).into_iter().map(FeeBin::new).collect()
    }

    fn projected(&self, ctx: &Context<'_>, first: i32) -> Result<Vec<ProjectedBlock>, ApiError> {
        let blocks = self.view.mempool().projected_blocks(list_size(ctx, first)?, Remainder::Left);
        Ok(blocks.into_iter().enumerate().map(|(index, block)| ProjectedBlock::new(&self.view, index, block)).collect())
    }

    fn replacing(&self, ctx: &Context<'_>, first: i32, full_rbf_only: bool) -> Result<Vec<RbfNode>, ApiError> {
        let count = list_size(ctx, first)?;
        let roots = self.view.mempool().replacements(u64::MAX).map(|(_, root)| root);
        let wanted = roots.filter(|root| !full_rbf_only || self.view.replaced_without_signal(root));
        wanted.take(count).map(|root| RbfNode::find(&self.view, root)).collect()
    }
}

/// How many items of a list without pages to tell. Errors: BAD_USER_INPUT below 0, QUERY_LIMIT_EXCEEDED beyond a page.
fn list_size(ctx: &Context<'_>, first: i32) -> Result<usize, ApiError> {
    let limit = limits(ctx)?.page_size.min(Limits::MAX_PAGE_SIZE);
    let count = count_of("first", first)?;
    if count > limit {
        return Err(ApiError::limit_exceeded("first", limit.into(), count.into()));
    }
    usize::try_from(count).map_err(|_| ApiError::internal("a page larger than memory"))
}

/// A transaction of the mempool as an object. It counts as read.
pub(super) fn unconfirmed(view: &Arc<View>, entry: &Arc<Entry>) -> Result<Transaction, ApiError> {
    let found = Transaction::read(view, |view| Ok(view.unconfirmed(entry)))?;
    let found = found.ok_or_else(|| ApiError::internal("what is in the mempool is no transaction"))?;
    Ok(Transaction::new(view, found))
}

/// The transactions that wait for a block, as the Bitcoin node behind this server has them. Other nodes have others: what
/// is not here may still be waiting elsewhere.
#[Object]
impl Mempool {
    /// `Mempool:main`.
    pub(super) async fn id(&self) -> ID {
        MEMPOOL_ID.into()
    }

    /// What all of them add up to, and what the node says of them.
    async fn stats(&self) -> Result<MempoolStats, ApiError> {
        MempoolStats::of(&self.view)
    }

    /// The txids of all of them, the newest first.
    #[graphql(complexity = "page::cost(first, last, child_complexity)")]
    async fn txids(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "At most this many from the front, or behind `after`. 25 if neither first nor last is given."
        )]
        first: Option<i32>,
        #[graphql(desc = "Only what comes behind the row with this cursor.")] after: Option<String>,
        #[graphql(desc = "At most this many from the end, or in front of `before`.")] last: Option<i32>,
        #[graphql(desc = "Only what comes in front of the row with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Txid, i32>, ApiError>> {
        Some(list::txids(&self.view, ctx, &PageArgs { first, after, last, before }))
    }

    /// All of them in an order, or those that meet conditions. A cursor is good while its transaction waits; then it is
    /// CURSOR_ORPHANED, with the state and the block that the transaction went to.
    #[graphql(complexity = "page::cost(first, last, child_complexity)")]
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
        #[graphql(desc = "What comes first.", default_with = "Some(MempoolOrder::FeeRate)")] order: Option<
            MempoolOrder,
        >,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<TransactionFilter>,
    ) -> Option<Result<Connection<Transaction, Option<UInt53>>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(list::transactions(&self.view, ctx, &args, order.unwrap_or_default(), filter.unwrap_or_default()))
    }

    /// Those that arrived last, the newest first.
    #[graphql(complexity = "page::list_cost(first.unwrap_or(RECENT), child_complexity)")]
    async fn recent(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "At most this many, no more than a page may have.", default_with = "Some(RECENT)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<Transaction>, ApiError>> {
        Some(self.newest(ctx, first.unwrap_or(RECENT)))
    }

    /// How much of the mempool pays how much, in bins of feerates from the highest down.
    #[graphql(complexity = "page::list_cost(bins.as_ref().map_or(BINS, Vec::len), child_complexity)")]
    async fn fee_histogram(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Where bins begin, in sat/vB, to a thousandth, in any order; what pays exactly that is in the bin \
                    above. What pays less than the lowest has a bin of its own. At most `server.limits.points`. If \
                    none are given, bins are cut by their size."
        )]
        bins: Option<Vec<f64>>,
        #[graphql(
            desc = "Without `bins`: how many vbytes a bin has at least, before another begins where the feerate \
                    changes. It has more where there would be more bins than `server.limits.points`.",
            default_with = "Some(fee_bin::VSIZE)"
        )]
        bin_vsize: Option<i32>,
        #[graphql(
            desc = "Whether a transaction counts with the feerate of all that a miner takes together with it, and not \
                    with its own.",
            default_with = "Some(false)"
        )]
        effective: Option<bool>,
    ) -> Option<Result<Vec<FeeBin>, ApiError>> {
        let (bin_vsize, effective) = (bin_vsize.unwrap_or(fee_bin::VSIZE), effective.unwrap_or_default());
        Some(self.histogram(ctx, bins.as_deref(), bin_vsize, effective))
    }

    /// The blocks that miners would make of the mempool if nothing else came, the next one first. What the blocks asked
    /// for have no room for is in none of them. Only the last block that there is may be partly empty.
    #[graphql(complexity = "page::list_cost(first.unwrap_or(PROJECTED), child_complexity)")]
    async fn projected_blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "At most this many, no more than a page may have.", default_with = "Some(PROJECTED)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<ProjectedBlock>, ApiError>> {
        Some(self.projected(ctx, first.unwrap_or(PROJECTED)))
    }

    /// Which transactions replaced which, as far as that is remembered: a tree for each transaction that replaced others
    /// and was not replaced itself, the newest first.
    #[graphql(complexity = "page::list_cost(first.unwrap_or(REPLACEMENTS), child_complexity)")]
    async fn replacements(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "At most this many, no more than a page may have.", default_with = "Some(REPLACEMENTS)")]
        first: Option<i32>,
        #[graphql(
            desc = "Whether to tell only those that replaced, themselves, a transaction that did not signal that it may \
                    be (BIP125).",
            default_with = "Some(false)"
        )]
        full_rbf_only: Option<bool>,
    ) -> Option<Result<Vec<RbfNode>, ApiError>> {
        Some(self.replacing(ctx, first.unwrap_or(REPLACEMENTS), full_rbf_only.unwrap_or_default()))
    }
}
