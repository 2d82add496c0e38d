//! How fast `verify` checks an index whose rows are live, and one of the same chain whose blocks are frozen.
//!
//! ```text
//! cargo bench --bench verify -- --transactions 200000
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bitcoin::consensus::serialize;
use bitcoin::{BlockHash, Network};
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexOptions, ObservedLimits, RawBlocks, Report, Salt, Tip, VerifyOptions, verify};
use btcgraph::sim::{LoadGenerator, LoadProfile, SimChain};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Transactions of a block.
const BLOCK: u64 = 2_000;

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain.
    #[arg(long, default_value_t = 200_000)]
    transactions: u64,
    /// Memory for sorting, in MiB.
    #[arg(long, default_value_t = 256)]
    memory: usize,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Blocks in memory.
struct Blocks(HashMap<BlockHash, Vec<u8>>);

impl RawBlocks for Blocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let (offset, length) = (usize::try_from(offset)?, usize::try_from(length)?);
        let bytes = self.0.get(&block.hash).and_then(|bytes| bytes.get(offset..offset + length));
        Ok(bytes.ok_or("not in the chain")?.to_vec())
    }
}

fn main() -> Result<()> {
    let Arguments { transactions, memory, .. } = Arguments::parse();
    let (mut chain, directory) = (SimChain::new(1), tempfile::tempdir()?);
    let blocks = u32::try_from(transactions / BLOCK)?.max(1) + 101;
    let mut load = LoadGenerator::new(LoadProfile { transactions, blocks, seed: 1 });
    while load.next_block(&mut chain)?.is_some() {}
    let raw = Arc::new(Blocks(chain.active_blocks().map(|block| (block.block_hash(), serialize(&**block))).collect()));
    let mut index = Index::open(&IndexOptions {
        path: directory.path().join("index.redb"),
        network: Network::Regtest,
        salt: Some(Salt(*b"salt of the test")),
        cache_bytes: 512 << 20,
        freezes: true,
        stale_blocks_kept: 0,
        observed: ObservedLimits::default(),
    })?;
    index.set_raw_blocks(raw);
    let parser = index.parser();
    let parsed: Vec<_> = chain
        .active_blocks()
        .map(|block| parser.parse(block.block_hash(), serialize(&**block)))
        .collect::<Result<_, _>>()?;
    let mut update = index.update()?;
    update.connect(&parsed)?;
    update.commit()?;
    let live = check("live", &index, directory.path(), memory)?;
    let tip = index.snapshot()?.tip().map_or(Height::GENESIS, |tip| tip.height);
    let path = index.freezing_path();
    index.snapshot()?.pack(Height::GENESIS..=Height::from(tip.to_u32() - 6), &path)?;
    index.adopt(&path)?;
    while index.sweep(100_000)? {}
    let frozen = check("frozen but for 6 blocks", &index, directory.path(), memory)?;
    ensure!(live == frozen, "the reports differ");
    Ok(())
}

/// Checks an index twice, and prints how long the second time took.
fn check(what: &str, index: &Index, directory: &Path, memory: usize) -> Result<Report> {
    let options = VerifyOptions { memory: memory << 20, directory: directory.into() };
    let snapshot = index.snapshot()?;
    let run = || verify(&snapshot, &options, &mut |_| ControlFlow::Continue(()));
    run()?;
    let began = Instant::now();
    let report = run()?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(report.is_clean(), "{:?}", report.differences);
    let rows = report.tables.iter().find(|table| table.name == "transactions").map_or(0, |table| table.rows);
    println!("{what}: {rows} transactions checked in {seconds:.2} s");
    Ok(report)
}
