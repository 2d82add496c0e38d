//! A bulk import by one source.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use bitcoin::Network;
use btcgraph::chain::Height;
use btcgraph::index::{Generation, Import, ImportOptions, Salt};
use btcgraph::node::BlockSource;

use super::{Arguments, Source, resources, world};

pub(super) const SALT: Salt = Salt(*b"salt of the test");
/// Connections to the node, as by default.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// What an import makes.
pub(super) fn generation(arguments: &Arguments) -> PathBuf {
    arguments.directory.join("generation.redb")
}

pub(super) fn import(arguments: &Arguments) -> anyhow::Result<()> {
    let source = *arguments.sources.first().context("no source is given")?;
    let generation = generation(arguments);
    if generation.try_exists()? {
        std::fs::remove_file(&generation)?;
    }
    let node = world::connect(arguments.port)?;
    let memory = arguments.memory << 20;
    let start = Instant::now();
    let hashes = node.active_hashes(Height::from(u32::MAX))?;
    let directory = world::blocks_dir(&arguments.directory);
    let directory = (source == Source::Files).then_some(directory.as_path());
    let blocks = BlockSource::choose(&node, directory, hashes, &mut |_| {})?;
    ensure!(blocks.status().kind == source.kind(), "the source is {}", blocks.status());
    let transactions = blocks.transactions()?;
    let mut import = Import::begin(ImportOptions {
        path: generation.clone(),
        directory: arguments.directory.clone(),
        network: Network::Regtest,
        salt: SALT,
        memory,
        threads: std::thread::available_parallelism()?.get(),
        transactions,
        range: ImportOptions::default_range(transactions),
        checkpoint_interval: ImportOptions::CHECKPOINT_INTERVAL,
        raw_files: None,
    })?;
    let mut batches = blocks.blocks(0, CONNECTIONS, u64::try_from(memory / 8)?)?;
    while let Some(batch) = batches.next() {
        let batch = batch?;
        import.push(&batch)?;
        batches.recycle(batch);
    }
    let read = start.elapsed().as_secs_f64();
    let imported = import.finish(&mut |_| ControlFlow::Continue(()))?.context("there are no blocks")?;
    let seconds = start.elapsed().as_secs_f64();
    let transactions = f64::from(imported.range.transactions());
    println!("  seconds: {seconds:.2}");
    println!("  of which reading: {read:.2}");
    println!("  a second: {:.0} transactions", transactions / seconds);
    println!("  temporary: {:.1} bytes a transaction", imported.temporary_bytes as f64 / transactions);
    let file = std::fs::metadata(&generation)?.len();
    println!("  file: {:.1} bytes a transaction", file as f64 / transactions);
    let opened = Generation::open(&generation, Network::Regtest, SALT, 64 << 20)?;
    let mut sum = 0;
    for table in opened.tables() {
        let bytes = table.bytes.unwrap_or_default();
        println!(
            "    {:<14} {:>10} rows, {:>5.2} bytes a transaction",
            table.name,
            table.rows,
            bytes as f64 / transactions
        );
        sum += bytes;
    }
    println!("  rows: {:.1} bytes a transaction", sum as f64 / transactions);
    resources::print(imported.range.transactions().try_into()?)
}
