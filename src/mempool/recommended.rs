//! Recommended feerates for the next blocks, computed from the projected blocks.
//!
//! As in the mempool.space explorer, but without rounding: the median of the projected block, weighted by how full the
//! block is. A block that is at most half full yields the node's minimum.
//!
//! ```text
//!   minimum │──────────╱ median      recommended feerate
//!           0    ½     1             how full the last projected block is
//! ```

use std::sync::Arc;

use super::projection::{ProjectedBlock, Remainder};
use super::snapshot::MempoolSnapshot;
use crate::chain::float::to_f64;

/// The last projected block of each of the three recommendations.
const BLOCKS: [usize; 3] = [1, 3, 6];

/// Feerates in sat/vB, each no lower than the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecommendedFees {
    /// For the next block.
    pub next_block: f64,
    /// For one of the next three blocks.
    pub within_3_blocks: f64,
    /// For one of the next six blocks.
    pub within_6_blocks: f64,
    /// Without urgency: twice the minimum, or the feerate for six blocks if that is lower.
    pub economy: f64,
    /// The node's minimum.
    pub minimum: f64,
}

impl MempoolSnapshot {
    /// The recommended feerates, without future arrivals.
    #[must_use]
    pub fn recommended_fees(&self) -> RecommendedFees {
        let minimum = self.node().min_fee_rate;
        let blocks = self.projected_blocks(BLOCKS[2] + 1, Remainder::Left);
        let mut before = f64::INFINITY;
        let [next_block, within_3_blocks, within_6_blocks] = BLOCKS.map(|count| {
            let block = blocks.get(count - 1).map(AsRef::as_ref);
            before = before.min(self.to_be_in(block, blocks.len() > count, minimum));
            before
        });
        let economy = within_6_blocks.min(minimum * 2.0);
        RecommendedFees { next_block, within_3_blocks, within_6_blocks, economy, minimum }
    }

    /// The feerate in sat/vB for one of the next `count` blocks, without future arrivals.
    #[must_use]
    pub fn projected_fee(&self, count: usize) -> f64 {
        let minimum = self.node().min_fee_rate;
        let blocks = self.projected_blocks(count.saturating_add(1), Remainder::Left);
        let up_to = blocks.get(..count.min(blocks.len())).unwrap_or_default();
        let to_be_in = |(block, number): (&Arc<ProjectedBlock>, usize)| {
            self.to_be_in(Some(block.as_ref()), blocks.len() > number, minimum)
        };
        let fees = up_to.iter().zip(1..).map(to_be_in);
        let fees = fees.fold(f64::INFINITY, f64::min);
        if blocks.len() < count || count == 0 { minimum } else { fees }
    }

    fn to_be_in(&self, block: Option<&ProjectedBlock>, has_next: bool, minimum: f64) -> f64 {
        to_be_in(block, self.block_weight(), has_next, minimum)
    }
}

/// The recommended feerate of a block, given the weight of a full one and whether another follows it. Without a block, the
/// minimum.
fn to_be_in(block: Option<&ProjectedBlock>, block_weight: u64, has_next: bool, minimum: f64) -> f64 {
    let Some(block) = block else { return minimum };
    let above = (block.median_feerate().to_sat_per_vb() - minimum).max(0.0);
    let full = if has_next { 1.0 } else { to_f64(block.weight) / to_f64(block_weight) };
    minimum + above * (full * 2.0 - 1.0).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::feerate::FeeFraction;
    use super::super::limits::PROJECTED_BLOCK_WEIGHT;
    use super::*;

    fn block(rate: u64, weight: u64) -> ProjectedBlock {
        let feerates = [FeeFraction::new(rate, 4); 7];
        ProjectedBlock { weight, vsize: weight / 4, fees: 0, feerates, sequences: Box::default() }
    }

    #[test]
    fn a_block_takes_its_median_as_far_as_it_is_full() {
        let full = PROJECTED_BLOCK_WEIGHT;
        for (rate, weight, has_next, expected) in [
            (10, full, false, 10.0),
            (10, full * 3 / 4, false, 6.0),
            (10, full / 2, false, 2.0),
            (10, 0, false, 2.0),
            // the next block has what did not fit
            (10, full / 2, true, 10.0),
            // never below the node's minimum
            (1, full, true, 2.0),
        ] {
            let found = to_be_in(Some(&block(rate, weight)), full, has_next, 2.0);
            assert!((found - expected).abs() < 1e-9, "{rate} {weight} {has_next}: {found}");
        }
        assert!((to_be_in(None, PROJECTED_BLOCK_WEIGHT, false, 0.1) - 0.1).abs() < 1e-12);
    }
}
