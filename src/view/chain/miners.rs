//! Mining pools and their blocks.

use std::collections::HashMap;
use std::ops::Range;

use super::super::View;
use crate::chain::Height;
use crate::chain::pools::{MinerEvidence, PoolId, Pools};
use crate::chain::raw::RawTransaction;
use crate::index::{IndexError, MinerTotals};

impl View {
    /// The pools that blocks are ascribed to.
    #[must_use]
    pub fn pools(&self) -> &Pools {
        self.head.chain.pools()
    }

    /// The pool that the block with this serialised coinbase is ascribed to, and by what. `None` if it is none of the table.
    ///
    /// Errors: the bytes are not a transaction.
    pub fn miner_of(&self, coinbase: &[u8]) -> Result<Option<(PoolId, MinerEvidence)>, IndexError> {
        let coinbase = RawTransaction::parse_whole(coinbase).map_err(|error| {
            IndexError::corrupt("transactions", format!("a coinbase is not a transaction: {error}"))
        })?;
        Ok(self.pools().identify(&coinbase))
    }

    /// The totals of the blocks at these heights of the active chain that are ascribed to a pool; without a pool of those
    /// that are ascribed to none.
    ///
    /// Errors: [`IndexError::MinersNotReady`].
    pub fn miner_totals(&self, miner: Option<PoolId>, heights: &Range<Height>) -> Result<MinerTotals, IndexError> {
        self.head.chain.miner_totals_within(miner, heights)
    }

    /// Each pool that blocks at these heights of the active chain are ascribed to, and none for those that are ascribed to
    /// none, with the totals of these blocks. Most blocks first, then in the order of the table of pools.
    ///
    /// Errors: [`IndexError::MinersNotReady`].
    pub fn miners(&self, heights: &Range<Height>) -> Result<Vec<(Option<PoolId>, MinerTotals)>, IndexError> {
        let all = self.pools().iter().map(|(pool, _)| Some(pool)).chain([None]);
        let mut found = Vec::new();
        for miner in all {
            let totals = self.miner_totals(miner, heights)?;
            if totals.blocks > 0 {
                found.push((miner, totals));
            }
        }
        found.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.blocks));
        Ok(found)
    }

    /// The heights among these of the blocks of the active chain that are ascribed to a pool, or to none, lowest or highest first,
    /// read lazily.
    ///
    /// Errors: [`IndexError::MinersNotReady`].
    pub fn miner_blocks(
        &self,
        miner: Option<PoolId>,
        heights: &Range<Height>,
        ascending: bool,
    ) -> Result<impl Iterator<Item = Result<Height, IndexError>> + use<>, IndexError> {
        let mut rows = self.head.chain.miner_blocks(miner, heights)?;
        Ok(std::iter::from_fn(move || if ascending { rows.next() } else { rows.next_back() }))
    }

    /// Whether the block at a height of the active chain is ascribed to a pool; without a pool, whether to none.
    ///
    /// Errors: [`IndexError::MinersNotReady`].
    pub fn is_block_of(&self, miner: Option<PoolId>, height: Height) -> Result<bool, IndexError> {
        self.head.chain.is_block_of(miner, height)
    }

    /// The first of these heights of the active chain, upwards or downwards, whose block may have at least so many transactions;
    /// `None` if there is none.
    pub fn next_large_block(
        &self,
        heights: Range<Height>,
        transactions: u32,
        upwards: bool,
    ) -> Result<Option<Height>, IndexError> {
        self.head.chain.next_large_block(heights, transactions, upwards)
    }

    /// How many blocks of the active chain below this height have only a coinbase.
    pub fn empty_blocks_below(&self, height: Height) -> Result<u32, IndexError> {
        match height.previous() {
            Some(last) => Ok(self.main_block(last)?.row.running.empty_blocks),
            None => Ok(0),
        }
    }

    /// The lowest or the highest block of the active chain at these heights that has only a coinbase. Found by bisection,
    /// because every row counts those up to it.
    pub fn empty_block(&self, heights: &Range<Height>, lowest: bool) -> Result<Option<Height>, IndexError> {
        let (start, end) = (heights.start.to_u32(), heights.end.to_u32());
        let (before, through) = (self.empty_blocks_below(heights.start)?, self.empty_blocks_below(heights.end)?);
        if start >= end || before == through {
            return Ok(None);
        }
        // the block at which the count of all up to it reaches this
        let wanted = if lowest { before.saturating_add(1) } else { through };
        let (mut low, mut high) = (start, end - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.main_block(Height::from(middle))?.row.running.empty_blocks >= wanted {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Some(Height::from(low)))
    }

    /// How many stored stale blocks at these heights are ascribed to each pool, or to none. `count` is called with the size of
    /// the coinbase of each in bytes, which is what is decoded of it.
    ///
    /// Errors: those of `count`; the index cannot be read.
    pub fn stale_blocks_by_miner<E: From<IndexError>>(
        &self,
        heights: &Range<Height>,
        count: impl Fn(usize) -> Result<(), E>,
    ) -> Result<HashMap<Option<PoolId>, u32>, E> {
        let mut found = HashMap::<_, u32>::new();
        for coinbase in self.head.chain.stale_coinbases_within(heights)? {
            let coinbase = coinbase?;
            count(coinbase.len())?;
            let miner = self.miner_of(&coinbase)?.map(|(pool, _)| pool);
            let blocks = found.entry(miner).or_default();
            *blocks = blocks.saturating_add(1);
        }
        Ok(found)
    }
}
