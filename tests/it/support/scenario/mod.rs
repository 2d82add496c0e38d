//! Scenarios: a script of what happens to a chain, with questions in between, played on a real node with btcgraph
//! behind it. All of it, with the whole answers, is compared with a snapshot.
//!
//! ```text
//!   tests/scenarios/NAME.scn ──parse.rs──► steps ──chain.rs──► bitcoind ◄── btcgraph serve
//!                                                                                  │ answers
//!   tests/scenarios/snapshots/NAME.snap ◄──────────── transcript ◄────names.rs ────┘
//! ```
//!
//! `INSTA_UPDATE=always cargo test --test it scenarios` writes the snapshots anew; read what git says of them then.

mod chain;
mod names;
mod parse;

use std::path::{Path, PathBuf};

use super::served::Served;
use chain::Chain;
use names::Names;
use parse::{Action, Step, parse};

/// Where the scenarios are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Plays `tests/scenarios/NAME.scn`, and compares it with its snapshot.
#[track_caller]
pub(crate) fn play(name: &str) {
    let text = std::fs::read_to_string(folder().join(name).with_extension("scn")).unwrap();
    let steps = parse(&text).unwrap_or_else(|error| panic!("{name}.scn:{error}"));
    let Some(mut stage) = Stage::new(&text) else { return };
    let mut transcript = String::new();
    for step in &steps {
        let answer = stage.act(step).unwrap_or_else(|what| panic!("{name}.scn:{}: {what}", step.line));
        match answer {
            Some(answer) => transcript.extend(["\n", &step.text, "\n", &answer, "\n\n"]),
            None => transcript.extend([&step.text, "\n"]),
        }
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder().join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, transcript));
}

/// The node, the server that follows it, and the names of what came up so far.
struct Stage {
    // before the node, so that it is not left without one when both end
    served: Served,
    chain: Chain,
    names: Names,
    directory: tempfile::TempDir,
}

impl Stage {
    /// `None`, which is recorded, where there is no node.
    #[track_caller]
    fn new(scenario: &str) -> Option<Self> {
        let mut names = Names::new(scenario);
        let chain = Chain::start(&mut names)?;
        let directory = tempfile::tempdir().unwrap();
        let served = Served::start(&chain.node, directory.path());
        Some(Self { served, chain, names, directory })
    }

    /// Does one step and waits until the server knows of it. The answer, if it is a query. Errors: what the scenario
    /// has wrong.
    fn act(&mut self, step: &Step) -> Result<Option<String>, String> {
        match &step.action {
            Action::Mine { count, to } => {
                self.chain.mine(&mut self.names, *count, to.as_deref().unwrap_or("nobody"));
            }
            Action::Send { amount, from, to, name, fee } => {
                self.chain.send(&mut self.names, *amount, *fee, [from, to, name])?;
            }
            Action::Reorg(count) => self.chain.reorg(&mut self.names, *count)?,
            Action::Restart => {
                let status = self.served.stop();
                assert!(status.success(), "btcgraph ended with {status}");
                self.served = Served::start(&self.chain.node, self.directory.path());
            }
            Action::RestartNode => self.chain.restart(),
            Action::Query { document } => {
                let mut answer: async_graphql::Value = self.served.query_as(&self.names.expand(document)?);
                self.names.redact(&mut answer)?;
                return Ok(Some(serde_json::to_string_pretty(&answer).unwrap()));
            }
        }
        self.served.catch_up(&self.chain.node);
        Ok(None)
    }
}
