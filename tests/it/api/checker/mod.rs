//! No two answers contradict each other while everything happens at once.
//!
//! Two clients ask nested questions the whole time, while transactions, replacements, evictions, blocks and
//! reorganisations pour into the node behind the index. Nothing is known here of what the node had when an answer was
//! made: each answer is held against itself, by the identities that the API promises.
//!
//! ```text
//!   flood.rs ──► simulated node ──► index and mempool that follow ──► schema
//!      ▲ paced by                                                       │ answers
//!      └──────────────── clients.rs ◄── questions.rs ◄──────────────────┘
//!                            │             known.rs   what of earlier answers is asked about next
//!                            ▼
//!       ledgers.rs  blocks.rs  ranges.rs  mempools.rs  transactions.rs  reorgs.rs   one kind of question each: the
//!                            │                                            document, and what its answer must satisfy
//!                            └──► figures.rs   reading and comparing
//!       sensitive.rs   whether a figure that is wrong would be noticed
//! ```
//!
//! What the answers say of the chain and the node is compared with the truth elsewhere: in `ledgers`, `unconfirmed`, and
//! `graphql`.

mod blocks;
mod clients;
mod figures;
mod flood;
mod known;
mod ledgers;
mod mempools;
mod questions;
mod ranges;
mod reorgs;
mod sensitive;
mod transactions;

use std::sync::Arc;

use btcgraph::api::{self, Schema};
use btcgraph::limits::Limits;
use btcgraph::sync::FreezeBounds;

use crate::mempool::following::{Following, How, PATIENCE};
use crate::support::bitcoind::wait_for;
use clients::Clients;
use flood::Flood;

/// How many answers are read, and of how many different states, at least.
const ANSWERS: usize = 3_000;
const STATES: usize = 1_000;
/// After so many steps it is over, enough or not.
const STEPS: u32 = 4_000;
/// An index that freezes is asked for one in so many of these: each of its answers has to satisfy the same.
const SHARE_FROZEN: usize = 2;

/// An index and a mempool that follow the node, and have come so far that all can be asked.
fn follow(flood: &Flood, freezes: Option<FreezeBounds>) -> Following {
    let following = Following::with_options(&flood.sim, How { freezes, ..How::default() });
    following.assert_catches_up(&flood.sim);
    wait_for("the mempool to be followed", PATIENCE, || following.is_mempool_in_sync().then_some(()));
    following
}

fn schema(following: &Following) -> Schema {
    api::schema(following.published.clone(), following.live.clone(), Limits::default(), api::Features::default())
}

#[test]
fn no_answer_contradicts_itself_while_everything_happens_at_once() {
    check_answers(None, 1);
}

/// Most blocks are frozen, and all the time more of them: answers are of rows on both sides of the cut, and
/// reorganisations reach below it.
#[test]
fn no_answer_of_an_index_that_freezes_contradicts_itself() {
    check_answers(Some(FreezeBounds { depth: 2, every: 10, transactions: u64::MAX }), SHARE_FROZEN);
}

/// Asks for a `share` of the answers while a `share` of everything happens.
fn check_answers(freezes: Option<FreezeBounds>, share: usize) {
    let (least_answers, least_states) = (ANSWERS / share, STATES / share);
    let mut flood = Flood::start(41);
    let following = follow(&flood, freezes);
    let frozen = || following.head().chain.frozen().map(|frozen| frozen.height);
    let first_frozen = frozen();
    let clients = Clients::start(&schema(&following), 2);
    let is_enough = |flood: &Flood| clients.have_read(least_answers, least_states) && flood.has_had_enough(share);
    while !is_enough(&flood) && flood.steps < STEPS && clients.go_on() {
        let (head, states, answered) = (following.head(), clients.states(), clients.answers());
        if flood.step() {
            // the next state may be one that was there before
            let is_next = || !Arc::ptr_eq(&head, &following.head());
            clients.wait_for(|| clients.states() > states || (is_next() && clients.answers() >= answered + 3));
            clients.wait_for(|| clients.answers() * STATES >= clients.states() * ANSWERS);
        }
    }
    let read = clients.stop();
    println!("{read:?} {:?} in {} steps", flood.counts, flood.steps);
    assert!(flood.has_had_enough(share), "too little happened: {:?}", flood.counts);
    assert!(read.answers >= least_answers && read.states >= least_states, "too little was read: {read:?}");
    assert!(read.kinds.values().all(|&count| count >= least_answers / 30), "a kind of question is rare: {read:?}");
    following.assert_catches_up(&flood.sim);
    assert_eq!(first_frozen.is_some(), freezes.is_some(), "imported in bulk");
    assert_eq!(frozen() > first_frozen, freezes.is_some(), "frozen meanwhile");
    following.stop();
}
