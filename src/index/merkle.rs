//! Compares the txids of frozen blocks with the merkle roots of their headers, and the headers with each other down to the
//! genesis block. With the hash of the highest block, that proves that all txids are those of its chain.

use std::ops::ControlFlow;
use std::sync::Arc;

use bitcoin::{BlockHash, Network, Txid};

use super::error::IndexError;
use super::frozen::Generations;
use super::hot::tip::Tip;
use super::hot::update::check_previous;
use super::open::{Index, filter_bytes};
use crate::chain::{Height, merkle};

/// The txids of the frozen blocks, which live blocks and their changes do not touch.
pub struct FrozenTxids {
    generations: Arc<Generations>,
    network: Network,
    /// The memory for filters, in bytes.
    filter_bytes: u64,
}

/// A frozen block that is not of the chain that its index claims to have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {hash} at height {height}: {what}")]
pub struct TxidMismatch {
    /// The height of the block.
    pub height: Height,
    /// Its hash, as the index has it.
    pub hash: BlockHash,
    /// What differs.
    pub what: &'static str,
}

impl Index {
    /// The txids of its frozen blocks.
    #[must_use]
    pub fn frozen_txids(&self) -> FrozenTxids {
        let (generations, filter_bytes) = (Arc::clone(&self.generations), filter_bytes(self.all_cache_bytes));
        FrozenTxids { generations, network: self.network, filter_bytes }
    }
}

impl FrozenTxids {
    /// The highest frozen block.
    #[must_use]
    pub fn last(&self) -> Option<Tip> {
        self.generations.last()
    }

    /// Keeps the filters in memory of generations that were not complete when they were opened, and are now.
    pub fn keep_filters(&self) {
        self.generations.keep_filters(self.filter_bytes);
    }

    /// Compares all of them, and calls `progress` with the height after each block; `Break` ends the comparison. Returns the
    /// first block that differs.
    ///
    /// Errors: [`IndexError::Interrupted`]; storage errors.
    pub fn check(
        &self,
        progress: &mut dyn FnMut(Height) -> ControlFlow<()>,
    ) -> Result<Option<TxidMismatch>, IndexError> {
        let mut previous = None;
        for in_force in self.generations.iter() {
            let generation = &in_force.generation;
            let mut txids = generation.scan_txids()?;
            let mut height = generation.range().first;
            while height <= in_force.last.height {
                let missing = || IndexError::corrupt("blocks", format!("the row at height {height} is missing"));
                let block = generation.block(height)?.ok_or_else(missing)?;
                let mismatch = |what| Ok(Some(TxidMismatch { height, hash: block.hash, what }));
                if block.header.block_hash() != block.hash {
                    return mismatch("the hash is not that of its header");
                }
                if check_previous(block.hash, block.header.prev_blockhash, previous, self.network).is_err() {
                    return mismatch("it does not follow the block before it");
                }
                let of_block = txids.by_ref().take(usize::try_from(block.transactions).unwrap_or(usize::MAX));
                let mut of_block = of_block.map(|txid| Ok(txid?.1)).collect::<Result<Vec<Txid>, IndexError>>()?;
                let is_complete = u32::try_from(of_block.len()) == Ok(block.transactions);
                if !is_complete || merkle::root(&of_block) != Some(block.header.merkle_root) {
                    return mismatch("the merkle root of its txids is not that of its header");
                }
                // a list that repeats its tail has the merkle root of the list without it
                of_block.sort_unstable();
                if of_block.windows(2).any(|pair| pair[0] == pair[1]) {
                    return mismatch("it has a transaction twice");
                }
                previous = Some(Tip { height, hash: block.hash });
                if progress(height).is_break() {
                    return Err(IndexError::Interrupted);
                }
                height = height.next();
            }
            if previous != Some(in_force.last) {
                let Tip { height, hash } = in_force.last;
                return Ok(Some(TxidMismatch { height, hash, what: "the index names another block at this height" }));
            }
        }
        Ok(None)
    }
}
