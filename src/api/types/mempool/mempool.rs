use std::sync::Arc;

use async_graphql::{Context, ID, Object};

use super::block_template::BlockTemplateObject;
use super::fee_bin::{self, FeeBinObject};
use super::list::{self, MempoolOrder};
use super::projected_block::ProjectedBlockObject;
use super::rbf_node::{self, RbfNode};
use super::sample::{self, MempoolSeriesPoint};
use super::script_delta::{self, ScriptDelta};
use super::stats::MempoolStats;
use super::track_record::{self, FeeTrackRecord};
use crate::api::allowance::find_transaction;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::global_id::MEMPOOL_ID;
use crate::api::pagination::page::{PageArgs, list_size};
use crate::api::scalars::Txid;
use crate::api::types::block::BlockRangeInput;
use crate::api::types::transaction::{Transaction, TransactionFilter};
use crate::limits::Limits;
use crate::view::{Entry, View};

/// How many blocks are projected if nothing else is asked for.
pub(crate) const PROJECTED: i32 = 8;
/// How far apart samples are if nothing else is asked for, in seconds.
const STEP: i32 = 600;

/// The transactions that wait for a block, and the view they were found in.
#[derive(Clone)]
pub(crate) struct Mempool {
    view: Arc<View>,
}

impl Mempool {
    pub(crate) fn new(view: Arc<View>) -> Self {
        Self { view }
    }

    fn histogram(
        &self,
        ctx: &Context<'_>,
        bins: Option<&[f64]>,
        bin_vsize: i32,
        effective: bool,
    ) -> Result<Vec<FeeBinObject>, ApiError> {
        let points = limits(ctx)?.points;
        let bins = match bins {
            Some(rates) => fee_bin::at(rates, points)?,
            None => fee_bin::filled(bin_vsize, self.view.mempool().totals().vsize, points)?,
        };
        let transactions = self.view.mempool().totals().count;
        costs::spend(ctx, costs::rows_in_a_row(u32::try_from(transactions).unwrap_or(u32::MAX)))?;
        self.view.mempool().fee_histogram(fee_bin::kind(effective), &bins).into_iter().map(FeeBinObject::new).collect()
    }

    fn projected(&self, ctx: &Context<'_>, first: i32) -> Result<Vec<ProjectedBlockObject>, ApiError> {
        Ok(ProjectedBlockObject::first(&self.view, list_size(limits(ctx)?, first)?))
    }
}

/// A transaction of the mempool as an object. It counts as read.
pub(super) fn unconfirmed(view: &Arc<View>, entry: &Arc<Entry>) -> Result<Transaction, ApiError> {
    let found = find_transaction(view, |view| Ok(view.unconfirmed(entry)))?;
    let found = found.ok_or_else(|| ApiError::internal("a mempool transaction cannot be decoded"))?;
    Ok(Transaction::new(view, found))
}

impl FieldCacheability for Mempool {
    const IMMUTABLE: &'static str = "id";
    const UNTIL_NEXT_HEAD: &'static str =
        "stats txids transactions feeHistogram projectedBlocks balanceChanges replacements history feeTrackRecord";
    const NEVER: &'static str = "nextBlockTemplate";
}

/// The unconfirmed transactions in the mempool of the Bitcoin node that this server follows. Other nodes have other
/// mempools: a transaction that is missing here may be pending elsewhere.
#[Object]
impl Mempool {
    /// Always `Mempool:main`.
    pub(crate) async fn id(&self) -> ID {
        MEMPOOL_ID.into()
    }

    /// Totals of the mempool, and the node's mempool figures.
    async fn stats(&self) -> Result<MempoolStats, ApiError> {
        MempoolStats::of(&self.view)
    }

    /// The txids of all mempool transactions, newest first.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn txids(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Txid>, ApiError>> {
        Some(list::txids(&self.view, ctx, &PageArgs { first, after, last, before }))
    }

    /// The mempool transactions in a given order, optionally filtered. A cursor is valid while its transaction stays in
    /// the mempool. After that, it fails with CURSOR_ORPHANED, which reports the transaction's state and block. The newest
    /// arrivals are `transactions(order: ARRIVAL)`.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only transactions that meet all of these conditions.")] filter: Option<TransactionFilter>,
        #[graphql(
            desc = "The order in which to return the transactions.",
            default_with = "Some(MempoolOrder::FeeRate)"
        )]
        order: Option<MempoolOrder>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Transaction>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        let filter = TransactionFilter::checked(filter).map(Option::unwrap_or_default);
        Some(filter.and_then(|filter| list::transactions(&self.view, ctx, &args, order.unwrap_or_default(), &filter)))
    }

    /// The distribution of mempool transactions over feerates, in bins from the highest feerate to the lowest.
    #[graphql(
        complexity = "costs::list(bins.as_ref().map_or(costs::FEE_BINS, Vec::len), child_complexity).saturating_add(costs::MEMPOOL)"
    )]
    async fn fee_histogram(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The lower bounds of the bins, in sat/vB, to a thousandth, in any order. A transaction exactly at a \
                    bound falls into the higher bin. Transactions below the lowest bound get a bin of their own. At \
                    most `server.limits.pages.pointsPerSeries` bounds. If not given, bins are cut by size."
        )]
        bins: Option<Vec<f64>>,
        #[graphql(
            desc = "The minimum size of a bin in vbytes, if `bins` is not given. A bin ends at the first change of \
                    feerate at or above this size. Bins are larger if there would be more than `server.limits.pages.pointsPerSeries` \
                    of them.",
            default_with = "Some(fee_bin::VSIZE)"
        )]
        bin_vsize: Option<i32>,
        #[graphql(
            desc = "Whether to count each transaction with its effective feerate, the feerate of the package with \
                    which it is mined, instead of its own feerate.",
            default_with = "Some(false)"
        )]
        effective: Option<bool>,
    ) -> Option<Result<Vec<FeeBinObject>, ApiError>> {
        let (bin_vsize, effective) = (bin_vsize.unwrap_or(fee_bin::VSIZE), effective.unwrap_or_default());
        Some(self.histogram(ctx, bins.as_deref(), bin_vsize, effective))
    }

    /// The blocks that miners would assemble from the mempool if no more transactions arrived, next block first.
    /// Transactions that do not fit into the requested blocks are in none of them. Only the last possible block can be
    /// partly empty.
    #[graphql(complexity = "costs::beginning(first.unwrap_or(PROJECTED), child_complexity)")]
    async fn projected_blocks(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Maximum number of items, at most `server.limits.pages.pageSize`.",
            default_with = "Some(PROJECTED)"
        )]
        first: Option<i32>,
    ) -> Option<Result<Vec<ProjectedBlockObject>, ApiError>> {
        Some(self.projected(ctx, first.unwrap_or(PROJECTED)))
    }

    /// The change of each script's balance when the whole mempool is confirmed, for all scripts that it pays or spends,
    /// in ascending order of the script's SHA-256. The order never changes, so cursors never become invalid, and
    /// reading all pages finds every script that is present throughout.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn balance_changes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<ScriptDelta>, ApiError>> {
        Some(script_delta::page(&self.view, ctx, &PageArgs { first, after, last, before }))
    }

    /// The block that the Bitcoin node would assemble next, queried now. Fails with NODE_UNAVAILABLE if the server's
    /// settings do not allow this query (the default), if the node does not respond, and if it returns no template: on
    /// mainnet it must have peers and have finished initial block download.
    #[graphql(complexity = "costs::more(costs::NODE.saturating_mul(costs::TEMPLATE), child_complexity)")]
    async fn next_block_template(&self, ctx: &Context<'_>) -> Option<Result<BlockTemplateObject, ApiError>> {
        if let Err(error) = costs::spend(ctx, costs::NODE * costs::TEMPLATE) {
            return Some(Err(error));
        }
        Some(BlockTemplateObject::ask(&self.view).await)
    }

    /// The replacements that the server remembers, newest first: one tree for each transaction that replaced others and
    /// was not replaced itself. A page reads at most `server.limits.pages.scanRows` replacements, so it may have fewer items
    /// than requested.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn replacements(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Whether to return only trees whose root replaced a transaction that did not signal replaceability \
                    (BIP125).",
            default_with = "Some(false)"
        )]
        full_rbf_only: Option<bool>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<RbfNode>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(rbf_node::page(&self.view, ctx, &args, full_rbf_only.unwrap_or_default()))
    }

    /// The mempool over time, as this server saw it: the newest sample of each step that has one, oldest step first. The server
    /// stores one sample per minute, for 400 days by default. Steps begin at multiples of their length since 1970, as the hours
    /// and days of `Chain.series` do, so that the same time is in the same step however often it is requested.
    #[graphql(complexity = "costs::list(sample::most_steps(range, step_seconds), child_complexity)")]
    async fn history(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The time, of at most `server.limits.pages.pointsPerSeries` steps: the last day without a range. Of `times`, up \
                    to now without an end, and a day long without a start. Of blocks, from the median time past of the first to \
                    that of the last, or to now if that is the tip."
        )]
        range: Option<BlockRangeInput>,
        #[graphql(desc = "The length of a step, in seconds, at least 60.", default_with = "Some(STEP)")]
        step_seconds: Option<i32>,
        #[graphql(
            desc = "Whether to include the steps without a sample: a point for each, as a chart needs.",
            default_with = "Some(false)"
        )]
        include_empty: Option<bool>,
    ) -> Option<Result<Vec<MempoolSeriesPoint>, ApiError>> {
        let shape = (step_seconds.unwrap_or(STEP), include_empty.unwrap_or_default());
        let read = |limits: &Limits| {
            let Some(time) = sample::time(range, &self.view)? else { return Ok(Vec::new()) };
            sample::history(&self.view, limits, time, shape)
        };
        Some(limits(ctx).and_then(read))
    }

    /// How past `recommendedFees` of this server for the next block and for one of the next three and six compare with what
    /// those blocks took, by the rule of `FeeEstimate.hitRate`: a record for each target. Each step of time has one estimate,
    /// that of its newest sample (`history`). Blocks of the main chain of now are compared.
    #[graphql(complexity = "costs::more(sample::most_steps(range, step_seconds), costs::few(child_complexity))")]
    async fn fee_track_record(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The time, as in `history`.")] range: Option<BlockRangeInput>,
        #[graphql(desc = "The length of a step, in seconds, at least 60.", default_with = "Some(STEP)")]
        step_seconds: Option<i32>,
    ) -> Option<Result<Vec<FeeTrackRecord>, ApiError>> {
        let step = step_seconds.unwrap_or(STEP);
        let read = |limits: &Limits| {
            let time = sample::time(range, &self.view)?;
            // more are refused
            let steps = time.map_or(0, |time| sample::steps(time, Some(step)));
            let steps = steps.min(usize::try_from(limits.points).unwrap_or(usize::MAX));
            costs::spend(ctx, steps)?;
            track_record::read(&self.view, limits, time, step)
        };
        Some(limits(ctx).and_then(read))
    }
}
