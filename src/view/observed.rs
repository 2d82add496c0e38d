//! Observations of this server that the chain does not contain: first sights of transactions, reorganisations, samples of
//! the mempool.

use std::ops::{Range, RangeInclusive};

use bitcoin::BlockHash;

use super::{Transaction, View, corrupt};
use crate::index::{IndexError, Reorg};
use crate::mempool::MempoolSample;

impl View {
    /// When a transaction was first seen unconfirmed, in seconds since 1970; `None` if it was not, or if
    /// that is no longer stored.
    pub fn first_seen_at(&self, transaction: &Transaction) -> Result<Option<u64>, IndexError> {
        match &transaction.place {
            Some(place) => self.head.chain.first_seen_at(place.txnum),
            None => Ok(transaction.first_seen()),
        }
    }

    /// The newest stored reorganisation that disconnected this block.
    pub fn reorg_that_disconnected(&self, block: BlockHash) -> Result<Option<Reorg>, IndexError> {
        self.head.chain.reorg_that_disconnected(block)
    }

    /// The newest stored reorganisation after which this block was the tip.
    pub fn reorg_to(&self, new_tip: BlockHash) -> Result<Option<Reorg>, IndexError> {
        self.head.chain.reorg_to(new_tip)
    }

    /// The stored reorganisations with these numbers, the oldest first. They are numbered from 1 in their order.
    pub fn reorgs(
        &self,
        numbers: Range<u64>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(u64, Reorg), IndexError>>, IndexError> {
        self.head.chain.reorgs(numbers)
    }

    /// The numbers of the stored reorganisations.
    pub fn kept_reorgs(&self) -> Result<Range<u64>, IndexError> {
        self.head.chain.kept_reorgs()
    }

    /// The newest sample of the mempool that was taken in one of these minutes since 1970, and its minute.
    pub fn mempool_sample(&self, minutes: RangeInclusive<u32>) -> Result<Option<(u32, MempoolSample)>, IndexError> {
        let Some(newest) = self.head.chain.mempool_samples(minutes)?.next_back().transpose()? else { return Ok(None) };
        let (minute, row) = newest;
        let sample = MempoolSample::decode(&row).map_err(|error| corrupt("mempool_samples", error.to_string()))?;
        Ok(Some((minute, sample)))
    }
}
