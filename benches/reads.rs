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

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_graphql::{Executor, Request, Variables};
use bitcoin::{Network, Script};
use btcgraph::api::{self, Features, Schema};
use btcgraph::chain::{Height, address_of};
use btcgraph::index::{Import, ImportOptions, Index, IndexOptions, ObservedLimits, ParsedBlock, Salt};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::node::{Auth, BlockSource, Node, NodeOptions};
use btcgraph::sim::blkfile::{BlockFiles, BlockFilesLayout};
use btcgraph::sim::{LoadGenerator, LoadProfile, Rng, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::read_frozen_blocks;
use btcgraph::view::{Head, Published, TxNum, View};
use clap::Parser;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SALT: Salt = Salt(*b"salt of the test");
/// Transactions of a block.
const BLOCK: u64 = 3_200;
/// The cache of each index.
const CACHE: usize = 512 << 20;
/// Blocks that are connected on top of the generation.
const LIVE: u32 = 30;
/// Blocks of a commit.
const COMMIT: usize = 8;

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
    let sim = simulated(directory.path(), arguments.transactions)?;
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth))?;
    let indexes = [("live", false), ("frozen", true)].map(|(name, freezes)| {
        let path = directory.path().join(name).join("index.redb");
        Bench { node: node.clone(), blocks_dir: directory.path().join("blocks"), path, freezes }
    });
    for index in &indexes {
        index.make()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let opened = [indexes[0].open()?, indexes[1].open()?];
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
    for id in subjects.heights.iter().take(20) {
        for (index, times) in indexes.iter().zip(&mut cold) {
            if std::fs::write("/proc/sys/vm/drop_caches", "3").is_err() {
                println!("  pages that are not in memory are measured by root on Linux alone");
                return Ok(());
            }
            let opened = index.open()?;
            times.push(time(&runtime, &opened.schema, BLOCK_PAGE, id)?);
        }
    }
    let [live, frozen] = cold.map(Figures::of);
    println!("  25 transactions of a block, nothing in memory: live {live}, frozen {frozen}");
    Ok(())
}

/// A node with a chain in block files.
fn simulated(directory: &Path, transactions: u64) -> Result<SimNode> {
    let mut files = BlockFiles::create(&directory.join("blocks"), BlockFilesLayout::default())?;
    let mut chain = SimChain::new(1).keeping(10);
    let blocks = u32::try_from(100 + transactions.div_ceil(BLOCK))?;
    let mut load = LoadGenerator::new(LoadProfile { transactions, blocks, seed: 1 });
    let mut next = chain.tip();
    loop {
        files.write(chain.block(&next).context("the newest block is in memory")?, &chain.spent_coins(&next)?)?;
        let Some(block) = load.next_block(&mut chain)? else { break };
        next = block.block_hash();
    }
    files.flush()?;
    let options = SimNodeOptions { files: Some(files), ..SimNodeOptions::default() };
    Ok(SimNode::start(Arc::new(Mutex::new(World::new(chain))), options)?)
}

/// An index to make and to open.
struct Bench {
    node: Node,
    blocks_dir: PathBuf,
    path: PathBuf,
    freezes: bool,
}

struct Opened {
    schema: Schema,
    head: Arc<Head>,
    _index: Index,
}

impl Bench {
    fn options(&self) -> IndexOptions {
        IndexOptions {
            path: self.path.clone(),
            network: Network::Regtest,
            salt: Some(SALT),
            cache_bytes: CACHE,
            freezes: self.freezes,
            stale_blocks_kept: 0,
            observed: ObservedLimits::default(),
        }
    }

    /// Builds the index, and prints how long the last blocks take.
    fn make(&self) -> Result<()> {
        let parent = self.path.parent().context("it has one")?;
        std::fs::create_dir_all(parent)?;
        let hashes = self.node.active_hashes(Height::from(u32::MAX))?;
        let below = hashes.len().saturating_sub(usize::try_from(LIVE)?);
        let mut index = Index::open(&self.options())?;
        let blocks = read_frozen_blocks(&index, &self.node, Some(self.blocks_dir.clone()))?;
        if self.freezes {
            let source = BlockSource::choose(&self.node, Some(&self.blocks_dir), &hashes[..below], &mut |_| {})?;
            let transactions = source.transactions()?;
            let path = self.path.with_extension("building");
            let mut import = Import::begin(ImportOptions {
                path: path.clone(),
                directory: parent.to_path_buf(),
                network: Network::Regtest,
                salt: SALT,
                memory: 1 << 30,
                threads: 2,
                transactions,
                range: ImportOptions::default_range(transactions),
                checkpoint_interval: ImportOptions::CHECKPOINT_INTERVAL,
                raw_files: None,
            })?;
            for batch in source.blocks(0, NonZeroUsize::MIN, 64 << 20)? {
                import.push(&batch?)?;
            }
            import.finish(&mut |_| ControlFlow::Continue(()))?;
            index.adopt(&path)?;
            blocks.locate(Height::GENESIS, &hashes[..below], &mut |_| {})?;
        } else {
            self.connect(&mut index, &hashes[..below])?;
        }
        let start = Instant::now();
        let connected = self.connect(&mut index, &hashes[below..])?;
        let name = if self.freezes { "on a generation" } else { "without generations" };
        println!("catching up {name}: {:.0} transactions a second", connected as f64 / start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Connects these blocks, and returns the number of their transactions.
    fn connect(&self, index: &mut Index, hashes: &[bitcoin::BlockHash]) -> Result<usize> {
        let source = BlockSource::choose(&self.node, Some(&self.blocks_dir), hashes, &mut |_| {})?;
        let (parser, mut transactions) = (index.parser(), 0);
        for batch in source.blocks(0, NonZeroUsize::MIN, 64 << 20)? {
            let batch = batch?.into_iter().map(|(hash, bytes)| parser.parse(hash, bytes));
            let batch = batch.collect::<Result<Vec<_>, _>>()?;
            for blocks in batch.chunks(COMMIT) {
                let mut update = index.update()?;
                update.connect(blocks)?;
                update.commit()?;
                transactions += blocks.iter().map(ParsedBlock::transaction_count).sum::<usize>();
            }
        }
        Ok(transactions)
    }

    fn open(&self) -> Result<Opened> {
        let index = Index::open(&self.options())?;
        let blocks = read_frozen_blocks(&index, &self.node, Some(self.blocks_dir.clone()))?;
        let hashes = self.node.active_hashes(Height::from(u32::MAX))?;
        blocks.locate(Height::GENESIS, &hashes, &mut |_| {})?;
        let head = Head::after(None, Arc::new(index.snapshot()?), MempoolSnapshot::default());
        let head = Arc::new(head.context("there are blocks")?);
        let published = Published::default();
        published.publish(Arc::clone(&head));
        let schema = api::schema(published, Live::default(), Limits::default(), Features::default());
        Ok(Opened { schema, head, _index: index })
    }
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

/// Times of one kind of query.
struct Figures {
    p50: Duration,
    p99: Duration,
}

impl Figures {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
        Self { p50: at(50), p99: at(99) }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1?} and {:.1?}", self.p50, self.p99)
    }
}

fn measure(runtime: &Runtime, indexes: &[Opened; 2], query: &str, ids: &[Value]) -> Result<[Figures; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for id in ids {
        for (opened, times) in indexes.iter().zip(&mut times) {
            times.push(time(runtime, &opened.schema, query, id)?);
        }
    }
    Ok(times.map(Figures::of))
}

fn time(runtime: &Runtime, schema: &Schema, query: &str, id: &Value) -> Result<Duration> {
    let request = Request::new(query).variables(Variables::from_json(json!({ "id": id })));
    let started = Instant::now();
    let answer = runtime.block_on(schema.execute(request));
    let taken = started.elapsed();
    ensure!(answer.errors.is_empty(), "{query}: {:?}", answer.errors);
    Ok(taken)
}
