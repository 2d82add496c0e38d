//! What this server does around the engine costs: the server, with its limits, its cache of documents and its threads for
//! executions, and the stock service of async-graphql-axum over the same schema and index, are asked the same in turn.
//!
//! `cargo bench --bench stock -- [SECONDS]` (10 for each of six turns a query; needs wrk); the figures stand in
//! `benches/README.md`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use async_graphql_axum::GraphQL;
use axum::Router;
use axum::routing::post_service;
use bitcoin::Network;
use bitcoin::consensus::serialize;
use btcgraph::api::{self, Features, Limits, Schema};
use btcgraph::index::{Index, IndexOptions, ObservedLimits};
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::server::{self, Options};
use btcgraph::sim::{Load, LoadProfile, SimChain};
use btcgraph::view::{Head, Published};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As often the two take turns with each query.
const TURNS: u32 = 3;
const QUERIES: [(&str, &str); 4] = [
    ("the least", "{ __typename }"),
    ("a block", "{ tip { height hash time txCount previous { hash } } }"),
    ("25 transactions", "{ tip { transactions(first: 25) { nodes { txid fee vsize feeRate } } } }"),
    (
        "25 transactions with all that they pay",
        "{ tip { transactions(first: 25) { nodes { txid fee outputs { nodes { value address spendStatus } } } } } }",
    ),
];

fn main() -> Result<()> {
    // cargo gives a flag of its own
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let seconds = arguments.next().map_or(Ok(10), |seconds| seconds.parse())?;
    let directory = tempfile::tempdir()?;
    let schema = schema(directory.path())?;
    let (ours, _ours) = serve(schema.clone(), |listener, schema| async move {
        server::serve(listener, schema, Options::default(), CancellationToken::new()).await.map_err(Into::into)
    })?;
    let (stock, _stock) = serve(schema, |listener, schema| async move {
        let routes = Router::new().route("/graphql", post_service(GraphQL::new(schema)));
        Ok(axum::serve(listener, routes).await?)
    })?;
    println!("requests a second over 16 connections, {TURNS} turns of {seconds} s each in turn");
    for (name, query) in QUERIES {
        let file = directory.path().join("query.graphql");
        fs::write(&file, query)?;
        // what is read the first time is read from the file
        for address in [ours, stock] {
            ask(address, &file, 1)?;
        }
        let mut rates = [0.0; 2];
        for _ in 0..TURNS {
            for (rate, address) in rates.iter_mut().zip([ours, stock]) {
                *rate += ask(address, &file, seconds)? / f64::from(TURNS);
            }
        }
        let [ours, stock] = rates;
        println!("  {name}: stock {stock:.0}, this server {ours:.0}, {:.2} of it", ours / stock);
    }
    Ok(())
}

/// The schema over an index of a chain of the shape of mainnet's.
fn schema(directory: &Path) -> Result<Schema> {
    let mut chain = SimChain::new(1);
    let mut load = Load::new(LoadProfile { transactions: 20_000, blocks: 120, seed: 1 });
    while load.next_block(&mut chain)?.is_some() {}
    let options = IndexOptions {
        path: directory.join("index.redb"),
        network: Network::Regtest,
        salt: None,
        cache_bytes: 256 << 20,
        stale_blocks_kept: 0,
        observed: ObservedLimits::default(),
    };
    let mut index = Index::open(&options)?;
    let parser = index.parser();
    let blocks: Vec<_> = chain
        .active_blocks()
        .map(|block| parser.parse(block.block_hash(), serialize(block.as_ref())))
        .collect::<Result<_, _>>()?;
    let mut update = index.update()?;
    update.connect(&blocks)?;
    update.commit()?;
    let head =
        Head::behind(None, Arc::new(index.snapshot()?), MempoolSnapshot::default()).context("there are blocks")?;
    let published = Published::default();
    published.publish(Arc::new(head));
    Ok(api::schema(published, Live::default(), Limits::default(), Features::default()))
}

/// Serves connections on two threads.
fn serve<F: Future<Output = Result<()>> + Send + 'static>(
    schema: Schema,
    service: impl FnOnce(TcpListener, Schema) -> F,
) -> Result<(SocketAddr, Runtime)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    runtime.spawn(service(listener, schema));
    Ok((address, runtime))
}

/// How many requests a second were answered.
fn ask(address: SocketAddr, query: &Path, seconds: u32) -> Result<f64> {
    let (length, url) = (format!("-d{seconds}s"), format!("http://{address}/graphql"));
    let mut wrk = Command::new("wrk");
    wrk.args(["-t1", "-c16", &length, "-s", "benches/queries.lua", &url, "--"]).arg(query);
    let answer = wrk.output().context("wrk is not here: apt install wrk, brew install wrk")?;
    let told = String::from_utf8(answer.stdout)?;
    ensure!(answer.status.success() && !told.contains("worthless"), "{told}");
    let figures = told.lines().last().context("wrk told nothing")?;
    let rate = figures.split_once(" requests a second").context("wrk told something else")?.0;
    Ok(rate.trim().parse()?)
}
