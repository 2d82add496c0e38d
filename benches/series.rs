//! What histories take: of the chain, day by day over a year and as one range; and of a ledger, its balance over a year day by
//! day, and its newest transactions, of an address with very many transactions, of one with about 30, and of sets.
//!
//! ```text
//! cargo bench --bench series -- --transactions 1000000
//! ```
//!
//! makes a chain of the shape of mainnet whose last 52,560 blocks are a year, and an index of it, and asks it in this process:
//! first as it is, live, and then with all but its last blocks frozen. The baseline is `{ __typename }`. The figures stand in
//! `benches/README.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use async_graphql::{Executor, Request, Variables};
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Block, Network};
use btcgraph::api::{self, Features, Schema};
use btcgraph::chain::{Height, address_of};
use btcgraph::index::{Index, IndexOptions, ObservedLimits, RawStorage};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::sim::{LoadGenerator, LoadProfile, Rng, SimChain};
use btcgraph::view::{Head, IndexError, Published, TxNum, View};
use clap::Parser;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

mod percentiles;

use percentiles::Percentiles;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The blocks of a year.
const YEAR: u32 = 52_560;
/// Seconds between two blocks.
const SPACING: u32 = 600;
/// Blocks that stay live.
const LIVE: u32 = 30;
/// Blocks of a commit.
const COMMIT: usize = 400;

const TYPENAME: &str = "{ __typename }";
const CHAIN_DAYS: &str =
    "{ chain { series(range: { lastBlocks: 52560 }, group: DAY) { startAt stats { txCount fees hashrate }
    utxoSet { unspentCount } } } }";
const CHAIN_CHARTS: &str =
    "{ chain { series(range: { lastBlocks: 52560 }, group: DAY) { startAt endAt blockCount difficulty utxoSet { height
    unspentCount totalValue } stats { txCount outputCount fees size hashrate averageFeeRatePercentiles totalsByType {
    type createdCount } } } } }";
const CHAIN_RANGE: &str = "{ chain { range { txCount outputCount fees size hashrate averageFeeRatePercentiles } } }";
const DAYS: &str =
    "query($id: [String!]!) { ledgerSet(of: { addresses: $id }) { balanceHistory(range: { lastBlocks: 52560 },
    group: DAY, includeEmpty: true) { startAt balanceAfter turnover { received spent } } } }";
const ACTIVE_DAYS: &str = "query($id: [String!]!) { ledgerSet(of: { addresses: $id }) { balanceHistory(
    range: { lastBlocks: 52560 }) { startAt balanceAfter turnover { received spent txCount } } } }";
const PAGE: &str = "query($id: [String!]!) { ledgerSet(of: { addresses: $id }) { balance { confirmed } transactions {
    totalCount nodes { net balanceAfter transaction { txid fee confirmations block { height time } } } } } }";
const PARTS: &str = "query($id: [String!]!) { ledgerSet(of: { addresses: $id }) { transactions { nodes { net
    inputs { totalCount nodes { index } } outputs { totalCount nodes { vout value } } } } } }";

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// Queries of each kind.
    #[arg(long, default_value_t = 500)]
    queries: usize,
    /// Where the index is written; it is removed at the end.
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
    let mut index = Index::open(&IndexOptions {
        path: directory.path().join("index.redb"),
        network: Network::Regtest,
        salt: None,
        cache_bytes: 512 << 20,
        freezes: true,
        stale_blocks_kept: 0,
        observed: ObservedLimits::default(),
    })?;
    fill(&mut index, arguments.transactions)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let owners = Owners::pick(&index)?;
    println!("the busiest address has {} transactions, {} have about 30", owners.most, owners.quiet.len());
    owners.measure(&runtime, &index, "live", arguments.queries)?;
    freeze(&mut index, directory.path())?;
    owners.measure(&runtime, &index, "frozen", arguments.queries)
}

fn fill(index: &mut Index, transactions: u64) -> Result<()> {
    let mut chain = SimChain::new(1).with_clock(1_600_000_000, SPACING).keeping(10);
    let mut load = LoadGenerator::new(LoadProfile { transactions, blocks: YEAR + 200, seed: 1 });
    let mut batch = vec![chain.block(&chain.tip()).cloned().context("the genesis block is in memory")?];
    loop {
        let next = load.next_block(&mut chain)?;
        let is_last = next.is_none();
        batch.extend(next);
        if is_last || batch.len() >= COMMIT {
            connect(index, &batch)?;
            batch.clear();
        }
        if is_last {
            return Ok(());
        }
    }
}

fn connect(index: &mut Index, blocks: &[Arc<Block>]) -> Result<()> {
    let parser = index.parser();
    let parse = |block: &Arc<Block>| parser.parse(block.block_hash(), serialize(block.as_ref()));
    let blocks: Vec<_> = blocks.iter().map(parse).collect::<Result<_, _>>()?;
    if blocks.is_empty() {
        return Ok(());
    }
    let mut update = index.update()?;
    update.connect(&blocks)?;
    Ok(update.commit()?)
}

fn freeze(index: &mut Index, directory: &Path) -> Result<()> {
    index.set_raw_storage(RawStorage::Index)?;
    let snapshot = index.snapshot()?;
    let tip = snapshot.tip().context("there are blocks")?.height.to_u32();
    let heights = Height::GENESIS..=Height::from(tip - LIVE);
    snapshot.store_raw_blocks(heights.clone(), &AtomicBool::new(false))?;
    let path = directory.join("index.freezing");
    snapshot.pack(heights, &path)?;
    drop(snapshot);
    index.adopt(&path)?;
    Ok(())
}

/// Addresses to ask for.
struct Owners {
    busiest: String,
    most: u32,
    quiet: Vec<String>,
    all: Vec<String>,
}

impl Owners {
    fn pick(index: &Index) -> Result<Self> {
        let view = View::new(head(index)?);
        let count = view.txnums(Height::GENESIS..view.tip().height.next())?.end;
        let (mut rng, mut found) = (Rng::new(1), BTreeMap::new());
        for _ in 0..20_000 {
            let transaction = view.transaction_at(TxNum(u32::try_from(rng.below(count.0.into()))?))?;
            for output in &transaction.parts.output {
                let Some(address) = address_of(&output.script_pubkey, Network::Regtest) else { continue };
                let ledger = view.ledger([sha256::Hash::hash(output.script_pubkey.as_bytes())]);
                let counted = view.count_movements(&ledger, &(TxNum(0)..count), |_| Ok::<_, IndexError>(false))?;
                found.insert(address, counted.map_or(0, |counted| counted.transactions));
            }
        }
        let (busiest, most) = found.iter().max_by_key(|(_, count)| **count).context("no output has an address")?;
        let quiet = found.iter().filter(|(_, count)| (28..=32).contains(*count)).map(|(address, _)| address.clone());
        let (busiest, most, quiet) = (busiest.clone(), *most, quiet.collect());
        Ok(Self { busiest, most, quiet, all: found.into_keys().collect() })
    }

    fn measure(&self, runtime: &Runtime, index: &Index, form: &str, queries: usize) -> Result<()> {
        let published = Published::default();
        published.publish(head(index)?);
        let schema = api::schema(published, Live::default(), Limits::default(), Features::default());
        let busy = vec![json!([self.busiest])];
        let quiet: Vec<Value> = self.quiet.iter().map(|address| json!([address])).collect();
        let sets = |size: usize| self.all.chunks_exact(size).map(|set| json!(set)).collect::<Vec<_>>();
        ensure!(!quiet.is_empty(), "no address has about 30 transactions");
        let baseline = measure(runtime, &schema, TYPENAME, &busy, queries)?;
        println!("{form}, p50 and p99: {{ __typename }} {baseline}");
        for (what, query, ids) in [
            ("365 days of the chain: transactions, fees, hashrate, unspent outputs", CHAIN_DAYS, &busy),
            ("365 days of the chain: all that the page of charts shows", CHAIN_CHARTS, &busy),
            ("the whole chain as one range", CHAIN_RANGE, &busy),
            ("365 days of the busiest address", DAYS, &busy),
            ("365 days of a quiet address", DAYS, &quiet),
            ("365 days of 100 addresses", DAYS, &sets(100)),
            ("the active days of the busiest address", ACTIVE_DAYS, &busy),
            ("the active days of a quiet address", ACTIVE_DAYS, &quiet),
            ("the newest 25 of the busiest address", PAGE, &busy),
            ("the newest 25 of a quiet address", PAGE, &quiet),
            ("own inputs and outputs of the newest 25 of the busiest", PARTS, &busy),
            ("own inputs and outputs of the newest 25 of a quiet address", PARTS, &quiet),
        ] {
            let figures = measure(runtime, &schema, query, ids, queries)?;
            println!("  {what}: {figures}, {:.0} times", figures.p50.as_secs_f64() / baseline.p50.as_secs_f64());
        }
        Ok(())
    }
}

fn head(index: &Index) -> Result<Arc<Head>> {
    let head = Head::after(None, Arc::new(index.snapshot()?), MempoolSnapshot::default());
    Ok(Arc::new(head.context("there are blocks")?))
}

fn measure(runtime: &Runtime, schema: &Schema, query: &str, ids: &[Value], count: usize) -> Result<Percentiles> {
    let mut times = Vec::with_capacity(count);
    // the first round fills the caches
    for round in 0..2 {
        for id in ids.iter().cycle().take(count) {
            let variables = if query.contains("$id") { json!({ "id": id }) } else { json!({}) };
            let request = Request::new(query).variables(Variables::from_json(variables));
            let started = Instant::now();
            let answer = runtime.block_on(schema.execute(request));
            let taken = started.elapsed();
            ensure!(answer.errors.is_empty(), "{query}: {:?}", answer.errors);
            if round > 0 {
                times.push(taken);
            }
        }
    }
    Ok(Percentiles::of(times))
}
