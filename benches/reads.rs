//! What reads of frozen blocks take, beside the same reads of an index without generations, and what catching up on top of a
//! generation takes.
//!
//! ```text
//! cargo bench --bench reads -- --transactions 1000000
//! ```
//!
//! makes a chain of the shape of mainnet in the block files of a simulated node and two indexes of it: one block by block, and
//! one whose blocks are in a generation but for the last, which are connected on top of it. Both then answer the same
//! queries in turn, in this process. As root it also asks for pages whose files are not in memory. The figures stand in
//! `benches/README.md`.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use bitcoin::{Network, Script};
use btcgraph::chain::{Height, address_of};
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::sim::Rng;
use btcgraph::view::{TxNum, View};
use clap::Parser;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

mod generation;

use generation::{Figures, IndexMaker, LIVE, Opened, simulated, time};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Pages that are asked for with nothing in memory.
const COLD_PAGES: usize = 20;
/// What the device is asked for at least.
const PAGE: u64 = 4_096;

const TRANSACTION: &str = "query($id: Txid!) { transaction(txid: $id) { txid fee vsize block { height }
    inputs { nodes { prevout { outpoint { text } value address } } }
    outputs { nodes { value address spentBy { index transaction { txid } } } } } }";
const ADDRESS: &str = "query($id: String!) { address(address: $id) { balance { confirmed } transactions { totalCount
    nodes { net balanceAfter transaction { txid fee confirmations block { height time } } } } } }";
const BLOCK_PAGE: &str =
    "query($id: Int!) { block(height: $id) { hash txCount transactions(first: 25) { nodes { txid fee
    inputs { nodes { prevout { value address } } } outputs { nodes { value address spendStatus } } } } } }";

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// Queries of each kind to each index.
    #[arg(long, default_value_t = 3_000)]
    queries: usize,
    /// Where the chain and the indexes are written; they are removed at the end.
    #[arg(long, default_value = "target/bench")]
    directory: PathBuf,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.directory)?;
    let directory = tempfile::tempdir_in(&arguments.directory)?;
    let (_sim, node) = simulated(directory.path(), arguments.transactions)?;
    let indexes = [("live", false), ("frozen", true)].map(|(name, freezes)| {
        let path = directory.path().join(name).join("index.redb");
        IndexMaker { node: node.clone(), blocks_dir: directory.path().join("blocks"), path, freezes }
    });
    for index in &indexes {
        index.make()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let opened = [indexes[0].open(MempoolSnapshot::default())?, indexes[1].open(MempoolSnapshot::default())?];
    let subjects = Subjects::pick(&opened[1], arguments.queries)?;
    println!("p50 and p99 of {} queries, each by both indexes in turn", arguments.queries);
    for (what, query, ids) in subjects.queries() {
        // the first round fills the caches
        measure(&runtime, &opened, query, ids)?;
        let [live, frozen] = measure(&runtime, &opened, query, ids)?;
        println!(
            "  {what}: live {live}, frozen {frozen}, p50 {:.2} of it",
            frozen.p50.as_secs_f64() / live.p50.as_secs_f64()
        );
    }
    drop(opened);
    let mut cold = [Vec::new(), Vec::new()];
    let mut read = [0, 0];
    for id in subjects.heights.iter().take(COLD_PAGES) {
        for ((index, times), read) in indexes.iter().zip(&mut cold).zip(&mut read) {
            if std::fs::write("/proc/sys/vm/drop_caches", "3").is_err() {
                println!("  pages that are not in memory are measured by root on Linux alone");
                return Ok(());
            }
            let opened = index.open(MempoolSnapshot::default())?;
            let before = device_bytes()?;
            times.push(time(&runtime, &opened.schema, BLOCK_PAGE, &json!({ "id": id }))?);
            *read += device_bytes()? - before;
        }
    }
    let [live, frozen] = cold.map(Figures::of);
    println!("  25 transactions of a block, nothing in memory: live {live}, frozen {frozen}");
    let [live, frozen] = read.map(|bytes| bytes / PAGE / COLD_PAGES as u64);
    println!("  pages of 4 KiB that the device gave for each: live {live}, frozen {frozen}");
    Ok(())
}

/// Bytes that this process had the device read.
fn device_bytes() -> Result<u64> {
    let counters = std::fs::read_to_string("/proc/self/io")?;
    let found = counters.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(found.context("/proc/self/io has no read_bytes")?.parse()?)
}

/// What the queries ask for, all of it frozen.
struct Subjects {
    transactions: Vec<Value>,
    addresses: Vec<Value>,
    heights: Vec<Value>,
}

impl Subjects {
    fn pick(opened: &Opened, count: usize) -> Result<Self> {
        let view = View::new(Arc::clone(&opened.head));
        let tip = opened.head.tip.height.to_u32();
        let frozen = view.txnums(Height::GENESIS..Height::from(tip - LIVE))?;
        let first = view.txnums(Height::GENESIS..Height::from(150))?.end.0;
        let mut rng = Rng::new(1);
        let (mut transactions, mut addresses, mut heights) = (Vec::new(), Vec::new(), Vec::new());
        while transactions.len() < count {
            let txnum = TxNum(u32::try_from(rng.between(first.into(), u64::from(frozen.end.0) - 1))?);
            let transaction = view.transaction_at(txnum)?;
            transactions.push(json!(transaction.txid));
            let scripts = transaction.parts.output.iter().map(|output| output.script_pubkey.as_script());
            addresses
                .extend(scripts.filter_map(|script: &Script| address_of(script, Network::Regtest)).map(|it| json!(it)));
            heights.push(json!(rng.between(150, u64::from(tip - LIVE) - 1)));
        }
        addresses.truncate(count);
        Ok(Self { transactions, addresses, heights })
    }

    fn queries(&self) -> [(&'static str, &'static str, &[Value]); 3] {
        [
            ("a transaction with its prevouts and spenders", TRANSACTION, &self.transactions),
            ("an address: balance and the newest 25", ADDRESS, &self.addresses),
            ("25 transactions of a block, with inputs and outputs", BLOCK_PAGE, &self.heights),
        ]
    }
}

fn measure(runtime: &Runtime, indexes: &[Opened; 2], query: &str, ids: &[Value]) -> Result<[Figures; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for id in ids {
        for (opened, times) in indexes.iter().zip(&mut times) {
            times.push(time(runtime, &opened.schema, query, &json!({ "id": id }))?);
        }
    }
    Ok(times.map(Figures::of))
}
