//! The scenarios of `tests/scenarios`: a test each on a real node, on a simulated one, and on a simulated one with an index that
//! freezes all but the newest blocks.

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

        mod with_frozen_blocks {
            use crate::support::scenario::play_with_frozen_blocks;

            $(#[test] fn $test() { play_with_frozen_blocks($name); })*
            $(#[test] fn $only_test() { play_with_frozen_blocks($only_name); })*
        }
    };
}

scenarios! {
    both {
        a_block_can_hold_another_payment_of_what_waits: "block-conflicts",
        a_chain_begins_and_its_first_coins_are_paid_on: "first-payment",
        a_coinbase_is_spent_by_the_hundredth_block_behind_it_and_not_before: "coinbase-maturity",
        a_cursor_whose_block_left_is_refused_and_says_where_to_go_on: "orphaned-cursors",
        a_wallet_is_read_by_descriptors_and_found_by_search: "wallet-and-search",
        a_key_is_paid_in_every_script_type_and_all_that_can_be_is_spent: "all-script-types",
        a_long_history_is_read_in_pages_while_blocks_arrive_and_leave: "long-history",
        a_node_that_forgets_what_waits_forgets_no_block: "node-forgets",
        a_payment_forgotten_by_the_node_was_never_made: "reorg-dropped",
        a_payment_is_confirmed_by_the_other_branch_too: "reorg-other-block",
        a_payment_is_confirmed_disconnected_and_confirmed_again: "payment-and-reorg",
        a_proof_shows_that_a_block_holds_a_transaction: "merkle-proofs",
        a_reorganisation_missed_while_stopped_is_caught_up_with: "missed-reorganisation",
        a_reorganisation_returns_one_payment_and_makes_another_impossible: "reorg-returns-and-kills",
        a_replacement_that_arrives_late_corrects_the_reason: "replaced-late",
        a_stale_block_is_no_moment_of_the_main_chain: "balances-through-a-reorg",
        a_script_and_a_partial_transaction_are_decoded: "partially-signed",
        a_subscriber_receives_every_block_through_reorganisations: "new-blocks",
        an_id_stays_what_it_is_through_a_reorganisation: "ids-through-a-reorg",
        balances_of_the_past_are_answered_by_height_hash_and_moment: "history-at-moments",
        blocks_that_were_left_can_be_asked_for: "stale-blocks",
        branches_are_left_and_returned_to: "there-and-back",
        coins_are_lost_by_not_claiming_and_by_burning_them: "lost-coins",
        coins_spent_by_another_branch_are_not_the_shops: "reorg-double-spend",
        data_is_shown_as_data_and_has_no_address: "data-outputs",
        every_block_can_be_taken_back: "back-to-genesis",
        fees_are_answered_by_block_range_and_transaction: "fees",
        headers_and_sums_are_answered_for_any_range: "headers-and-ranges",
        killed_it_comes_back_with_all_it_had: "killed-between",
        lock_times_are_answered_and_obeyed: "lock-times",
        one_key_has_several_scripts_each_a_ledger: "one-key",
        pages_stay_the_same_while_blocks_arrive: "pages-while-blocks-arrive",
        payments_chained_in_one_block_are_distinguished: "payments-within-a-block",
        payments_confirmed_later_and_in_another_order_are_seen_so: "reorg-later-block",
        payments_that_wait_stand_on_each_other: "unconfirmed-chains",
        an_explorer_shows_the_chain_over_time_and_where_coins_go: "pages-of-an-explorer",
        replaced_and_evicted_payments_were_never_made: "replaced-and-evicted",
        restarted_it_goes_on_where_it_was: "restart-between",
        several_addresses_are_one_ledger: "several-addresses",
        the_chain_can_get_shorter: "shortened-chain",
        the_subsidy_halves: "halving",
        unspent_outputs_are_listed_by_value_age_and_maturity: "utxo-filters",
        what_accounts_hold_and_the_figures_of_the_chain_follow_a_reorganisation: "ledgers-and-figures",
        what_cannot_be_asked_is_refused_with_a_reason: "bad-input",
        what_is_indexed_is_answered_while_the_node_is_away: "node-away",
        what_was_replaced_before_it_was_seen_is_not_known: "replaced-unseen",
        while_signals_are_lost_nothing_is_missed: "signals-lost",
        who_was_away_goes_on_behind_the_last_event: "subscribers-come-back",
    }
    simulated {
        a_repeated_coinbase_takes_the_place_of_the_first: "duplicate-coinbase",
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
