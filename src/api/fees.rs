//! What to pay: by the estimator of the node, which looks at what was paid before, or by the blocks that the mempool would
//! make, which looks at what waits now.
//!
//! How well an estimate would have done is next door, in `hit_rate`.

use std::sync::Arc;

use async_graphql::{ComplexObject, Context, Enum, SimpleObject};

use super::error::ApiError;
use super::hit_rate;
use super::request::limits;
use super::scalars::int;
use super::snapshot::Snapshot;
use crate::chain::Feerate;
use crate::view::{EstimateMode, View};

/// The most blocks ahead for which fees are estimated, as in Bitcoin Core.
const MAX_TARGET: u16 = 1_008;

/// How the node's estimator weighs what was paid before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(super) enum FeeMode {
    /// It follows the last blocks.
    #[default]
    Economical,
    /// It follows a longer past, and so falls more slowly.
    Conservative,
}

/// Where an estimate comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(super) enum FeeSource {
    /// The estimator of the Bitcoin node (`estimatesmartfee`): how long transactions of a feerate waited before.
    #[default]
    NodeEstimator,
    /// The blocks that miners would make of the mempool now if nothing else came.
    MempoolProjection,
    /// The higher of the two: the node's estimator is late when fees rise, and the projection knows nothing of what is
    /// about to come. Of the projection alone if the node has no estimate.
    Blend,
}

/// What to pay to be in a block soon.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(super) struct FeeEstimate {
    /// Within how many blocks the estimate is for. The node's estimator may answer for more than it was asked for: for 2
    /// instead of 1. A blend is for what was asked.
    target_blocks: i32,
    /// What to pay, in sat/vB.
    fee_rate: f64,
    /// Where the estimate comes from.
    source: FeeSource,
    /// How the node's estimator weighed the past; null where it was not asked.
    mode: Option<FeeMode>,
    /// The state of the chain that the rest of this answer is from, the mempool of the projection included. The node's
    /// estimator answers of now.
    as_of: Snapshot,
    #[graphql(skip)]
    view: Arc<View>,
}

#[ComplexObject]
impl FeeEstimate {
    /// How well this feerate would have done before: the share of the last blocks behind which a transaction that pays it
    /// would have been mined within `targetBlocks` blocks, 0 to 1. A block would have taken it if it has room left, or a
    /// tenth of its weight pays no more, so that what its miner took for other reasons does not count; one that holds
    /// nothing but its coinbase would not. This is what blocks say in hindsight: no estimates of the past are kept. Null
    /// if the chain is too short for any such run of blocks.
    #[graphql(complexity = "hit_rate::cost(last_blocks)")]
    async fn hit_rate(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "How many starting points to look at, the newest of which has `targetBlocks` blocks behind it. 1 to \
                    `server.limits.points`.",
            default_with = "Some(hit_rate::LAST_BLOCKS)"
        )]
        last_blocks: Option<i32>,
    ) -> Option<Result<f64, ApiError>> {
        let (last_blocks, target) = (last_blocks.unwrap_or(hit_rate::LAST_BLOCKS), self.target_blocks);
        let most = match limits(ctx) {
            Ok(limits) => limits.points,
            Err(error) => return Some(Err(error)),
        };
        hit_rate::of(&self.view, self.fee_rate, target, last_blocks, most).transpose()
    }
}

/// What to pay at least to be in one of the next blocks, by the blocks that miners would make of the mempool if nothing
/// else came. Each is no lower than the next. All in sat/vB.
#[derive(SimpleObject)]
pub(super) struct RecommendedFees {
    /// To be in the next block: its median feerate, or less if it is not full.
    next_block: f64,
    /// To be in one of the next three blocks.
    within_3_blocks: f64,
    /// To be in one of the next six blocks.
    within_6_blocks: f64,
    /// For what has time: twice the minimum, unless one of the next six blocks takes less.
    economy: f64,
    /// What the node takes at least now.
    minimum: f64,
    /// The state that this is read off.
    as_of: Snapshot,
}

/// A number of blocks ahead. Errors: BAD_USER_INPUT.
fn target(blocks: i32) -> Result<u16, ApiError> {
    let target = u16::try_from(blocks).ok().filter(|target| (1..=MAX_TARGET).contains(target));
    target.ok_or_else(|| ApiError::bad_user_input(format!("a target is {blocks} blocks; it can be 1 to {MAX_TARGET}")))
}

/// Errors: NODE_UNAVAILABLE if what the node takes is not known yet.
fn with_mempool(view: &View) -> Result<(), ApiError> {
    if view.follows_mempool() { Ok(()) } else { Err(ApiError::mempool_unknown()) }
}

impl RecommendedFees {
    pub(super) fn of(view: Arc<View>) -> Result<Self, ApiError> {
        with_mempool(&view)?;
        let fees = view.mempool().recommended_fees();
        Ok(Self {
            next_block: fees.next_block,
            within_3_blocks: fees.within_3_blocks,
            within_6_blocks: fees.within_6_blocks,
            economy: fees.economy,
            minimum: fees.minimum,
            as_of: Snapshot::new(view),
        })
    }
}

impl FeeEstimate {
    /// An estimate, `None` where the source has none.
    pub(super) async fn find(
        view: Arc<View>,
        target_blocks: i32,
        mode: FeeMode,
        source: FeeSource,
    ) -> Result<Option<Self>, ApiError> {
        let target = target(target_blocks)?;
        let projected = match source {
            FeeSource::NodeEstimator => None,
            FeeSource::MempoolProjection | FeeSource::Blend => {
                with_mempool(&view)?;
                Some(view.mempool().projected_fee(target.into()))
            }
        };
        if source == FeeSource::MempoolProjection {
            return Ok(projected.map(|fee_rate| Self::new(view, target_blocks, fee_rate, source, None)));
        }
        let asked = match mode {
            FeeMode::Economical => EstimateMode::Economical,
            FeeMode::Conservative => EstimateMode::Conservative,
        };
        let found = view.ask().fee_estimate(target, asked).await.map_err(|error| ApiError::node_unavailable(&error))?;
        let estimated = found.feerate.map(Feerate::to_sat_per_vb);
        let (target_blocks, fee_rate) = match projected {
            None => (int(found.blocks.into())?, estimated),
            Some(projected) => (target_blocks, Some(estimated.map_or(projected, |rate| rate.max(projected)))),
        };
        Ok(fee_rate.map(|fee_rate| Self::new(view, target_blocks, fee_rate, source, Some(mode))))
    }

    fn new(view: Arc<View>, target_blocks: i32, fee_rate: f64, source: FeeSource, mode: Option<FeeMode>) -> Self {
        Self { target_blocks, fee_rate, source, mode, as_of: Snapshot::new(view.clone()), view }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_1_to_1_008_blocks() {
        assert_eq!((target(1), target(1_008)), (Ok(1), Ok(1_008)));
        for wrong in [0, -1, 1_009, 65_537, i32::MIN, i32::MAX] {
            assert_eq!(target(wrong).unwrap_err().code(), "BAD_USER_INPUT", "{wrong}");
        }
    }
}
