//! Merging generations: the rows are those that packing the same blocks at once makes, and nothing that is read through them
//! changes, whatever reorganisations and merges came before.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bitcoin::Block;
use btcgraph::chain::Height;
use btcgraph::index::{DueMerge, Index, IndexError, MergeOutcome, OptionalTables};
use btcgraph::sim::Rng;

use super::generations::open;
use super::wtxids::history::{History, OFF, is_answered};
use crate::support::agree::assert_agrees;
use crate::support::frozen::frozen;
use crate::support::hostile::repeated_coinbases;
use crate::support::indexed::Indexed;
use crate::support::model::Model;

/// The optional tables with files of their own.
const TABLES: OptionalTables =
    OptionalTables { wtxids: true, address_prefixes: true, op_returns: true, block_filters: false };

fn built(index: &Index, run: Range<usize>) -> DueMerge {
    let due = index.merge_of(run).unwrap().unwrap();
    due.build(&Arc::default(), &mut |_, _| {}).unwrap();
    due
}

pub(super) fn merge(index: &mut Index, run: Range<usize>) {
    let due = built(index, run);
    assert!(matches!(index.replace_merged(&due).unwrap(), MergeOutcome::InForce));
}

/// The names of the files of generations and their tables.
fn names(indexed: &Indexed) -> Vec<String> {
    let entries = fs::read_dir(indexed.directory.path().join("index.frozen")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_merged_generation_has_the_rows_that_packing_its_blocks_at_once_makes() {
    for seed in [91, 92] {
        // coinbases that come again overwrite outputs within a generation, within a merge and across it
        let blocks = repeated_coinbases(seed, 60);
        let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
        let tip = u32::try_from(blocks.len()).unwrap() - 1;
        let live = Indexed::of(blocks.iter().copied(), 50);
        let live = live.index.snapshot().unwrap();
        let model = Model::of(blocks.iter().copied());
        let ends = [0, 1, 12, tip / 3, tip / 2, tip - 20, tip - 1, tip];
        for run in [0..8, 0..2, 1..4, 3..8, 6..8] {
            let mut indexed = frozen(&blocks, &ends);
            let due = built(&indexed.index, run.clone());
            let first = run.start.checked_sub(1).map_or(0, |before| ends[before] + 1);
            let heights = Height::from(first)..=Height::from(ends[run.end - 1]);
            let packed = indexed.directory.path().join("packed");
            assert_eq!(live.pack(heights, &packed).unwrap(), due.range(), "{run:?}");
            let merged = open(&indexed.index.merging_path());
            assert_eq!(merged.checksums().unwrap(), open(&packed).checksums().unwrap(), "{run:?} of seed {seed}");
            drop(merged);
            assert!(matches!(indexed.index.replace_merged(&due).unwrap(), MergeOutcome::InForce));
            assert_agrees(&indexed.index.snapshot().unwrap(), &model);
            indexed.verified();
            drop(due);
            assert_eq!(names(&indexed).len(), ends.len() - run.len() + 1);
        }
    }
}

#[test]
fn blocks_are_disconnected_through_a_merge_and_connected_again() {
    let blocks = repeated_coinbases(94, 60);
    let blocks: Vec<&Block> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let mut indexed = frozen(&blocks, &[20, 50, 70, 90, tip - 10]);
    let at = |height: u32| usize::try_from(height).unwrap();
    indexed.connect(blocks[at(tip - 9)..].iter().copied(), 4);
    merge(&mut indexed.index, 1..5);
    // a second time, with the one that was merged
    merge(&mut indexed.index, 0..2);
    let mut model = Model::default();
    let mut agrees = |indexed: &Indexed, blocks: &[&Block]| {
        model.follow(blocks.iter().copied());
        assert_agrees(&indexed.index.snapshot().unwrap(), &model);
    };
    agrees(&indexed, &blocks);
    for left in [tip - 5, tip - 15, 75, 30] {
        indexed.disconnect_to(left);
        agrees(&indexed, &blocks[..at(left)]);
        indexed.verified();
    }
    indexed.connect(blocks[30..].iter().copied(), 7);
    agrees(&indexed, &blocks);
    indexed.verified();
}

#[test]
fn what_was_read_before_a_merge_is_read_from_the_same_files() {
    let blocks = repeated_coinbases(95, 40);
    let blocks: Vec<&Block> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let mut indexed = frozen(&blocks, &[30, 60, tip]);
    let before = indexed.index.snapshot().unwrap();
    let files = names(&indexed);
    merge(&mut indexed.index, 0..3);
    assert_eq!(names(&indexed).len(), 4);
    assert_agrees(&before, &Model::of(blocks.iter().copied()));
    drop(before);
    let left = names(&indexed);
    assert!(left.len() == 1 && !files.contains(&left[0]), "{left:?}");
    // as it is opened the next time
    let Indexed { index, directory } = indexed;
    drop(index);
    let indexed = Indexed::within(directory);
    assert_eq!(indexed.index.snapshot().unwrap().tip().map(|tip| tip.height.to_u32()), Some(tip));
    assert!(indexed.index.unnamed_generations().unwrap().is_empty());
}

#[test]
fn a_merge_of_generations_that_a_reorganisation_reached_is_dropped() {
    let blocks = repeated_coinbases(96, 40);
    let blocks: Vec<&Block> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let mut indexed = frozen(&blocks, &[30, 60, tip]);
    let due = built(&indexed.index, 1..3);
    indexed.disconnect_to(tip);
    let files = names(&indexed);
    assert!(matches!(indexed.index.replace_merged(&due).unwrap(), MergeOutcome::NotNeeded));
    assert_eq!(names(&indexed), files);
    assert!(!indexed.index.merging_path().exists());
    // one that none of its members noticed is put into force
    let due = built(&indexed.index, 0..2);
    indexed.disconnect_to(tip - 2);
    assert!(matches!(indexed.index.replace_merged(&due).unwrap(), MergeOutcome::InForce));
    assert_agrees(
        &indexed.index.snapshot().unwrap(),
        &Model::of(blocks[..usize::try_from(tip - 2).unwrap()].iter().copied()),
    );
    indexed.verified();
    // one that is shortened is not merged with others
    assert!(indexed.index.merge_of(0..2).unwrap().is_none());
    let mut indexed = frozen(&blocks, &[30, 60, tip]);
    // all of them are gone
    let due = built(&indexed.index, 0..2);
    indexed.disconnect_to(0);
    assert!(matches!(indexed.index.replace_merged(&due).unwrap(), MergeOutcome::NotNeeded));
}

#[test]
fn a_merge_that_is_stopped_leaves_the_index_as_it_was() {
    let blocks = repeated_coinbases(97, 40);
    let blocks: Vec<&Block> = blocks.iter().map(Arc::as_ref).collect();
    let indexed = frozen(&blocks, &[30, 60]);
    let due = indexed.index.merge_of(0..2).unwrap().unwrap();
    let stopped = due.build(&Arc::new(true.into()), &mut |_, _| {});
    assert!(matches!(stopped, Err(IndexError::Interrupted)), "{stopped:?}");
    assert!(!indexed.index.merging_path().exists());
    assert!(indexed.index.merge_of(1..3).unwrap().is_none() && indexed.index.merge_of(1..2).unwrap().is_none());
}

#[test]
fn random_histories_with_merges_agree_with_the_model() {
    let (mut merged, mut most) = (0, 0);
    for seed in 300..302 {
        let (mut history, mut rng) = (History::new(seed, 100), Rng::new(seed));
        history.indexed.index.switch_tables(TABLES).unwrap();
        for _ in 0..60 {
            match rng.below(10) {
                0..3 => history.mine(1 + u32::try_from(rng.below(6)).unwrap()),
                3..6 => history.freeze(3 + u32::try_from(rng.below(6)).unwrap()),
                6 => {
                    let most = if rng.chance(20) { 60 } else { 4 };
                    let depth = 1 + u32::try_from(rng.below(most)).unwrap();
                    history.reorganise(depth, depth + 1);
                }
                7 => history.restart(TABLES),
                _ => {
                    history.complete();
                    let index = &mut history.indexed.index;
                    let start = usize::try_from(rng.below(3)).unwrap();
                    let mut runs = (2..7).rev().flat_map(|length| [start, 0, 1, 2].map(|start| start..start + length));
                    // or one that a reorganisation shortened is built again
                    let due = runs.find_map(|run| index.merge_of(run).unwrap());
                    if let Some(due) = due.or_else(|| index.due_rebuild().unwrap()) {
                        due.build(&Arc::default(), &mut |_, _| {}).unwrap();
                        assert!(matches!(index.replace_merged(&due).unwrap(), MergeOutcome::InForce));
                        (merged, most) = (merged + 1, most.max(due.count()));
                    }
                    // the tables are complete behind a merge as before
                    assert!(history.is_answered());
                }
            }
            history.indexed.verified();
        }
        history.complete();
        assert!(history.is_answered());
        assert_agrees(&history.snapshot(), &Model::of(history.blocks.iter().map(Arc::as_ref)));
        let mut live = Indexed::empty();
        live.index.switch_tables(TABLES).unwrap();
        live.connect(history.blocks.iter().map(Arc::as_ref), 9);
        assert!(is_answered(&live.index.snapshot().unwrap(), &history.blocks));
        assert_eq!(history.indexed.rows(), live.rows());
    }
    assert!(merged > 6 && most > 3, "{merged} merges of at most {most}");
}

/// Two generations with their optional tables.
fn two_with_tables(seed: u64) -> History {
    let mut history = History::new(seed, 60);
    history.indexed.index.switch_tables(TABLES).unwrap();
    history.freeze(30);
    history.freeze(5);
    history.complete();
    history
}

/// The files of an index, but for what it has live.
fn files_of(history: &History) -> Vec<PathBuf> {
    let mut directories = vec![history.indexed.directory.path().to_owned()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

#[test]
fn a_merge_that_fails_leaves_no_files() {
    let mut history = two_with_tables(98);
    let before = files_of(&history);
    // at some steps of building the tables
    let mut round = 0;
    let due = loop {
        let due = history.indexed.index.merge_of(0..2).unwrap().unwrap();
        let (stop, mut steps, mut tables) = (Arc::default(), 0, Vec::new());
        let built = due.build(&stop, &mut |table, _| {
            if tables.last().is_none_or(|last| last != table) {
                tables.push(table.to_owned());
            }
            stop.store(steps == round * 40, Ordering::Relaxed);
            steps += 1;
        });
        if built.is_ok() {
            assert!(round > 3 && tables == ["wtxids", "address_prefixes", "op_returns"], "{round} {tables:?}");
            break due;
        }
        assert!(matches!(built, Err(IndexError::Interrupted)), "{built:?}");
        assert_eq!(files_of(&history), before, "round {round}");
        round += 1;
    };
    // what was built is damaged, or needs tables that were switched on later
    fs::write(history.indexed.index.merging_path(), b"no database").unwrap();
    let outcome = history.indexed.index.replace_merged(&due).unwrap();
    assert!(matches!(outcome, MergeOutcome::Unusable(_)), "{outcome:?}");
    assert_eq!(files_of(&history), before);
    history.indexed.index.switch_tables(OFF).unwrap();
    history.complete();
    let without = files_of(&history);
    let due = built(&history.indexed.index, 0..2);
    history.indexed.index.switch_tables(TABLES).unwrap();
    assert!(matches!(history.indexed.index.replace_merged(&due).unwrap(), MergeOutcome::NotNeeded));
    assert_eq!(files_of(&history), without);
    history.complete();
    assert!(history.is_answered());
    merge(&mut history.indexed.index, 0..2);
    assert!(history.is_answered());
    history.indexed.verified();
}

#[test]
fn a_merge_with_optional_tables_does_not_begin_without_the_blocks() {
    let history = two_with_tables(99);
    let before = files_of(&history);
    let (first, last) = (history.blocks[0].block_hash(), history.blocks[history.blocks.len() - 6].block_hash());
    for missing in [first, last] {
        let due = history.indexed.index.merge_of(0..2).unwrap().unwrap();
        let block = history.raw.remove(missing);
        let built = due.build(&Arc::default(), &mut |_, _| panic!("a table is built"));
        assert!(matches!(built, Err(IndexError::RawUnavailable { .. })), "{built:?}");
        assert_eq!(files_of(&history), before);
        history.raw.insert(missing, block);
    }
    let Indexed { index, directory } = history.indexed;
    drop(index);
    // without a node
    assert!(Indexed::within(directory).index.merge_of(0..2).unwrap().is_none());
}
