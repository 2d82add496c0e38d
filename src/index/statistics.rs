//! Computes the statistics of a block: sizes, values, fees and their distribution, as its `blocks` row stores them.

use bitcoin::block::Header;
use bitcoin::{Amount, BlockHash, Weight};

use super::codec::{Decoder, put_varint, small};
use super::error::IndexError;
use super::hot::tables::blocks::{BlockRow, ChainTotals, QUANTILES};
use crate::chain::raw::RawTransaction;
use crate::chain::{Feerate, Height, ScriptType};

/// The points of the distributions that rows have, in percent.
pub const STORED_PERCENTS: [u32; QUANTILES] = [0, 10, 25, 50, 75, 90, 100];

/// What a block says about itself. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockFacts {
    pub(super) hash: BlockHash,
    pub(super) header: Header,
    /// Median time past with this block as the newest of eleven, seconds since 1970.
    pub(super) median_time: u32,
    pub(super) size: u32,
    pub(super) stripped_size: u32,
    pub(super) transactions: u32,
    /// But the coinbase's.
    pub(super) inputs: u32,
    pub(super) outputs: u32,
}

/// What a transaction says about itself. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransactionFacts {
    pub(super) size: u32,
    pub(super) stripped_size: u32,
    pub(super) has_witness: bool,
}

impl TransactionFacts {
    /// The form in which [`encode`](Self::encode) writes them into temporary files of an import. Raised with every change:
    /// an import that has files of another form starts afresh.
    pub(super) const VERSION: u32 = 1;

    pub(super) fn of(transaction: &RawTransaction<'_>) -> Self {
        Self {
            size: small(transaction.size()),
            stripped_size: small(transaction.stripped_size()),
            has_witness: transaction.has_witness(),
        }
    }

    pub(super) fn encode(&self, row: &mut Vec<u8>) {
        put_varint(row, self.size.into());
        put_varint(row, u64::from(self.stripped_size) << 1 | u64::from(self.has_witness));
    }

    pub(super) fn decode(row: &mut Decoder<'_>) -> Result<Self, IndexError> {
        let size = row.varint_32()?;
        let stripped: u64 = row.varint()?;
        let stripped_size = u32::try_from(stripped >> 1).map_err(|_| row.corrupt("has a size that is too large"))?;
        Ok(Self { size, stripped_size, has_witness: stripped & 1 == 1 })
    }
}

/// The fields of an output that statistics count.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputFacts {
    /// In sat.
    pub(super) value: u64,
    pub(super) script_type: ScriptType,
    pub(super) never_spendable: bool,
    /// In bytes.
    pub(super) script_size: u32,
}

/// Accumulates the statistics of one block, transaction by transaction.
pub(super) struct Tally {
    height: Height,
    row: BlockRow,
    fees: Vec<u64>,
    /// (feerate in sat per 1,000 vbytes, weight) of every transaction but the coinbase.
    feerates: Vec<(u64, u64)>,
}

impl Tally {
    /// Begins a block on top of a chain with these totals. `subsidy` in sat.
    pub(super) fn new(facts: &BlockFacts, height: Height, subsidy: u64, before: &ChainTotals) -> Self {
        let row = BlockRow {
            hash: facts.hash,
            header: facts.header,
            median_time: facts.median_time,
            size: facts.size,
            stripped_size: facts.stripped_size,
            weight: facts.stripped_size.saturating_mul(3).saturating_add(facts.size),
            transactions: facts.transactions,
            inputs: facts.inputs,
            outputs: facts.outputs,
            input_value: 0,
            output_value: 0,
            subsidy,
            fees: 0,
            coinbase_value: 0,
            fee_quantiles: [0; QUANTILES],
            feerate_quantiles: [0; QUANTILES],
            segwit_transactions: 0,
            segwit_size: 0,
            segwit_weight: 0,
            taproot_outputs: 0,
            op_return_outputs: 0,
            op_return_bytes: 0,
            coin_age: 0,
            running: before.clone(),
        };
        let transactions = usize::try_from(facts.transactions).unwrap_or_default();
        Self { height, row, fees: Vec::with_capacity(transactions), feerates: Vec::with_capacity(transactions) }
    }

    /// Counts an input. `value` of the spent output in sat, `median_time` of its block in seconds.
    pub(super) fn spend(&mut self, value: u64, script_type: ScriptType, median_time: u32) {
        self.row.input_value += u128::from(value);
        let age = self.row.median_time.saturating_sub(median_time);
        self.row.coin_age += u128::from(value) * u128::from(age);
        self.row.running.types[script_type.index()].spent.add(value);
        self.leave_utxo_set(value);
    }

    pub(super) fn create(&mut self, output: OutputFacts) {
        self.row.output_value += u128::from(output.value);
        self.row.running.types[output.script_type.index()].created.add(output.value);
        match output.script_type {
            ScriptType::P2tr => self.row.taproot_outputs += 1,
            ScriptType::OpReturn => {
                self.row.op_return_outputs += 1;
                self.row.op_return_bytes = self.row.op_return_bytes.saturating_add(output.script_size);
            }
            _ => {}
        }
        let unspendable = &mut self.row.running.unspendable;
        if self.height == Height::GENESIS {
            unspendable.genesis = unspendable.genesis.saturating_add(output.value);
        } else if output.never_spendable {
            unspendable.scripts = unspendable.scripts.saturating_add(output.value);
        } else {
            let running = &mut self.row.running;
            running.utxo_count += 1;
            running.utxo_value = running.utxo_value.saturating_add(output.value);
            return;
        }
        self.row.running.types[output.script_type.index()].unspendable.add(output.value);
    }

    /// Counts an output of so many sat of an earlier copy that this block's copy removes from the UTXO set (BIP30).
    pub(super) fn overwrite(&mut self, value: u64, script_type: ScriptType) {
        let running = &mut self.row.running;
        running.unspendable.bip30 = running.unspendable.bip30.saturating_add(value);
        running.types[script_type.index()].unspendable.add(value);
        self.leave_utxo_set(value);
    }

    fn leave_utxo_set(&mut self, value: u64) {
        // each output is removed once and after it was added, which the `unspent` table proves before the commit; until
        // then an invalid block must not panic here
        let running = &mut self.row.running;
        running.utxo_count = running.utxo_count.saturating_sub(1);
        running.utxo_value = running.utxo_value.saturating_sub(value);
    }

    /// Counts a transaction; `fee` in sat, `None` for the coinbase.
    pub(super) fn transaction(&mut self, facts: TransactionFacts, fee: Option<u64>) {
        let Some(fee) = fee else { return };
        let TransactionFacts { size, stripped_size, has_witness } = facts;
        let weight = stripped_size.saturating_mul(3).saturating_add(size);
        self.fees.push(fee);
        self.feerates.push((
            Feerate::of(Amount::from_sat(fee), Weight::from_wu(weight.into())).to_sat_per_kvb(),
            u64::from(weight),
        ));
        if has_witness {
            self.row.segwit_transactions += 1;
            self.row.segwit_size = self.row.segwit_size.saturating_add(size);
            self.row.segwit_weight = self.row.segwit_weight.saturating_add(weight);
        }
    }

    /// The row of the block. `coinbase_value` in sat.
    ///
    /// Errors: [`IndexError::InvalidBlock`] for a coinbase that claims more than subsidy and fees, and for totals that
    /// overflow.
    pub(super) fn finish(mut self, coinbase_value: u64) -> Result<BlockRow, IndexError> {
        let invalid = |what: &str| IndexError::InvalidBlock { hash: self.row.hash, what: what.into() };
        let too_large = || invalid("its totals are larger than those of any possible chain");
        let fees = self.fees.iter().try_fold(0_u64, |sum, fee| sum.checked_add(*fee)).ok_or_else(too_large)?;
        let reward = self.row.subsidy.checked_add(fees).ok_or_else(too_large)?;
        let unclaimed = reward.checked_sub(coinbase_value).ok_or_else(|| {
            invalid(&format!("its coinbase claims {coinbase_value} sat, and subsidy and fees are {reward} sat"))
        })?;
        let chainwork = crate::chain::difficulty::add_work(self.row.running.chainwork, self.row.header.work());
        let chainwork = chainwork.ok_or_else(too_large)?;

        let row = &mut self.row;
        row.fees = fees;
        row.coinbase_value = coinbase_value;
        self.fees.sort_unstable();
        self.feerates.sort_unstable();
        row.fee_quantiles = fee_quantiles(&self.fees);
        row.feerate_quantiles = feerate_quantiles(&self.feerates);
        let running = &mut row.running;
        running.transactions += u64::from(row.transactions);
        running.inputs += u64::from(row.inputs);
        running.outputs += u64::from(row.outputs);
        running.input_value += row.input_value;
        running.output_value += row.output_value;
        running.fees = running.fees.saturating_add(fees);
        running.subsidy = running.subsidy.saturating_add(row.subsidy);
        running.size += u64::from(row.size);
        running.weight += u64::from(row.weight);
        running.paying_weight += self.feerates.iter().map(|(_, weight)| weight).sum::<u64>();
        running.chainwork = chainwork;
        running.empty_blocks += u32::from(row.transactions == 1);
        running.unspendable.unclaimed = running.unspendable.unclaimed.saturating_add(unclaimed);
        running.segwit_transactions += u64::from(row.segwit_transactions);
        running.segwit_size += u64::from(row.segwit_size);
        running.segwit_weight += u64::from(row.segwit_weight);
        running.op_return_bytes += u64::from(row.op_return_bytes);
        running.coin_age += row.coin_age;
        for (sum, feerate) in running.feerate_quantiles.iter_mut().zip(row.feerate_quantiles) {
            *sum = sum.saturating_add(feerate);
        }
        Ok(self.row)
    }
}

/// The quantiles of fees in ascending order: the nearest rank at each percentage, but Core's `CalculateTruncatedMedian`
/// at 50.
fn fee_quantiles(sorted: &[u64]) -> [u64; QUANTILES] {
    let Some(last) = sorted.len().checked_sub(1) else { return [0; QUANTILES] };
    STORED_PERCENTS.map(|percent| {
        if percent == 50 && sorted.len().is_multiple_of(2) {
            let (low, high) = (sorted[sorted.len() / 2 - 1], sorted[sorted.len() / 2]);
            return low + (high - low) / 2;
        }
        // nearest rank: ceil(percent / 100 * count), the first for 0 percent
        let rank = (u64::try_from(sorted.len()).unwrap_or(u64::MAX).saturating_mul(percent.into())).div_ceil(100);
        usize::try_from(rank).map_or(sorted[last], |rank| sorted[rank.saturating_sub(1).min(last)])
    })
}

/// The quantiles of feerates, which are given in ascending order, each with the weight that pays it: the feerate at which each
/// share of the weight is reached, as in Core's `CalculatePercentilesByWeight`.
fn feerate_quantiles(sorted: &[(u64, u64)]) -> [u64; QUANTILES] {
    let total: u64 = sorted.iter().map(|(_, weight)| weight).sum();
    let (mut behind, mut transactions) = (0, sorted.iter());
    let mut at = (0, 0);
    STORED_PERCENTS.map(|percent| {
        // behind / total < percent / 100, in whole numbers
        while behind == 0 || u128::from(behind) * 100 < u128::from(total) * u128::from(percent) {
            let Some(next) = transactions.next() else { break };
            at = *next;
            behind += at.1;
        }
        at.0
    })
}

#[cfg(test)]
mod tests {
    use bitcoin::constants::genesis_block;

    use super::*;

    #[test]
    fn an_empty_block_has_no_distribution() {
        assert_eq!(fee_quantiles(&[]), [0; 7]);
        assert_eq!(feerate_quantiles(&[]), [0; 7]);
    }

    #[test]
    fn the_middle_fee_is_the_truncated_median() {
        assert_eq!(fee_quantiles(&[1, 2, 3, 5])[3], 2);
        assert_eq!(fee_quantiles(&[1, 2, 4, 5])[3], 3);
        assert_eq!(fee_quantiles(&[1, 2, 3])[3], 2);
        assert_eq!(fee_quantiles(&(1..=100).collect::<Vec<_>>()), [1, 10, 25, 50, 75, 90, 100]);
        assert_eq!(fee_quantiles(&[7]), [7; 7]);
    }

    #[test]
    fn feerates_are_taken_by_weight_not_by_count() {
        // one percent of the weight at 9, the rest at 1 and 5
        let sorted = [(1, 50), (5, 49), (9, 1)];
        assert_eq!(feerate_quantiles(&sorted), [1, 1, 1, 1, 5, 5, 9]);
        assert_eq!(feerate_quantiles(&[(3, 400)]), [3; 7]);
    }

    /// A block of one segwit transaction for each fee (250 bytes, 400 weight units) on top of these totals, with an
    /// OP_RETURN output in its coinbase. It spends an output of 600 sat, `age` seconds old.
    fn block(before: &ChainTotals, fees: &[u64], age: u32) -> Result<BlockRow, IndexError> {
        let header = genesis_block(bitcoin::Network::Regtest).header;
        let facts = BlockFacts {
            hash: header.block_hash(),
            header,
            median_time: 1_000_000,
            size: 1_000,
            stripped_size: 500,
            transactions: small(fees.len() + 1),
            inputs: 1,
            outputs: 1,
        };
        let mut tally = Tally::new(&facts, Height::from(1), 50, before);
        tally.create(OutputFacts {
            value: 0,
            script_type: ScriptType::OpReturn,
            never_spendable: true,
            script_size: 83,
        });
        tally.spend(600, ScriptType::P2tr, facts.median_time - age);
        let transaction = TransactionFacts { size: 250, stripped_size: 50, has_witness: true };
        tally.transaction(transaction, None);
        for fee in fees {
            tally.transaction(transaction, Some(*fee));
        }
        tally.finish(0)
    }

    #[test]
    fn the_facts_of_a_transaction_are_read_as_they_were_written() {
        for (stripped_size, has_witness) in [(200, true), (300, false), (u32::MAX, true)] {
            let facts = TransactionFacts { size: 300, stripped_size, has_witness };
            let mut row = Vec::new();
            facts.encode(&mut row);
            let mut row = Decoder::new("import", &row);
            assert_eq!(TransactionFacts::decode(&mut row).unwrap(), facts);
            assert!(row.is_empty());
        }
    }

    #[test]
    fn running_totals_are_sums_over_the_blocks() {
        let first = block(&ChainTotals::zero(), &[100], 10).unwrap();
        let empty = block(&first.running, &[], 0).unwrap();
        let last = block(&empty.running, &[300, 500], 7).unwrap().running;
        assert_eq!((last.segwit_transactions, last.segwit_size, last.segwit_weight), (3, 750, 1_200));
        assert_eq!((last.op_return_outputs(), last.op_return_bytes, last.taproot_outputs()), (3, 3 * 83, 0));
        assert_eq!(last.coin_age, 600 * 10 + 600 * 7);
        // 1,000 sat per 1,000 vbytes in the first block, 3,000 and 5,000 in the last, nothing in the empty one
        assert_eq!(last.feerate_quantiles, [4_000, 4_000, 4_000, 4_000, 6_000, 6_000, 6_000]);
        assert_eq!(empty.running.feerate_quantiles, first.running.feerate_quantiles);
        assert_eq!((last.empty_blocks, last.paying_weight), (1, 3 * 400));
    }

    #[test]
    fn sums_of_feerates_stop_at_the_largest_number() {
        let before = ChainTotals { feerate_quantiles: [u64::MAX - 999; QUANTILES], ..ChainTotals::zero() };
        assert_eq!(block(&before, &[100], 0).unwrap().running.feerate_quantiles, [u64::MAX; QUANTILES]);
    }
}
