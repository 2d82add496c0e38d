//! Observations of a running server: kept up to their limits, and never part of the chain.

use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Network, Txid};
use btcgraph::chain::Height;
use btcgraph::index::{
    DeadTransaction, Index, IndexError, IndexOptions, Observations, ObservedBlock, ObservedLimits, Reorg, ReorgOutcome,
    Tip, TxNum,
};
use btcgraph::sim::{Hostile, SimChain};

use crate::support::indexed::{Indexed, options};

const FEW: ObservedLimits = ObservedLimits { departed: 2, first_seen: 3, blocks: 2, reorgs: 2, mempool_samples: 2 };

/// An empty index with low limits.
fn few() -> Indexed {
    let directory = tempfile::tempdir().unwrap();
    let index = Index::open(&IndexOptions { observed: FEW, ..options(directory.path()) }).unwrap();
    Indexed { index, directory }
}

fn txid(byte: u8) -> Txid {
    Txid::from_byte_array([byte; 32])
}

fn block(byte: u8) -> BlockHash {
    BlockHash::from_byte_array([byte; 32])
}

fn reorg(disconnected: &[u8], connected: &[u8], at: u64) -> Reorg {
    Reorg {
        at,
        fork: Tip { height: Height::GENESIS, hash: block(0) },
        disconnected: disconnected.iter().copied().map(block).collect(),
        connected: connected.iter().copied().map(block).collect(),
        outcome: Some(ReorgOutcome {
            returned: vec![txid(7)],
            died: vec![DeadTransaction { txid: txid(8), block: block(1), conflicting: vec![txid(9)] }],
            is_whole: true,
        }),
        first_seen: Vec::new(),
    }
}

fn observe(indexed: &mut Indexed, observations: &Observations) {
    let mut update = indexed.index.update().unwrap();
    update.observe(observations).unwrap();
    update.commit().unwrap();
}

fn mempool(indexed: &Indexed) -> Vec<(Txid, Vec<u8>)> {
    indexed.index.snapshot().unwrap().persisted_mempool().unwrap().map(Result::unwrap).collect()
}

#[test]
fn the_persisted_mempool_is_updated_and_cleared() {
    let mut indexed = few();
    let there = |byte, row: &[u8]| (txid(byte), Some(row.to_vec()));
    let first = Observations { mempool: vec![there(1, b"one"), there(2, b"two")], ..Observations::default() };
    observe(&mut indexed, &first);
    let then = vec![(txid(1), None), there(2, b"two anew"), there(3, b"three"), (txid(4), None)];
    observe(&mut indexed, &Observations { mempool: then, ..Observations::default() });
    assert_eq!(mempool(&indexed), [(txid(2), b"two anew".to_vec()), (txid(3), b"three".to_vec())]);
    let mut update = indexed.index.update().unwrap();
    update.clear_mempool().unwrap();
    update.commit().unwrap();
    assert_eq!(mempool(&indexed), []);
}

#[test]
fn the_newest_departures_and_samples_are_kept() {
    let mut indexed = few();
    for number in 1..=4_u32 {
        let row = number.to_be_bytes().to_vec();
        let departed = vec![(number.into(), row.clone())];
        observe(
            &mut indexed,
            &Observations { departed, mempool_sample: Some((number, row)), ..Observations::default() },
        );
    }
    let snapshot = indexed.index.snapshot().unwrap();
    let departed: Vec<_> = snapshot.persisted_departed().unwrap().map(|row| row.unwrap().0).collect();
    let samples = |from, to| -> Vec<_> {
        snapshot
            .mempool_samples(from..=to)
            .unwrap()
            .map(|row| row.unwrap())
            .map(|(minute, row)| (minute, row[3]))
            .collect()
    };
    assert_eq!(departed, [3, 4]);
    assert_eq!((samples(0, u32::MAX), samples(4, 9), samples(0, 2)), (vec![(3, 3), (4, 4)], vec![(4, 4)], vec![]));
}

#[test]
fn the_highest_observed_blocks_are_kept_with_their_first_observation() {
    let mut indexed = few();
    let tip = |height: u32, byte| Tip { height: height.into(), hash: BlockHash::from_byte_array([byte; 32]) };
    let observed = |first_seen, audit: &[u8]| ObservedBlock { first_seen, audit: audit.to_vec() };
    let (stale, block, later) = (tip(7, 2), tip(7, 1), tip(8, 3));
    let record = |indexed: &mut Indexed, block, row: &ObservedBlock| {
        let mut update = indexed.index.update().unwrap();
        update.record_observed_block(block, row).unwrap();
        update.commit().unwrap();
    };
    let read = |indexed: &Indexed, block| indexed.index.snapshot().unwrap().observed_block(block).unwrap();
    record(&mut indexed, stale, &observed(70, b"compared"));
    record(&mut indexed, block, &observed(71, b""));
    assert_eq!(read(&indexed, stale), Some(observed(70, b"compared")));
    assert_eq!(read(&indexed, tip(7, 3)), None);
    // it is connected again by a reorganisation
    record(&mut indexed, stale, &observed(99, b"again"));
    assert_eq!(read(&indexed, stale), Some(observed(70, b"compared")));
    record(&mut indexed, later, &observed(u64::from(u32::MAX) + 1, b""));
    assert_eq!(read(&indexed, later), Some(observed(u32::MAX.into(), b"")));
    assert_eq!([read(&indexed, block), read(&indexed, stale)], [None, Some(observed(70, b"compared"))]);
}

#[test]
fn a_first_seen_time_is_deleted_with_its_block() {
    let (mut chain, mut hostile) = (SimChain::new(1), Hostile::new(1));
    for _ in 0..12 {
        hostile.mine(&mut chain).unwrap();
    }
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let mut indexed = few();
    indexed.connect(blocks.iter().map(AsRef::as_ref), 5);
    let first: Vec<u32> = blocks
        .iter()
        .scan(0, |next, block| {
            let first = *next;
            *next += u32::try_from(block.txdata.len()).unwrap();
            Some(first)
        })
        .collect();
    let mut update = indexed.index.update().unwrap();
    for (height, seconds) in [(3_u32, 300), (10, 1_000), (11, u64::from(u32::MAX) + 1)] {
        update.record_first_seen(height.into(), [(0, seconds)]).unwrap();
    }
    update.commit().unwrap();
    let seen = |indexed: &Indexed, height: usize| {
        indexed.index.snapshot().unwrap().first_seen_at(TxNum(first[height])).unwrap()
    };
    let all = |indexed: &Indexed| [3, 9, 10, 11].map(|height| seen(indexed, height));
    assert_eq!(all(&indexed), [Some(300), None, Some(1_000), Some(u32::MAX.into())]);

    indexed.disconnect_to(11);
    assert_eq!(all(&indexed), [Some(300), None, Some(1_000), None]);
    indexed.connect([blocks[11].as_ref()], 1);
    assert_eq!(seen(&indexed, 11), None, "a reconnected block needs its times recorded again");

    let mut update = indexed.index.update().unwrap();
    update.record_first_seen(9.into(), [(0, 9)]).unwrap();
    update.record_first_seen(11.into(), [(0, 11)]).unwrap();
    update.commit().unwrap();
    assert_eq!(all(&indexed), [None, Some(9), Some(1_000), Some(11)], "the three of the newest transactions are kept");
    let refused = indexed.index.update().unwrap().record_first_seen(12.into(), [(0, 1)]);
    assert!(matches!(refused, Err(IndexError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn a_lowered_limit_is_reached_by_bounded_deletions() {
    /// The rows that a call deletes at most beside those that it adds.
    const MOST: usize = 4_000;
    let (many, few) = (20_000_u32, 10);
    let mut indexed = Indexed::of([&genesis_block(Network::Regtest)], 1);
    let mut update = indexed.index.update().unwrap();
    // the rows do not depend on those of transactions
    update.record_first_seen(Height::GENESIS, (0..many).map(|index| (index, 7))).unwrap();
    update.commit().unwrap();
    let Indexed { index, directory } = indexed;
    drop(index);
    let observed = ObservedLimits { first_seen: few, ..ObservedLimits::default() };
    let mut index = Index::open(&IndexOptions { observed, ..options(directory.path()) }).unwrap();

    let rows = |index: &Index| {
        let snapshot = index.snapshot().unwrap();
        snapshot.first_seen_within(TxNum(0)..TxNum(u32::MAX)).unwrap().map(|row| row.unwrap().0).collect::<Vec<_>>()
    };
    let mut before = rows(&index).len();
    assert_eq!(before, 20_000);
    for at in many..many + 5 {
        let mut update = index.update().unwrap();
        update.record_first_seen(Height::GENESIS, [(at, 8)]).unwrap();
        update.commit().unwrap();
        let left = rows(&index).len();
        assert!(left < before && before - left <= MOST, "{left} of {before} are left");
        before = left;
    }
    // the newest
    assert_eq!(rows(&index), (many - 5..many + 5).map(TxNum).collect::<Vec<_>>());
}

#[test]
fn the_newest_reorgs_are_numbered_and_found_by_their_blocks() {
    let mut indexed = few();
    // 3 replaces 1 and 2, then 1 and 2 replace 3, then the chain only becomes shorter
    let all = [reorg(&[2, 1], &[3], 10), reorg(&[3], &[1, 2, 4], 20), reorg(&[4], &[], 30)];
    let numbers = |indexed: &Indexed| -> Vec<_> {
        indexed.index.snapshot().unwrap().reorgs(0..u64::MAX).unwrap().map(Result::unwrap).collect()
    };
    for (number, reorg) in (1..).zip(&all[..2]) {
        let mut update = indexed.index.update().unwrap();
        update.record_reorg(reorg).unwrap();
        update.commit().unwrap();
        assert_eq!(numbers(&indexed).last(), Some(&(number, reorg.clone())));
    }
    let snapshot = indexed.index.snapshot().unwrap();
    let left = |byte| snapshot.reorg_that_disconnected(block(byte)).unwrap();
    let to = |byte| snapshot.reorg_to(block(byte)).unwrap();
    assert_eq!([1, 2, 3, 4].map(left), [Some(all[0].clone()), Some(all[0].clone()), Some(all[1].clone()), None]);
    assert_eq!([3, 2, 4].map(to), [Some(all[0].clone()), None, Some(all[1].clone())]);

    let mut update = indexed.index.update().unwrap();
    update.record_reorg(&all[2]).unwrap();
    update.commit().unwrap();
    assert_eq!(numbers(&indexed), [(2, all[1].clone()), (3, all[2].clone())]);
    let snapshot = indexed.index.snapshot().unwrap();
    assert_eq!(snapshot.reorg_that_disconnected(block(1)).unwrap(), None);
    assert_eq!(snapshot.reorg_that_disconnected(block(4)).unwrap(), Some(all[2].clone()));
    assert_eq!(snapshot.reorg_to(block(0)).unwrap(), Some(all[2].clone()));
}

fn amend(indexed: &mut Indexed, number: u64, reorg: &Reorg) {
    let mut update = indexed.index.update().unwrap();
    update.amend_reorg(number, reorg).unwrap();
    update.commit().unwrap();
}

#[test]
fn an_amended_reorg_keeps_its_number_and_is_found_by_its_tip() {
    let mut indexed = few();
    // 1 replaces 2, and then 4 is disconnected and replaced in two commits
    let all = [reorg(&[2], &[1], 10), reorg(&[4], &[], 20)];
    for reorg in &all {
        let mut update = indexed.index.update().unwrap();
        update.record_reorg(reorg).unwrap();
        update.commit().unwrap();
    }
    let to = |indexed: &Indexed, byte| indexed.index.snapshot().unwrap().reorg_to(block(byte)).unwrap();
    assert_eq!(to(&indexed, 0), Some(all[1].clone()));
    let mut grown = reorg(&[4, 3], &[1], 20);
    amend(&mut indexed, 2, &grown);
    assert_eq!([0, 1].map(|byte| to(&indexed, byte)), [None, Some(grown.clone())]);
    grown = Reorg { outcome: None, first_seen: vec![(txid(3), 5)], ..reorg(&[4, 3], &[1, 5], 20) };
    amend(&mut indexed, 2, &grown);
    // the older reorganisation is found by its tip again
    assert_eq!([1, 5].map(|byte| to(&indexed, byte)), [Some(all[0].clone()), Some(grown.clone())]);
    let snapshot = indexed.index.snapshot().unwrap();
    assert_eq!(
        [3, 4].map(|byte| snapshot.reorg_that_disconnected(block(byte)).unwrap()),
        [(); 2].map(|()| Some(grown.clone()))
    );
    assert_eq!(snapshot.kept_reorgs().unwrap(), 1..3);

    // a reorganisation that is not kept any more is not written again
    for at in [30, 40] {
        let mut update = indexed.index.update().unwrap();
        assert_eq!(update.record_reorg(&reorg(&[8], &[9], at)).unwrap(), at / 10);
        update.commit().unwrap();
    }
    amend(&mut indexed, 2, &grown);
    assert_eq!((indexed.index.snapshot().unwrap().kept_reorgs().unwrap(), to(&indexed, 5)), (3..5, None));
}

#[test]
fn a_block_disconnected_twice_is_found_in_the_newer_reorg() {
    let mut indexed = few();
    let all = [reorg(&[1], &[2], 10), reorg(&[2], &[1], 20), reorg(&[1], &[2], 30)];
    for reorg in &all {
        let mut update = indexed.index.update().unwrap();
        update.record_reorg(reorg).unwrap();
        update.commit().unwrap();
    }
    let snapshot = indexed.index.snapshot().unwrap();
    assert_eq!(snapshot.reorg_that_disconnected(block(1)).unwrap(), Some(all[2].clone()));
    assert_eq!(snapshot.reorg_to(block(2)).unwrap(), Some(all[2].clone()));
    assert_eq!(snapshot.reorg_to(block(1)).unwrap(), Some(all[1].clone()));
}

#[test]
fn observations_do_not_change_the_rows_of_the_chain() {
    let (mut chain, mut hostile) = (SimChain::new(2), Hostile::new(2));
    for _ in 0..10 {
        hostile.mine(&mut chain).unwrap();
    }
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let mut indexed = Indexed::of(blocks.iter().map(AsRef::as_ref), 10);
    let rows = indexed.rows();
    let row = (1, b"row".to_vec());
    let observations = Observations {
        mempool: vec![(txid(1), Some(b"row".to_vec()))],
        departed: vec![row.clone()],
        mempool_sample: Some((1, row.1)),
    };
    observe(&mut indexed, &observations);
    let mut update = indexed.index.update().unwrap();
    update.record_first_seen(1.into(), [(0, 1)]).unwrap();
    update.record_reorg(&reorg(&[2, 1], &[3], 10)).unwrap();
    update.commit().unwrap();
    assert_eq!(indexed.rows(), rows);
}
