//! Makes a regtest chain of the shape of mainnet, keeps it in block files, and serves it as a node until it is killed:
//! JSON-RPC and REST on a loopback port, with a cookie.
//!
//! ```text
//! cargo run --release --example sim-node -- --transactions 1000000 --port-file port target/sim-node
//! btcgraph import --network regtest --rpc-url "http://127.0.0.1:$(cat port)" --rpc-cookie target/sim-node/.cookie
//! ```
//!
//! The same arguments make the same chain on every machine. A node with `-reindex` reads the files too.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use btcgraph::sim::blkfile::{BlockFiles, BlockFilesLayout};
use btcgraph::sim::{LoadGenerator, LoadProfile, SimChain, SimNode, SimNodeOptions, World};
use clap::Parser;

/// Blocks whose bodies stay in memory; the others come from the files.
const KEPT: u32 = 10;
/// The first so many blocks hold no transactions.
const EMPTY_BLOCKS: u64 = 100;
/// Without an argument; a block can hold about 4,500.
const TRANSACTIONS_OF_BLOCK: u64 = 3_000;
const KEY: [u8; 8] = [0x6b, 0x9f, 0x04, 0xd1, 0x3c, 0x77, 0xe8, 0x52];
const BETWEEN_REPORTS: Duration = Duration::from_secs(5);

#[derive(Parser)]
#[command(about = "Makes a regtest chain of the shape of mainnet and serves it as a node until it is killed")]
struct Arguments {
    /// Transactions in all, coinbases not counted.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// Blocks in all, the first 100 of which hold no transactions [default: 3,000 transactions a block].
    #[arg(long)]
    blocks: Option<u32>,
    /// What all choices follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Blocks that wait for others to be written before them, so that the files are out of order.
    #[arg(long, default_value_t = 0)]
    disorder: usize,
    /// XORs the files, as nodes do by default.
    #[arg(long)]
    xor: bool,
    /// The port to serve on; 0 is any free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// A file to write the port to as soon as the node answers.
    #[arg(long)]
    port_file: Option<PathBuf>,
    /// Where the block files and the cookie go; must hold no block files yet.
    directory: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let layout = BlockFilesLayout {
        key: arguments.xor.then_some(KEY),
        disorder: arguments.disorder,
        ..BlockFilesLayout::default()
    };
    let directory = &arguments.directory;
    let files = BlockFiles::create(&directory.join("blocks"), layout);
    let mut files = files.with_context(|| format!("cannot make block files in {}", directory.display()))?;
    let chain = generate(&arguments, &mut files)?;

    let cookie = directory.join(".cookie");
    let options = SimNodeOptions {
        port: arguments.port,
        cookie: Some(cookie.clone()),
        files: Some(files),
        ..SimNodeOptions::default()
    };
    let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options)?;
    println!("serving at {}, cookie {}", node.url(), cookie.display());
    if let Some(path) = &arguments.port_file {
        std::fs::write(path, node.port().to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    loop {
        std::thread::park();
    }
}

/// Makes the chain, whose bodies go into the files.
fn generate(arguments: &Arguments, files: &mut BlockFiles) -> anyhow::Result<SimChain> {
    let wanted = arguments.transactions;
    let blocks = match arguments.blocks {
        Some(blocks) => blocks,
        None => u32::try_from(EMPTY_BLOCKS + wanted.div_ceil(TRANSACTIONS_OF_BLOCK))?,
    };
    let mut chain = SimChain::new(arguments.seed).keeping(KEPT);
    let mut load = LoadGenerator::new(LoadProfile { transactions: wanted, blocks, seed: arguments.seed });
    let genesis = chain.tip();
    write(&chain, &genesis, files)?;
    let start = Instant::now();
    let mut reported = start;
    while let Some(block) = load.next_block(&mut chain)? {
        write(&chain, &block.block_hash(), files)?;
        if reported.elapsed() >= BETWEEN_REPORTS {
            reported = Instant::now();
            eprintln!("{} of {wanted} transactions, {:.0?}", load.transactions(), start.elapsed());
        }
    }
    let (elapsed, made) = (start.elapsed(), load.transactions());
    println!(
        "generated {made} transactions in {} blocks, {} bytes on disk, {} unspent outputs",
        chain.height(),
        files.size(),
        chain.unspent().len()
    );
    let a_second = u128::from(made) * 1_000_000_000 / elapsed.as_nanos().max(1);
    println!("{elapsed:.2?}, {a_second} transactions a second");
    ensure!(made == wanted, "{blocks} blocks cannot hold {wanted} transactions: ask for more blocks");
    Ok(chain)
}

fn write(chain: &SimChain, hash: &bitcoin::BlockHash, files: &mut BlockFiles) -> anyhow::Result<()> {
    let block = chain.block(hash).context("the newest block is in memory")?;
    files.write(block, &chain.spent_coins(hash)?).context("cannot write the block files")
}
