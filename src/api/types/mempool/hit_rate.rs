//! How a feerate would have done in the blocks of the past.
//!
//! ```text
//!   blocks     …  ✓  ✗  ✗  ✓  ✗ tip       ✓ took what pays this
//!   within 2      └──┘  └──┘              of each two in a row: is there a ✓ among them?
//! ```

use std::ops::Range;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::pagination::page;
use crate::api::types::block::BlockRangeInput;
use crate::chain::{Feerate, Height};
use crate::view::View;

/// The blocks that are looked at if no others are asked for: those of a week.
pub(crate) const RANGE: BlockRangeInput = BlockRangeInput::LastBlocks(1_008);

/// From so many thousandths of what a block may weigh on it has no room left: a full one is made of what pays most, but for gaps that
/// nothing fits.
const FULL_PER_MILLE: u64 = 975;

/// Where 10 percent stands among the feerates of a row.
const TENTH: usize = 1;

/// What looking at these blocks costs at most.
pub(crate) fn cost(range: Option<BlockRangeInput>) -> usize {
    let most = range.unwrap_or(RANGE).most_blocks(costs::POINTS);
    costs::rows_in_a_row(u32::try_from(most).unwrap_or(u32::MAX))
}

/// The blocks of a range: the genesis block has none in front of it, and waited for nothing.
///
/// Errors: those of [`BlockRangeInput::heights`], and QUERY_LIMIT_EXCEEDED for more than `most` of them.
pub(crate) fn blocks(view: &View, range: Option<BlockRangeInput>, most: u32) -> Result<Range<u32>, ApiError> {
    let heights = BlockRangeInput::heights("range", Some(range.unwrap_or(RANGE)), view)?;
    let end = heights.end.to_u32();
    let start = heights.start.to_u32().clamp(1, end.max(1));
    let count = end.saturating_sub(start);
    if count > most {
        return Err(ApiError::argument_exceeds("range", "pointsPerSeries", most.into(), count.into()));
    }
    Ok(start..end)
}

/// The share of the runs of `target` consecutive blocks among these one of which took what pays this feerate, in sat/vB. `None`
/// if there are fewer blocks.
pub(crate) fn of(view: &View, sat_per_vb: f64, target: i32, blocks: Range<u32>) -> Result<Option<f64>, ApiError> {
    let feerate = Feerate::from_sat_per_vb(sat_per_vb)
        .ok_or_else(|| ApiError::internal("an estimate exceeds the coin supply"))?;
    let target = page::count_of("targetBlocks", target)?;
    let took = blocks.map(|height| Ok(needed(view, height)?.is_some_and(|needed| needed <= feerate)));
    Ok(share(&took.collect::<Result<Vec<bool>, ApiError>>()?, target))
}

/// The lowest feerate at which a block would have taken a transaction, had it waited: that which a tenth of its weight does not
/// exceed, and zero if it had space left. `None` if it took nothing.
pub(super) fn needed(view: &View, height: u32) -> Result<Option<Feerate>, ApiError> {
    let block = view.main_block(Height::from(height))?;
    let full = view.mempool().block_weight().saturating_mul(FULL_PER_MILLE);
    let is_full = u64::from(block.row.weight).saturating_mul(1_000) >= full;
    // one that holds nothing but a coinbase took nothing, whatever was paid
    let sat_per_kvb = if is_full { block.row.feerate_quantiles[TENTH] } else { 0 };
    Ok((block.row.transactions > 1).then_some(Feerate::from_sat_per_kvb(sat_per_kvb)))
}

/// The share of runs of `length` blocks one of which took it. `None` if there is no such run.
fn share(took: &[bool], length: u32) -> Option<f64> {
    let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
    let (mut runs, mut hits, mut since) = (0_u32, 0_u32, None);
    for (place, took) in took.iter().enumerate() {
        since = if *took { Some(0) } else { since.map(|since: usize| since.saturating_add(1)) };
        if place.saturating_add(1) >= length {
            runs = runs.saturating_add(1);
            hits = hits.saturating_add(u32::from(since.is_some_and(|since| since < length)));
        }
    }
    (runs > 0).then(|| f64::from(hits) / f64::from(runs))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_run_hits_if_one_of_its_blocks_takes_it() {
        let took = [true, false, false, true, false];
        for (length, expected) in
            [(0, None), (1, Some(2.0 / 5.0)), (2, Some(3.0 / 4.0)), (3, Some(1.0)), (5, Some(1.0)), (6, None)]
        {
            assert_eq!(share(&took, length), expected, "{length}");
        }
        assert_eq!(share(&[], 1), None);
        assert_eq!(share(&[false; 9], 3), Some(0.0));
    }

    proptest! {
        #[test]
        fn it_is_the_share_of_all_runs(took in prop::collection::vec(any::<bool>(), 0..60), length in 1_u32..20) {
            let runs: Vec<_> = took.windows(usize::try_from(length).unwrap()).collect();
            let hits = runs.iter().filter(|run| run.contains(&true)).count();
            let count = |number: usize| f64::from(u32::try_from(number).unwrap());
            let expected = (!runs.is_empty()).then(|| count(hits) / count(runs.len()));
            prop_assert_eq!(share(&took, length), expected);
        }
    }
}
