//! Blocks of the active chain and stale ones, and how they follow each other.

use std::ops::Range;

use bitcoin::consensus::{encode, serialize};
use bitcoin::{BlockHash, Txid};

use super::View;
use super::block::{Block, StaleBytes};
use crate::chain::Height;
use crate::chain::raw::{RawBlock, RawError, RawTransaction};
use crate::index::{BlockPlace, ChainMembership, IndexError, Snapshot};

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
                Err(IndexError::corrupt(
                    "block_hashes",
                    format!("{hash} leads to height {}, where another block is", place.height),
                ))
            };
        }
        self.stale_block(place.height, hash).map(Some)
    }

    /// A stale block that the index must have.
    pub fn stale_block(&self, height: Height, hash: BlockHash) -> Result<Block, IndexError> {
        let row = self.head.chain.stale_block_row(height, hash)?;
        let row = row.ok_or_else(|| IndexError::corrupt("stale_blocks", format!("the row of {hash} is missing")))?;
        Ok(Block::new(height, row, ChainMembership::Stale))
    }

    /// The stored stale blocks whose position is in this range, lowest first, each with its position: its height × 2^32
    /// plus a number that distinguishes the blocks of one height. Read lazily.
    #[allow(clippy::type_complexity)]
    pub fn stale_blocks(
        &self,
        positions: Range<u64>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(u64, (Height, BlockHash)), IndexError>> + use<>, IndexError>
    {
        let found = self.head.chain.stale_blocks_within(positions)?;
        Ok(found.map(|found| found.map(|(height, hash)| (Snapshot::stale_position(height, hash), (height, hash)))))
    }

    /// The number of stored stale blocks.
    pub fn stale_block_count(&self) -> Result<u64, IndexError> {
        self.head.chain.stale_block_count()
    }

    /// The hashes of all other known blocks at the height of this one, that of the active chain first.
    pub fn siblings(&self, block: &Block) -> Result<Vec<BlockHash>, IndexError> {
        let height = u64::from(block.height.to_u32()) << 32;
        let main = if block.is_main() { None } else { self.block_at(block.height)?.map(|main| main.row.hash) };
        let stale = self.stale_blocks(height..height + (1 << 32))?;
        let stale = stale.map(|found| found.map(|(_, (_, hash))| hash));
        main.map(Ok)
            .into_iter()
            .chain(stale)
            .filter(|hash| !hash.as_ref().is_ok_and(|hash| *hash == block.row.hash))
            .collect()
    }

    /// The serialised block.
    pub fn raw_block(&self, block: &Block) -> Result<Vec<u8>, IndexError> {
        if !block.is_main() {
            return self.stale_bytes(block).map(|stale| stale.raw.clone());
        }
        let size = usize::try_from(block.row.size).unwrap_or_default();
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(serialize(&block.row.header));
        bytes.extend(serialize(&encode::VarInt(block.row.transactions.into())));
        self.head.chain.append_raw_transactions(block.first_txnum()?, block.row.transactions, &mut bytes)?;
        if bytes.len() != size {
            return Err(IndexError::corrupt(
                "blocks",
                format!("block {} has {} bytes, not {size}", block.row.hash, bytes.len()),
            ));
        }
        Ok(bytes)
    }

    /// The txids of all transactions of a block, in order.
    pub fn txids(&self, block: &Block) -> Result<Vec<Txid>, IndexError> {
        if block.is_main() {
            return self.head.chain.txids(block.first_txnum()?, block.row.transactions);
        }
        let raw = RawBlock::parse(&self.stale_bytes(block)?.raw).map_err(|error| no_block(block, &error))?;
        Ok(raw.transactions.iter().map(RawTransaction::txid).collect())
    }

    /// The serialised coinbase of a block.
    pub fn coinbase(&self, block: &Block) -> Result<Vec<u8>, IndexError> {
        if block.is_main() {
            let txnum = block.first_txnum()?;
            let stored = self.head.chain.transaction(txnum)?;
            let stored =
                stored.ok_or_else(|| IndexError::corrupt("transactions", format!("row {txnum} is missing")))?;
            return Ok(stored.parts.raw().to_vec());
        }
        let coinbase = self.head.chain.stale_coinbase(block.height, block.row.hash)?;
        coinbase.ok_or_else(|| IndexError::corrupt("stale_blocks", format!("the row of {} is missing", block.row.hash)))
    }

    /// The bytes of a stale block.
    fn stale_bytes<'b>(&self, block: &'b Block) -> Result<&'b StaleBytes, IndexError> {
        if let Some(stale) = block.stale.get() {
            return Ok(stale);
        }
        let stale = self.head.chain.stale_block(block.height, block.row.hash)?;
        let stale = stale
            .ok_or_else(|| IndexError::corrupt("stale_blocks", format!("the row of {} is missing", block.row.hash)))?;
        let stale = StaleBytes::parse(stale.raw).map_err(|error| no_block(block, &error))?;
        Ok(block.stale.get_or_init(|| stale))
    }

    /// The serialised transaction with this index in a stale block, `None` beyond the last.
    pub(super) fn raw_stale_transaction<'b>(
        &self,
        block: &'b Block,
        index: u32,
    ) -> Result<Option<&'b [u8]>, IndexError> {
        let stale = self.stale_bytes(block)?;
        let place = usize::try_from(index).ok().and_then(|index| stale.transactions.get(index));
        Ok(place.and_then(|place| stale.raw.get(place.clone())))
    }

    /// The block after this one on the active chain; `None` for the tip and for stale blocks.
    pub fn next_block(&self, block: &Block) -> Result<Option<Block>, IndexError> {
        if block.is_main() { self.block_at(block.height.next()) } else { Ok(None) }
    }

    /// The parent of this block, `None` for genesis, or where the index does not have the parent.
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
            if self.median_time(middle)? > seconds {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Height::from(low))
    }

    /// The height of the first block from which on the header of every block is later than this second; one above the tip if there
    /// is none. `by_median` is the first block whose median time past is later: [`View::first_height_after`].
    pub fn first_height_with_later_headers(&self, seconds: u32, by_median: Height) -> Result<Height, IndexError> {
        // a header is later than the median of the eleven in front of it (Core `ContextualCheckBlockHeader`), so all above this one
        // are later; and most of the eleven below it are not: these steps are few
        if by_median <= self.tip().height && self.main_block(by_median)?.row.header.time <= seconds {
            return Ok(by_median.next());
        }
        let mut height = by_median;
        while let Some(below) = height.previous() {
            if self.main_block(below)?.row.header.time <= seconds {
                break;
            }
            height = below;
        }
        Ok(height)
    }

    /// The heights of those of these blocks that the active chain has, with the times of their headers.
    pub fn header_times(&self, heights: Range<Height>) -> Result<Vec<(Height, u32)>, IndexError> {
        let end = heights.end.to_u32().min(self.tip().height.to_u32().saturating_add(1));
        let time = |height: Height| Ok((height, self.main_block(height)?.row.header.time));
        (heights.start.to_u32()..end).map(Height::from).map(time).collect()
    }

    /// The number of blocks, itself included, that confirm a block at this height of the active chain.
    #[must_use]
    pub fn confirmations(&self, height: Height) -> u32 {
        (self.tip().height.to_u32() + 1).saturating_sub(height.to_u32())
    }

    /// The place of the block with this hash, `None` if the index does not know it.
    pub fn block_place(&self, hash: BlockHash) -> Result<Option<BlockPlace>, IndexError> {
        self.head.chain.block_place(hash)
    }

    /// The height of the newest block that the chain of `hash` and the active chain have in common: its own height if
    /// it is on the active chain. `None` if the index does not know the block, or no longer has its branch.
    pub fn fork_height(&self, hash: BlockHash) -> Result<Option<Height>, IndexError> {
        let mut hash = hash;
        loop {
            let Some(place) = self.head.chain.block_place(hash)? else { return Ok(None) };
            if place.membership == ChainMembership::Main {
                return Ok(Some(place.height));
            }
            let Some(stale) = self.head.chain.stale_block_row(place.height, hash)? else { return Ok(None) };
            hash = stale.header.prev_blockhash;
        }
    }

    /// The block of the active chain at a height that is not above the tip.
    pub fn main_block(&self, height: Height) -> Result<Block, IndexError> {
        let block = self.block_at(height)?;
        block.ok_or_else(|| IndexError::corrupt("blocks", format!("the row at height {height} is missing")))
    }
}

fn no_block(block: &Block, error: &RawError) -> IndexError {
    IndexError::corrupt("stale_blocks", format!("row {} is no block: {error}", block.row.hash))
}
