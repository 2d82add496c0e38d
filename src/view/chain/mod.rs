//! Statistics of the chain: sums over ranges of blocks, and the supply of coins.
//!
//! Every `blocks` row has the totals of the chain up to it, so a range of any length is the difference of two rows.

pub(in crate::view) mod figures;
pub(in crate::view) mod miners;
pub(in crate::view) mod period;
pub(in crate::view) mod series;
pub(in crate::view) mod utxo_set;

use std::sync::Arc;

use bitcoin::Work;
use bitcoin::constants::COINBASE_MATURITY;

use super::View;
use super::block::Block;
use crate::chain::difficulty::{hashes, work_between};
use crate::chain::float::to_f64;
use crate::chain::script::never_spendable;
use crate::chain::{Height, ScriptType};
use crate::index::{BlockRow, ChainTotals, CountAndValue, IndexError, QUANTILES, StoredTransaction, TypeTotals};

/// A range of consecutive blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// The height of its first block.
    pub from: Height,
    /// The height of its last block.
    pub to: Height,
    /// The block before it, `None` before the genesis block.
    pub before: Option<Arc<BlockRow>>,
    /// Block 1, if the range begins with it or with the genesis block and has it.
    pub first_mined: Option<Arc<BlockRow>>,
    /// The median time past of its first block, in seconds since 1970.
    pub started_at: u32,
    /// Its last block.
    pub last: Arc<BlockRow>,
}

/// The work and transactions of a range of blocks, and its duration by median time past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Seconds, above zero.
    pub seconds: u32,
    /// Blocks found in this time.
    pub blocks: u32,
    /// Their transactions.
    pub transactions: u64,
    /// Their work.
    pub work: Work,
}

impl Span {
    /// The mean time from block to block, in seconds.
    #[must_use]
    pub fn seconds_per_block(&self) -> f64 {
        f64::from(self.seconds) / f64::from(self.blocks)
    }

    /// The hash rate that found the blocks, per second.
    #[must_use]
    pub fn hashrate(&self) -> f64 {
        hashes(self.work) / f64::from(self.seconds)
    }

    /// Transactions per second.
    #[must_use]
    pub fn transactions_per_second(&self) -> f64 {
        to_f64(self.transactions) / f64::from(self.seconds)
    }
}

impl BlockRange {
    /// The number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        (self.to.to_u32() - self.from.to_u32()).saturating_add(1)
    }

    /// The difference of a running total over the range.
    pub fn sum<N: TryFrom<u128>>(&self, total: impl Fn(&ChainTotals) -> N) -> Result<N, IndexError>
    where
        u128: From<N>,
    {
        let before = self.before.as_ref().map_or(0, |row| u128::from(total(&row.running)));
        let sum = u128::from(total(&self.last.running)).checked_sub(before);
        sum.and_then(|sum| N::try_from(sum).ok()).ok_or_else(|| self.fallen())
    }

    /// The growth of the UTXO set in outputs; negative if it shrank.
    pub fn utxo_delta(&self) -> Result<i64, IndexError> {
        let count = |row: &BlockRow| i64::try_from(row.running.utxo_count).map_err(|_| self.fallen());
        let before = self.before.as_ref().map_or(Ok(0), |row| count(row))?;
        Ok(count(&self.last)? - before)
    }

    /// The outputs of its blocks by script type, in the order of [`ScriptType::ALL`].
    pub fn by_type(&self) -> Result<Vec<(ScriptType, TypeTotals)>, IndexError> {
        let pair = |of: fn(&TypeTotals) -> CountAndValue, index: usize| {
            let count = self.sum(|running| of(&running.types[index]).count)?;
            Ok::<_, IndexError>(CountAndValue { count, value: self.sum(|running| of(&running.types[index]).value)? })
        };
        let totals = |script_type: ScriptType| {
            let index = script_type.index();
            let created = pair(|totals| totals.created, index)?;
            let spent = pair(|totals| totals.spent, index)?;
            Ok((script_type, TypeTotals { created, spent, unspendable: pair(|totals| totals.unspendable, index)? }))
        };
        ScriptType::ALL.into_iter().map(totals).collect()
    }

    /// The mean of a feerate quantile over the blocks that are not empty, in sat per 1,000 vbytes; `None` if all are.
    pub fn mean_feerate_quantiles(&self) -> Result<Option<[f64; QUANTILES]>, IndexError> {
        let paying = self.blocks().checked_sub(self.sum(|running| running.empty_blocks)?);
        let paying = paying.ok_or_else(|| self.fallen())?;
        if paying == 0 {
            return Ok(None);
        }
        let mut means = [0.0; QUANTILES];
        for (index, mean) in means.iter_mut().enumerate() {
            *mean = to_f64(self.sum(|running| running.feerate_quantiles[index])?) / f64::from(paying);
        }
        Ok(Some(means))
    }

    /// The work of all its blocks.
    pub fn work(&self) -> Result<Work, IndexError> {
        let before = self.before.as_ref().map_or_else(crate::chain::difficulty::no_work, |row| row.running.chainwork);
        work_between(before, self.last.running.chainwork).ok_or_else(|| self.fallen())
    }

    /// The span between the median time past of the block before the range and that of its last block. It never begins with
    /// the genesis block, which was not mined when its header says, on some networks years before block 1: from there on it
    /// begins with block 1. `None` if no time passed.
    pub fn span(&self) -> Result<Option<Span>, IndexError> {
        let (start, blocks) = match (&self.first_mined, &self.before) {
            (Some(first), _) => (first, self.to.to_u32() - 1),
            (None, Some(before)) => (before, self.blocks()),
            (None, None) => return Ok(None),
        };
        let seconds = self.last.median_time.checked_sub(start.median_time).ok_or_else(|| self.fallen())?;
        let transactions = self.last.running.transactions.checked_sub(start.running.transactions);
        let work = work_between(start.running.chainwork, self.last.running.chainwork);
        let (Some(transactions), Some(work)) = (transactions, work) else { return Err(self.fallen()) };
        Ok((seconds > 0).then_some(Span { seconds, blocks, transactions, work }))
    }

    fn fallen(&self) -> IndexError {
        IndexError::corrupt(
            "blocks",
            format!("a running total falls between the heights {} and {}", self.from, self.to),
        )
    }
}

/// The distribution of the coins that the subsidies of a chain allowed, in sat. The first is the sum of the other five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// The subsidies of all blocks, the genesis block's among them.
    pub subsidy_issued: u64,
    /// The value of the UTXO set.
    pub circulating: u64,
    /// Unspendable coins.
    pub unspendable: u64,
    /// The genesis coinbase.
    pub genesis: u64,
    /// Outputs that were overwritten by a transaction of the same txid (BIP30).
    pub bip30: u64,
    /// Outputs whose script can never succeed.
    pub scripts: u64,
    /// Rewards that coinbases did not claim.
    pub unclaimed: u64,
}

impl Supply {
    /// The supply of a chain with these totals. Errors: totals that do not add up.
    pub fn of(running: &ChainTotals) -> Result<Self, IndexError> {
        let unspendable = running.unspendable;
        let total = unspendable.total().filter(|total| total.checked_add(running.utxo_value) == Some(running.subsidy));
        let total =
            total.ok_or_else(|| IndexError::corrupt("blocks", "the coins of a row are not those that were issued"))?;
        Ok(Self {
            subsidy_issued: running.subsidy,
            circulating: running.utxo_value,
            unspendable: total,
            genesis: unspendable.genesis,
            bip30: unspendable.bip30,
            scripts: unspendable.scripts,
            unclaimed: unspendable.unclaimed,
        })
    }
}

/// Immature coinbase outputs, which the next block cannot spend yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImmatureCoinbase {
    /// In sat.
    pub value: u64,
    /// The bytes of the coinbases read to compute it.
    pub bytes_read: usize,
}

/// The lowest height whose coinbase the block after `height` may not spend yet: a coinbase of height c may be spent
/// from height c + 100 on (Core `COINBASE_MATURITY`), so with the tip at h those above h − 99 are immature.
pub(super) fn first_immature(height: Height) -> Height {
    Height::from(height.to_u32().saturating_sub(COINBASE_MATURITY - 2))
}

impl View {
    /// The blocks of the active chain from one height to another, both included. The first may not be above the second,
    /// nor the second above the tip.
    pub fn range(&self, from: Height, to: Height) -> Result<BlockRange, IndexError> {
        let before = from.previous().map(|height| self.shared_row(height)).transpose()?;
        self.range_after(before, from, self.shared_row(to)?, to)
    }

    /// A range between two blocks that are read already: the one before it, and its last.
    pub(super) fn range_after(
        &self,
        before: Option<Arc<BlockRow>>,
        from: Height,
        last: Arc<BlockRow>,
        to: Height,
    ) -> Result<BlockRange, IndexError> {
        let first_mined = match (from.to_u32(), to.to_u32()) {
            (0 | 1, 1) => Some(last.clone()),
            (0 | 1, 2..) => Some(self.shared_row(Height::GENESIS.next())?),
            _ => None,
        };
        // far cheaper to read than the whole row
        let started_at = if from == to { last.median_time } else { self.median_time(from.to_u32())? };
        Ok(BlockRange { from, to, before, first_mined, started_at, last })
    }

    /// The row at a height that is not above the tip, which several ranges can have.
    pub(super) fn shared_row(&self, height: Height) -> Result<Arc<BlockRow>, IndexError> {
        Ok(self.main_block(height)?.row)
    }

    /// A block as a range, on the active chain or stale; `None` if the index does not have its parent.
    pub fn range_of_one(&self, block: &Block) -> Result<Option<BlockRange>, IndexError> {
        let (height, row) = (block.height, block.row.clone());
        let before = match height.previous() {
            None => None,
            Some(_) => match self.previous_block(block)? {
                Some(before) => Some(before.row),
                None => return Ok(None),
            },
        };
        let first_mined = (height == Height::GENESIS.next()).then(|| row.clone());
        Ok(Some(BlockRange { from: height, to: height, before, first_mined, started_at: row.median_time, last: row }))
    }

    /// The height of the first block whose median time past is less than this many seconds before that of the tip. At
    /// most the height of the tip.
    pub fn first_height_within(&self, seconds: u32) -> Result<Height, IndexError> {
        match self.tip_block()?.row.median_time.checked_sub(seconds.max(1)) {
            Some(start) => self.first_height_after(start),
            None => Ok(Height::GENESIS),
        }
    }

    /// The number of stored stale blocks at this height or above it.
    pub fn stale_blocks_from(&self, height: Height) -> Result<u32, IndexError> {
        let mut count = 0_u32;
        for found in self.stale_blocks(u64::from(height.to_u32()) << 32..u64::MAX)? {
            found?;
            count = count.saturating_add(1);
        }
        Ok(count)
    }

    /// The coinbase outputs of the active chain up to and including this block that the next block could not spend yet.
    /// Excludes unspendable outputs and those that a duplicate had overwritten by then (BIP30).
    ///
    /// Errors: the index cannot be read.
    pub fn immature_coinbase(&self, at: &Block) -> Result<ImmatureCoinbase, IndexError> {
        // the block in front of the first of them. The outputs of the genesis block never entered the UTXO set, so at the
        // beginning that one is in front of all others
        let before = first_immature(at.height).previous().unwrap_or(Height::GENESIS);
        let before = self.main_block(before)?;
        let positions = before.end_txnum()?..at.end_txnum()?;
        // only where something was overwritten can one of these coinbases have been
        let overwrites = at.row.running.unspendable.bip30 != before.row.running.unspendable.bip30;
        let mut immature = ImmatureCoinbase::default();
        for coinbase in self.head.chain.coinbases(positions.clone())? {
            let StoredTransaction { txnum, txid, parts, .. } = coinbase?;
            immature.bytes_read = immature.bytes_read.saturating_add(parts.raw().len());
            if overwrites && self.is_overwritten(&txid, txnum, positions.end)? {
                continue;
            }
            let spendable = parts.outputs().filter(|output| !never_spendable(output.script_pubkey));
            immature.value = spendable.fold(immature.value, |sum, output| sum.saturating_add(output.value.to_sat()));
        }
        Ok(immature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{ChainTotals, Unspendable};

    fn work(low: u64) -> Work {
        let mut bytes = [0; 32];
        bytes[24..].copy_from_slice(&low.to_be_bytes());
        Work::from_be_bytes(bytes)
    }

    /// A row with these running totals; the rest does not matter.
    fn row(median_time: u32, transactions: u64, chainwork: u64, utxo_count: u64) -> BlockRow {
        let example = BlockRow::example();
        let running = ChainTotals {
            transactions,
            output_value: u128::from(transactions) << 64,
            subsidy: 100,
            chainwork: work(chainwork),
            unspendable: Unspendable { genesis: 1, bip30: 2, scripts: 3, unclaimed: 4 },
            utxo_count,
            utxo_value: 90,
            ..example.running
        };
        BlockRow { median_time, running, ..example }
    }

    fn range(from: u32, to: u32, before: Option<BlockRow>, last: BlockRow) -> BlockRange {
        let before = before.map(Arc::new);
        let started_at = last.median_time;
        BlockRange { from: from.into(), to: to.into(), before, first_mined: None, started_at, last: last.into() }
    }

    #[test]
    fn a_range_is_the_difference_of_two_rows() {
        let range = range(3, 5, Some(row(100, 10, 4, 9)), row(160, 30, 12, 7));
        assert_eq!(range.blocks(), 3);
        assert_eq!(range.sum(|running| running.transactions).unwrap(), 20);
        assert_eq!(range.sum(|running| running.output_value).unwrap(), 20 << 64);
        assert_eq!(range.work().unwrap(), work(8));
        assert_eq!(range.utxo_delta().unwrap(), -2);
        assert_eq!(range.span().unwrap(), Some(Span { seconds: 60, blocks: 3, transactions: 20, work: work(8) }));
    }

    #[test]
    fn a_range_from_genesis_is_timed_from_block_1() {
        let first_mined = Some(Arc::new(row(100, 2, 4, 1)));
        let found = BlockRange { first_mined, ..range(0, 2, None, row(160, 30, 6, 7)) };
        assert_eq!((found.blocks(), found.sum(|running| running.transactions).unwrap()), (3, 30));
        assert_eq!((found.work().unwrap(), found.utxo_delta().unwrap()), (work(6), 7));
        assert_eq!(found.span().unwrap(), Some(Span { seconds: 60, blocks: 1, transactions: 28, work: work(2) }));
    }

    #[test]
    fn without_time_between_its_ends_a_range_has_no_pace() {
        let genesis = row(100, 1, 2, 0);
        assert_eq!(range(0, 0, None, genesis.clone()).span().unwrap(), None);
        assert_eq!(range(2, 2, Some(genesis), row(100, 2, 4, 1)).span().unwrap(), None);
    }

    #[test]
    fn totals_that_fall_are_damage() {
        let range = range(2, 2, Some(row(100, 2, 4, 0)), row(99, 1, 2, 0));
        for damage in
            [range.sum(|running| running.transactions).map(drop), range.work().map(drop), range.span().map(drop)]
        {
            assert!(damage.unwrap_err().to_string().contains("falls between the heights 2 and 2"));
        }
    }

    #[test]
    fn totals_that_do_not_add_up_are_no_supply() {
        let good = row(0, 0, 0, 0).running;
        let supply = Supply::of(&good).unwrap();
        assert_eq!((supply.subsidy_issued, supply.circulating, supply.unspendable), (100, 90, 10));
        assert_eq!((supply.genesis, supply.bip30, supply.scripts, supply.unclaimed), (1, 2, 3, 4));
        for bad in [
            ChainTotals { utxo_value: 91, ..good.clone() },
            ChainTotals { unspendable: Unspendable { bip30: u64::MAX, ..good.unspendable }, ..good },
        ] {
            assert!(Supply::of(&bad).is_err());
        }
    }

    #[test]
    fn the_coinbases_of_the_last_99_blocks_are_immature() {
        for (height, first) in [(0, 0), (98, 0), (99, 1), (100, 2), (915_117, 915_019)] {
            assert_eq!(first_immature(Height::from(height)), Height::from(first));
        }
    }
}
