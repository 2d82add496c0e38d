//! What a block of the active chain contains, transaction by transaction, from one pass over its bytes.

use std::collections::HashMap;

use bitcoin::consensus::deserialize;
use bitcoin::{Transaction, TxOut, Txid};

use super::{Block, BudgetExceeded, View, corrupt};
use crate::chain::raw::{RawTransaction, split_transactions};
use crate::chain::{StructuralFeature, features, policy_weight, wide};
use crate::index::{IndexError, TxNum};
use crate::mempool::{FeeFraction, PayingTransaction};

/// The figures of the transactions of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockContents {
    /// The coinbase.
    pub coinbase: CoinbaseFigures,
    /// All others, in block order.
    pub paying: Vec<PayingTransaction>,
    /// The sum of the outputs of each transaction in sat, the coinbase first.
    pub values: Vec<u64>,
    first: TxNum,
    raw: Vec<u8>,
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
    fn transactions(&self) -> Result<Vec<RawTransaction<'_>>, IndexError> {
        split_transactions(self.values.len(), &self.raw)
            .map_err(|error| corrupt("transactions", format!("of the block of {}: {error}", self.coinbase.txid)))
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
        let damaged = |what: String| corrupt("transactions", format!("block {}: {what}", block.row.hash));
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

    /// The transactions of a block without the coinbase, with the weights by which miners order them
    /// ([`policy_weight`](crate::chain::policy_weight)).
    ///
    /// Errors: those of the index, and the byte budget: what a transaction with many signature operations spends is read.
    pub fn paying_by_policy<E>(&self, contents: &BlockContents) -> Result<Vec<PayingTransaction>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let transactions = contents.transactions()?;
        let behind_coinbase = transactions.iter().zip(contents.first.0..).skip(1);
        let weighed = contents.paying.iter().zip(behind_coinbase).map(|(own, (transaction, txnum))| {
            let weight = policy_weight(transaction, || self.all_spent::<E>(TxNum(txnum)))?;
            Ok(PayingTransaction { weight, ..own.clone() })
        });
        weighed.collect()
    }

    /// The outputs that a transaction of the active chain spends.
    fn all_spent<E>(&self, txnum: TxNum) -> Result<Vec<TxOut>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let transaction = self.transaction_at(txnum)?;
        let spent = self.prevouts::<E>(&transaction, 0..transaction.parts.input.len())?;
        Ok(spent.into_iter().flatten().collect())
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
        let transactions = contents.transactions()?;
        count(transactions.iter().map(|transaction| transaction.inputs().count()).sum())?;
        // each is decoded whole
        self.count(contents.raw.len())?;
        let txids = contents.paying.iter().map(|transaction| transaction.txid);
        let txids = std::iter::once(contents.coinbase.txid).chain(txids).collect();
        let spends = self.block_spends::<E>(txids, transactions)?;
        let features_of = |transaction: &RawTransaction<'_>| {
            let inputs = transaction.inputs().filter(|input| !input.is_null());
            let prevouts: Vec<TxOut> = inputs.map(|input| Ok(spends.of(&input)?.output)).collect::<Result<_, E>>()?;
            let parts: Transaction = deserialize(transaction.bytes()).map_err(|error| {
                corrupt("transactions", format!("of the block of {}: {error}", contents.coinbase.txid))
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
