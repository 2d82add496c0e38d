//! Distributions of the fees and feerates of a block, computed in the simplest way.

use super::model::BlockTotals;

/// The points of both distributions, in percent.
const PERCENT: [u64; 7] = [0, 10, 25, 50, 75, 90, 100];

/// The lowest fee that this share of the transactions does not exceed; in the middle, of an even number, the mean of
/// the two that are there, rounded down.
pub(crate) fn fee_quantiles(block: &BlockTotals) -> [u64; 7] {
    let mut fees: Vec<_> = block.fees_and_weights.iter().map(|(fee, _)| *fee).collect();
    fees.sort_unstable();
    let count = u64::try_from(fees.len()).unwrap();
    PERCENT.map(|percent| match fees.as_slice() {
        [] => 0,
        fees if percent == 50 && fees.len() % 2 == 0 => fees[fees.len() / 2 - 1].midpoint(fees[fees.len() / 2]),
        fees => *fees.iter().zip(1..).find(|(_, rank)| rank * 100 >= count * percent).unwrap().0,
    })
}

/// The lowest feerate such that transactions of this share of the weight have at most that.
pub(crate) fn feerate_quantiles(block: &BlockTotals) -> [u64; 7] {
    let feerates = block.fees_and_weights.iter().map(|(fee, weight)| (fee * 4_000 / u64::from(*weight), *weight));
    let mut feerates: Vec<_> = feerates.collect();
    feerates.sort_unstable();
    let total: u64 = feerates.iter().map(|(_, weight)| u64::from(*weight)).sum();
    PERCENT.map(|percent| {
        let up_to = |at: usize| feerates[..=at].iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>();
        let found = (0..feerates.len()).find(|at| up_to(*at) * 100 >= total * percent);
        found.map_or(0, |at| feerates[at].0)
    })
}
