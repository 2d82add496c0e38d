//! The optional table `wtxids`: lookups by wtxid equal a naive model through random histories of blocks, reorganisations,
//! freezes, builds, switches and restarts; and how its files are named, continued, upgraded and removed.

mod damage;
mod files;
pub(crate) mod history;
mod versions;

use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{Txid, Wtxid};
use btcgraph::index::{IndexError, OptionalTables, Snapshot};
use btcgraph::sim::Rng;

use crate::support::indexed::Indexed;
use history::{History, progress};
pub(crate) use history::{OFF, ON, is_answered};

#[test]
fn lookups_equal_the_model_through_random_histories() {
    for seed in 70..74 {
        let (mut history, mut rng) = (History::new(seed, 120), Rng::new(seed));
        let (mut answered, mut unanswered, mut on) = (0, 0, false);
        for _ in 0..60 {
            match rng.below(12) {
                0 | 1 => history.mine(1 + u32::try_from(rng.below(9)).unwrap()),
                2 => history.freeze(u32::try_from(rng.below(12)).unwrap()),
                3 => {
                    let most = if rng.chance(20) { 60 } else { 12 };
                    let depth = 1 + u32::try_from(rng.below(most)).unwrap();
                    history.reorganise(depth, depth + 1);
                }
                4 => {
                    on = rng.chance(80);
                    history.restart(OptionalTables { wtxids: on, ..OptionalTables::default() });
                }
                5 | 6 => {
                    history.indexed.index.tend_tables(u32::try_from(rng.below(300)).unwrap()).unwrap();
                }
                7 => {
                    history.indexed.index.sweep(usize::try_from(rng.below(3_000)).unwrap()).unwrap();
                }
                8 => {
                    on = !on || rng.chance(70);
                    history
                        .indexed
                        .index
                        .switch_tables(OptionalTables { wtxids: on, ..OptionalTables::default() })
                        .unwrap();
                }
                9 => history.complete(),
                _ => drop(history.build()),
            }
            if history.is_answered() {
                answered += 1;
            } else {
                unanswered += 1;
            }
            history.indexed.verified();
        }
        history.indexed.index.switch_tables(ON).unwrap();
        history.complete();
        assert!(history.is_answered() && answered > 10 && unanswered > 5, "{answered} of {}", answered + unanswered);
        // as one that had it from the beginning
        let mut live = Indexed::empty();
        live.index.switch_tables(ON).unwrap();
        live.connect(history.blocks.iter().map(Arc::as_ref), 9);
        assert!(is_answered(&live.index.snapshot().unwrap(), &history.blocks));
        assert_eq!(history.indexed.rows(), live.rows());
    }
}

#[test]
fn freezing_does_not_interrupt_lookups_and_snapshots_keep_their_files() {
    let mut history = History::new(75, 60);
    assert!(matches!(history.snapshot().find_wtxid(&Wtxid::all_zeros()), Err(IndexError::TableOff { .. })));
    history.indexed.index.switch_tables(ON).unwrap();
    let (built, transactions) = progress(&history.snapshot());
    assert!(built == 0 && transactions > 200, "{built} of {transactions}");
    history.indexed.index.tend_tables(100).unwrap();
    assert_eq!(progress(&history.snapshot()), (100, transactions));
    while history.indexed.index.tend_tables(100).unwrap() {}
    assert!(history.is_answered());
    // live rows are read until the file is in force
    for blocks in [20, 0] {
        history.mine(blocks);
        history.freeze(5);
        while history.indexed.index.sweep(1_000).unwrap() {}
        assert!(history.is_answered());
        history.restart(ON);
        assert!(history.is_answered());
    }
    let before = history.snapshot();
    let rows = |snapshot: &Snapshot| {
        let rows =
            |name| snapshot.tables().unwrap().iter().find(|table| table.name == name).map_or(0, |table| table.rows);
        (rows("wtxids"), rows("frozen.wtxids"))
    };
    history.complete();
    assert!(history.is_answered() && is_answered(&before, &history.blocks));
    let (live, frozen) = rows(&history.snapshot());
    assert!(live < rows(&before).0 && frozen > 0, "{live} live rows, {frozen} packed");
    // through the cut, where the file has transactions that do not count any more
    let before = (history.snapshot(), history.blocks.clone());
    history.reorganise(40, 41);
    assert!(history.is_answered() && is_answered(&before.0, &before.1));
    history.indexed.verified();
    // it is read until the last snapshot with it is dropped
    let files = history.files();
    history.indexed.index.switch_tables(OFF).unwrap();
    assert!(is_answered(&before.0, &before.1) && files.iter().all(|file| file.exists()));
    assert!(matches!(history.snapshot().find_wtxid(&Wtxid::all_zeros()), Err(IndexError::TableOff { .. })));
    drop(before);
    assert_eq!((files.len(), history.files()), (1, Vec::new()));
    assert!(rows(&history.snapshot()).0 > 0);
    while history.indexed.index.tend_tables(7).unwrap() {}
    assert_eq!(rows(&history.snapshot()), (0, 0));
    history.indexed.verified();
}

#[test]
fn a_transaction_with_another_witness_is_not_found() {
    let mut history = History::new(80, 30);
    history.indexed.index.switch_tables(ON).unwrap();
    history.complete();
    let mut transaction =
        history.blocks.iter().flat_map(|block| &block.txdata).rfind(|it| !it.input[0].witness.is_empty());
    let transaction = transaction.as_mut().unwrap();
    let mut other = transaction.clone();
    other.input[0].witness.push([7]);
    assert_eq!(other.compute_txid(), transaction.compute_txid());
    let snapshot = history.snapshot();
    assert_eq!(snapshot.find_wtxid(&other.compute_wtxid()).unwrap(), None);
    let found = snapshot.find_wtxid(&transaction.compute_wtxid()).unwrap().unwrap();
    assert_eq!((found.txid, found.parts.raw()), (transaction.compute_txid(), serialize(*transaction).as_slice()));
    assert_eq!(snapshot.find_wtxid(&Wtxid::from_byte_array(Txid::all_zeros().to_byte_array())).unwrap(), None);
}
