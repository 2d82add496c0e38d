//! How often past estimates were enough: what was recommended when a sample of the mempool was taken, against the blocks that
//! came after it.
//!
//! ```text
//!   samples    s  s  s  s  s              each with the tip and the recommended feerates of that moment
//!   blocks        □     □        □ tip    within 1: the next □ of each sample; within 3: one of its next three
//! ```

use async_graphql::SimpleObject;

use super::past_estimate::{EstimateOutcome, NeededFeerates};
use super::sample;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, int};
use crate::limits::Limits;
use crate::view::{SAMPLED_TARGETS, View};

/// How past recommendations for one target compare with what the next blocks took.
#[derive(Clone, Copy, Debug, PartialEq, SimpleObject)]
pub(crate) struct FeeTrackRecord {
    /// The number of blocks that the estimates are for.
    target_blocks: i32,
    /// The number of estimates that are compared: one for each sample that has estimates and `targetBlocks` blocks after it.
    estimate_count: i32,
    /// The number of estimates that were enough: one of the next `targetBlocks` blocks would have taken a transaction that
    /// pays it.
    enough_count: i32,
    /// The mean of the estimates, in sat/vB. Null if there are none.
    average_fee_rate: Option<f64>,
    /// The mean of the feerates that were needed, in sat/vB (`PastFeeEstimate.neededFeeRate`). Estimates after which the blocks
    /// took nothing are not counted. Null if there are none.
    average_needed_fee_rate: Option<f64>,
}

impl FieldCacheability for FeeTrackRecord {
    const UNTIL_NEXT_HEAD: &'static str = "targetBlocks estimateCount enoughCount averageFeeRate averageNeededFeeRate";
}

impl FeeTrackRecord {
    fn of(target: u32, judged: &[EstimateOutcome]) -> Result<Self, ApiError> {
        let count = |count: usize| u32::try_from(count).map_err(|_| ApiError::internal("too many samples"));
        let mean = |values: Vec<f64>| -> Result<Option<f64>, ApiError> {
            let all = f64::from(count(values.len())?);
            Ok((!values.is_empty()).then(|| values.iter().sum::<f64>() / all))
        };
        let needed = judged.iter().filter_map(EstimateOutcome::needed_sat_per_vb);
        Ok(Self {
            target_blocks: int(target)?,
            estimate_count: int(count(judged.len())?)?,
            enough_count: int(count(judged.iter().filter(|one| one.is_enough()).count())?)?,
            average_fee_rate: mean(judged.iter().map(|one| one.estimate.to_sat_per_vb()).collect())?,
            average_needed_fee_rate: mean(needed.collect())?,
        })
    }
}

/// The record of each target that samples have, from the newest sample of each step.
///
/// Errors: those of [`sample::read`].
pub(crate) fn read(
    view: &View,
    limits: &Limits,
    time: Option<(DateTime, DateTime)>,
    step: i32,
) -> Result<Vec<FeeTrackRecord>, ApiError> {
    let mut needed = NeededFeerates::new(view);
    let mut judged = SAMPLED_TARGETS.map(|target| (target, Vec::new()));
    let steps = time.map_or(Ok(Vec::new()), |time| sample::read(view, limits, time, step))?;
    for (_, sample) in steps.into_iter().filter_map(|step| step.sample) {
        let Some(estimates) = sample.estimates else { continue };
        for past in needed.compare(estimates, sample.min_fee_rate)? {
            let Some(of_target) = judged.iter_mut().find(|(target, _)| *target == past.target) else { continue };
            of_target.1.extend(past.outcome);
        }
    }
    judged.into_iter().map(|(target, judged)| FeeTrackRecord::of(target, &judged)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Feerate;

    #[test]
    fn an_estimate_is_enough_if_a_block_took_as_little() {
        let rate = Feerate::from_sat_per_kvb;
        let judged = |estimate, needed: Option<u64>| EstimateOutcome {
            estimate: rate(estimate),
            needed: needed.map(rate),
            minimum: 1.0,
        };
        // paid as much, paid more into a block with space, paid too little, and no block took anything
        let all = [judged(4_000, Some(4_000)), judged(3_000, Some(0)), judged(2_000, Some(7_000)), judged(7_000, None)];
        assert_eq!(
            FeeTrackRecord::of(3, &all).unwrap(),
            FeeTrackRecord {
                target_blocks: 3,
                estimate_count: 4,
                enough_count: 2,
                average_fee_rate: Some(4.0),
                average_needed_fee_rate: Some(4.0),
            }
        );
        let none = FeeTrackRecord::of(1, &[]).unwrap();
        assert_eq!((none.estimate_count, none.average_fee_rate, none.average_needed_fee_rate), (0, None, None));
    }
}
