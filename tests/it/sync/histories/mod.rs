//! Histories: what can happen to a chain, in random order, many times over, with the index following through the node's
//! interface and compared with the naive model after every step.
//!
//! ```text
//!   seed ──► actions.rs   a history: steps of one to three actions
//!               │
//!            player.rs    does them: blocks.rs and branches.rs to the simulated chain (purse.rs knows who can spend
//!               │         what), crashes.rs to the index
//!               │ look                        │ the same blocks
//!            through_node.rs                support/model
//!               SimNode ─► Node ─► sync ─► index, view
//!               └──────────── compared ───────┘   support/agree, holdings.rs
//! ```
//!
//! After every look: the tip, all rows that the blocks between could change (from time to time all rows there are), how
//! many rows each table has, the blocks that became stale, the events, and what the view says of affected scripts,
//! now and at earlier blocks. At the end of a history whole tables are compared with those of indexes that came to the
//! same tip block by block and in one batch. A failing history is made as small as it gets, and printed with its
//! seed; docs/testing.md describes how to play it again.

mod actions;
mod blocks;
mod branches;
mod counts;
mod crashes;
mod cut;
pub(crate) mod documented;
mod faults;
mod freezing;
mod holdings;
mod player;
mod prepared;
mod purse;
mod runner;
mod smaller;
mod straight;
mod through_node;

use cut::AcrossCut;
use freezing::FreezesOnTheWay;
use straight::Straight;
use through_node::ThroughNode;

/// How many histories there are, each of 60 steps or more, and how often each kind of event must be seen in all.
const HISTORIES: u64 = 60;
const EACH: u64 = 200;

#[test]
fn through_any_history_the_index_equals_the_model() {
    let Some(seen) = runner::run(0..HISTORIES, ThroughNode::start) else { return };
    println!("{seen}");
    assert_eq!(seen.rarer_than(EACH), [], "events that were seen too seldom in {HISTORIES} histories");
}

/// The same without a node between, as mutation tests play it.
#[test]
fn through_any_history_an_index_fed_blocks_equals_the_model() {
    runner::run(HISTORIES..HISTORIES + 4, || Straight);
}

/// Reorganisations disconnect and connect blocks on both sides of the cut, and through it.
#[test]
fn through_any_history_an_index_with_generations_equals_the_model() {
    const ENDS: [&[u32]; 4] = [&[131], &[125], &[40, 128], &[0, 60, 120, 130]];
    for (ends, first) in ENDS.into_iter().zip((0..).step_by(6)) {
        runner::run(first..first + 6, || AcrossCut::at(ends));
    }
}

/// Blocks are frozen in between, reorganisations reach frozen blocks while live rows are shadowed, and the index is closed
/// and opened at any of these moments.
#[test]
fn through_any_history_an_index_that_freezes_equals_the_model() {
    for step in 0..7 {
        let first = u64::from(step) * 3;
        runner::run(first..first + 3, || FreezesOnTheWay::from_step(step));
    }
}
