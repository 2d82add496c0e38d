//! The check itself, and its report.

use std::ops::ControlFlow;

use btcgraph::chain::Height;
use btcgraph::index::{IndexError, Report, Snapshot, Tip, VerifyOptions, VerifyProgress, catch_damage, verify};
use btcgraph::node::{Node, StopFlag};
use btcgraph::settings::Settings;
use btcgraph::sync::{Comparison, NodeState, compare_with_node};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::super::failure::Failure;
use super::super::pieces;

/// What a check of an open file leaves out, and how to check it.
const CHECKSUMS_NOT_COMPARED: &str = "The page checksums of the file were not compared, because a running server has it open: \
     stop the server and run `btcgraph verify` to compare them";

/// The arguments of `verify`.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerifyArguments {
    /// Check the index against itself only
    #[arg(long)]
    pub(super) without_node: bool,
    /// Number of random blocks to compare with the node output by output
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    pub(super) blocks: usize,
}

/// How the check ended.
pub(super) enum Outcome {
    /// Stopped before the end, so there is no verdict.
    Stopped,
    /// With a verdict.
    Done(CheckResult),
}

/// What is checked.
pub(super) struct Subject<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Whether the checksums of all pages of its file were compared, and match.
    pub(super) checksums_match: bool,
}

/// What the check found.
#[derive(Serialize, Deserialize)]
pub(super) struct CheckResult {
    /// For the user to read.
    pub(super) report: String,
    /// The number of differences.
    pub(super) differences: usize,
    /// Whether the UTXO set was compared with the node, unless the check was to leave the node out.
    pub(super) is_complete: bool,
    /// Whether the checksums of all pages of the file were compared, and match.
    pub(super) checksums_match: bool,
}

/// The node, and its state before the check.
pub(super) struct Asked {
    node: Node,
    state: NodeState,
}

impl Asked {
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// Whether the node was at the requested tip.
    pub(super) fn is_at_tip(&self) -> bool {
        self.state.utxo_set.is_some()
    }
}

/// Requests from the node what the state at `tip` is compared with: before the check, since the node advances meanwhile.
pub(super) fn ask_node(settings: &Settings, stop: &StopFlag, tip: Option<Tip>) -> Result<Asked, Failure> {
    let node = pieces::connect(settings, stop)?;
    let state = NodeState::at(&node, tip)?;
    Ok(Asked { node, state })
}

/// Checks the rows of `subject`, sorting in `memory` bytes, and compares them with the node if that was asked. Ends when `stop`
/// is raised; `watch` is called with the progress.
pub(super) fn check(
    subject: &Subject<'_>,
    settings: &Settings,
    memory: usize,
    arguments: &VerifyArguments,
    asked: Option<Asked>,
    stop: &StopFlag,
    watch: &mut dyn FnMut(VerifyProgress),
) -> Result<Outcome, Failure> {
    let directory = settings.index.temporary_dir.clone();
    let checked = verify(subject.snapshot, &VerifyOptions { memory, directory }, &mut |progress| {
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
    let comparison = match asked {
        None => None,
        Some(Asked { node, state }) => {
            match catch_damage(|| compare_with_node(&node, subject.snapshot, &report, state, arguments.blocks)) {
                Err(_) if stop.is_raised() => return Ok(Outcome::Stopped),
                comparison => Some(comparison?),
            }
        }
    };
    Ok(Outcome::Done(judge(&report, comparison.as_ref(), subject.checksums_match)))
}

fn judge(report: &Report, comparison: Option<&Comparison>, checksums_match: bool) -> CheckResult {
    let mut lines = describe(report, comparison, checksums_match);
    let differences: Vec<_> =
        report.differences.iter().chain(comparison.iter().flat_map(|comparison| &comparison.differences)).collect();
    let is_complete = comparison.is_none_or(|comparison| comparison.node.utxo_set.is_some());
    lines.extend(differences.iter().map(|difference| format!("DIFFERS  {difference}")));
    if differences.is_empty() {
        lines.push(format!("result             {}", verdict(report, comparison, checksums_match)));
    }
    CheckResult { report: lines.join("\n") + "\n", differences: differences.len(), is_complete, checksums_match }
}

/// What is proven where nothing differs, and what was not checked.
fn verdict(report: &Report, comparison: Option<&Comparison>, checksums_match: bool) -> String {
    let rows = match comparison {
        None => "the index agrees with itself; the node was not asked".into(),
        Some(comparison) if comparison.node.utxo_set.is_none() => incomplete(report, comparison),
        Some(_) if checksums_match => "everything agrees".into(),
        Some(_) => "the rows agree with each other and with the node".into(),
    };
    if checksums_match { rows } else { format!("{rows}. {CHECKSUMS_NOT_COMPARED}") }
}

/// The verdict on an index and a node that were not at the same block.
fn incomplete(report: &Report, comparison: &Comparison) -> String {
    let index = report.tip.map_or_else(|| "the index is empty".into(), |tip| format!("the index is at {}", tip.height));
    format!(
        "INCOMPLETE: nothing differs in what was compared, but the UTXO set was not compared: the node is at height {}, and \
         {index}. Let both reach the same block (`btcgraph import`, or a running `btcgraph serve`), and verify again",
        comparison.node.height
    )
}

fn describe(report: &Report, comparison: Option<&Comparison>, checksums_match: bool) -> Vec<String> {
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
    let checksums = if checksums_match { "all match" } else { "not compared" };
    lines.push(format!("page checksums     {checksums}"));
    match comparison {
        None => lines.push("node               not asked".into()),
        Some(comparison) => {
            if let Some(agreed) = comparison.agreed.filter(|agreed| report.tip != Some(*agreed)) {
                lines.push(format!("node               its chain differs above height {}", agreed.height));
            }
            match &comparison.node.utxo_set {
                Some(info) => lines.push(format!(
                    "node               gettxoutsetinfo at height {}: txouts {}, total_amount {}, hash_serialized_3 {}",
                    info.height,
                    info.outputs,
                    info.total_amount,
                    info.hash_serialized_3.map_or_else(|| "none".into(), |hash| hash.to_string())
                )),
                None => lines.push("node               it was at another block; UTXO sets not compared".into()),
            }
            let pruned = match comparison.kept_from {
                Height::GENESIS => String::new(),
                kept_from => format!(" of those from height {kept_from} on, as it has pruned the others"),
            };
            let compared = comparison.blocks.len();
            lines.push(format!("node               {compared} blocks compared output by output{pruned}"));
        }
    }
    lines
}
