//! The check itself, and its report.

use std::ops::ControlFlow;
use std::path::PathBuf;

use btcgraph::index::{IndexError, Report, Snapshot, VerifyOptions, VerifyProgress, verify};
use btcgraph::node::StopFlag;
use btcgraph::settings::Settings;
use btcgraph::sync::{Comparison, compare_with_node};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::super::failure::Failure;
use super::super::pieces;

/// What `verify` is asked to do.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerifyArguments {
    /// Check the index against itself only
    #[arg(long)]
    pub(super) without_node: bool,
    /// How many blocks, drawn at random, to compare with the node output by output
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    pub(super) blocks: usize,
    /// Where to sort what does not fit into memory; for all of mainnet some 300 GB [default: the index's directory]
    #[arg(long, value_name = "PATH")]
    pub(super) temporary_dir: Option<PathBuf>,
}

/// How the check ended.
pub(super) enum Outcome {
    /// It was told to stop, so there is no verdict.
    Stopped,
    /// With this report, which tells of this many differences.
    Done { report: String, differences: usize },
}

/// Checks the state that `snapshot` holds, sorting in `memory` bytes. Ends when `stop` is raised; `watch` is told how far
/// it is.
pub(super) fn check(
    snapshot: &Snapshot,
    settings: &Settings,
    memory: usize,
    arguments: &VerifyArguments,
    stop: &StopFlag,
    watch: &mut dyn FnMut(VerifyProgress),
) -> Result<Outcome, Failure> {
    let directory = arguments.temporary_dir.clone().unwrap_or_else(|| settings.network_dir());
    let checked = verify(snapshot, &VerifyOptions { memory, directory }, &mut |progress| {
        if stop.is_raised() {
            return ControlFlow::Break(());
        }
        watch(progress);
        ControlFlow::Continue(())
    });
    let report = match checked {
        Err(IndexError::Interrupted) => return Ok(Outcome::Stopped),
        report => report?,
    };
    let comparison = if arguments.without_node {
        None
    } else {
        match compare(settings, stop, snapshot, &report, arguments.blocks) {
            Err(_) if stop.is_raised() => return Ok(Outcome::Stopped),
            comparison => Some(comparison?),
        }
    };
    let text = describe(&report, comparison.as_ref());
    let differences = report.differences.len() + comparison.map_or(0, |comparison| comparison.differences.len());
    Ok(Outcome::Done { report: text, differences })
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
            if let Some(agreed) = comparison.agreed.filter(|agreed| report.tip != Some(*agreed)) {
                lines.push(format!("node               it left this chain above height {}", agreed.height));
            }
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
