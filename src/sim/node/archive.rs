//! What the node keeps of each block beside the chain's own memory: header, size, and, when it was given block files,
//! the block itself and what it spends, so that the chain may drop bodies.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bitcoin::block::Header;
use bitcoin::consensus::encode;
use bitcoin::{Block, BlockHash};

use super::super::blkfile::{BlockFiles, Record, StoredBlock, undo_bytes};
use super::super::{Coin, SimChain};
use super::failure::{Failure, code};
use crate::chain::Height;

/// Magic and length before a block on a node's disk.
const BLOCK_FRAME: u64 = 8;
/// Magic, length and checksum around what it spends.
const UNDO_FRAME: u64 = 40;

/// Headers and sizes of all blocks that were seen, and the block files.
#[derive(Debug)]
pub(super) struct Archive {
    files: Option<BlockFiles>,
    blocks: HashMap<BlockHash, StoredBlock>,
    size_on_disk: u64,
    /// How many blocks its chain had when those of all branches were last taken in.
    pub(super) found_of: usize,
}

/// A block that can be read without holding any lock.
#[derive(Debug)]
pub(super) enum Body {
    InMemory(Arc<Block>),
    InFiles(Record),
}

/// What a block spends, in the same way.
#[derive(Debug)]
pub(super) enum Spent {
    InMemory(Vec<Vec<Coin>>),
    InFiles(Record),
}

impl Archive {
    pub(super) fn new(files: Option<BlockFiles>) -> Archive {
        let size_on_disk = files.as_ref().map_or(0, BlockFiles::size);
        Archive { files, blocks: HashMap::new(), size_on_disk, found_of: 0 }
    }

    /// Takes a block of the tree and all below it in. Fails when the chain dropped one of them before it could be.
    pub(super) fn adopt(&mut self, chain: &SimChain, hash: &BlockHash) -> Result<(), Failure> {
        let below = std::iter::successors(Some(*hash), |below| chain.parent(below));
        let new: Vec<BlockHash> = below.take_while(|below| self.stored(below).is_none()).collect();
        for hash in new.into_iter().rev() {
            let block = chain.block(&hash).ok_or_else(|| dropped(&hash))?;
            let spent = chain.spent_coins(&hash).map_err(Failure::internal)?;
            if let Some(files) = &mut self.files {
                files.write(block, &spent).map_err(Failure::internal)?;
                self.size_on_disk = files.size();
            } else {
                let stored = summary(block).map_err(Failure::internal)?;
                self.size_on_disk += BLOCK_FRAME + u64::from(stored.bytes);
                if chain.parent(&hash).is_some() {
                    let undo = u64::try_from(undo_bytes(&spent).len()).map_err(Failure::internal)?;
                    self.size_on_disk += UNDO_FRAME + undo;
                }
                self.blocks.insert(hash, stored);
            }
        }
        Ok(())
    }

    /// Bytes that blocks and what they spend take on the node's disk, or would take.
    pub(super) fn size_on_disk(&self) -> u64 {
        self.size_on_disk
    }

    /// What is known of a block that was taken in.
    pub(super) fn stored(&self, hash: &BlockHash) -> Option<&StoredBlock> {
        self.blocks.get(hash).or_else(|| self.files.as_ref()?.stored(hash))
    }

    pub(super) fn header(&self, hash: &BlockHash) -> Result<&Header, Failure> {
        self.stored(hash).map(|stored| &stored.header).ok_or_else(Failure::block_not_found)
    }

    /// A block that was taken in.
    pub(super) fn body(&self, chain: &SimChain, hash: &BlockHash) -> Result<Body, Failure> {
        if let Some(block) = chain.block(hash) {
            return Ok(Body::InMemory(Arc::clone(block)));
        }
        let record = self.files.as_ref().and_then(|files| files.block(hash));
        record.map(Body::InFiles).ok_or_else(|| Failure::new(code::MISC, "Block not available (pruned data)"))
    }

    /// What a block that was taken in spends, a list for each transaction but the coinbase.
    pub(super) fn spent(&self, chain: &SimChain, hash: &BlockHash) -> Result<Spent, Failure> {
        if let Ok(spent) = chain.spent_coins(hash) {
            return Ok(Spent::InMemory(spent));
        }
        if chain.height_of(hash) == Some(Height::GENESIS) {
            return Ok(Spent::InMemory(Vec::new()));
        }
        let record = self.files.as_ref().and_then(|files| files.undo(hash));
        record.map(Spent::InFiles).ok_or_else(|| Failure::new(code::MISC, "Undo data not available (pruned data)"))
    }

    /// The lowest height from which on the active chain has all bodies, when some were dropped for good.
    pub(super) fn pruned_below(&self, chain: &SimChain) -> Option<Height> {
        if self.files.is_some() || chain.hash_at(Height::GENESIS).is_some_and(|genesis| chain.block(&genesis).is_some())
        {
            return None;
        }
        let below = std::iter::successors(Some(chain.tip()), |below| chain.parent(below));
        let lowest = below.take_while(|hash| chain.block(hash).is_some()).last()?;
        chain.height_of(&lowest)
    }
}

impl Body {
    pub(super) fn bytes(self) -> io::Result<Vec<u8>> {
        match self {
            Body::InMemory(block) => Ok(encode::serialize(block.as_ref())),
            Body::InFiles(record) => record.read(),
        }
    }

    pub(super) fn block(self) -> io::Result<Arc<Block>> {
        match self {
            Body::InMemory(block) => Ok(block),
            Body::InFiles(record) => encode::deserialize(&record.read()?).map(Arc::new).map_err(io::Error::other),
        }
    }
}

impl Spent {
    pub(super) fn coins(self) -> io::Result<Vec<Vec<Coin>>> {
        match self {
            Spent::InMemory(spent) => Ok(spent),
            Spent::InFiles(record) => record.read_undo(),
        }
    }
}

fn summary(block: &Block) -> io::Result<StoredBlock> {
    Ok(StoredBlock {
        header: block.header,
        transactions: u32::try_from(block.txdata.len()).map_err(io::Error::other)?,
        bytes: u32::try_from(block.total_size()).map_err(io::Error::other)?,
    })
}

fn dropped(hash: &BlockHash) -> Failure {
    Failure::internal(format!("block {hash} was dropped before the node saw it: give the node its block files"))
}
