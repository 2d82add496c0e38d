//! The engine against graphql-js, the reference implementation of GraphQL: both execute the same random documents over
//! resolvers that fail, wait and answer null in the same places, and must answer the same. So an upgrade of the engine
//! that changes null propagation, the order of keys or the paths of errors shows at once.
//!
//! ```text
//!   schema.rs ──SDL──► documents.rs ──cases──┬──► the engine over schema.rs ──────┐
//!                                            └──► tests/web/reference.js (node) ──┴──► compare.rs
//! ```
//!
//! `known.rs` holds what must be found to differ.

mod compare;
mod documents;
mod known;
mod schema;

use btcgraph::sim::Rng;

use compare::{Allowed, Case, Comparison, compare};
use documents::{Types, document, variables};
use schema::{Lists, Plan, Query, Singles, engine};

const DOCUMENTS: u32 = 150;

/// Random documents, each without failures and with ever more of them.
fn cases(types: &Types, merging: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for seed in 0..DOCUMENTS {
        let document = document(types, &mut Rng::new(seed.into()), merging);
        let case = |percent| Case { document: document.clone(), variables: variables(), plan: Plan { seed, percent } };
        cases.extend([0, 3, 15, 40].map(case));
    }
    cases
}

#[track_caller]
fn assert_same(comparison: &Comparison) {
    let differences = &comparison.differences;
    let shortest = differences.iter().min_by_key(|difference| difference.len());
    assert!(differences.is_empty(), "{} cases differ; the shortest: {}", differences.len(), shortest.unwrap());
}

#[test]
fn answers_and_errors_of_random_documents_are_those_of_graphql_js() {
    let engine = engine(Query(Singles, Lists));
    let cases = cases(&Types::of(&engine.sdl(), &[]), false);
    let Some(comparison) = compare(&engine, &cases, Allowed::default()) else { return };
    assert_same(&comparison);
    let Comparison { compared, failing, propagating, ambiguous, .. } = comparison;
    assert_eq!(compared, cases.len());
    assert!(failing > 250 && propagating > 120 && ambiguous > 50, "{failing}, {propagating}, {ambiguous}");
}

#[test]
fn fields_that_are_mentioned_more_than_once_merge_as_in_graphql_js() {
    let engine = engine(Query(Singles, Lists));
    // of lists of lists the engine is known to lose mentions
    let cases = cases(&Types::of(&engine.sdl(), &["wall", "grid"]), true);
    let allowed = Allowed { repeated_mentions: true };
    let Some(comparison) = compare(&engine, &cases, allowed) else { return };
    assert_same(&comparison);
    let Comparison { compared, failing, .. } = comparison;
    assert!(compared > 350 && failing > 80, "{compared}, {failing}");
}
