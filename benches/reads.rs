//! What reads of frozen blocks take, beside the same reads of an index without generations, and what catching up on top of a
//! generation takes.
//!
//! ```text
//! cargo bench --bench reads -- --transactions 1000000
//! ```
//!
//! makes a chain of the shape of mainnet in the block files of a simulated node and two indexes of it: one block by block, and
//! one whose blocks are in a generation but for the last, which are connected on top of it. Both then answer the same
//! queries in turn, in this process, and read the same from their snapshots without the schema. As root it also asks for pages whose files are not in memory. The figures stand in
//! `benches/README.md`.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bitcoin::{Address, Network, Script, Txid};
use btcgraph::chain::{Height, address_of};
use btcgraph::index::{Occurrence, Snapshot, StoredTransaction, WantedTransaction};
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::sim::Rng;
use btcgraph::view::{TxNum, View};
use clap::Parser;
use serde_json::{Value, json};

mod generation;

use generation::{Figures, IndexMaker, LIVE, Opened, simulated, time};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Pages that are asked for with nothing in memory.
const COLD_PAGES: usize = 20;
/// Transactions of a page.
const PAGE_LENGTH: usize = 25;
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
    for (what, query, read, ids) in subjects.queries() {
        let through_graphql = |opened: &Opened, id: &Value| time(&runtime, &opened.schema, query, &json!({ "id": id }));
        let at_snapshot = |opened: &Opened, id: &Value| {
            let start = Instant::now();
            read(&opened.head.chain, id)?;
            Ok(start.elapsed())
        };
        print(what, measure(&opened, ids, &through_graphql)?);
        print(&format!("{what}, at `Snapshot`"), measure(&opened, ids, &at_snapshot)?);
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

    fn queries(&self) -> [Query<'_>; 3] {
        [
            (
                "a transaction with its prevouts and spenders",
                TRANSACTION,
                read_transaction as SnapshotRead,
                &self.transactions,
            ),
            ("an address: balance and the newest 25", ADDRESS, read_address, &self.addresses),
            ("25 transactions of a block, with inputs and outputs", BLOCK_PAGE, read_block_page, &self.heights),
        ]
    }
}

/// What is asked for, in words, through the schema and at the snapshot, and by which ids.
type Query<'a> = (&'static str, &'static str, SnapshotRead, &'a [Value]);

/// Reads what one of the queries asks for.
type SnapshotRead = fn(&Snapshot, &Value) -> Result<()>;

fn read_transaction(snapshot: &Snapshot, txid: &Value) -> Result<()> {
    let txid: Txid = txid.as_str().context("a txid is a string")?.parse()?;
    let transaction = snapshot.newest(&txid)?.context("the chain has it")?;
    read_inputs_and_outputs(snapshot, &[transaction])
}

fn read_address(snapshot: &Snapshot, address: &Value) -> Result<()> {
    let address: Address<_> = address.as_str().context("an address is a string")?.parse()?;
    let script = snapshot.script_key(address.assume_checked().script_pubkey().as_bytes());
    snapshot.totals(script, TxNum(u32::MAX))?.context("it received something")?;
    let newest = snapshot.history(script, TxNum(0)..TxNum(u32::MAX))?.rev().take(PAGE_LENGTH);
    let newest: Vec<_> = newest.map(|row| Ok(WantedTransaction::At(row?.0))).collect::<Result<_>>()?;
    let read = snapshot.read_several(&newest, usize::MAX, drop)?;
    ensure!(read.iter().all(Option::is_some), "the chain has all of them");
    Ok(())
}

fn read_block_page(snapshot: &Snapshot, height: &Value) -> Result<()> {
    let height = Height::from(u32::try_from(height.as_u64().context("a height is a number")?)?);
    let block = snapshot.block(height)?.context("the chain has it")?;
    let first = block.first_txnum(height)?;
    let count = block.transactions.min(u32::try_from(PAGE_LENGTH)?);
    read_inputs_and_outputs(snapshot, &snapshot.newest_of_block(first, Occurrence { height, index: 0 }, count)?)
}

/// Reads what these transactions spend, and the txids of those that spend their outputs.
fn read_inputs_and_outputs(snapshot: &Snapshot, transactions: &[StoredTransaction]) -> Result<()> {
    let inputs = transactions.iter().filter(|transaction| transaction.fee.is_some());
    let prevouts = inputs.flat_map(|transaction| &transaction.parts.input).map(|input| input.previous_output.txid);
    let prevouts: Vec<_> = prevouts.map(WantedTransaction::Newest).collect();
    let read = snapshot.read_several(&prevouts, usize::MAX, drop)?;
    ensure!(read.iter().all(Option::is_some), "the chain has all of them");
    for transaction in transactions {
        for vout in 0..u32::try_from(transaction.parts.output.len())? {
            if let Some(spender) = snapshot.spender(transaction.txnum, vout)? {
                snapshot.txid(spender.txnum)?.context("the chain has it")?;
            }
        }
    }
    Ok(())
}

/// How long each index takes for the same, in turn, by `take`. The first round fills the caches.
fn measure(
    opened: &[Opened; 2],
    ids: &[Value],
    take: &dyn Fn(&Opened, &Value) -> Result<Duration>,
) -> Result<[Figures; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for is_measured in [false, true] {
        for id in ids {
            for (opened, times) in opened.iter().zip(&mut times) {
                let taken = take(opened, id)?;
                if is_measured {
                    times.push(taken);
                }
            }
        }
    }
    Ok(times.map(Figures::of))
}

fn print(what: &str, [live, frozen]: [Figures; 2]) {
    let ratio = frozen.p50.as_secs_f64() / live.p50.as_secs_f64();
    println!("  {what}: live {live}, frozen {frozen}, p50 {ratio:.2} of it");
}
