//! What merging generations takes, beside packing the same blocks at once, and what look-ups take over many generations, over
//! those that merging leaves of them, and over one.
//!
//! ```text
//! cargo bench --bench merging -- --transactions 1000000 --generations 60
//! ```
//!
//! makes a chain of the shape of mainnet in the block files of a simulated node, an index of it block by block, and of that
//! two others: with one generation, and with many of equal numbers of blocks, which are then merged until none are due.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bitcoin::Txid;
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexError, MergeOutcome, ScriptKey, Snapshot};
use btcgraph::sim::Rng;
use btcgraph::view::TxNum;
use clap::Parser;

#[allow(dead_code, reason = "it opens indexes with a schema, too")]
mod generation;
mod percentiles;

use generation::{IndexMaker, LIVE, simulated};
use percentiles::Percentiles;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// Generations before merging.
    #[arg(long, default_value_t = 60)]
    generations: u32,
    /// Look-ups of each kind.
    #[arg(long, default_value_t = 20_000)]
    look_ups: usize,
    /// Where the chain and the indexes are written; they are removed at the end.
    #[arg(long, default_value = "target/bench")]
    directory: PathBuf,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    ensure!(arguments.generations > 1, "--generations {} leaves nothing to merge", arguments.generations);
    std::fs::create_dir_all(&arguments.directory)?;
    let directory = tempfile::tempdir_in(&arguments.directory)?;
    let (_sim, node) = simulated(directory.path(), arguments.transactions)?;
    let maker = |name: &str, freezes| IndexMaker {
        node: node.clone(),
        blocks_dir: directory.path().join("blocks"),
        path: directory.path().join(name).join("index.redb"),
        freezes,
    };
    let live = maker("live", false);
    live.make()?;
    let live = Index::open(&live.options())?;
    let chain = &live.snapshot()?;
    let last = chain.tip().context("there are blocks")?.height.to_u32() - LIVE;
    let subjects = Subjects::pick(chain, arguments.look_ups)?;

    let frozen = |name: &str, count: u32| -> Result<Index> {
        let maker = maker(name, true);
        std::fs::create_dir_all(maker.path.parent().context("it has one")?)?;
        let mut index = Index::open(&maker.options())?;
        let mut first = 0;
        for piece in 1..=count {
            let end = u32::try_from(u64::from(last) * u64::from(piece) / u64::from(count))?;
            let path = maker.path.with_extension("piece");
            chain.pack(Height::from(first)..=Height::from(end), &path)?;
            index.adopt(&path)?;
            first = end + 1;
        }
        Ok(index)
    };
    let started = Instant::now();
    let one = frozen("one", 1)?;
    let packing = started.elapsed();
    println!("packing all blocks at once: {packing:.1?}");
    let mut many = frozen("many", arguments.generations)?;
    let baseline = subjects.measure("one generation", &one.snapshot()?, None)?;
    subjects.measure(&format!("{} generations", arguments.generations), &many.snapshot()?, Some(&baseline))?;

    let (mut merges, mut transactions, started) = (0, 0, Instant::now());
    while let Some(due) = many.due_merge()? {
        due.build(&Arc::default(), &mut |_, _| {})?;
        ensure!(matches!(many.replace_merged(&due)?, MergeOutcome::InForce), "nothing else changes the index");
        (merges, transactions) = (merges + 1, transactions + u64::from(due.range().transactions()));
    }
    let merging = started.elapsed();
    println!(
        "{merges} merges of {transactions} transactions in all: {merging:.1?}, {:.0} a second, {:.2} of packing each once",
        transactions as f64 / merging.as_secs_f64(),
        merging.as_secs_f64() / transactions as f64 * f64::from(subjects.transactions) / packing.as_secs_f64()
    );
    let left = many.snapshot()?.frozen_files()?.context("blocks are frozen")?.generations.len();
    subjects.measure(&format!("the {left} that are left"), &many.snapshot()?, Some(&baseline))?;
    Ok(())
}

/// What is looked up, all of it frozen.
struct Subjects {
    txids: Vec<Txid>,
    scripts: Vec<ScriptKey>,
    /// All frozen transactions.
    transactions: u32,
}

impl Subjects {
    fn pick(chain: &Snapshot, count: usize) -> Result<Self> {
        let tip = chain.tip().context("there are blocks")?.height;
        let transactions = u32::try_from(chain.transactions_in(Height::GENESIS..=Height::from(tip.to_u32() - LIVE))?)?;
        let (mut rng, mut txids, mut scripts) = (Rng::new(1), Vec::new(), Vec::new());
        while txids.len() < count {
            let txnum = TxNum(u32::try_from(rng.between(1, u64::from(transactions) - 1))?);
            let stored = chain.transaction(txnum)?.context("it is below the tip")?;
            let transaction: bitcoin::Transaction = bitcoin::consensus::deserialize(stored.parts.raw())?;
            let script = &transaction.output.first().context("it has outputs")?.script_pubkey;
            scripts.push(chain.script_key(script.as_bytes()));
            txids.push(stored.txid);
        }
        Ok(Self { txids, scripts, transactions })
    }

    /// Prints what the look-ups take, as ratios of a baseline if there is one, and returns their p50 in seconds.
    fn measure(&self, what: &str, snapshot: &Snapshot, baseline: Option<&[f64; 2]>) -> Result<[f64; 2]> {
        let mut measured = [0.0; 2];
        for round in 0..2 {
            let by_txid = times(&self.txids, |txid| snapshot.positions(txid).map(black_box).map(drop))?;
            let totals =
                times(&self.scripts, |script| snapshot.totals(*script, TxNum(u32::MAX)).map(black_box).map(drop))?;
            // the first round fills the caches
            if round == 1 {
                measured = [by_txid.p50.as_secs_f64(), totals.p50.as_secs_f64()];
                let ratios = baseline.unwrap_or(&measured);
                println!(
                    "{what}: a txid {by_txid} ({:.2} of one generation), the totals of a script {totals} ({:.2})",
                    measured[0] / ratios[0],
                    measured[1] / ratios[1]
                );
            }
        }
        Ok(measured)
    }
}

fn times<T>(items: &[T], look_up: impl Fn(&T) -> Result<(), IndexError>) -> Result<Percentiles> {
    let time = |item: &T| {
        let started = Instant::now();
        look_up(item)?;
        Ok(started.elapsed())
    };
    Ok(Percentiles::of(items.iter().map(time).collect::<Result<_, IndexError>>()?))
}
