//! Commits that readers see before they are durable: after a crash at any moment the file contains a committed state.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bitcoin::Block;
use bitcoin::consensus::serialize;
use btcgraph::index::{Index, Tip};
use btcgraph::sim::SimChain;

use crate::support::indexed::{Indexed, options};

/// Blocks, and an index of the first `indexed` of them.
fn blocks_and_index(blocks: u32, indexed: usize) -> (Vec<Arc<Block>>, Indexed) {
    let mut chain = SimChain::new(1);
    for _ in 0..blocks {
        chain.mine(Vec::new()).unwrap();
    }
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let index = Indexed::of(blocks[..indexed].iter().map(Arc::as_ref), 10);
    (blocks, index)
}

/// Connects a block with a commit that is not durable.
fn connect_non_durable(index: &mut Index, block: &Block) {
    let mut update = index.update().unwrap();
    let block = update.parser().parse(block.block_hash(), serialize(block)).unwrap();
    update.connect(&[block]).unwrap();
    update.commit_non_durable().unwrap();
}

/// The tip after a crash at this moment.
fn after_a_crash(indexed: &Indexed) -> Option<Tip> {
    let directory = tempfile::tempdir().unwrap();
    let copy = options(directory.path());
    std::fs::copy(&options(indexed.directory.path()).path, &copy.path).unwrap();
    Index::open(&copy).unwrap().snapshot().unwrap().tip()
}

fn tip(index: &Index) -> Option<Tip> {
    index.snapshot().unwrap().tip()
}

/// Waits until a crash would lose nothing, while nothing else writes to the index.
#[track_caller]
fn assert_becomes_durable(indexed: &Indexed) {
    let (seen, deadline) = (tip(&indexed.index), Instant::now() + Duration::from_mins(1));
    while after_a_crash(indexed) != seen {
        assert!(Instant::now() < deadline, "the commit does not become durable");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn readers_see_a_commit_at_once_and_a_flush_makes_it_durable() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    let before = tip(&indexed.index);
    connect_non_durable(&mut indexed.index, &blocks[20]);
    let seen = tip(&indexed.index);
    assert_eq!(seen.map(|tip| tip.hash), Some(blocks[20].block_hash()));
    assert_eq!(after_a_crash(&indexed), before);
    indexed.index.flush().unwrap();
    assert_eq!(after_a_crash(&indexed), seen);
}

#[test]
fn a_commit_becomes_durable_soon_by_itself() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    connect_non_durable(&mut indexed.index, &blocks[20]);
    indexed.index.flush_soon().unwrap();
    assert_becomes_durable(&indexed);
    indexed.index.ensure_flushing().unwrap();
}

#[test]
fn a_flush_that_is_delayed_for_blocks_waits_longer() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    let (before, began) = (tip(&indexed.index), Instant::now());
    connect_non_durable(&mut indexed.index, &blocks[20]);
    indexed.index.flush_soon().unwrap();
    indexed.index.delay_flush().unwrap();
    // otherwise the machine is so slow that the flush may have begun before the delay
    let is_delayed = began.elapsed() < Duration::from_millis(500);
    thread::sleep(Duration::from_millis(700));
    let after_the_crash = after_a_crash(&indexed);
    // otherwise the delay may be over
    if is_delayed && began.elapsed() < Duration::from_secs(2) {
        assert_eq!(after_the_crash, before);
    }
    assert_becomes_durable(&indexed);
}

#[test]
fn a_durable_commit_makes_earlier_commits_durable() {
    let (blocks, mut indexed) = blocks_and_index(40, 20);
    for block in &blocks[20..39] {
        connect_non_durable(&mut indexed.index, block);
        indexed.index.flush_soon().unwrap();
    }
    indexed.connect(blocks[39..].iter().map(Arc::as_ref), 1);
    assert_eq!(after_a_crash(&indexed), tip(&indexed.index));
    assert_eq!(indexed.rows(), Indexed::of(blocks.iter().map(Arc::as_ref), 1).rows());
}

#[test]
fn closing_the_index_makes_all_commits_durable() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    connect_non_durable(&mut indexed.index, &blocks[20]);
    indexed.index.flush_soon().unwrap();
    let seen = tip(&indexed.index);
    let Indexed { index, directory, .. } = indexed;
    drop(index);
    assert_eq!(Index::open(&options(directory.path())).unwrap().snapshot().unwrap().tip(), seen);
}

#[test]
fn a_dropped_update_keeps_earlier_commits_to_be_flushed() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    connect_non_durable(&mut indexed.index, &blocks[20]);
    indexed.index.flush_soon().unwrap();
    let mut update = indexed.index.update().unwrap();
    update.disconnect().unwrap();
    drop(update);
    let seen = tip(&indexed.index);
    assert_eq!(seen.map(|tip| tip.hash), Some(blocks[20].block_hash()));
    indexed.index.flush().unwrap();
    assert_eq!(after_a_crash(&indexed), seen);
}

#[test]
fn a_dropped_update_starts_the_cancelled_flush_again() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    connect_non_durable(&mut indexed.index, &blocks[20]);
    indexed.index.flush_soon().unwrap();
    drop(indexed.index.update().unwrap());
    assert_becomes_durable(&indexed);
    indexed.index.ensure_flushing().unwrap();
}

/// Connects a block that is announced before it is durable.
fn connect_announced(index: &mut Index, block: &Block) {
    let mut update = index.update().unwrap();
    let block = update.parser().parse(block.block_hash(), serialize(block)).unwrap();
    update.connect(&[block]).unwrap();
    update.commit_announced().unwrap();
}

/// The index, with the files beside it, after a crash at this moment.
fn crashed(indexed: &Indexed) -> Indexed {
    let copy = tempfile::tempdir().unwrap();
    for file in indexed.directory.path().read_dir().unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    Indexed::within(copy)
}

#[test]
fn a_lost_announcement_is_known_until_the_chain_is_as_high() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    assert_eq!(indexed.index.lost_announcement().unwrap(), None);
    connect_announced(&mut indexed.index, &blocks[20]);
    let announced = tip(&indexed.index);
    assert_eq!(indexed.index.lost_announcement().unwrap(), None);
    let mut lacking = crashed(&indexed);
    assert_eq!(lacking.index.lost_announcement().unwrap(), announced);
    // other commits do not change that
    lacking.disconnect_to(19);
    assert_eq!(crashed(&lacking).index.lost_announcement().unwrap(), announced);
    lacking.connect(blocks[19..].iter().map(Arc::as_ref), 1);
    assert_eq!(lacking.index.lost_announcement().unwrap(), None);
    indexed.index.flush().unwrap();
    assert_eq!(crashed(&indexed).index.lost_announcement().unwrap(), None);
}

#[test]
fn an_abandoned_block_is_known_until_the_chain_is_as_high() {
    let mut chain = SimChain::new(1);
    chain.mine_empty(20).unwrap();
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let other = chain.mine_on(blocks[18].block_hash(), Vec::new()).unwrap();
    let mut indexed = Indexed::of(blocks[..20].iter().map(Arc::as_ref), 10);
    connect_announced(&mut indexed.index, &blocks[20]);
    let abandoned = tip(&indexed.index);
    let lacking = crashed(&indexed);
    lacking.index.abandon_announcement(abandoned.unwrap()).unwrap();
    let found = |indexed: &Indexed| {
        (indexed.index.lost_announcement().unwrap(), indexed.index.abandoned_announcement().unwrap())
    };
    let mut lower = crashed(&lacking);
    assert_eq!(found(&lower), (None, abandoned));

    // a block announced and lost below it can be abandoned, too
    lower.disconnect_to(19);
    connect_announced(&mut lower.index, &other);
    let newest = tip(&lower.index);
    let lacking = crashed(&lower);
    assert_eq!(found(&lacking), (newest, abandoned));
    lacking.index.abandon_announcement(newest.unwrap()).unwrap();
    assert_eq!(found(&crashed(&lacking)), (None, abandoned));

    // the node sends it again, and a crash loses it again
    let mut back = crashed(&lacking);
    back.disconnect_to(19);
    back.connect([blocks[19].as_ref()], 1);
    connect_announced(&mut back.index, &blocks[20]);
    assert_eq!(found(&back), (None, None));
    assert_eq!(found(&crashed(&back)), (abandoned, None));
}

#[test]
fn a_block_disconnected_after_its_announcement_is_not_lost() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    connect_announced(&mut indexed.index, &blocks[20]);
    indexed.disconnect_to(20);
    assert_eq!(crashed(&indexed).index.lost_announcement().unwrap(), None);
}

#[test]
fn a_block_whose_announcement_cannot_be_noted_is_durable() {
    let (blocks, mut indexed) = blocks_and_index(21, 20);
    std::fs::create_dir(indexed.directory.path().join("index.announced")).unwrap();
    connect_announced(&mut indexed.index, &blocks[20]);
    assert_eq!(after_a_crash(&indexed), tip(&indexed.index));
}
