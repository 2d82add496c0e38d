//! The scenarios of `tests/scenarios`, a test each.

use crate::support::scenario::{folder, play};

macro_rules! scenarios {
    ($($test:ident: $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];
        $(#[test] fn $test() { play($name); })*
    };
}

scenarios! {
    a_payment_is_confirmed_disconnected_and_confirmed_again: "payment-and-reorg",
    what_accounts_hold_and_the_figures_of_the_chain_follow_a_reorganisation: "ledgers-and-figures",
    what_cannot_be_asked_is_refused_with_a_reason: "bad-input",
}

#[test]
fn every_scenario_is_a_test_and_every_snapshot_is_of_one() {
    for (folder, extension) in [(folder(), "scn"), (folder().join("snapshots"), "snap")] {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
        let mut found: Vec<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        found.sort();
        let mut expected = NAMES.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "*.{extension}");
    }
}
