//! What reads of frozen blocks take, beside the same reads of an index without generations, and what catching up on top of a
//! generation takes.
//!
//! ```text
//! cargo bench --bench reads -- --transactions 1000000
//! ```
//!
//! makes a chain of the shape of mainnet in the block files of a simulated node and two indexes of it: one block by block, and
//! one whose blocks are in a generation but for the last, which are connected on top of it. Both then answer the same
//! queries in turn, in this process, and read the same from their snapshots without the schema. As root it also asks for pages
//! whose files are not in memory. The figures stand in `benches/README.md`.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use btcgraph::chain::Height;
use btcgraph::index::Snapshot;
use btcgraph::mempool::MempoolSnapshot;
use clap::Parser;
use serde_json::{Value, json};

mod generation;
mod percentiles;
mod snapshot_reads;

use generation::{IndexMaker, Opened, simulated, time};
use percentiles::Percentiles;
use snapshot_reads::{Subjects, read_address, read_block_page, read_transaction};

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
    let subjects = Subjects::pick(&opened[1].head.chain, arguments.queries)?;
    println!("p50 and p99 of {} queries, each by both indexes in turn", arguments.queries);
    for (what, query, ids, read) in queries(&subjects) {
        let through_graphql =
            |opened: &Opened, at: usize| time(&runtime, &opened.schema, query, &json!({ "id": ids[at] }));
        let at_snapshot = |opened: &Opened, at| {
            let start = Instant::now();
            read(&opened.head.chain, at)?;
            Ok(start.elapsed())
        };
        print(what, measure(&opened, ids.len(), &through_graphql)?);
        print(&format!("{what}, at `Snapshot`"), measure(&opened, ids.len(), &at_snapshot)?);
    }
    drop(opened);
    let mut cold = [Vec::new(), Vec::new()];
    let mut read = [0, 0];
    for height in subjects.heights.iter().take(COLD_PAGES) {
        for ((index, times), read) in indexes.iter().zip(&mut cold).zip(&mut read) {
            if std::fs::write("/proc/sys/vm/drop_caches", "3").is_err() {
                println!("  pages that are not in memory are measured by root on Linux alone");
                return Ok(());
            }
            let opened = index.open(MempoolSnapshot::default())?;
            let before = device_bytes()?;
            times.push(time(&runtime, &opened.schema, BLOCK_PAGE, &json!({ "id": height.to_u32() }))?);
            *read += device_bytes()? - before;
        }
    }
    let [live, frozen] = cold.map(Percentiles::of);
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

/// How a query reads the same of a snapshot, by its number.
type SnapshotRead<'a> = Box<dyn Fn(&Snapshot, usize) -> Result<()> + 'a>;

/// What is asked for, in words, through the schema, by which ids, and of a snapshot.
fn queries(subjects: &Subjects) -> [(&'static str, &'static str, Vec<Value>, SnapshotRead<'_>); 3] {
    let Subjects { txids, addresses, heights } = subjects;
    let number = |height: &Height| json!(height.to_u32());
    [
        (
            snapshot_reads::TRANSACTION,
            TRANSACTION,
            txids.iter().map(|txid| json!(txid)).collect(),
            Box::new(|snapshot, at| read_transaction(snapshot, txids[at])),
        ),
        (
            snapshot_reads::ADDRESS,
            ADDRESS,
            addresses.iter().map(|address| json!(address)).collect(),
            Box::new(|snapshot, at| read_address(snapshot, &addresses[at])),
        ),
        (
            snapshot_reads::BLOCK_PAGE,
            BLOCK_PAGE,
            heights.iter().map(number).collect(),
            Box::new(|snapshot, at| read_block_page(snapshot, heights[at])),
        ),
    ]
}

/// How long each index takes for the same, in turn, by `take`. The first round fills the caches.
fn measure(
    opened: &[Opened; 2],
    queries: usize,
    take: &dyn Fn(&Opened, usize) -> Result<Duration>,
) -> Result<[Percentiles; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for is_measured in [false, true] {
        for query in 0..queries {
            for (opened, times) in opened.iter().zip(&mut times) {
                let taken = take(opened, query)?;
                if is_measured {
                    times.push(taken);
                }
            }
        }
    }
    Ok(times.map(Percentiles::of))
}

fn print(what: &str, [live, frozen]: [Percentiles; 2]) {
    let ratio = frozen.p50.as_secs_f64() / live.p50.as_secs_f64();
    println!("  {what}: live {live}, frozen {frozen}, p50 {ratio:.2} of it");
}
