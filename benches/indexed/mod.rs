//! A schema over an index of a chain of the shape of mainnet's, which only grows when it is made.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bitcoin::Network;
use bitcoin::consensus::serialize;
use btcgraph::api::{self, Features, Schema};
use btcgraph::index::{Index, IndexOptions, ObservedLimits};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::sim::{LoadGenerator, LoadProfile, SimChain};
use btcgraph::view::{Head, Published};

/// So many transactions, nearly all of them in the last seven blocks.
const TRANSACTIONS: u64 = 20_000;
const BLOCKS: u32 = 107;

/// The chain, what is published of it, without a mempool, and the schema over that. The index is in this directory.
pub(crate) fn index(directory: &Path) -> Result<(SimChain, Published, Schema)> {
    let mut chain = SimChain::new(1);
    let mut load = LoadGenerator::new(LoadProfile { transactions: TRANSACTIONS, blocks: BLOCKS, seed: 1 });
    while load.next_block(&mut chain)?.is_some() {}
    let options = IndexOptions {
        path: directory.join("index.redb"),
        network: Network::Regtest,
        salt: None,
        cache_bytes: 256 << 20,
        freezes: false,
        stale_blocks_kept: 0,
        observed: ObservedLimits::default(),
    };
    let mut index = Index::open(&options)?;
    let parser = index.parser();
    let parse = |block: &bitcoin::Block| parser.parse(block.block_hash(), serialize(block));
    let blocks: Vec<_> = chain.active_blocks().map(|block| parse(block)).collect::<Result<_, _>>()?;
    let mut update = index.update()?;
    update.connect(&blocks)?;
    update.commit()?;
    let head =
        Head::after(None, Arc::new(index.snapshot()?), MempoolSnapshot::default()).context("there are blocks")?;
    let published = Published::default();
    published.publish(Arc::new(head));
    let schema = api::schema(published.clone(), Live::default(), Limits::default(), Features::default());
    Ok((chain, published, schema))
}
