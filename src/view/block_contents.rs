//! What a block of the active chain contains, transaction by transaction, from one pass over its bytes.

use std::collections::{HashMap, HashSet};

use bitcoin::{Amount, ScriptBuf, TxOut, Txid};

use super::{Block, BudgetExceeded, View, corrupt};
use crate::chain::raw::{RawTransaction, split_transactions};
use crate::chain::script::never_spendable;
use crate::chain::{policy_weight, wide};
use crate::index::{IndexError, TxNum};
use crate::mempool::{Coins, FeeFraction, PayingTransaction, ScriptTotals};

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

/// What the transactions of a block do to a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptChange {
    /// The script.
    pub script: ScriptBuf,
    /// What it receives and what is spent of it.
    pub totals: ScriptTotals,
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
        let BlockContents { coinbase, paying, values, first, raw } = contents;
        let transactions = split_transactions(values.len(), raw)
            .map_err(|error| corrupt("transactions", format!("the block of coinbase {}: {error}", coinbase.txid)))?;
        let behind_coinbase = transactions.iter().zip(first.0..).skip(1);
        let weighed = paying.iter().zip(behind_coinbase).map(|(own, (transaction, txnum))| {
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

    /// What a block of the active chain does to the balance of each script that it pays or spends, in the order of the scripts'
    /// bytes; `None` for a stale block. Outputs that can never be spent are not counted.
    ///
    /// Errors: those of the index, and the byte budget: the transactions with the spent outputs are read.
    pub fn balance_changes<E>(&self, block: &Block) -> Result<Option<Vec<ScriptChange>>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        if !block.is_main() {
            return Ok(None);
        }
        let first = block.first_txnum()?;
        let mut raw = Vec::with_capacity(usize::try_from(block.row.size).unwrap_or_default());
        let rows = self.head.chain.read_transactions(first, block.row.transactions, &mut raw)?;
        let transactions = split_transactions(rows.len(), &raw)
            .map_err(|error| corrupt("transactions", format!("block {}: {error}", block.row.hash)))?;
        let own: HashMap<Txid, usize> = rows.iter().enumerate().map(|(place, (txid, _))| (*txid, place)).collect();
        let spent = transactions.iter().flat_map(RawTransaction::inputs).filter(|input| !input.is_null());
        let elsewhere = spent.map(|input| input.outpoint_txid()).filter(|txid| !own.contains_key(txid)).collect();
        let funding = self.all_funding::<E>(elsewhere)?;

        let mut changes: HashMap<ScriptBuf, ScriptTotals> = HashMap::new();
        for transaction in &transactions {
            let mut touched: HashSet<ScriptBuf> = HashSet::new();
            for input in transaction.inputs().filter(|input| !input.is_null()) {
                let txid = input.outpoint_txid();
                let within = own.get(&txid).and_then(|place| transactions.get(*place));
                let output = match within {
                    Some(parent) => parent.output(input.vout).map(|output| TxOut {
                        value: Amount::from_sat(output.value),
                        script_pubkey: ScriptBuf::from_bytes(output.script_pubkey.to_vec()),
                    }),
                    None => funding.get(&txid).and_then(|(outputs, _)| {
                        usize::try_from(input.vout).ok().and_then(|vout| outputs.get(vout)).cloned()
                    }),
                };
                let TxOut { value, script_pubkey } = output.ok_or_else(|| {
                    corrupt(
                        "txids",
                        format!("{txid}:{} is spent on the active chain, but not in the index", input.vout),
                    )
                })?;
                let totals = changes.entry(script_pubkey.clone()).or_default();
                let coins = if within.is_some() { &mut totals.spent_unconfirmed } else { &mut totals.spent_confirmed };
                add(coins, value.to_sat());
                touched.insert(script_pubkey);
            }
            for output in transaction.outputs() {
                let script_pubkey = ScriptBuf::from_bytes(output.script_pubkey.to_vec());
                // the output of the genesis block never entered the UTXO set
                if first == TxNum(0) || never_spendable(&script_pubkey) {
                    continue;
                }
                add(&mut changes.entry(script_pubkey.clone()).or_default().pending, output.value);
                touched.insert(script_pubkey);
            }
            for script in touched {
                let totals = changes.entry(script).or_default();
                totals.transactions = totals.transactions.saturating_add(1);
            }
        }
        let mut changes: Vec<_> = changes.into_iter().map(|(script, totals)| ScriptChange { script, totals }).collect();
        changes.sort_unstable_by(|one, other| one.script.as_bytes().cmp(other.script.as_bytes()));
        Ok(Some(changes))
    }
}

fn add(coins: &mut Coins, value: u64) {
    coins.count = coins.count.saturating_add(1);
    coins.value = coins.value.saturating_add(value);
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
