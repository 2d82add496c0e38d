//! The node: a chain of the shape of mainnet's in block files, on top of it coins to make a mempool of.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use bitcoin::BlockHash;
use btcgraph::sim::blkfile::{BlockFiles, BlockFilesLayout};
use btcgraph::sim::{LoadGenerator, LoadProfile, SimChain, SimNode, SimNodeOptions, World};

use crate::payer::Payer;

/// What all choices follow from.
const SEED: u64 = 1;
/// The first so many blocks hold no transactions.
const EMPTY_BLOCKS: usize = 100;
const IN_BLOCK: usize = 3_000;
/// Blocks whose bodies stay in memory; the others come from the files.
const KEPT: u32 = 10;
/// Coins that a transaction of the mempool spends on average, with some to spare.
const COINS: usize = 3;

/// Starts a node over a chain of so many transactions, and tells who can pay so many more out of its coins.
pub(crate) fn start(directory: &Path, transactions: usize, payments: usize) -> Result<(SimNode, Payer)> {
    let mut files = BlockFiles::create(&directory.join("blocks"), BlockFilesLayout::default())?;
    let mut chain = SimChain::new(SEED).keeping(KEPT);
    let blocks = u32::try_from(EMPTY_BLOCKS + transactions.div_ceil(IN_BLOCK))?;
    let mut load = LoadGenerator::new(LoadProfile { transactions: u64::try_from(transactions)?, blocks, seed: SEED });
    let genesis = chain.tip();
    write(&chain, &genesis, &mut files)?;
    while let Some(block) = load.next_block(&mut chain)? {
        write(&chain, &block.block_hash(), &mut files)?;
    }
    ensure!(load.transactions() == u64::try_from(transactions)?, "the blocks cannot hold so many transactions");
    // each of its owners is found by a number below how many were paid
    let mut payer = Payer::of(&chain, u32::try_from(transactions * 2 + 200_000)?);
    while payer.coins() < payments * COINS {
        let block = chain.mine(payer.spread()?)?;
        payer.paid(&block);
        write(&chain, &block.block_hash(), &mut files)?;
    }
    payer.shuffle();
    let options = SimNodeOptions { zmq: Some(0), files: Some(files), ..SimNodeOptions::default() };
    let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options)?;
    Ok((node, payer))
}

fn write(chain: &SimChain, hash: &BlockHash, files: &mut BlockFiles) -> Result<()> {
    let block = chain.block(hash).context("the newest block is in memory")?;
    files.write(block, &chain.spent_coins(hash)?).context("cannot write the block files")
}
