//! Makes a regtest chain of the shape of mainnet and writes it in blk-file framing, for `bitcoind -loadblock=FILE` or
//! to import directly:
//!
//! ```text
//! cargo run --release --example make-chain -- --transactions 1000000 --blocks 400 --seed 1 chain.blk
//! ```
//!
//! The file begins with genesis, as a node's own files do. The same arguments make the same bytes on every machine.

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use btcgraph::sim::blkfile::BlkWriter;
use btcgraph::sim::{LoadGenerator, LoadProfile, SimChain};
use clap::Parser;

/// Most of the time goes into small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Makes a regtest chain of the shape of mainnet, in blk-file framing")]
struct Arguments {
    /// Transactions in all, coinbases not counted.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// Blocks in all, the first 100 of which hold no transactions.
    #[arg(long, default_value_t = 400)]
    blocks: u32,
    /// What all choices follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file to write.
    out: PathBuf,
}

/// What was made, counted from the blocks themselves, without genesis.
#[derive(Default)]
struct Totals {
    inputs: usize,
    outputs: usize,
    heaviest: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let file = File::create(&arguments.out).with_context(|| format!("cannot write {}", arguments.out.display()))?;
    let mut file = BlkWriter::new(file);
    let mut chain = SimChain::new(arguments.seed).keeping(1);
    for genesis in chain.active_blocks() {
        file.write(genesis)?;
    }
    let mut load = LoadGenerator::new(LoadProfile {
        transactions: arguments.transactions,
        blocks: arguments.blocks,
        seed: arguments.seed,
    });
    let mut totals = Totals::default();
    let start = Instant::now();
    while let Some(block) = load.next_block(&mut chain)? {
        file.write(&block).with_context(|| format!("cannot write {}", arguments.out.display()))?;
        totals.heaviest = totals.heaviest.max(block.weight().to_wu());
        for tx in block.txdata.iter().skip(1) {
            totals.inputs += tx.input.len();
            totals.outputs += tx.output.len();
        }
    }
    let elapsed = start.elapsed();
    let bytes = file.written();
    file.finish()?;

    let made = load.transactions();
    println!("{made} transactions, {} inputs, {} outputs", totals.inputs, totals.outputs);
    println!("{} blocks, {bytes} bytes, the heaviest of {} weight units", chain.height(), totals.heaviest);
    println!("{} unspent outputs, tip {}", chain.unspent().len(), chain.tip());
    let nanos = elapsed.as_nanos().max(1);
    println!("{elapsed:.2?}, {} transactions a second", u128::from(made) * 1_000_000_000 / nanos);
    ensure!(
        made == arguments.transactions,
        "{} blocks cannot hold {} transactions: ask for more blocks",
        arguments.blocks,
        arguments.transactions
    );
    Ok(())
}
