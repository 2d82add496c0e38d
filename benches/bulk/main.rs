//! What a bulk import takes, by each source of blocks, beside the least that any index has to do: read, parse and hash every
//! transaction once.
//!
//! ```text
//! cargo bench --bench bulk -- --transactions 5000000 --memory 1024
//! ```
//!
//! makes a chain of the shape of mainnet, always the same, serves it as a simulated node, and runs each step in a process of
//! its own, so that processor time and memory are those of the step alone. The scan on one thread and imports run twice,
//! because the first of each has the machine provide memory: for the files, or for itself. Behind the import by files a step
//! reads the generation that it has made. The figures stand in `benches/README.md`.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

mod floors;
mod import;
#[path = "../percentiles/mod.rs"]
mod percentiles;
mod reading;
mod resources;
#[path = "../snapshot_reads/mod.rs"]
mod snapshot_reads;
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;
use btcgraph::node::BlockSourceKind;
use clap::{Parser, ValueEnum};

use world::NodeProcess;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// The sources of blocks to import from.
    #[arg(long, value_delimiter = ',', default_value = "files,rest,rpc")]
    sources: Vec<Source>,
    /// Memory of the import, in MiB.
    #[arg(long, default_value_t = 1_024)]
    memory: usize,
    /// Where the chain and the index are written. The index is kept afterwards.
    #[arg(long, default_value = "target/bench/bulk")]
    directory: PathBuf,
    /// The step that this process runs; all, if there is none.
    #[arg(long, hide = true)]
    step: Option<Step>,
    /// The port of the node, for an import or reads.
    #[arg(long, hide = true, default_value_t = 0)]
    port: u16,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Source {
    Files,
    Rest,
    Rpc,
}

impl Source {
    fn kind(self) -> BlockSourceKind {
        match self {
            Self::Files => BlockSourceKind::BlockFiles,
            Self::Rest => BlockSourceKind::Rest,
            Self::Rpc => BlockSourceKind::Rpc,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Step {
    /// Makes the chain and serves it, by REST and RPC.
    Node,
    /// The same by RPC alone.
    NodeWithoutRest,
    /// Reads, parses and hashes on one thread.
    Scan,
    /// Reads, parses and hashes on all cores.
    ScanAll,
    /// Imports by the one source that is given.
    Import,
    /// Reads what was imported.
    Read,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.directory)?;
    match arguments.step {
        Some(Step::Node) => world::serve(&arguments.directory, arguments.transactions, true),
        Some(Step::NodeWithoutRest) => world::serve(&arguments.directory, arguments.transactions, false),
        Some(Step::Scan) => floors::scan(&arguments.directory, 1),
        Some(Step::ScanAll) => floors::scan(&arguments.directory, std::thread::available_parallelism()?.get()),
        Some(Step::Import) => import::import(&arguments),
        Some(Step::Read) => reading::read(&arguments),
        None => all_steps(&arguments),
    }
}

fn all_steps(arguments: &Arguments) -> anyhow::Result<()> {
    let (without_rest, with_rest): (Vec<Source>, Vec<Source>) =
        arguments.sources.iter().partition(|source| **source == Source::Rpc);
    let mut ratios = Vec::new();
    for (step, sources) in [("node", with_rest), ("node-without-rest", without_rest)] {
        if sources.is_empty() {
            continue;
        }
        let node = NodeProcess::start(arguments, step)?;
        run(arguments, "scan", &[])?;
        let one = run(arguments, "scan", &[])?["seconds"];
        let all = run(arguments, "scan-all", &[])?["seconds"];
        for source in sources {
            let name = source.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            let port = node.port().to_string();
            let options = ["--sources", &name, "--port", &port];
            let first = run(arguments, "import", &options)?["seconds"];
            let again = run(arguments, "import", &options)?["seconds"];
            ratios.push(format!(
                "import by {name}: first {:.2} of scan and {:.2} of scan-all, again {:.2} and {:.2}",
                first / one,
                first / all,
                again / one,
                again / all
            ));
            if source == Source::Files {
                run(arguments, "read", &["--port", &port])?;
            }
        }
    }
    for ratio in ratios {
        println!("{ratio}");
    }
    Ok(())
}

/// Runs a step in a process of its own, and returns the figures that it prints.
fn run(arguments: &Arguments, step: &str, more: &[&str]) -> anyhow::Result<BTreeMap<String, f64>> {
    let output = command(arguments, step)?.args(more).output()?;
    let printed = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{step}: {}", String::from_utf8_lossy(&output.stderr));
    print!("{step} {}\n{printed}", more.join(" "));
    let figures = printed.lines().filter_map(|line| {
        let (name, figure) = line.trim().split_once(": ")?;
        Some((name.to_owned(), figure.split(' ').next()?.parse().ok()?))
    });
    Ok(figures.collect())
}

/// This program with one step.
fn command(arguments: &Arguments, step: &str) -> anyhow::Result<Command> {
    let mut process = Command::new(std::env::current_exe()?);
    process.args(["--step", step, "--directory"]).arg(&arguments.directory);
    process.args(["--transactions", &arguments.transactions.to_string(), "--memory", &arguments.memory.to_string()]);
    Ok(process)
}
