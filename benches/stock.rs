//! What this server does around the engine costs: the server, with its limits, its cache of documents and its threads for
//! executions, and the stock service of async-graphql-axum over the same schema and index, are asked the same in turn.
//!
//! `cargo bench --bench stock -- [SECONDS]` (10 for each of six turns a query; needs wrk); the figures stand in
//! `benches/README.md`.

mod indexed;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use async_graphql_axum::GraphQL;
use axum::Router;
use axum::routing::post_service;
use btcgraph::api::Schema;
use btcgraph::server::{self, Options};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As often the two take turns with each query.
const TURNS: u32 = 3;
const QUERIES: [(&str, &str); 5] = [
    ("the least, which is kept", "{ __typename }"),
    ("a height", "{ tip { height } }"),
    ("a block", "{ tip { height hash time txCount previousBlock { hash } } }"),
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
    let (_, _, schema) = indexed::index(directory.path())?;
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
    let reported = String::from_utf8(answer.stdout)?;
    ensure!(answer.status.success() && !reported.contains("worthless"), "{reported}");
    let figures = reported.lines().last().context("wrk printed nothing")?;
    let rate = figures.split_once(" requests a second").context("wrk printed something else")?.0;
    Ok(rate.trim().parse()?)
}
