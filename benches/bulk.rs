//! What a bulk import takes, beside the least that any index has to do: read, parse and hash every transaction once.
//!
//! ```text
//! cargo bench --bench bulk -- --transactions 5000000 --memory 1024
//! ```
//!
//! makes a chain of the shape of mainnet, always the same, and runs each step in a process of its own, so that the memory
//! is that of the step alone. The figures stand in `benches/README.md`.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, ensure};
use bitcoin::Network;
use bitcoin::hashes::Hash;
use btcgraph::chain::raw::RawBlock;
use btcgraph::index::{Generation, Import, ImportOptions, Salt};
use btcgraph::node::BlockFileReader;
use btcgraph::sim::blkfile::BlkWriter;
use btcgraph::sim::{LoadGenerator, LoadProfile, SimChain};
use clap::{Parser, ValueEnum};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Transactions of a block.
const BLOCK: u64 = 3_200;
/// Bytes of blocks that are imported at once.
const BATCH: usize = 16 << 20;
const SALT: Salt = Salt(*b"salt of the test");

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// Memory of the import, in MiB.
    #[arg(long, default_value_t = 1_024)]
    memory: usize,
    /// Where the chain and the index are written; kept afterwards.
    #[arg(long, default_value = "target/bench/bulk")]
    directory: PathBuf,
    /// The step that this process runs; all, if there is none.
    #[arg(long)]
    step: Option<Step>,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Step {
    Generate,
    Scan,
    Import,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.directory)?;
    let chain = arguments.directory.join(arguments.transactions.to_string());
    match arguments.step {
        Some(Step::Generate) => generate(&chain, arguments.transactions),
        Some(Step::Scan) => scan(&chain),
        Some(Step::Import) => import(&chain, &arguments),
        None => {
            if !chain.try_exists()? {
                run(&arguments, "generate")?;
            }
            // once to have the file in memory
            run(&arguments, "scan")?;
            let floor = run(&arguments, "scan")?;
            let import = run(&arguments, "import")?;
            println!("import / scan: {:.2}", import["seconds"] / floor["seconds"]);
            Ok(())
        }
    }
}

/// Runs a step in a process of its own, and returns the figures that it prints.
fn run(arguments: &Arguments, step: &str) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut process = Command::new(std::env::current_exe()?);
    process.args(["--step", step, "--directory"]).arg(&arguments.directory);
    process.args(["--transactions", &arguments.transactions.to_string(), "--memory", &arguments.memory.to_string()]);
    let output = process.output()?;
    let printed = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{step}: {}", String::from_utf8_lossy(&output.stderr));
    print!("{step}\n{printed}");
    let figures = printed.lines().filter_map(|line| {
        let (name, figure) = line.trim().split_once(": ")?;
        Some((name.to_owned(), figure.split(' ').next()?.parse().ok()?))
    });
    Ok(figures.collect())
}

/// Writes the chain into a directory of one block file, as a node has it.
fn generate(directory: &Path, transactions: u64) -> anyhow::Result<()> {
    let unfinished = directory.with_extension("new");
    std::fs::create_dir_all(&unfinished)?;
    let mut file = BlkWriter::new(File::create(unfinished.join("blk00000.dat"))?);
    let mut chain = SimChain::new(1).keeping(1);
    for genesis in chain.active_blocks() {
        file.write(genesis)?;
    }
    let blocks = u32::try_from(100 + transactions.div_ceil(BLOCK))?;
    let mut load = LoadGenerator::new(LoadProfile { transactions, blocks, seed: 1 });
    let (start, mut inputs, mut outputs) = (Instant::now(), 0, 0);
    while let Some(block) = load.next_block(&mut chain)? {
        file.write(&block)?;
        for transaction in block.txdata.iter().skip(1) {
            inputs += transaction.input.len();
            outputs += transaction.output.len();
        }
    }
    let bytes = file.written();
    file.finish()?;
    std::fs::rename(unfinished, directory)?;
    ensure!(load.transactions() == transactions, "the blocks hold only {} transactions", load.transactions());
    println!("  seconds: {:.2}", start.elapsed().as_secs_f64());
    println!("  blocks: {blocks}, {bytes} bytes, {inputs} inputs, {outputs} outputs");
    Ok(())
}

fn scan(directory: &Path) -> anyhow::Result<()> {
    let (reader, start) = (BlockFileReader::open(directory, Network::Regtest)?, Instant::now());
    let (mut bytes, mut transactions, mut mixed) = (0, 0, 0_u8);
    for record in reader.scan(0, 0)? {
        let block = reader.read(&record?)?;
        let raw = RawBlock::parse(&block)?;
        bytes += block.len();
        transactions += raw.transactions.len();
        for transaction in &raw.transactions {
            mixed ^= transaction.txid().to_byte_array()[0];
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("  seconds: {seconds:.2}");
    println!("  transactions: {transactions}, {bytes} bytes, {:.0} MB/s, hash {mixed}", bytes as f64 / 1e6 / seconds);
    resources(transactions)
}

fn import(directory: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let generation = arguments.directory.join("generation.redb");
    if generation.try_exists()? {
        std::fs::remove_file(&generation)?;
    }
    let (reader, start) = (BlockFileReader::open(directory, Network::Regtest)?, Instant::now());
    let mut import = Import::begin(ImportOptions {
        path: generation.clone(),
        directory: arguments.directory.clone(),
        network: Network::Regtest,
        salt: SALT,
        memory: arguments.memory << 20,
        threads: std::thread::available_parallelism()?.get(),
        transactions: arguments.transactions,
        range: ImportOptions::default_range(arguments.transactions),
        checkpoint_interval: ImportOptions::CHECKPOINT_INTERVAL,
    })?;
    // a thread that reads ahead
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let (sender, batches) = std::sync::mpsc::sync_channel(1);
        let reading = scope.spawn(move || -> anyhow::Result<()> {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for record in reader.scan(0, 0)? {
                let record = record?;
                let block = reader.read(&record)?;
                bytes += block.len();
                batch.push((record.hash, block));
                if bytes >= BATCH {
                    // the receiver is dropped after an error of the import
                    if sender.send(std::mem::take(&mut batch)).is_err() {
                        return Ok(());
                    }
                    bytes = 0;
                }
            }
            let _ = sender.send(batch);
            Ok(())
        });
        for batch in batches {
            import.push(&batch)?;
        }
        reading.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?
    })?;
    let read = start.elapsed().as_secs_f64();
    let Some(imported) = import.finish(&mut |_| ControlFlow::Continue(()))? else { bail!("the file has no blocks") };
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
    for (table, bytes) in opened.tables() {
        println!(
            "    {:<14} {:>10} rows, {:>5.2} bytes a transaction",
            table.name,
            table.rows,
            bytes as f64 / transactions
        );
        sum += bytes;
    }
    println!("  rows: {:.1} bytes a transaction", sum as f64 / transactions);
    resources(imported.range.transactions().try_into()?)
}

/// Prints processor time, memory and bytes written of this process, on Linux.
fn resources(transactions: usize) -> anyhow::Result<()> {
    let number = |path: &str, name: &str| -> Option<f64> {
        let text = std::fs::read_to_string(path).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    if let Some(peak) = number("/proc/self/status", "VmHWM:") {
        println!("  peak memory: {:.0} MiB", peak / 1_024.0);
    }
    if let Some(written) = number("/proc/self/io", "wchar:") {
        println!("  written: {:.1} bytes a transaction", written / transactions as f64);
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    // user and system time in hundredths of a second
    if let (Some(user), Some(system)) = (fields.get(11), fields.get(12)) {
        let ticks = user.parse::<f64>()? + system.parse::<f64>()?;
        println!("  processor: {:.2} us a transaction", ticks * 1e4 / transactions as f64);
    }
    Ok(())
}
