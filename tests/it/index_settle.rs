//! What readers see before the disk has it: after a crash at any moment the file holds a state that once was committed.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::Block;
use bitcoin::consensus::serialize;
use btcgraph::index::{Index, Tip};
use btcgraph::sim::SimChain;

use crate::support::indexed::{Indexed, options};

/// Blocks, and an index of the first so many of them.
fn begun(blocks: u32, indexed: usize) -> (Vec<Arc<Block>>, Indexed) {
    let mut chain = SimChain::new(1);
    for _ in 0..blocks {
        chain.mine(Vec::new()).unwrap();
    }
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let index = Indexed::of(blocks[..indexed].iter().map(Arc::as_ref), 10);
    (blocks, index)
}

/// Connects a block that only readers see.
fn connect_unsettled(index: &mut Index, block: &Block) {
    let mut update = index.update().unwrap();
    let block = update.parser().parse(block.block_hash(), serialize(block)).unwrap();
    update.connect(&[block]).unwrap();
    update.commit_unsettled().unwrap();
}

/// The tip that there is after a crash now.
fn after_a_crash(indexed: &Indexed) -> Option<Tip> {
    let directory = tempfile::tempdir().unwrap();
    let copy = options(directory.path());
    std::fs::copy(&options(indexed.directory.path()).path, &copy.path).unwrap();
    Index::open(&copy).unwrap().snapshot().unwrap().tip()
}

fn tip(index: &Index) -> Option<Tip> {
    index.snapshot().unwrap().tip()
}

#[test]
fn readers_see_at_once_what_a_crash_takes_back_until_it_is_settled() {
    let (blocks, mut indexed) = begun(21, 20);
    let before = tip(&indexed.index);
    connect_unsettled(&mut indexed.index, &blocks[20]);
    let seen = tip(&indexed.index);
    assert_eq!(seen.map(|tip| tip.hash), Some(blocks[20].block_hash()));
    assert_eq!(after_a_crash(&indexed), before);
    indexed.index.settle_now().unwrap();
    assert_eq!(after_a_crash(&indexed), seen);
}

#[test]
fn it_settles_by_itself_soon() {
    let (blocks, mut indexed) = begun(21, 20);
    connect_unsettled(&mut indexed.index, &blocks[20]);
    indexed.index.settle().unwrap();
    let (seen, deadline) = (tip(&indexed.index), Instant::now() + Duration::from_mins(1));
    while after_a_crash(&indexed) != seen {
        assert!(Instant::now() < deadline, "it is not written");
        thread::sleep(Duration::from_millis(50));
    }
    indexed.index.keep_settling().unwrap();
}

#[test]
fn blocks_that_come_faster_than_the_disk_are_settled_with_the_next_commit() {
    let (blocks, mut indexed) = begun(40, 20);
    for block in &blocks[20..39] {
        connect_unsettled(&mut indexed.index, block);
        indexed.index.settle().unwrap();
    }
    indexed.connect(blocks[39..].iter().map(Arc::as_ref), 1);
    assert_eq!(after_a_crash(&indexed), tip(&indexed.index));
    assert_eq!(indexed.rows(), Indexed::of(blocks.iter().map(Arc::as_ref), 1).rows());
}

#[test]
fn what_is_not_settled_when_the_index_is_closed_is_settled_then() {
    let (blocks, mut indexed) = begun(21, 20);
    connect_unsettled(&mut indexed.index, &blocks[20]);
    indexed.index.settle().unwrap();
    let seen = tip(&indexed.index);
    let Indexed { index, directory, .. } = indexed;
    drop(index);
    assert_eq!(Index::open(&options(directory.path())).unwrap().snapshot().unwrap().tip(), seen);
}

#[test]
fn an_update_that_is_dropped_leaves_what_is_to_be_settled() {
    let (blocks, mut indexed) = begun(21, 20);
    connect_unsettled(&mut indexed.index, &blocks[20]);
    indexed.index.settle().unwrap();
    let mut update = indexed.index.update().unwrap();
    update.disconnect().unwrap();
    drop(update);
    let seen = tip(&indexed.index);
    assert_eq!(seen.map(|tip| tip.hash), Some(blocks[20].block_hash()));
    indexed.index.settle_now().unwrap();
    assert_eq!(after_a_crash(&indexed), seen);
}

/// Connects a block that readers are told of before the disk has it.
fn connect_told(index: &mut Index, block: &Block) {
    let mut update = index.update().unwrap();
    let block = update.parser().parse(block.block_hash(), serialize(block)).unwrap();
    update.connect(&[block]).unwrap();
    update.commit_told().unwrap();
}

/// The index, with all that is beside it, that there is after a crash now.
fn crashed(indexed: &Indexed) -> Indexed {
    let copy = tempfile::tempdir().unwrap();
    for file in indexed.directory.path().read_dir().unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    Indexed::within(copy)
}

#[test]
fn what_a_crash_took_back_of_what_was_told_is_known_until_the_chain_is_as_high_again() {
    let (blocks, mut indexed) = begun(21, 20);
    assert_eq!(indexed.index.taken_back().unwrap(), None);
    connect_told(&mut indexed.index, &blocks[20]);
    let told = tip(&indexed.index);
    assert_eq!(indexed.index.taken_back().unwrap(), None);
    let mut lacking = crashed(&indexed);
    assert_eq!(lacking.index.taken_back().unwrap(), told);
    // whatever else is written
    lacking.disconnect_to(19);
    assert_eq!(crashed(&lacking).index.taken_back().unwrap(), told);
    lacking.connect(blocks[19..].iter().map(Arc::as_ref), 1);
    assert_eq!(lacking.index.taken_back().unwrap(), None);
    indexed.index.settle_now().unwrap();
    assert_eq!(crashed(&indexed).index.taken_back().unwrap(), None);
}

#[test]
fn a_block_that_left_after_it_was_told_was_not_taken_back() {
    let (blocks, mut indexed) = begun(21, 20);
    connect_told(&mut indexed.index, &blocks[20]);
    indexed.disconnect_to(20);
    assert_eq!(crashed(&indexed).index.taken_back().unwrap(), None);
}

#[test]
fn a_block_of_which_cannot_be_noted_that_it_is_told_waits_for_the_disk() {
    let (blocks, mut indexed) = begun(21, 20);
    std::fs::create_dir(indexed.directory.path().join("index.told")).unwrap();
    connect_told(&mut indexed.index, &blocks[20]);
    assert_eq!(after_a_crash(&indexed), tip(&indexed.index));
}
