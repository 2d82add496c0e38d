use async_graphql::Context;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::view::{FeeFraction, MinedClusters, PayingTransaction};

/// The effective feerates of transactions of a block, which are in block order, counted before they are computed: of all but the
/// coinbase, or of whole clusters.
///
/// Errors: QUERY_LIMIT_EXCEEDED; a miner can make a block of one cluster of thousands.
pub(crate) fn effective_rates(
    ctx: &Context<'_>,
    transactions: &[PayingTransaction],
) -> Result<Vec<FeeFraction>, ApiError> {
    let clusters = MinedClusters::of(transactions);
    let steps = clusters.steps() / costs::CLUSTER_STEPS;
    costs::spend(ctx, usize::try_from(steps).unwrap_or(usize::MAX))?;
    costs::spend(ctx, transactions.len() / costs::COLUMN_ITEMS)?;
    Ok(clusters.feerates())
}
