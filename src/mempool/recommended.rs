//! What to pay to be in one of the next blocks, read off the blocks that miners would make of the mempool.
//!
//! As the mempool.space explorer does, but without rounding: the median of the projected block counts as far as the block
//! is full. A block that is no more than half full takes whatever the node takes.
//!
//! ```text
//!   minimum │──────────╱ median      what to pay
//!           0    ½     1             how full the last projected block is
//! ```

use super::projection::{PROJECTED_BLOCK_WEIGHT, ProjectedBlock, Remainder};
use super::snapshot::MempoolSnapshot;
use crate::chain::float::to_f64;

/// Up to which projected block each of the three goes.
const BLOCKS: [usize; 3] = [1, 3, 6];

/// Feerates in sat/vB, each no lower than the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecommendedFees {
    /// To be in the next block.
    pub next_block: f64,
    /// To be in one of the next three.
    pub within_3_blocks: f64,
    /// To be in one of the next six.
    pub within_6_blocks: f64,
    /// For what has time: twice the minimum, unless six blocks take less.
    pub economy: f64,
    /// What the node takes at least.
    pub minimum: f64,
}

impl MempoolSnapshot {
    /// What to pay to be in one of the next blocks, if nothing else came.
    #[must_use]
    pub fn recommended_fees(&self) -> RecommendedFees {
        let minimum = self.node().min_fee_rate;
        let blocks = self.projected_blocks(BLOCKS[2] + 1, Remainder::Left);
        let mut before = f64::INFINITY;
        let [next_block, within_3_blocks, within_6_blocks] = BLOCKS.map(|count| {
            let block = blocks.get(count - 1).map(AsRef::as_ref);
            before = before.min(to_be_in(block, blocks.len() > count, minimum));
            before
        });
        let economy = within_6_blocks.min(minimum * 2.0);
        RecommendedFees { next_block, within_3_blocks, within_6_blocks, economy, minimum }
    }

    /// What to pay, in sat/vB, to be in one of the next `count` blocks, if nothing else came.
    #[must_use]
    pub fn projected_fee(&self, count: usize) -> f64 {
        let minimum = self.node().min_fee_rate;
        let blocks = self.projected_blocks(count.saturating_add(1), Remainder::Left);
        let up_to = blocks.get(..count.min(blocks.len())).unwrap_or_default();
        let fees = up_to.iter().zip(1..).map(|(block, number)| to_be_in(Some(block), blocks.len() > number, minimum));
        let fees = fees.fold(f64::INFINITY, f64::min);
        if blocks.len() < count || count == 0 { minimum } else { fees }
    }
}

/// What to pay to be in a block, of which it is said whether another comes behind it. Without a block, the minimum.
fn to_be_in(block: Option<&ProjectedBlock>, has_next: bool, minimum: f64) -> f64 {
    let Some(block) = block else { return minimum };
    let above = (block.median_feerate().to_sat_per_vb() - minimum).max(0.0);
    let full = if has_next { 1.0 } else { to_f64(block.weight) / to_f64(PROJECTED_BLOCK_WEIGHT) };
    minimum + above * (full * 2.0 - 1.0).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::feerate::FeeFraction;
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
            // what comes next did not fit in
            (10, full / 2, true, 10.0),
            // never below what the node takes
            (1, full, true, 2.0),
        ] {
            let found = to_be_in(Some(&block(rate, weight)), has_next, 2.0);
            assert!((found - expected).abs() < 1e-9, "{rate} {weight} {has_next}: {found}");
        }
        assert!((to_be_in(None, false, 0.1) - 0.1).abs() < 1e-12);
    }
}
