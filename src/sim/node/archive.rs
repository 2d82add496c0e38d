//! The node's own store of blocks: the header and size of each, and, if there are block files, the block itself and its
//! undo data, so that the chain may drop bodies.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bitcoin::block::Header;
use bitcoin::consensus::encode;
use bitcoin::{Block, BlockHash};

use super::super::blkfile::{BlockFiles, FileRecord, StoredBlock, undo_bytes};
use super::super::{SimChain, SimCoin};
use super::error::{RpcFailure, code};
use crate::chain::Height;

/// Magic and length before a block on a node's disk.
const BLOCK_FRAME: u64 = 8;
/// Magic, length and checksum around its undo data.
const UNDO_FRAME: u64 = 40;

/// Headers and sizes of all archived blocks, and the block files.
#[derive(Debug)]
pub(super) struct Archive {
    files: Option<BlockFiles>,
    blocks: HashMap<BlockHash, StoredBlock>,
    size_on_disk: u64,
    /// The number of blocks of the chain when all branches were last archived.
    pub(super) archived_blocks: usize,
}

/// A block that can be read without a lock.
#[derive(Debug)]
pub(super) enum BlockBody {
    InMemory(Arc<Block>),
    InFiles(FileRecord),
}

/// The coins that a block spends, which can be read without a lock.
#[derive(Debug)]
pub(super) enum SpentCoins {
    InMemory(Vec<Vec<SimCoin>>),
    InFiles(FileRecord),
}

impl Archive {
    pub(super) fn new(files: Option<BlockFiles>) -> Archive {
        let size_on_disk = files.as_ref().map_or(0, BlockFiles::size);
        Archive { files, blocks: HashMap::new(), size_on_disk, archived_blocks: 0 }
    }

    /// Archives a block of the tree and its ancestors. Errors: the chain has already dropped the body of one of them.
    pub(super) fn adopt(&mut self, chain: &SimChain, hash: &BlockHash) -> Result<(), RpcFailure> {
        let below = std::iter::successors(Some(*hash), |below| chain.parent(below));
        let new: Vec<BlockHash> = below.take_while(|below| self.stored(below).is_none()).collect();
        for hash in new.into_iter().rev() {
            let block = chain.block(&hash).ok_or_else(|| dropped(&hash))?;
            let spent = chain.spent_coins(&hash).map_err(RpcFailure::internal)?;
            if let Some(files) = &mut self.files {
                files.write(block, &spent).map_err(RpcFailure::internal)?;
                self.size_on_disk = files.size();
            } else {
                let stored = summary(block).map_err(RpcFailure::internal)?;
                self.size_on_disk += BLOCK_FRAME + u64::from(stored.bytes);
                if chain.parent(&hash).is_some() {
                    let undo = u64::try_from(undo_bytes(&spent).len()).map_err(RpcFailure::internal)?;
                    self.size_on_disk += UNDO_FRAME + undo;
                }
                self.blocks.insert(hash, stored);
            }
        }
        Ok(())
    }

    /// Bytes of all blocks with undo data on the node's disk, or the bytes that they would have there.
    pub(super) fn size_on_disk(&self) -> u64 {
        self.size_on_disk
    }

    /// Header and sizes of an archived block.
    pub(super) fn stored(&self, hash: &BlockHash) -> Option<&StoredBlock> {
        self.blocks.get(hash).or_else(|| self.files.as_ref()?.stored(hash))
    }

    pub(super) fn header(&self, hash: &BlockHash) -> Result<&Header, RpcFailure> {
        self.stored(hash).map(|stored| &stored.header).ok_or_else(RpcFailure::block_not_found)
    }

    /// An archived block.
    pub(super) fn body(&self, chain: &SimChain, hash: &BlockHash) -> Result<BlockBody, RpcFailure> {
        if let Some(block) = chain.block(hash) {
            return Ok(BlockBody::InMemory(Arc::clone(block)));
        }
        let record = self.files.as_ref().and_then(|files| files.block(hash));
        record.map(BlockBody::InFiles).ok_or_else(|| RpcFailure::new(code::MISC, "Block not available (pruned data)"))
    }

    /// The coins that an archived block spends, a list for each transaction but the coinbase.
    pub(super) fn spent(&self, chain: &SimChain, hash: &BlockHash) -> Result<SpentCoins, RpcFailure> {
        if let Ok(spent) = chain.spent_coins(hash) {
            return Ok(SpentCoins::InMemory(spent));
        }
        if chain.height_of(hash) == Some(Height::GENESIS) {
            return Ok(SpentCoins::InMemory(Vec::new()));
        }
        let record = self.files.as_ref().and_then(|files| files.undo(hash));
        record
            .map(SpentCoins::InFiles)
            .ok_or_else(|| RpcFailure::new(code::MISC, "Undo data not available (pruned data)"))
    }

    /// The lowest height from which on the active chain has all bodies; `None` if it has all.
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

impl BlockBody {
    pub(super) fn bytes(self) -> io::Result<Vec<u8>> {
        match self {
            BlockBody::InMemory(block) => Ok(encode::serialize(block.as_ref())),
            BlockBody::InFiles(record) => record.read(),
        }
    }

    pub(super) fn block(self) -> io::Result<Arc<Block>> {
        match self {
            BlockBody::InMemory(block) => Ok(block),
            BlockBody::InFiles(record) => encode::deserialize(&record.read()?).map(Arc::new).map_err(io::Error::other),
        }
    }
}

impl SpentCoins {
    pub(super) fn coins(self) -> io::Result<Vec<Vec<SimCoin>>> {
        match self {
            SpentCoins::InMemory(spent) => Ok(spent),
            SpentCoins::InFiles(record) => record.read_undo(),
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

fn dropped(hash: &BlockHash) -> RpcFailure {
    RpcFailure::internal(format!(
        "block {hash} was dropped before the node archived it: pass its block files in the options"
    ))
}
