use std::sync::Arc;

use async_graphql::Context;
use bitcoin::BlockHash;

use super::block_summary::read_contents;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::view::{Block, BlockContents, FeeFraction, MinedClusters, MinedFeerates, MinedTransaction, View};

/// The effective feerates of transactions of a block, which are in block order, counted before they are computed: of all but the
/// coinbase, or of whole clusters.
///
/// Errors: QUERY_LIMIT_EXCEEDED; a miner can make a block of one cluster of thousands.
pub(crate) fn effective_rates(
    ctx: &Context<'_>,
    transactions: &[MinedTransaction],
) -> Result<Vec<FeeFraction>, ApiError> {
    let clusters = MinedClusters::of(transactions);
    let steps = clusters.steps() / costs::CLUSTER_STEPS;
    costs::spend(ctx, usize::try_from(steps).unwrap_or(usize::MAX))?;
    costs::spend(ctx, transactions.len() / costs::COLUMN_ITEMS)?;
    Ok(clusters.feerates())
}

/// The effective feerates of a whole block, which are read and counted once for an answer. `None` for a stale block.
///
/// Errors: those of [`effective_rates`], and of reading the block.
pub(crate) fn mined_feerates(
    ctx: &Context<'_>,
    view: &View,
    block: &Block,
) -> Result<Option<Arc<MinedFeerates>>, ApiError> {
    if let Some(kept) = view.mined_feerates(&block.row.hash) {
        return Ok(Some(kept));
    }
    let contents = read_contents(ctx, view, block)?;
    contents.map(|contents| mined_feerates_of(ctx, view, block.row.hash, &contents)).transpose()
}

/// The effective feerates of a block that was read, counted once for an answer. Errors: those of [`effective_rates`].
pub(super) fn mined_feerates_of(
    ctx: &Context<'_>,
    view: &View,
    block: BlockHash,
    contents: &BlockContents,
) -> Result<Arc<MinedFeerates>, ApiError> {
    if let Some(kept) = view.mined_feerates(&block) {
        return Ok(kept);
    }
    let transactions = view.mined_transactions(contents, |inputs| costs::spend_on_spent_outputs(ctx, inputs))?;
    Ok(view.keep_mined_feerates(block, effective_rates(ctx, &transactions)?))
}
