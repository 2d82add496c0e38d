//! `btcgraph verify`: checks the index against itself and against the node.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use btcgraph::index::{Index, IndexError, IndexOptions, Report, Snapshot, VerifyOptions, VerifyProgress, verify};
use btcgraph::node::StopFlag;
use btcgraph::settings::Settings;
use btcgraph::sync::{Comparison, compare_with_node};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::failure::{Exit, Failure, OrExit};
use super::pieces;

/// What `verify` is asked to do.
#[derive(Args, Clone, Debug)]
pub(super) struct VerifyArguments {
    /// Check the index against itself only
    #[arg(long)]
    without_node: bool,
    /// How many blocks, drawn at random, to compare with the node output by output
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    blocks: usize,
    /// Where to sort what does not fit into memory; for all of mainnet some 300 GB [default: the index's directory]
    #[arg(long, value_name = "PATH")]
    temporary_dir: Option<PathBuf>,
}

/// Runs until it is done or `stop` is cancelled.
pub(super) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    arguments: VerifyArguments,
) -> Result<(), Failure> {
    let settings = settings.clone();
    let flag = pieces::stop_flag(&stop);
    pieces::blocking(move || check(&settings, &flag, &arguments)).await
}

fn check(settings: &Settings, stop: &StopFlag, arguments: &VerifyArguments) -> Result<(), Failure> {
    // everything is read once and in order, so that the cache needs little of the memory and sorting the rest
    let small_cache = pieces::buffer_bytes(settings);
    let index = Index::open_existing(&IndexOptions { cache_bytes: small_cache, ..pieces::index_options(settings) })?;
    let snapshot = index.snapshot()?;
    let options = VerifyOptions {
        memory: small_cache.saturating_mul(3),
        directory: arguments.temporary_dir.clone().unwrap_or_else(|| settings.network_dir()),
    };
    let mut watch = Watch::new(stop);
    let report = match verify(&snapshot, &options, &mut |progress| watch.step(progress)) {
        Err(IndexError::Interrupted) => return stopped(),
        report => report?,
    };
    watch.finish();
    let comparison = if arguments.without_node {
        None
    } else {
        match compare(settings, stop, &snapshot, &report, arguments.blocks) {
            Err(_) if stop.is_raised() => return stopped(),
            comparison => Some(comparison?),
        }
    };
    let text = describe(&report, comparison.as_ref());
    std::io::stdout().lock().write_all(text.as_bytes()).or_exit(Exit::Failed, "cannot print the report")?;
    let differences = report.differences.len() + comparison.map_or(0, |comparison| comparison.differences.len());
    match differences {
        0 => Ok(()),
        _ => Err(Failure::new(Exit::Failed, "the index is not what it must be; see the list above")),
    }
}

/// A signal ends the check without a verdict.
#[expect(clippy::unnecessary_wraps, reason = "what a stopped command returns")]
fn stopped() -> Result<(), Failure> {
    info!("stopped before the check was done: whether the index is as it must be was not found out");
    Ok(())
}

fn compare(
    settings: &Settings,
    stop: &StopFlag,
    snapshot: &Snapshot,
    report: &Report,
    blocks: usize,
) -> Result<Comparison, Failure> {
    let node = pieces::connect(settings, stop)?;
    Ok(compare_with_node(&node, snapshot, report, blocks)?)
}

fn describe(report: &Report, comparison: Option<&Comparison>) -> String {
    let mut lines = Vec::new();
    match report.tip {
        Some(tip) => lines.push(format!("tip                {} at height {}", tip.hash, tip.height)),
        None => lines.push("tip                none: the index is empty".into()),
    }
    let utxos = &report.utxo_set;
    lines.push(format!("txouts             {}", utxos.outputs));
    lines.push(format!("total_amount       {}", utxos.total_amount));
    lines.push(format!("hash_serialized_3  {}", utxos.hash_serialized_3));
    lines.push(String::new());
    lines.push("table                      rows  sha256 of all rows".into());
    for table in &report.tables {
        lines.push(format!("{:<18} {:>12}  {}", table.name, table.rows, table.digest));
    }
    lines.push(String::new());
    match comparison {
        None => lines.push("node               not asked".into()),
        Some(comparison) => {
            match &comparison.utxo_set {
                Some(info) => lines.push(format!(
                    "node               gettxoutsetinfo at height {}: txouts {}, total_amount {}, hash_serialized_3 {}",
                    info.height,
                    info.outputs,
                    info.total_amount,
                    info.hash_serialized_3.map_or_else(|| "none".into(), |hash| hash.to_string())
                )),
                None => lines.push("node               its tip is another block; UTXO sets not compared".into()),
            }
            lines.push(format!("node               {} blocks compared output by output", comparison.blocks.len()));
        }
    }
    let differences = report.differences.iter().chain(comparison.iter().flat_map(|comparison| &comparison.differences));
    let before = lines.len();
    lines.extend(differences.map(|difference| format!("DIFFERS  {difference}")));
    if lines.len() == before {
        lines.push("result             everything agrees".into());
    }
    lines.join("\n") + "\n"
}

/// Shows a bar for each phase on a terminal, and a line for each in the log elsewhere.
struct Watch<'a> {
    stop: &'a StopFlag,
    phase: &'static str,
    bar: Option<ProgressBar>,
}

impl<'a> Watch<'a> {
    fn new(stop: &'a StopFlag) -> Self {
        Self { stop, phase: "", bar: None }
    }

    fn step(&mut self, progress: VerifyProgress) -> ControlFlow<()> {
        if self.stop.is_raised() {
            self.finish();
            return ControlFlow::Break(());
        }
        if self.phase != progress.phase {
            self.finish();
            self.phase = progress.phase;
            if std::io::stderr().is_terminal() {
                let bar = ProgressBar::new(progress.total);
                // the template is a constant that is known to be good; a plain bar is no reason to stop
                if let Ok(style) =
                    ProgressStyle::with_template("{msg:22} {bar:32} {human_pos} of {human_len}  {per_sec}  {eta} left")
                {
                    bar.set_style(style);
                }
                bar.set_message(progress.phase);
                self.bar = Some(bar);
            } else {
                info!("{}", progress.phase);
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_position(progress.done);
        }
        ControlFlow::Continue(())
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
