//! The estimates that a sample of the mempool was stored with, each against the blocks that came after it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use async_graphql::SimpleObject;

use super::hit_rate;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::int;
use crate::chain::{Feerate, Height};
use crate::view::{SAMPLED_TARGETS, SampledEstimates, View};

/// What was recommended when a sample was taken, and what the blocks after it took.
#[derive(SimpleObject)]
pub(crate) struct PastFeeEstimate {
    /// The number of blocks that the estimate is for.
    target_blocks: i32,
    /// The height of the tip at that time: the next `targetBlocks` blocks are those above it.
    tip_height: i32,
    /// The estimate, in sat/vB.
    fee_rate: f64,
    /// The feerate that was needed, in sat/vB: the lowest of those of the next `targetBlocks` blocks, of each the feerate that a
    /// tenth of its weight does not exceed, or the node's minimum if one of them had space left. Null if these blocks took
    /// nothing, or are not there yet.
    needed_fee_rate: Option<f64>,
    /// Whether one of the next `targetBlocks` blocks would have taken a transaction that pays the estimate: whether it is at least
    /// what was needed. Null if these blocks are not there yet.
    is_enough: Option<bool>,
}

impl FieldCacheability for PastFeeEstimate {
    const UNTIL_NEXT_HEAD: &'static str = "targetBlocks tipHeight feeRate neededFeeRate isEnough";
}

impl PastFeeEstimate {
    /// Those of one sample, for the next block first.
    ///
    /// Errors: those of reading the blocks.
    pub(super) fn all(view: &View, estimates: SampledEstimates, minimum: f64) -> Result<Vec<Self>, ApiError> {
        NeededFeerates::new(view).compare(estimates, minimum)?.iter().map(Self::new).collect()
    }

    fn new(past: &PastEstimate) -> Result<Self, ApiError> {
        Ok(Self {
            target_blocks: int(past.target)?,
            tip_height: int(past.tip.to_u32())?,
            fee_rate: past.estimate.to_sat_per_vb(),
            needed_fee_rate: past.outcome.and_then(|outcome| outcome.needed_sat_per_vb()),
            is_enough: past.outcome.map(|outcome| outcome.is_enough()),
        })
    }
}

/// An estimate of a sample.
pub(super) struct PastEstimate {
    /// The number of blocks that it is for.
    pub(super) target: u32,
    /// The tip at that time.
    tip: Height,
    estimate: Feerate,
    /// What came of it. `None` if the blocks that it is for are not there yet.
    pub(super) outcome: Option<EstimateOutcome>,
}

/// An estimate, and what was needed.
#[derive(Clone, Copy)]
pub(super) struct EstimateOutcome {
    pub(super) estimate: Feerate,
    /// The lowest feerate that the next blocks took; `None` if they took nothing.
    pub(super) needed: Option<Feerate>,
    /// What the node accepted at that time, in sat/vB.
    pub(super) minimum: f64,
}

impl EstimateOutcome {
    /// Whether one of the blocks would have taken what pays the estimate.
    pub(super) fn is_enough(&self) -> bool {
        self.needed.is_some_and(|needed| needed <= self.estimate)
    }

    /// What had to be paid, in sat/vB.
    pub(super) fn needed_sat_per_vb(&self) -> Option<f64> {
        Some(self.needed?.to_sat_per_vb().max(self.minimum))
    }
}

/// What blocks of the main chain took. The estimates of a sample, and many samples, have the same next block: each is read once.
pub(super) struct NeededFeerates<'a> {
    view: &'a View,
    found: BTreeMap<u32, Option<Feerate>>,
}

impl<'a> NeededFeerates<'a> {
    pub(super) fn new(view: &'a View) -> Self {
        Self { view, found: BTreeMap::new() }
    }

    /// The estimates of a sample, in the order of [`SAMPLED_TARGETS`]. `minimum` is what the node accepted at that time, in sat/vB.
    ///
    /// Errors: those of reading the blocks.
    pub(super) fn compare(&mut self, estimates: SampledEstimates, minimum: f64) -> Result<Vec<PastEstimate>, ApiError> {
        let tip = estimates.tip;
        let past = |(target, estimate)| {
            let (first, last) = (tip.to_u32().saturating_add(1), tip.to_u32().saturating_add(target));
            let outcome = if last > self.view.tip().height.to_u32() {
                None
            } else {
                Some(EstimateOutcome { estimate, needed: self.lowest(first..=last)?, minimum })
            };
            Ok(PastEstimate { target, tip, estimate, outcome })
        };
        SAMPLED_TARGETS.into_iter().zip(estimates.feerates).map(past).collect()
    }

    /// The lowest feerate that one of these blocks took. `None` if they took nothing.
    fn lowest(&mut self, mut heights: RangeInclusive<u32>) -> Result<Option<Feerate>, ApiError> {
        heights.try_fold(None, |lowest: Option<Feerate>, height| {
            let needed = if let Some(found) = self.found.get(&height) {
                *found
            } else {
                let found = hit_rate::needed(self.view, height)?;
                *self.found.entry(height).or_insert(found)
            };
            Ok([lowest, needed].into_iter().flatten().min())
        })
    }
}
