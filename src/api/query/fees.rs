//! What to pay.

use async_graphql::futures_util::future::join_all;
use async_graphql::{Context, Object};

use super::root::{LookedUp, QueryRoot};
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::types::mempool::{FeeEstimateObject, FeeMode, FeeSource, RecommendedFeesObject};

/// For how many blocks ahead fees are returned by default.
const TARGETS: [i32; 9] = [1, 2, 3, 6, 12, 24, 144, 504, 1_008];

/// Tells what to pay.
pub(crate) struct FeeQuery(pub(crate) QueryRoot);

impl FeeQuery {
    async fn each(
        &self,
        ctx: &Context<'_>,
        targets: Option<Vec<i32>>,
        mode: FeeMode,
        source: FeeSource,
    ) -> Result<LookedUp<FeeEstimateObject>, ApiError> {
        let targets = targets.unwrap_or_else(|| TARGETS.to_vec());
        let (view, limit) = (self.0.view(ctx)?, limits(ctx)?.points);
        let count = u64::try_from(targets.len()).unwrap_or(u64::MAX);
        if count > limit.into() {
            return Err(ApiError::argument_exceeds("targets", "pointsPerSeries", limit.into(), count));
        }
        costs::spend(ctx, costs::NODE)?;
        // asked at once, so that they go to the node together
        let each = targets.into_iter().enumerate().map(|(place, target)| {
            let view = view.clone();
            async move { FeeEstimateObject::find(view, (&format!("targets[{place}]"), target), mode, source).await }
        });
        Ok(join_all(each).await.into_iter().map(Result::transpose).collect())
    }
}

impl FieldCacheability for FeeQuery {
    const NEVER: &'static str = "feeEstimate feeEstimates recommendedFees";
}

#[Object]
impl FeeQuery {
    /// The feerate to pay for confirmation within a number of blocks. Null if the source has no estimate: the node has
    /// not seen enough blocks. NODE_UNAVAILABLE if the node is needed and does not respond.
    /// Example: `{ feeEstimate(targetBlocks: 6) { targetBlocks feeRate } }`.
    #[graphql(complexity = "costs::more(costs::NODE, child_complexity)")]
    async fn fee_estimate(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The number of blocks for confirmation, 1 to 1,008.")] target_blocks: i32,
        #[graphql(
            desc = "How the node's estimator weighs past feerates. Other sources ignore it.",
            default_with = "Some(FeeMode::Economical)"
        )]
        mode: Option<FeeMode>,
        #[graphql(desc = "The source of the estimate.", default_with = "Some(FeeSource::NodeEstimator)")]
        source: Option<FeeSource>,
    ) -> Option<Result<FeeEstimateObject, ApiError>> {
        let view = match costs::spend(ctx, costs::NODE).and_then(|()| self.0.view(ctx)) {
            Ok(view) => view,
            Err(error) => return Some(Err(error)),
        };
        let (mode, source) = (mode.unwrap_or_default(), source.unwrap_or_default());
        FeeEstimateObject::find(view, ("targetBlocks", target_blocks), mode, source).await.transpose()
    }

    /// Estimates for several confirmation targets, in the given order, each as in `feeEstimate`. Null for each target without
    /// an estimate.
    /// Example: `{ feeEstimates(targets: [1, 6, 144]) { requestedBlocks feeRate } }`.
    #[graphql(
        complexity = "costs::list(targets.as_ref().map_or(TARGETS.len(), Vec::len), child_complexity).saturating_add(costs::NODE)"
    )]
    async fn fee_estimates(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The confirmation targets in blocks, each 1 to 1,008. At most `server.limits.pages.pointsPerSeries` of them.",
            default_with = "Some(TARGETS.to_vec())"
        )]
        targets: Option<Vec<i32>>,
        #[graphql(
            desc = "How the node's estimator weighs past feerates. Other sources ignore it.",
            default_with = "Some(FeeMode::Economical)"
        )]
        mode: Option<FeeMode>,
        #[graphql(desc = "The source of the estimates.", default_with = "Some(FeeSource::NodeEstimator)")]
        source: Option<FeeSource>,
    ) -> Option<Result<LookedUp<FeeEstimateObject>, ApiError>> {
        Some(self.each(ctx, targets, mode.unwrap_or_default(), source.unwrap_or_default()).await)
    }

    /// The feerates to pay for confirmation in one of the next blocks, from the current mempool. With an empty mempool,
    /// the lowest feerate that the node accepts. NODE_UNAVAILABLE until the server has read the node's mempool.
    /// Example: `{ recommendedFees { within1Block within3Blocks within6Blocks economy minimum } }`.
    async fn recommended_fees(&self, ctx: &Context<'_>) -> Option<Result<RecommendedFeesObject, ApiError>> {
        Some(self.0.view(ctx).and_then(RecommendedFeesObject::of))
    }
}
