//! Blocks of the active chain and stale ones, and how they follow each other.

use bitcoin::BlockHash;

use super::{View, corrupt};
use crate::chain::Height;
use crate::index::{BlockPlace, BlockRow, ChainMembership, IndexError, TxNum};

/// A block that the index knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its height in its own chain.
    pub height: Height,
    /// What is known of it. Running totals of a stale block are those of its own chain.
    pub row: BlockRow,
    /// Whether it is part of the active chain.
    pub membership: ChainMembership,
    /// The serialised block, of a stale one only: the rows of its transactions are gone.
    pub(super) stale_raw: Option<Vec<u8>>,
}

impl Block {
    fn main(height: Height, row: BlockRow) -> Self {
        Self { height, row, membership: ChainMembership::Main, stale_raw: None }
    }

    /// Whether it is part of the active chain.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.membership == ChainMembership::Main
    }

    /// The position of its first transaction. Means nothing for a stale block.
    pub(super) fn first_txnum(&self) -> Result<TxNum, IndexError> {
        let first = self.row.running.transactions.checked_sub(self.row.transactions.into());
        first.and_then(|first| u32::try_from(first).ok()).map(TxNum).ok_or_else(|| {
            corrupt("blocks", format!("the row at height {} counts more transactions than the chain", self.height))
        })
    }
}

impl View {
    /// The newest block.
    pub fn tip_block(&self) -> Result<Block, IndexError> {
        self.main_block(self.tip().height)
    }

    /// The block of the active chain at this height, `None` above the tip.
    pub fn block_at(&self, height: Height) -> Result<Option<Block>, IndexError> {
        Ok(self.head.chain.block(height)?.map(|row| Block::main(height, row)))
    }

    /// The hash of the block at a height that is not above the tip.
    pub fn block_hash(&self, height: Height) -> Result<BlockHash, IndexError> {
        self.head.chain.block_hash(height)
    }

    /// The block with this hash, on the active chain or stale; `None` if the index does not know it.
    pub fn block(&self, hash: BlockHash) -> Result<Option<Block>, IndexError> {
        let Some(place) = self.head.chain.block_place(hash)? else { return Ok(None) };
        if place.membership == ChainMembership::Main {
            let block = self.main_block(place.height)?;
            let same = block.row.hash == hash;
            return if same {
                Ok(Some(block))
            } else {
                Err(corrupt("block_hashes", format!("{hash} leads to height {}, where another block is", place.height)))
            };
        }
        let stale = self.head.chain.stale_block(place.height, hash)?;
        let stale = stale.ok_or_else(|| corrupt("stale_blocks", format!("the row of {hash} is missing")))?;
        Ok(Some(Block {
            height: place.height,
            row: stale.row,
            membership: ChainMembership::Stale,
            stale_raw: Some(stale.raw),
        }))
    }

    /// The block after this one on the active chain; `None` for the tip and for stale blocks.
    pub fn next_block(&self, block: &Block) -> Result<Option<Block>, IndexError> {
        if block.is_main() { self.block_at(block.height.next()) } else { Ok(None) }
    }

    /// The block this one stands on, `None` for genesis, or where only the block itself is kept.
    pub fn previous_block(&self, block: &Block) -> Result<Option<Block>, IndexError> {
        self.block(block.row.header.prev_blockhash)
    }

    /// The newest block whose median time past is at or before this second; `None` before the genesis block.
    pub fn block_before(&self, seconds: u32) -> Result<Option<Block>, IndexError> {
        match self.first_height_after(seconds)?.previous() {
            Some(height) => self.main_block(height).map(Some),
            None => Ok(None),
        }
    }

    /// The height of the first block whose median time past is after this second; one above the tip if there is none.
    /// Found by bisection, because the median time past never falls along a chain (BIP113).
    pub fn first_height_after(&self, seconds: u32) -> Result<Height, IndexError> {
        let (mut low, mut high) = (0, self.tip().height.to_u32() + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.main_block(Height::from(middle))?.row.median_time > seconds {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Height::from(low))
    }

    /// How many blocks, itself included, confirm a block at this height of the active chain.
    #[must_use]
    pub fn confirmations(&self, height: Height) -> u32 {
        (self.tip().height.to_u32() + 1).saturating_sub(height.to_u32())
    }

    /// Where the block with this hash is, `None` if the index does not know it.
    pub fn block_place(&self, hash: BlockHash) -> Result<Option<BlockPlace>, IndexError> {
        self.head.chain.block_place(hash)
    }

    /// The height of the newest block that the chain of `hash` and the active chain have in common: its own height if
    /// it is on the active chain. `None` if the index does not know the block, or no longer how it forked off.
    pub fn fork_height(&self, hash: BlockHash) -> Result<Option<Height>, IndexError> {
        let mut hash = hash;
        loop {
            let Some(place) = self.head.chain.block_place(hash)? else { return Ok(None) };
            if place.membership == ChainMembership::Main {
                return Ok(Some(place.height));
            }
            let Some(stale) = self.head.chain.stale_block(place.height, hash)? else { return Ok(None) };
            hash = stale.row.header.prev_blockhash;
        }
    }

    /// A block of the active chain that must be there.
    pub(super) fn main_block(&self, height: Height) -> Result<Block, IndexError> {
        let block = self.block_at(height)?;
        block.ok_or_else(|| corrupt("blocks", format!("the row at height {height} is missing")))
    }
}
