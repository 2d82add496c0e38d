//! What a block of the active chain contains, transaction by transaction, from one pass over its bytes.

use std::collections::HashMap;

use bitcoin::consensus::deserialize;
use bitcoin::{Transaction, Txid};

use super::{Block, BudgetExceeded, View};
use crate::chain::raw::{RawTransaction, split_transactions};
use crate::chain::{StructuralFeature, features, may_count_for_more, policy_weight, wide};
use crate::index::{IndexError, TxNum};
use crate::mempool::{FeeFraction, MinedTransaction};

/// The figures of the transactions of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockContents {
    /// The coinbase.
    pub coinbase: CoinbaseFigures,
    /// All others, in block order.
    pub paying: Vec<PayingTransaction>,
    /// The sum of the outputs of each transaction in sat, the coinbase first.
    pub values: Vec<u64>,
    /// The position of the coinbase.
    first: TxNum,
    /// The transactions as serialised, for what is asked of them later. The byte budget of the answer has counted them.
    raw: Vec<u8>,
}

/// A transaction of a block that pays a fee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayingTransaction {
    /// Its txid.
    pub txid: Txid,
    /// Its fee in sat.
    pub fee: u64,
    /// Its weight in weight units.
    pub weight: u64,
    /// The transactions of the block that it spends, by their places in the list; each precedes it.
    pub parents: Vec<usize>,
}

/// A share of a whole, in whole millionths of a percent: with fractions, a share that falls exactly between two transactions would
/// be a little above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// `None` if it is not from 0 to 100.
    #[must_use]
    pub fn of_percent(percent: f64) -> Option<Self> {
        // no conversion from a double to an integer is lossless; the digits without a fraction parse as one
        let digits = (0.0..=100.0).contains(&percent).then(|| format!("{:.0}", percent * 1_000_000.0))?;
        digits.parse().ok().map(Self)
    }

    /// Whether this share of `whole` is more than `part`.
    fn is_above(self, part: u64, whole: u64) -> bool {
        u128::from(part) * 100_000_000 < u128::from(whole) * u128::from(self.0)
    }
}

/// The figures of a coinbase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinbaseFigures {
    /// Its txid.
    pub txid: Txid,
    /// Its weight in weight units.
    pub weight: u64,
}

impl BlockContents {
    /// The txids, in block order.
    pub(super) fn txids(&self) -> impl Iterator<Item = Txid> {
        std::iter::once(self.coinbase.txid).chain(self.paying.iter().map(|transaction| transaction.txid))
    }

    /// The transactions, in block order.
    pub(super) fn transactions(&self) -> Result<Vec<RawTransaction<'_>>, IndexError> {
        split_transactions(self.values.len(), &self.raw).map_err(|error| {
            IndexError::corrupt("transactions", format!("of the block of {}: {error}", self.coinbase.txid))
        })
    }

    /// The feerates of the transactions without the coinbase, each by itself.
    #[must_use]
    pub fn own_feerates(&self) -> Vec<FeeFraction> {
        self.paying.iter().map(|transaction| FeeFraction::new(transaction.fee, transaction.weight)).collect()
    }

    /// The feerates at which these shares of the transactions without the coinbase are reached, in sat per 1,000 vbytes: shares of
    /// their weight, as in the rows of blocks, or of their number. Zeros if there are none. `feerates` has that of each
    /// transaction.
    #[must_use]
    pub fn feerates_at(&self, shares: &[Share], feerates: &[FeeFraction], is_weighted: bool) -> Vec<u64> {
        let rates = feerates.iter().map(|rate| rate.to_feerate().to_sat_per_kvb());
        let mut by_rate: Vec<_> = rates.zip(self.paying.iter().map(|transaction| transaction.weight)).collect();
        by_rate.sort_unstable();
        let mut sum = 0_u64;
        let sums = by_rate.iter().map(|(_, weight)| {
            sum = sum.saturating_add(if is_weighted { *weight } else { 1 });
            sum
        });
        let sums: Vec<_> = sums.collect();
        let at = |share: &Share| {
            let reached = sums.partition_point(|behind| share.is_above(*behind, sum));
            by_rate.get(reached).or(by_rate.last()).map_or(0, |(rate, _)| *rate)
        };
        shares.iter().map(at).collect()
    }
}

impl View {
    /// The figures of the transactions of a block; `None` for a stale block, whose fees are not stored.
    pub fn block_contents(&self, block: &Block) -> Result<Option<BlockContents>, IndexError> {
        if !block.is_main() {
            return Ok(None);
        }
        let mut raw = Vec::with_capacity(usize::try_from(block.row.size).unwrap_or_default());
        let first = block.first_txnum()?;
        let rows = self.head.chain.read_transactions(first, block.row.transactions, &mut raw)?;
        let damaged = |what: String| IndexError::corrupt("transactions", format!("block {}: {what}", block.row.hash));
        let places: HashMap<Txid, usize> = rows.iter().enumerate().map(|(place, (txid, _))| (*txid, place)).collect();
        let (mut coinbase, mut paying) = (None, Vec::with_capacity(rows.len()));
        let (mut values, mut rest) = (Vec::with_capacity(rows.len()), raw.as_slice());
        for (txid, fee) in &rows {
            let transaction = RawTransaction::parse(rest).map_err(|error| damaged(error.to_string()))?;
            rest = rest.get(transaction.size()..).unwrap_or_default();
            values.push(transaction.outputs().fold(0_u64, |sum, output| sum.saturating_add(output.value)));
            let weight = wide(transaction.weight());
            let Some(fee) = fee else {
                coinbase = coinbase.or(Some(CoinbaseFigures { txid: *txid, weight }));
                continue;
            };
            // the coinbase is not in the list, and cannot be spent in its own block
            let parents = transaction.inputs().filter_map(|input| places.get(&input.outpoint_txid())?.checked_sub(1));
            let mut parents: Vec<usize> = parents.filter(|parent| *parent < paying.len()).collect();
            parents.sort_unstable();
            parents.dedup();
            paying.push(PayingTransaction { txid: *txid, fee: *fee, weight, parents });
        }
        let coinbase = coinbase.filter(|_| paying.len() + 1 == rows.len());
        let coinbase = coinbase.ok_or_else(|| damaged("it does not have exactly one coinbase".to_owned()))?;
        Ok(Some(BlockContents { coinbase, paying, values, first, raw }))
    }

    /// The transactions of a block without the coinbase, as miners order them. `count` is called with the number of inputs whose
    /// outputs decide what signature operations count for, before they are read.
    ///
    /// Errors: those of the index and of `count`, and the byte budget.
    pub fn mined_transactions<E>(
        &self,
        contents: &BlockContents,
        count: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<Vec<MinedTransaction>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let spends = self.block_spends(contents, may_count_for_more, count)?;
        let behind_coinbase = spends.transactions().iter().skip(1);
        let ordered = contents.paying.iter().zip(behind_coinbase).map(|(own, transaction)| {
            let policy_weight = policy_weight(transaction, || spends.prevouts(transaction))?;
            Ok(MinedTransaction { txid: own.txid, fee: own.fee, policy_weight, parents: own.parents.clone() })
        });
        ordered.collect()
    }

    /// The features of each transaction of a block, in block order. `count` is called with the number of its inputs, before the
    /// outputs that they spend are read.
    ///
    /// Errors: those of the index and of `count`, and the byte budget.
    pub fn block_features<E>(
        &self,
        contents: &BlockContents,
        count: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<Vec<Vec<StructuralFeature>>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        // each is decoded whole
        self.count(contents.raw.len())?;
        let spends = self.block_spends(contents, |_| true, count)?;
        let features_of = |transaction: &RawTransaction<'_>| {
            let prevouts = spends.prevouts(transaction)?;
            let parts: Transaction = deserialize(transaction.bytes()).map_err(|error| {
                IndexError::corrupt("transactions", format!("of the block of {}: {error}", contents.coinbase.txid))
            })?;
            Ok(features(&parts, &prevouts))
        };
        spends.transactions().iter().map(features_of).collect()
    }

    /// When each transaction of a block was first seen unconfirmed, in seconds since 1970, in block order; `None` for those that were
    /// not, and for which that is no longer stored.
    pub fn block_first_seen(&self, contents: &BlockContents) -> Result<Vec<Option<u64>>, IndexError> {
        let first = contents.first.0;
        let mut seen = vec![None; contents.values.len()];
        let end = first.saturating_add(u32::try_from(seen.len()).unwrap_or(u32::MAX));
        for row in self.head.chain.first_seen_within(contents.first..TxNum(end))? {
            let (txnum, seconds) = row?;
            let place = txnum.0.checked_sub(first).and_then(|place| usize::try_from(place).ok());
            if let Some(seen) = place.and_then(|place| seen.get_mut(place)) {
                *seen = Some(seconds);
            }
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_falls_exactly_on_a_part_is_not_above_it() {
        // 250.0 * 64.4 is a little more than 16,100
        let share = Share::of_percent(64.4).unwrap();
        assert!(share.is_above(160, 250) && !share.is_above(161, 250));
        for percent in 0..=1_000_u32 {
            let share = Share::of_percent(f64::from(percent) / 10.0).unwrap();
            for part in 0..=1_000 {
                assert_eq!(share.is_above(part, 1_000), part < u64::from(percent), "{percent}, {part}");
            }
        }
        assert_eq!(
            (Share::of_percent(-0.1), Share::of_percent(100.1), Share::of_percent(f64::NAN)),
            (None, None, None)
        );
    }
}
