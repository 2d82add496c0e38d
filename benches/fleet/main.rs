//! An index on many machines, with Garage as its store: what a publication and a join take, and what becomes of them when the
//! store, a disk or one of their processes fails.
//!
//! ```text
//!   PublishedChain: SimNode ◄─── btcgraph import, publish ───► Garage, 1 or 3 nodes ───► btcgraph import --from
//!                      ▲                                      (FlakyProxy in between)             │
//!                      └──────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Every step ends as it must, or the program fails: a message and a next try that goes on, and at the end files equal to those
//! of the publisher and a clean `verify`. With a longer chain it then measures a join, replicas beside one, and blocks that arrive
//! while the index is published. The tables that it prints stand in `docs/operations.md` and `benches/README.md`. `make fleet`
//! runs it.

mod faults;
#[path = "../live/figures.rs"]
mod figures;
mod flaky_proxy;
mod following;
mod garage;
mod joining;
mod kills;
mod outages;
#[path = "../live/payer.rs"]
mod payer;
mod published_chain;
mod replica;
mod report;
mod scaling;
#[path = "../live/simulated.rs"]
mod simulated;
#[path = "../live/subscribers.rs"]
mod subscribers;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Parser;

use garage::Garage;
use published_chain::PublishedChain;
use report::{FleetReport, mib};

/// Most of the simulated node's time goes into small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    /// The program Garage; `scripts/garage.sh` prints its path.
    #[arg(long)]
    garage: PathBuf,
    /// Transactions of the chain whose publishers and joiners fail; 0 leaves that out.
    #[arg(long, default_value_t = 300_000)]
    transactions: usize,
    /// Transactions of the chain that is measured; 0 leaves that out.
    #[arg(long, default_value_t = 5_000_000)]
    long: usize,
    /// Percent of a core that each replica has when three are compared with one.
    #[arg(long, default_value_t = 50)]
    share: u32,
    /// Measure only blocks at subscribers beside a publication.
    #[arg(long)]
    following: bool,
    /// Bytes a second of that publication, as `publish --rate` takes them; without it the default of `publish`.
    #[arg(long)]
    rate: Option<String>,
    /// How often a publisher is killed, and how often a joiner.
    #[arg(long, default_value_t = 30)]
    kills: usize,
    /// Where everything is written. It is emptied first.
    #[arg(long, default_value = "target/bench/fleet")]
    directory: PathBuf,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let directory = &arguments.directory;
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    std::fs::create_dir_all(directory)?;
    let directory = directory.canonicalize()?;
    let mut report = FleetReport::default();
    if arguments.transactions > 0 {
        fail(&arguments, &directory.join("short"), &mut report)?;
    }
    if arguments.long > 0 {
        measure(&arguments, &directory.join("long"), &mut report)?;
    }
    println!("\n{report}");
    Ok(())
}

/// Makes a chain with its index.
fn make(directory: &Path, transactions: usize, payments: usize, report: &mut FleetReport) -> Result<PublishedChain> {
    let began = Instant::now();
    let chain = PublishedChain::make(&directory.join("chain"), transactions, payments)?;
    let (bytes, _) = PublishedChain::frozen(&chain.publisher())?;
    let made = format!("{transactions} transactions, {} of frozen blocks", mib(bytes));
    report.add("make the chain and its index", began.elapsed(), made);
    Ok(chain)
}

/// All that fails and goes on.
fn fail(arguments: &Arguments, directory: &Path, report: &mut FleetReport) -> Result<()> {
    let chain = make(directory, arguments.transactions, 0, report)?;
    let garage = outages::one_node(&chain, &arguments.garage, &directory.join("one"), report)?;
    kills::run(&chain, &garage, arguments.kills, report)?;
    faults::run(&chain, &garage, report)?;
    drop(garage);
    outages::three_nodes(&chain, &arguments.garage, &directory.join("three"), report)
}

/// What a join takes, and publishing while blocks arrive, and how replicas add up.
fn measure(arguments: &Arguments, directory: &Path, report: &mut FleetReport) -> Result<()> {
    let chain = make(directory, arguments.long, following::PAYMENTS, report)?;
    let garage = Garage::start(&arguments.garage, &directory.join("garage"), 1)?;
    if !arguments.following {
        let joined = joining::run(&chain, &garage, report)?;
        let heights = u32::try_from(100 + arguments.long / 3_000)?;
        scaling::run(&chain, &garage, &joined, (heights, arguments.share), report)?;
    }
    following::run(&chain, &garage, arguments.rate.as_deref(), report)
}
