//! What an index answers of which nothing is on this machine yet, and how many ranges of the published blocks it requests for that.
//!
//! ```text
//! cargo bench --bench lazy -- --transactions 300000
//! ```
//!
//! makes a chain of the shape of mainnet and an index of it whose blocks are in a generation but for the last, publishes that to a
//! directory, starts `btcgraph serve --from … --lazy` in an empty data directory, and asks it for an address. Then it opens such
//! indexes within this process, of which nothing is downloaded but what is read, and counts. The baseline is the same page of the
//! index that has its files. The figures stand in `benches/README.md`.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_graphql::{Executor, Request, Variables};
use bitcoin::Network;
use btcgraph::api::{self, Features, Schema};
use btcgraph::chain::{Height, address_of};
use btcgraph::fleet::{FleetStore, JoinOptions, LazyJoin, PublishOptions, PublishedCut, publish};
use btcgraph::index::{Index, IndexOptions};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::sim::Rng;
use btcgraph::sync::read_frozen_blocks;
use btcgraph::view::{Head, Published, TxNum, View};
use clap::Parser;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

#[allow(dead_code, reason = "other benches time single queries")]
mod generation;

use generation::{IndexMaker, Opened, simulated};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long the server may take until it answers.
const PATIENCE: Duration = Duration::from_mins(2);
/// The explorer's page of an address, as it sends it.
const LEDGER: &str = include_str!("../playground/src/explorer/pages/ledger.generated.ts");
/// The page of a wallet: what an address has, and its newest transactions.
const STATEMENT: &str = "query ($address: String!, $first: Int!) { address(address: $address) {
    stats { txCount received spent utxoCount }
    balance { confirmed }
    transactions(first: $first) { nodes { received spent transaction { txid block { height time } } } pageInfo { endCursor } } } }";

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain.
    #[arg(long, default_value_t = 300_000)]
    transactions: u64,
    /// Indexes that are opened, each for the first page of an address.
    #[arg(long, default_value_t = 10)]
    starts: usize,
    /// Pages of further addresses in the last of them.
    #[arg(long, default_value_t = 200)]
    pages: usize,
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
    let directory = tempfile::tempdir_in(std::path::absolute(&arguments.directory)?)?;
    let (sim, node) = simulated(directory.path(), arguments.transactions)?;
    let path = directory.path().join("index").join("index.redb");
    let maker = IndexMaker { node, blocks_dir: directory.path().join("blocks"), path, freezes: true };
    maker.make()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let url = format!("file://{}", directory.path().join("store").display());
    let store = FleetStore::open(&url, [], true)?;
    let opened = maker.open(MempoolSnapshot::default())?;
    let frozen = opened.head.chain.frozen_files()?.context("there is a generation")?;
    let options = PublishOptions {
        network: Network::Regtest,
        directory: directory.path().join("publishing"),
        keep: Duration::from_secs(1),
        rate: None,
        stop: CancellationToken::new(),
    };
    let bytes = runtime.block_on(publish(&store, &PublishedCut::new(Network::Regtest, frozen)?, &options))?.bytes;
    let addresses = addresses(&opened, arguments.starts + arguments.pages)?;
    println!("{} MiB are published", bytes >> 20);

    let first = first_answer(&sim.url(), &url, &directory.path().join("served"), &addresses[0])?;
    println!("the server answers for an address {:.2} s after its start", first.as_secs_f64());

    let (starts, pages) = addresses.split_at(arguments.starts);
    for (name, query) in
        [("a statement of an address", STATEMENT), ("the explorer's page of an address", explorer_page())]
    {
        println!("{name}:");
        let (mut opening, mut cold, mut last) = (Vec::new(), Vec::new(), None);
        for address in starts {
            // the one before is closed, and its directory removed
            drop(last.take());
            let lazy = Lazy::begin(&runtime, &store, &maker)?;
            opening.push(lazy.requests());
            cold.push(lazy.page(&runtime, &opened, query, address)?);
            ensure!(lazy.page(&runtime, &opened, query, address)?.0 == 0, "a page that was read is on this machine");
            last = Some(lazy);
        }
        opening.sort_unstable();
        println!("  requests until an index is open: {}", spread(&opening));
        print("its first page", cold);
        let lazy = last.context("at least one index is opened")?;
        let all =
            || pages.iter().map(|address| lazy.page(&runtime, &opened, query, address)).collect::<Result<Vec<_>>>();
        print("pages of further addresses", all()?);
        print("the same pages again", all()?);
    }
    Ok(())
}

fn print(name: &str, pages: Vec<(u64, f64)>) {
    let (mut requests, mut times): (Vec<_>, Vec<_>) = pages.into_iter().unzip();
    requests.sort_unstable();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!("  {name}: requests {}, {median:.1} times as long as with the files", spread(&requests));
}

/// Median and maximum of sorted figures.
fn spread(figures: &[u64]) -> String {
    let at = |at: usize| figures.get(at).copied().unwrap_or_default();
    format!("{} (median), {} (most)", at(figures.len() / 2), at(figures.len().saturating_sub(1)))
}

/// An index of which nothing is downloaded but what is read.
struct Lazy {
    joined: LazyJoin,
    schema: Schema,
    _index: Index,
    _directory: tempfile::TempDir,
}

impl Lazy {
    fn begin(runtime: &Runtime, store: &FleetStore, maker: &IndexMaker) -> Result<Self> {
        let directory = tempfile::tempdir_in(maker.path.parent().context("the index is in a directory")?)?;
        let options = IndexOptions { path: directory.path().join("index.redb"), salt: None, ..maker.options() };
        let join = JoinOptions { index: options.clone(), on_chain: None, stop: CancellationToken::new() };
        let (joined, _) = runtime.block_on(LazyJoin::begin(store, &join))?;
        let index = Index::open_partial(&options, &joined.partial_files())?;
        read_frozen_blocks(&index, &maker.node, Some(maker.blocks_dir.clone()))?;
        let head = Head::after(None, Arc::new(index.snapshot()?), MempoolSnapshot::default());
        let published = Published::default();
        published.publish(Arc::new(head.context("there are blocks")?));
        let schema = api::schema(published, Live::default(), Limits::default(), Features::default());
        Ok(Self { joined, schema, _index: index, _directory: directory })
    }

    fn requests(&self) -> u64 {
        self.joined.requests()
    }

    /// The requests for the page of an address, and how many times as long it took as that of the index that has its files.
    fn page(&self, runtime: &Runtime, opened: &Opened, query: &str, address: &str) -> Result<(u64, f64)> {
        ask(runtime, &opened.schema, query, address)?;
        let baseline = ask(runtime, &opened.schema, query, address)?;
        let before = self.requests();
        let taken = ask(runtime, &self.schema, query, address)?;
        Ok((self.requests() - before, taken.as_secs_f64() / baseline.as_secs_f64()))
    }
}

fn explorer_page() -> &'static str {
    let page = LEDGER.split("export const AddressPageDocument").nth(1).and_then(|export| export.split('`').nth(1));
    page.unwrap_or_default()
}

fn variables_of(address: &str) -> Value {
    json!({ "address": address, "first": 25, "group": "DAY", "range": { "lastBlocks": 52_560 } })
}

/// What the page of an address takes.
fn ask(runtime: &Runtime, schema: &Schema, query: &str, address: &str) -> Result<Duration> {
    let request = Request::new(query).variables(Variables::from_json(variables_of(address)));
    let started = Instant::now();
    let answer = runtime.block_on(schema.execute(request));
    ensure!(answer.errors.is_empty(), "{:?}", answer.errors);
    Ok(started.elapsed())
}

/// Addresses that transactions of the generation pay.
fn addresses(opened: &Opened, count: usize) -> Result<Vec<String>> {
    let view = View::new(Arc::clone(&opened.head));
    let first = view.txnums(Height::GENESIS..Height::from(150))?.end.0;
    let end = view.txnums(Height::GENESIS..opened.head.tip.height)?.end.0;
    let (mut rng, mut addresses) = (Rng::new(1), Vec::new());
    while addresses.len() < count {
        let transaction = view.transaction_at(TxNum(u32::try_from(rng.between(first.into(), u64::from(end) - 1))?))?;
        let mut scripts = transaction.parts.output.iter().map(|output| output.script_pubkey.as_script());
        addresses.extend(scripts.find_map(|script| address_of(script, Network::Regtest)));
    }
    Ok(addresses)
}

/// Starts a server in an empty directory, and returns how long it takes until it answers for an address.
fn first_answer(node: &str, store: &str, directory: &Path, address: &str) -> Result<Duration> {
    std::fs::create_dir_all(directory)?;
    let port = directory.join("port");
    let started = Instant::now();
    let mut server = Command::new(env!("CARGO_BIN_EXE_btcgraph"))
        .args(["serve", "--lazy", "--from", store, "--network", "regtest", "--listen", "127.0.0.1:0"])
        .args(["--rpc-url", node, "--rpc-user", "user", "--rpc-password", "password"])
        .arg("--data-dir")
        .arg(directory)
        .arg("--port-file")
        .arg(&port)
        .stderr(Stdio::null())
        .spawn()?;
    let body = json!({ "query": explorer_page(), "variables": variables_of(address) }).to_string();
    let taken = loop {
        let answer = std::fs::read_to_string(&port).ok().and_then(|port| {
            let url = format!("http://127.0.0.1:{port}/graphql");
            let answer = ureq::post(url).header("content-type", "application/json").send(&body).ok()?;
            serde_json::from_str::<Value>(&answer.into_body().read_to_string().ok()?).ok()
        });
        if answer.is_some_and(|answer| answer["errors"].is_null() && answer["data"].is_object()) {
            break Ok(started.elapsed());
        }
        if started.elapsed() > PATIENCE {
            break Err(anyhow::anyhow!("the server does not answer"));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    server.kill()?;
    server.wait()?;
    taken
}
