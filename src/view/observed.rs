//! Observations of this server that the chain does not contain: first sights of transactions and blocks, how a block compares
//! with the projected one, reorganisations, samples of the mempool.

use std::ops::{Range, RangeInclusive};

use bitcoin::BlockHash;
use bitcoin::consensus::encode::Error;

use super::{Block, Transaction, View};
use crate::index::{IndexError, Reorg, Tip};
use crate::mempool::{BlockAudit, MempoolSample};

/// What the server observed when a block arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockArrival {
    /// When the block was first seen, in seconds since 1970.
    pub first_seen: u64,
    /// How it compares with the block that was projected of the mempool before it, if the mempool was followed then.
    pub audit: Option<BlockAudit>,
}

impl View {
    /// When a transaction was first seen unconfirmed, in seconds since 1970; `None` if it was not, or if
    /// that is no longer stored.
    pub fn first_seen_at(&self, transaction: &Transaction) -> Result<Option<u64>, IndexError> {
        match &transaction.place {
            Some(place) => self.head.chain.first_seen_at(place.txnum),
            None => Ok(transaction.first_seen()),
        }
    }

    /// What was observed when a block arrived; `None` if the server did not follow the node then, or if that is no longer
    /// stored.
    pub fn block_arrival(&self, block: &Block) -> Result<Option<BlockArrival>, IndexError> {
        let place = Tip { height: block.height, hash: block.row.hash };
        let Some(observed) = self.head.chain.observed_block(place)? else { return Ok(None) };
        let decode = |row: &[u8]| BlockAudit::decode(row).map_err(|error| damaged_audit(block.row.hash, &error));
        let audit = (!observed.audit.is_empty()).then(|| decode(&observed.audit)).transpose()?;
        Ok(Some(BlockArrival { first_seen: observed.first_seen, audit }))
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
        let sample =
            MempoolSample::decode(&row).map_err(|error| IndexError::corrupt("mempool_samples", error.to_string()))?;
        Ok(Some((minute, sample)))
    }
}

pub(super) fn damaged_audit(block: BlockHash, error: &Error) -> IndexError {
    IndexError::corrupt("block_observed", format!("{block}: {error}"))
}
