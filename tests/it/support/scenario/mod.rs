//! Scenarios: a script of what happens to a chain, with questions in between, played on a node with btcgraph behind it.
//! All of it, with the whole answers, is compared with a snapshot: the same one for a real node and a simulated one.
//!
//! ```text
//!   tests/scenarios/NAME.scn ──parse──► steps ──chain──► node (bitcoind, or simulated) ◄── btcgraph serve
//!                                                wallet                                      │ answers, events
//!   tests/scenarios/snapshots/NAME.snap ◄─────────────── transcript ◄────names───────────────┘
//! ```
//!
//! `INSTA_UPDATE=always cargo test --test it scenarios` writes the snapshots anew; read what git says of them then. What
//! a real node plays is written from it alone.

mod chain;
mod names;
mod node;
mod parse;
mod simulated;
mod snapshot;
mod stage;
mod subscription;
mod wallet;

use std::path::{Path, PathBuf};

use names::Names;
use node::{Node, Real};
use parse::{Scenario, parse};
use simulated::Simulated;
use stage::Stage;

/// How many of the newest blocks are not frozen in an index that freezes.
const LIVE_BLOCKS: u32 = 2;

/// Where the scenarios are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Plays `tests/scenarios/NAME.scn` on a real node, and compares it with its snapshot.
#[track_caller]
pub(crate) fn play_on_a_real_node(name: &str) {
    let (text, scenario) = read(name);
    assert_eq!(scenario.only_simulated, None, "{name}.scn is for a simulated node only");
    let Some(node) = Real::new(scenario.needs_signals()) else { return };
    snapshot::compare_or_write(name, &transcript(name, &text, &scenario, Box::new(node), None));
}

/// Plays `tests/scenarios/NAME.scn` on a simulated node, and compares it with the same snapshot.
#[track_caller]
pub(crate) fn play_on_a_simulated_node(name: &str) {
    let (text, scenario) = read(name);
    let played = transcript(name, &text, &scenario, simulated(&scenario), None);
    if scenario.only_simulated.is_some() {
        snapshot::compare_or_write(name, &played);
    } else {
        snapshot::compare(name, &played);
    }
}

/// Plays `tests/scenarios/NAME.scn` on a simulated node with an index that freezes all but the newest blocks, and compares it
/// with the same snapshot.
#[track_caller]
pub(crate) fn play_with_frozen_blocks(name: &str) {
    let (text, scenario) = read(name);
    snapshot::compare(name, &transcript(name, &text, &scenario, simulated(&scenario), Some(LIVE_BLOCKS)));
}

fn simulated(scenario: &Scenario) -> Box<dyn Node> {
    Box::new(match scenario.only_simulated {
        Some(_) => Simulated::with_bare_coinbases(),
        None => Simulated::like_a_real_node(scenario.needs_signals()),
    })
}

/// Whether no real node plays `tests/scenarios/NAME.scn`.
pub(crate) fn is_only_simulated(name: &str) -> bool {
    read(name).1.only_simulated.is_some()
}

fn read(name: &str) -> (String, Scenario) {
    let text = std::fs::read_to_string(folder().join(name).with_extension("scn")).unwrap();
    let scenario = parse(&text).unwrap_or_else(|error| panic!("{name}.scn:{error}"));
    (text, scenario)
}

fn transcript(name: &str, text: &str, scenario: &Scenario, node: Box<dyn Node>, live_blocks: Option<u32>) -> String {
    let mut stage = Stage::new(Names::new(text), node, live_blocks);
    let mut transcript = String::new();
    for step in &scenario.steps {
        let answer = stage.act(step).unwrap_or_else(|what| panic!("{name}.scn:{}: {what}", step.line));
        match answer {
            Some(answer) => transcript.extend(["\n", &step.text, "\n", &answer, "\n\n"]),
            None => transcript.extend([&step.text, "\n"]),
        }
    }
    stage.end().unwrap_or_else(|what| panic!("{name}.scn, after its end: {what}"));
    transcript
}
