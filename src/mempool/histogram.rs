//! The fee histogram: bins of feerates, the highest first.

use super::feerate::{FeeFraction, Rank};
use super::state::MempoolState;
use crate::chain::vsize;
use bitcoin::Weight;

/// The feerate by which a transaction is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FeerateKind {
    /// Its own fee per weight, as in Esplora and Electrum servers.
    Own,
    /// The feerate of its chunk, which is what a miner gets.
    Effective,
}

/// The bounds between bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeeBins {
    /// At these feerates, in any order; each belongs to the bin above it. Feerates below the lowest have a bin of their
    /// own.
    At(Vec<FeeFraction>),
    /// Where the feerate changes after a bin has this many vbytes or more, as in an Esplora server with 50,000.
    Filled(u64),
}

/// The transactions that pay at least one feerate and less than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeeBin {
    /// The lowest feerate of the bin; in bins cut by size, the lowest that a transaction pays.
    pub from_rate: FeeFraction,
    /// The lowest feerate of the bin above; `None` for the highest bin.
    pub to_rate: Option<FeeFraction>,
    /// The virtual sizes of its transactions, in vbytes.
    pub vsize: u64,
    /// The number of transactions.
    pub count: u64,
    /// Its vbytes and those of all bins above.
    pub cumulative_vsize: u64,
}

impl MempoolState {
    pub(super) fn histogram(&self, kind: FeerateKind, bins: &FeeBins) -> Vec<FeeBin> {
        match kind {
            FeerateKind::Own => histogram(self.by_feerate.iter().map(|Rank { by, .. }| (*by, by.weight())), bins),
            FeerateKind::Effective => {
                histogram(self.by_effective.iter().map(|(rank, weights)| (rank.by, weights.policy.into())), bins)
            }
        }
    }
}

/// The bins over transactions given as (feerate, weight), from the highest feerate down.
fn histogram(transactions: impl Iterator<Item = (FeeFraction, u64)>, bins: &FeeBins) -> Vec<FeeBin> {
    let transactions = transactions.map(|(rate, weight)| (rate, vsize(Weight::from_wu(weight))));
    let counted = match bins {
        FeeBins::At(rates) => at(transactions, rates),
        FeeBins::Filled(vsize) => filled(transactions, *vsize),
    };
    let (mut above, mut cumulative_vsize) = (None, 0_u64);
    counted
        .into_iter()
        .map(|BinCount { from_rate, vsize, count }| {
            cumulative_vsize = cumulative_vsize.saturating_add(vsize);
            FeeBin { from_rate, to_rate: above.replace(from_rate), vsize, count, cumulative_vsize }
        })
        .collect()
}

struct BinCount {
    from_rate: FeeFraction,
    vsize: u64,
    count: u64,
}

impl BinCount {
    fn from(from_rate: FeeFraction) -> Self {
        Self { from_rate, vsize: 0, count: 0 }
    }

    fn add(&mut self, vsize: u64) {
        self.vsize = self.vsize.saturating_add(vsize);
        self.count += 1;
    }
}

fn at(transactions: impl Iterator<Item = (FeeFraction, u64)>, rates: &[FeeFraction]) -> Vec<BinCount> {
    let mut rates: Vec<FeeFraction> = rates.iter().copied().chain([FeeFraction::ZERO]).collect();
    rates.sort_unstable_by(|one, other| other.cmp(one));
    rates.dedup();
    let mut bins: Vec<BinCount> = rates.into_iter().map(BinCount::from).collect();
    let mut index = 0;
    for (rate, vsize) in transactions {
        // the lowest bin begins at zero, so a bin is always found
        while bins.get(index).is_some_and(|bin| rate < bin.from_rate) {
            index += 1;
        }
        if let Some(bin) = bins.get_mut(index) {
            bin.add(vsize);
        }
    }
    bins
}

fn filled(transactions: impl Iterator<Item = (FeeFraction, u64)>, enough: u64) -> Vec<BinCount> {
    let mut bins: Vec<BinCount> = Vec::new();
    for (rate, vsize) in transactions {
        match bins.last_mut() {
            Some(bin) if bin.from_rate == rate || bin.vsize < enough => {
                bin.from_rate = rate;
                bin.add(vsize);
            }
            _ => {
                let mut bin = BinCount::from(rate);
                bin.add(vsize);
                bins.push(bin);
            }
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transactions of 100 vbytes each, given by sat/vB.
    fn bins(rates: &[u64], bins: &FeeBins) -> Vec<(u64, Option<u64>, u64, u64, u64)> {
        let per_vb = |rate: FeeFraction| rate.to_feerate().to_sat_per_kvb() / 1_000;
        let transactions = rates.iter().map(|rate| (FeeFraction::new(rate * 100, 400), 400));
        histogram(transactions, bins)
            .into_iter()
            .map(|bin| (per_vb(bin.from_rate), bin.to_rate.map(per_vb), bin.vsize, bin.count, bin.cumulative_vsize))
            .collect()
    }

    fn at(rates: &[u64]) -> FeeBins {
        FeeBins::At(rates.iter().map(|rate| FeeFraction::new(*rate, 4)).collect())
    }

    #[test]
    fn a_rate_belongs_to_the_bin_above_it() {
        let expected =
            [(10, None, 200, 2, 200), (5, Some(10), 100, 1, 300), (2, Some(5), 0, 0, 300), (0, Some(2), 100, 1, 400)];
        assert_eq!(bins(&[12, 10, 9, 1], &at(&[2, 10, 5, 10])), expected);
    }

    #[test]
    fn a_bin_is_cut_where_the_rate_changes_after_it_is_full() {
        let expected = [(8, None, 300, 3, 300), (3, Some(8), 200, 2, 500), (1, Some(3), 100, 1, 600)];
        assert_eq!(bins(&[9, 8, 8, 7, 3, 1], &FeeBins::Filled(200)), expected);
    }

    #[test]
    fn an_empty_mempool_has_only_the_requested_bins() {
        assert_eq!(bins(&[], &FeeBins::Filled(50_000)), []);
        assert_eq!(bins(&[], &at(&[3])), [(3, None, 0, 0, 0), (0, Some(3), 0, 0, 0)]);
    }
}
