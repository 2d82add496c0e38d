use async_graphql::Context;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::view::{BlockContents, FeeFraction};

/// The effective feerates of the transactions of a block without the coinbase, counted before they are computed.
///
/// Errors: QUERY_LIMIT_EXCEEDED; a miner can make a block of one cluster of thousands.
pub(super) fn effective_rates(ctx: &Context<'_>, contents: &BlockContents) -> Result<Vec<FeeFraction>, ApiError> {
    let clusters = contents.clusters();
    let steps = clusters.steps() / costs::CLUSTER_STEPS;
    costs::spend(ctx, usize::try_from(steps).unwrap_or(usize::MAX))?;
    costs::spend(ctx, contents.paying.len() / costs::COLUMN_ITEMS)?;
    Ok(clusters.feerates())
}
