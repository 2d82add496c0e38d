//! Generations that a reorganisation shortened: their files alone lack outputs that are unspent again, so that they are neither
//! published nor joined until they are built again.

use std::fs;
use std::sync::Arc;

use bitcoin::Block;
use btcgraph::chain::Height;
use btcgraph::index::{DueMerge, IndexError, JoinedFile, MergeOutcome, Tip, TxNum};

use super::generations::open;
use super::wtxids::history::History;
use crate::support::agree::assert_agrees;
use crate::support::frozen::{BlockBytes, frozen};
use crate::support::hostile::repeated_coinbases;
use crate::support::indexed::Indexed;
use crate::support::model::Model;

fn at(height: u32) -> usize {
    usize::try_from(height).unwrap()
}

fn built(indexed: &Indexed) -> DueMerge {
    let due = indexed.index.due_rebuild().unwrap().unwrap();
    assert_eq!(due.count(), 1);
    due.build(&Arc::default(), &mut |_, _| {}).unwrap();
    due
}

fn build_again(indexed: &mut Indexed) {
    let due = built(indexed);
    assert!(matches!(indexed.index.replace_merged(&due).unwrap(), MergeOutcome::InForce));
}

/// The rows of the live table of unspent outputs.
fn live_unspent(indexed: &Indexed) -> u64 {
    let tables = indexed.index.snapshot().unwrap().tables().unwrap();
    tables.iter().find(|table| table.name == "unspent").unwrap().rows
}

fn agrees(indexed: &Indexed, blocks: &[&Block]) {
    assert_agrees(&indexed.index.snapshot().unwrap(), &Model::of(blocks.iter().copied()));
    indexed.verified();
}

#[test]
fn a_generation_that_is_built_again_has_the_rows_that_packing_its_blocks_makes() {
    // coinbases that come again overwrite outputs within a generation and across its end
    let blocks = repeated_coinbases(101, 60);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let live = Indexed::of(blocks.iter().copied(), 50);
    let live = live.index.snapshot().unwrap();
    let (ends, mut restored) = ([12, tip / 2, tip], 0);
    for last in [tip - 8, tip - 65, tip / 2 + 1, tip / 2 - 90, 4] {
        let mut indexed = frozen(&blocks, &ends);
        indexed.disconnect_to(last + 1);
        let first = ends.iter().rev().find(|end| **end < last).map_or(0, |end| end + 1);
        let due = built(&indexed);
        let packed = indexed.directory.path().join("packed");
        assert_eq!(live.pack(Height::from(first)..=Height::from(last), &packed).unwrap(), due.range());
        let merged = open(&indexed.index.merging_path());
        assert_eq!(merged.checksums().unwrap(), open(&packed).checksums().unwrap(), "up to height {last}");
        drop(merged);

        // no block is live: only outputs that are unspent again are
        restored += live_unspent(&indexed);
        assert!(matches!(indexed.index.replace_merged(&due).unwrap(), MergeOutcome::InForce));
        drop(due);
        agrees(&indexed, &blocks[..=at(last)]);
        assert!(indexed.index.due_rebuild().unwrap().is_none());
        while indexed.index.sweep(100).unwrap() {}
        assert_eq!(live_unspent(&indexed), 0);
        indexed.connect(blocks[at(last) + 1..].iter().copied(), 7);
        agrees(&indexed, &blocks);
        indexed.disconnect_to(last - 1);
        agrees(&indexed, &blocks[..at(last) - 1]);
    }
    assert!(restored > 20, "{restored}");
}

#[test]
fn blocks_come_and_go_while_a_generation_is_built_again() {
    let blocks = repeated_coinbases(103, 60);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let mut indexed = frozen(&blocks, &[40, tip - 10]);
    indexed.disconnect_to(tip - 30);
    indexed.connect(blocks[at(tip - 30)..at(tip - 20)].iter().copied(), 1);
    let due = built(&indexed);
    // some outputs that are unspent again are spent before it is in force
    indexed.connect(blocks[at(tip - 20)..].iter().copied(), 4);
    assert!(matches!(indexed.index.replace_merged(&due).unwrap(), MergeOutcome::InForce));
    agrees(&indexed, &blocks);
    for left in [tip - 5, tip - 30, tip - 33] {
        // with shadowed rows, and without
        indexed.disconnect_to(left);
        agrees(&indexed, &blocks[..at(left)]);
        while indexed.index.sweep(50).unwrap() {}
        agrees(&indexed, &blocks[..at(left)]);
    }
    // it is shortened again meanwhile
    let due = built(&indexed);
    indexed.disconnect_to(tip - 35);
    assert!(matches!(indexed.index.replace_merged(&due).unwrap(), MergeOutcome::NotNeeded));
    assert!(!indexed.index.merging_path().exists());
    build_again(&mut indexed);
    indexed.connect(blocks[at(tip - 35)..].iter().copied(), 9);
    agrees(&indexed, &blocks);
}

#[test]
fn a_generation_is_not_built_again_without_its_blocks() {
    let blocks = repeated_coinbases(104, 40);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let mut indexed = frozen(&blocks, &[40, tip]);
    indexed.disconnect_to(tip - 20);
    let Indexed { index, directory } = indexed;
    drop(index);
    // without a node
    let indexed = Indexed::within(directory);
    assert!(indexed.index.due_rebuild().unwrap().is_none());
    // with a node that has pruned them
    indexed.index.set_raw_blocks(Arc::new(BlockBytes::of([])));
    let due = indexed.index.due_rebuild().unwrap().unwrap();
    let built = due.build(&Arc::default(), &mut |_, _| {});
    assert!(matches!(built, Err(IndexError::RawUnavailable { .. })), "{built:?}");
    assert!(!indexed.index.merging_path().exists());
}

#[test]
fn whole_generations_are_merged_while_one_cannot_be_built_again() {
    let mut history = History::new(106, 60);
    history.freeze(0);
    history.reorganise(20, 21);
    let left = history.snapshot().frozen().unwrap().height;
    // the blocks of the other branch: one, and five at a time
    for depth in [20, 15, 10, 5, 0] {
        assert!(history.indexed.index.due_merge().unwrap().is_none(), "{depth}");
        history.freeze(depth);
    }
    let unreadable = history.blocks[..=at(left.to_u32())].iter().map(|block| block.block_hash());
    unreadable.for_each(|hash| drop(history.raw.remove(hash)));
    let index = &mut history.indexed.index;
    let rebuilt = index.due_rebuild().unwrap().unwrap().build(&Arc::default(), &mut |_, _| {});
    assert!(matches!(rebuilt, Err(IndexError::RawUnavailable { .. })), "{rebuilt:?}");
    let due = index.due_merge().unwrap().unwrap();
    assert_eq!((due.count(), due.range().first), (5, left.next()));
    due.build(&Arc::default(), &mut |_, _| {}).unwrap();
    assert!(matches!(index.replace_merged(&due).unwrap(), MergeOutcome::InForce));
    assert!(index.due_merge().unwrap().is_none());
    assert_eq!(index.due_rebuild().unwrap().unwrap().range().last.height, left);
}

/// The files of the generations of an index as they can be joined, each copied into the directory of another, with the number of
/// transactions in the chain up to its end.
fn copied(from: &Indexed, to: &Indexed) -> Vec<JoinedFile> {
    let snapshot = from.index.snapshot().unwrap();
    let frozen = snapshot.frozen().unwrap();
    let files = snapshot.generation_files();
    let (mut joined, count) = (Vec::new(), files.len());
    for (number, file) in (0..).zip(&files) {
        let path = to.directory.path().join(format!("copy-{number}"));
        fs::copy(file, &path).unwrap();
        let last = if joined.len() + 1 == count { frozen } else { open(&path).range().last };
        let transactions = snapshot.block(last.height).unwrap().unwrap().running.transactions;
        let end = TxNum(u32::try_from(transactions).unwrap());
        joined.push(JoinedFile { path, partial: None, build: number, last, end });
    }
    joined
}

#[test]
fn files_end_before_a_generation_that_a_reorganisation_shortened() {
    let blocks = repeated_coinbases(105, 60);
    let blocks: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let mut indexed = frozen(&blocks, &[40, tip - 20, tip]);
    let files = |indexed: &Indexed| indexed.index.snapshot().unwrap().frozen_files();
    let ends = |indexed: &Indexed| -> (Vec<u32>, Option<Tip>) {
        let files = files(indexed).unwrap().unwrap();
        let row = indexed.index.snapshot().unwrap().block(files.generations.last().unwrap().last.height);
        let totals = row.unwrap().unwrap().running;
        assert_eq!((files.utxo_count, files.utxo_value), (totals.utxo_count, totals.utxo_value));
        (files.generations.iter().map(|file| file.last.height.to_u32()).collect(), files.left_out)
    };
    assert_eq!(ends(&indexed), (vec![40, tip - 20, tip], None));
    indexed.disconnect_to(tip - 30);
    indexed.connect(blocks[at(tip - 30)..].iter().copied(), 6);
    let shortened = indexed.index.snapshot().unwrap().frozen().unwrap();
    assert_eq!((shortened.height, ends(&indexed)), (Height::from(tip - 31), (vec![40], Some(shortened))));

    // joining them all is refused, and nothing is moved
    let mut other = Indexed::empty();
    other.index.set_raw_blocks(Arc::new(BlockBytes::of(blocks.iter().copied())));
    let all = copied(&indexed, &other);
    let refused = other.index.join(&all).unwrap_err();
    assert!(matches!(refused, IndexError::Shortened { last, .. } if last == shortened.height), "{refused}");
    assert!(all.iter().all(|file| file.path.exists()));
    assert_eq!(other.index.join(&all[..1]).unwrap().height, Height::from(40));
    other.connect(blocks[41..].iter().copied(), 6);
    agrees(&other, &blocks);

    // once it is built again all of them can be joined, and what is unspent again is spent
    build_again(&mut indexed);
    assert_eq!(ends(&indexed), (vec![40, tip - 31], None));
    let mut other = Indexed::empty();
    other.index.set_raw_blocks(Arc::new(BlockBytes::of(blocks.iter().copied())));
    let all = copied(&indexed, &other);
    assert_eq!(other.index.join(&all).unwrap(), shortened);
    agrees(&other, &blocks[..at(tip - 30)]);
    other.connect(blocks[at(tip - 30)..].iter().copied(), 6);
    agrees(&other, &blocks);

    // nothing can be published while the oldest is shortened
    indexed.disconnect_to(30);
    let refused = files(&indexed).unwrap_err();
    assert!(matches!(refused, IndexError::Shortened { last, .. } if last == Height::from(29)), "{refused}");
    build_again(&mut indexed);
    assert_eq!(ends(&indexed), (vec![29], None));
}
