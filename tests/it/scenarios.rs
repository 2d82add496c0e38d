//! The scenarios of `tests/scenarios`: a test each on a real node and on a simulated one.

use std::collections::BTreeSet;

use crate::support::scenario::{folder, is_only_simulated};

/// Tests by their scenarios: the first are played on both nodes, the others on the simulated one.
macro_rules! scenarios {
    (
        both { $($test:ident: $name:literal,)* }
        simulated { $($only_test:ident: $only_name:literal,)* }
    ) => {
        const BOTH: &[&str] = &[$($name),*];
        const SIMULATED: &[&str] = &[$($only_name),*];

        mod on_a_real_node {
            use crate::support::scenario::play_on_a_real_node;

            $(#[test] fn $test() { play_on_a_real_node($name); })*
        }

        mod on_a_simulated_node {
            use crate::support::scenario::play_on_a_simulated_node;

            $(#[test] fn $test() { play_on_a_simulated_node($name); })*
            $(#[test] fn $only_test() { play_on_a_simulated_node($only_name); })*
        }
    };
}

scenarios! {
    both {
        a_payment_is_confirmed_disconnected_and_confirmed_again: "payment-and-reorg",
        what_accounts_hold_and_the_figures_of_the_chain_follow_a_reorganisation: "ledgers-and-figures",
        what_cannot_be_asked_is_refused_with_a_reason: "bad-input",
    }
    simulated {
    }
}

#[test]
fn every_scenario_is_played_and_every_snapshot_is_of_one() {
    let played: BTreeSet<_> = BOTH.iter().chain(SIMULATED).map(|&name| name.to_owned()).collect();
    assert_eq!(played.len(), BOTH.len() + SIMULATED.len(), "a scenario is one test a node");
    for (folder, extension) in [(folder(), "scn"), (folder().join("snapshots"), "snap")] {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
        let found: BTreeSet<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(found, played, "*.{extension}");
    }
}

#[test]
fn what_a_real_node_can_play_it_plays() {
    for (names, only_simulated) in [(BOTH, false), (SIMULATED, true)] {
        for name in names {
            assert_eq!(is_only_simulated(name), only_simulated, "{name}");
        }
    }
}
