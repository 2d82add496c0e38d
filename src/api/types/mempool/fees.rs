//! What to pay: by the estimator of the node, which looks at what was paid before, or by the blocks that the mempool would
//! make, which looks at what waits now.
//!
//! How well an estimate would have done is in `hit_rate`.

use std::sync::Arc;

use async_graphql::{ComplexObject, Context, Enum, SimpleObject};

use super::hit_rate;
use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::int;
use crate::api::types::block::BlockRangeInput;
use crate::api::types::chain::SnapshotObject;
use crate::chain::Feerate;
use crate::view::{EstimateMode, View};

/// The most blocks ahead for which fees are estimated, as in Bitcoin Core.
const MAX_TARGET: u16 = 1_008;

/// How the node's estimator weighs past feerates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(crate) enum FeeMode {
    /// Follows the most recent blocks.
    #[default]
    Economical,
    /// Considers a longer history, so the estimate falls more slowly.
    Conservative,
}

/// The source of a feerate estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(crate) enum FeeSource {
    /// The Bitcoin node's estimator (`estimatesmartfee`), based on how long past transactions waited at each feerate.
    #[default]
    NodeEstimator,
    /// The blocks that miners would assemble from the current mempool if no more transactions arrived.
    MempoolProjection,
    /// The higher of the two other estimates: the node's estimator lags when fees rise, and the projection ignores
    /// future arrivals. The projection alone if the node has no estimate.
    Blend,
}

/// The feerate to pay for confirmation within a number of blocks.
#[derive(SimpleObject)]
#[graphql(complex)]
#[graphql(name = "FeeEstimate")]
pub(crate) struct FeeEstimateObject {
    /// The requested number of blocks.
    requested_blocks: i32,
    /// The number of blocks that the estimate is for. The node's estimator may return a longer target than requested: 2
    /// instead of 1. Other sources estimate for the requested target.
    target_blocks: i32,
    /// The estimated feerate, in sat/vB.
    fee_rate: f64,
    /// The source of the estimate.
    source: FeeSource,
    /// The mode of the node's estimator. Null if the node was not asked.
    mode: Option<FeeMode>,
    /// The state of the chain that the rest of this answer uses, including the mempool of the projection. The node's
    /// estimator always reports its current state.
    as_of: SnapshotObject,
    #[graphql(skip)]
    view: Arc<View>,
}

impl FieldCacheability for FeeEstimateObject {
    const NEVER: &'static str = "requestedBlocks targetBlocks feeRate source mode asOf hitRate";
}

#[ComplexObject]
impl FeeEstimateObject {
    /// The backtest of this feerate: the share, 0 to 1, of all runs of `targetBlocks` consecutive blocks of the range within
    /// which a transaction at this feerate would have been mined. A block counts as accepting the transaction if it
    /// has space left (it weighs less than 97.5 % of `ProjectedBlock.maxWeight`), or if at least a tenth of its weight pays at most
    /// this feerate; the threshold discounts
    /// transactions that the miner included for other reasons. A block with only a coinbase does not count. The figure
    /// is computed from the blocks; `Mempool.feeTrackRecord` has past recommendations. Null if the range has fewer blocks than
    /// `targetBlocks`.
    #[graphql(complexity = "costs::more(hit_rate::cost(range), 0)")]
    async fn hit_rate(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The blocks, at most `server.limits.pages.pointsPerSeries`. The last 1,008, those of a week, if not given."
        )]
        range: Option<BlockRangeInput>,
    ) -> Option<Result<f64, ApiError>> {
        let find = || {
            let blocks = hit_rate::blocks(&self.view, range, limits(ctx)?.points)?;
            costs::spend(ctx, costs::rows_in_a_row(blocks.end.saturating_sub(blocks.start)))?;
            hit_rate::of(&self.view, self.fee_rate, self.target_blocks, blocks)
        };
        find().transpose()
    }
}

/// The minimum feerates for confirmation in one of the next blocks, in sat/vB, from the blocks that miners would
/// assemble from the mempool if no more transactions arrived. No value is lower than that of a later target.
#[derive(SimpleObject)]
#[graphql(name = "RecommendedFees")]
pub(crate) struct RecommendedFeesObject {
    /// For the next block: its median feerate, or less if the block is not full.
    within1_block: f64,
    /// For one of the next three blocks.
    within_3_blocks: f64,
    /// For one of the next six blocks.
    within_6_blocks: f64,
    /// For low priority: twice the minimum, or less if one of the next six blocks requires less.
    economy: f64,
    /// The lowest feerate that the node currently accepts.
    minimum: f64,
    /// The state of the chain and mempool that the feerates are computed from.
    as_of: SnapshotObject,
}

impl FieldCacheability for RecommendedFeesObject {
    const NEVER: &'static str = "within1Block within3Blocks within6Blocks economy minimum asOf";
}

/// A number of blocks ahead as an argument gives it. Errors: BAD_USER_INPUT.
fn target(argument: &str, blocks: i32) -> Result<u16, ApiError> {
    let target = u16::try_from(blocks).ok().filter(|target| (1..=MAX_TARGET).contains(target));
    target.ok_or_else(|| ApiError::bad_argument(argument, format!("is {blocks}, and it must be 1 to {MAX_TARGET}")))
}

/// Errors: NODE_UNAVAILABLE if what the node takes is not known yet.
fn with_mempool(view: &View) -> Result<(), ApiError> {
    if view.follows_mempool() { Ok(()) } else { Err(ApiError::mempool_unknown()) }
}

impl RecommendedFeesObject {
    pub(crate) fn of(view: Arc<View>) -> Result<Self, ApiError> {
        with_mempool(&view)?;
        let fees = view.mempool().recommended_fees();
        Ok(Self {
            within1_block: fees.next_block,
            within_3_blocks: fees.within_3_blocks,
            within_6_blocks: fees.within_6_blocks,
            economy: fees.economy,
            minimum: fees.minimum,
            as_of: SnapshotObject::new(view),
        })
    }
}

impl FeeEstimateObject {
    /// An estimate for the target that an argument gives, `None` where the source has none.
    pub(crate) async fn find(
        view: Arc<View>,
        (argument, target_blocks): (&str, i32),
        mode: FeeMode,
        source: FeeSource,
    ) -> Result<Option<Self>, ApiError> {
        let target = target(argument, target_blocks)?;
        let projected = match source {
            FeeSource::NodeEstimator => None,
            FeeSource::MempoolProjection | FeeSource::Blend => {
                with_mempool(&view)?;
                Some(view.mempool().projected_fee(target.into()))
            }
        };
        if source == FeeSource::MempoolProjection {
            return Ok(projected.map(|fee_rate| Self {
                requested_blocks: target_blocks,
                target_blocks,
                fee_rate,
                source,
                mode: None,
                as_of: SnapshotObject::new(view.clone()),
                view,
            }));
        }
        let asked = match mode {
            FeeMode::Economical => EstimateMode::Economical,
            FeeMode::Conservative => EstimateMode::Conservative,
        };
        let found =
            view.node_client().fee_estimate(target, asked).await.map_err(|error| ApiError::node_unavailable(&error))?;
        let estimated = found.feerate.map(Feerate::to_sat_per_vb);
        let (estimated_for, fee_rate) = match projected {
            None => (int(found.blocks.into())?, estimated),
            Some(projected) => (target_blocks, Some(estimated.map_or(projected, |rate| rate.max(projected)))),
        };
        Ok(fee_rate.map(|fee_rate| Self {
            requested_blocks: target_blocks,
            target_blocks: estimated_for,
            fee_rate,
            source,
            mode: Some(mode),
            as_of: SnapshotObject::new(view.clone()),
            view,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_1_to_1_008_blocks() {
        assert_eq!((target("a", 1), target("a", 1_008)), (Ok(1), Ok(1_008)));
        for wrong in [0, -1, 1_009, 65_537, i32::MIN, i32::MAX] {
            let expected = ApiError::bad_argument("targets[4]", format!("is {wrong}, and it must be 1 to 1008"));
            assert_eq!(target("targets[4]", wrong), Err(expected));
        }
    }
}
