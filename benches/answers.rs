//! What the requests of wallets and explorers take, the pages of the built-in explorer among them.
//!
//! ```text
//! cargo bench --bench answers -- --transactions 1000000
//! ```
//!
//! makes a chain of the shape of mainnet, an index of it whose blocks are in a generation but for the last, and a mempool, and
//! asks in this process. The baseline is `{ __typename }`. The figures stand in `benches/README.md`.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, ensure};
use bitcoin::Network;
use btcgraph::chain::{Height, address_of};
use btcgraph::mempool::{Mempool, MempoolLimits, MempoolSnapshot, NodeMempool};
use btcgraph::sim::Rng;
use btcgraph::view::{TxNum, View};
use clap::Parser;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

mod generation;
mod percentiles;
mod transaction_maker;

use generation::{IndexMaker, LIVE, Opened, simulated, time};
use percentiles::Percentiles;
use transaction_maker::Maker;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The descriptor of an account that no transaction pays.
const ACCOUNT: &str = "wpkh(tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp/<0;1>/*)";

const PLAIN_NESTED: &str =
    "{ blocks { nodes { hash transactions { nodes { txid inputs { nodes { prevout { value address } } }
    outputs { nodes { value address } } } } } } }";
const BLOCK_PAGE: &str =
    "query($height: Int!) { block(height: $height) { hash txCount transactions(first: 25) { nodes { txid fee
    inputs { nodes { prevout { value address } } } outputs { nodes { value address spendStatus } } } } } }";
const SUMMARY: &str =
    "query($height: Int!) { block(height: $height) { summary { txids txFees vsizes totalOutputValues feeRates } } }";
const RANGE: &str = "{ chain { range { txCount outputCount fees size hashrate averageFeeRatePercentiles } } }";
const SEARCH: &str = "query($text: String!) { search(text: $text) { nodes { __typename } } }";
const DESCRIPTOR: &str =
    "query($text: String!) { descriptor(text: $text, gapLimit: 1000) { usedCount balance { confirmed } } }";

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// Requests of each kind.
    #[arg(long, default_value_t = 300)]
    requests: usize,
    /// Unconfirmed transactions.
    #[arg(long, default_value_t = 20_000)]
    unconfirmed: usize,
    /// Only kinds of requests whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Where the chain and the index are written; they are removed at the end.
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
    let path = directory.path().join("index").join("index.redb");
    let maker = IndexMaker { node, blocks_dir: directory.path().join("blocks"), path, freezes: true };
    maker.make()?;
    maker.assign_miners()?;
    let opened = maker.open(mempool(arguments.unconfirmed)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let subjects = Subjects::pick(&opened, arguments.requests)?;
    let nothing = vec![json!({}); arguments.requests];
    let baseline = measured(&runtime, &opened, "{ __typename }", &nothing)?;
    println!(
        "p50 and p99 of {} requests, and p50 as a multiple of that of {{ __typename }}, {baseline}",
        arguments.requests
    );
    let requests = subjects.requests(&nothing).into_iter();
    for (name, query, variables) in requests.filter(|(name, ..)| name.contains(&arguments.only)) {
        // the first round fills the caches
        measured(&runtime, &opened, &query, &variables)?;
        let before = processor_seconds();
        let figures = measured(&runtime, &opened, &query, &variables)?;
        let each =
            before.zip(processor_seconds()).map(|(before, after)| (after - before) * 1e3 / variables.len() as f64);
        let each = each.map_or("not known".to_owned(), |each| format!("{each:.2} ms"));
        println!("  {name}: {figures}, {each}, {:.0}", figures.p50.as_secs_f64() / baseline.p50.as_secs_f64());
    }
    Ok(())
}

/// A mempool of so many transactions, as if the node had reported it.
fn mempool(transactions: usize) -> Result<MempoolSnapshot> {
    let (mut mempool, mut maker) = (Mempool::new(MempoolLimits::default()), Maker::new());
    for _ in 0..transactions {
        mempool.add(maker.arrival())?;
    }
    let relayed =
        NodeMempool { min_fee_rate: 1.0, min_relay_fee_rate: 1.0, incremental_fee_rate: 1.0, ..NodeMempool::default() };
    mempool.set_node(NodeMempool { max_memory: 300_000_000, memory_usage: 60_000_000, loaded: true, ..relayed });
    Ok(mempool.snapshot())
}

/// User and system time of this process so far, on Linux: hundredths of a second.
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

fn measured(runtime: &Runtime, opened: &Opened, query: &str, variables: &[Value]) -> Result<Percentiles> {
    let times = variables.iter().map(|variables| time(runtime, &opened.schema, query, variables));
    Ok(Percentiles::of(times.collect::<Result<_>>()?))
}

/// What the requests ask for.
struct Subjects {
    txids: Vec<String>,
    addresses: Vec<String>,
    heights: Vec<u64>,
}

impl Subjects {
    fn pick(opened: &Opened, count: usize) -> Result<Self> {
        let view = View::new(Arc::clone(&opened.head));
        let tip = u64::from(opened.head.tip.height.to_u32());
        let first = view.txnums(Height::GENESIS..Height::from(150))?.end.0;
        let end = view.txnums(Height::GENESIS..opened.head.tip.height)?.end.0;
        let mut rng = Rng::new(1);
        let (mut txids, mut addresses, mut heights) = (Vec::new(), Vec::new(), Vec::new());
        while addresses.len() < count {
            let txnum = TxNum(u32::try_from(rng.between(first.into(), u64::from(end) - 1))?);
            let transaction = view.transaction_at(txnum)?;
            let mut scripts = transaction.parts.output.iter().map(|output| output.script_pubkey.as_script());
            let Some(address) = scripts.find_map(|script| address_of(script, Network::Regtest)) else {
                continue;
            };
            txids.push(transaction.txid.to_string());
            addresses.push(address);
            heights.push(rng.between(150, tip - u64::from(LIVE) - 1));
        }
        ensure!(!heights.is_empty(), "at least one request of each kind is measured");
        Ok(Self { txids, addresses, heights })
    }

    /// The requests by name, each with its variables.
    fn requests(&self, nothing: &[Value]) -> Vec<(&'static str, String, Vec<Value>)> {
        let of = |name: &str, values: &[Value]| values.iter().map(|value| json!({ name: value })).collect::<Vec<_>>();
        let texts = |texts: &[String]| texts.iter().map(|text| json!(text)).collect::<Vec<_>>();
        let heights = self.heights.iter().map(|height| json!(height)).collect::<Vec<_>>();
        let few = &nothing[..nothing.len().min(20)];
        let pages = explorer_pages();
        let page = |name: &str| pages.get(name).copied().unwrap_or_default().to_owned();
        vec![
            ("25 transactions of a block: prevouts, outputs, spend status", BLOCK_PAGE.to_owned(), of("height", &heights)),
            ("blocks { transactions { inputs { prevout } outputs } } with default pages", PLAIN_NESTED.to_owned(), few.to_vec()),
            ("summary of a block of 3,200 transactions", SUMMARY.to_owned(), of("height", &heights)),
            ("range over the whole chain", RANGE.to_owned(), nothing.to_vec()),
            ("search: a txid", SEARCH.to_owned(), of("text", &texts(&self.txids))),
            ("search: an address", SEARCH.to_owned(), of("text", &texts(&self.addresses))),
            ("search: a height", SEARCH.to_owned(), self.heights.iter().map(|height| json!({ "text": height.to_string() })).collect()),
            ("descriptor: 2 x 1,000 scripts", DESCRIPTOR.to_owned(), vec![json!({ "text": ACCOUNT }); few.len()]),
            ("explorer: home", page("Home"), nothing.to_vec()),
            ("explorer: block, 100 transactions", page("BlockPage"), self.heights.iter().map(|height| json!({ "height": height, "first": 100 })).collect()),
            (
                "explorer: transaction",
                page("TransactionPage"),
                self.txids.iter().map(|txid| json!({ "txid": txid, "feeRate": 5.0 })).collect(),
            ),
            (
                "explorer: address",
                page("AddressPage"),
                self.addresses
                    .iter()
                    .map(|address| json!({ "address": address, "first": 25, "group": "DAY", "range": { "lastBlocks": 52_560 } }))
                    .collect(),
            ),
            ("explorer: charts, 144 blocks", page("ChartsPage"), vec![json!({ "group": "BLOCK", "range": { "lastBlocks": 144 } }); few.len()]),
            // as many points as a year has days
            ("explorer: charts, 365 points", page("ChartsPage"), vec![json!({ "group": "BLOCK", "range": { "lastBlocks": 365 } }); few.len()]),
            ("explorer: pool", page("MinerPage"), vec![json!({ "slug": "f2pool", "recent": { "lastBlocks": 2016 }, "first": 50 }); few.len()]),
            (
                "explorer: mempool",
                page("MempoolPage"),
                // without samples, which only a server that runs takes
                vec![json!({ "from": "2030-01-01T00:00:00Z", "to": "2030-01-01T02:00:00Z", "step": 60, "order": "FEE_RATE", "first": 25 }); few.len()],
            ),
        ]
    }
}

/// The queries of the pages of the built-in explorer by name, as it sends them; without that of the status, which asks the node.
fn explorer_pages() -> BTreeMap<&'static str, &'static str> {
    const PAGES: [&str; 7] = [
        include_str!("../playground/src/explorer/pages/home.generated.ts"),
        include_str!("../playground/src/explorer/pages/block.generated.ts"),
        include_str!("../playground/src/explorer/pages/transaction.generated.ts"),
        include_str!("../playground/src/explorer/pages/ledger.generated.ts"),
        include_str!("../playground/src/explorer/pages/charts.generated.ts"),
        include_str!("../playground/src/explorer/pages/miner.generated.ts"),
        include_str!("../playground/src/explorer/pages/mempool.generated.ts"),
    ];
    // export const HomeDocument = document<…>(`query Home …`);
    let exports = PAGES.iter().flat_map(|page| page.split("export const ").skip(1));
    exports.filter_map(|export| Some((export.split_once("Document")?.0, export.split('`').nth(1)?))).collect()
}
