//! What following has seen, written down beside the chain: kept as long as it is said, and never a part of the chain.

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, Txid};
use btcgraph::chain::Height;
use btcgraph::index::{
    DeadTransaction, Index, IndexError, IndexOptions, Observations, ObservedLimits, Outcome, Reorg, Tip, TxNum,
};
use btcgraph::sim::{Hostile, SimChain};

use crate::support::indexed::{Indexed, options};

const FEW: ObservedLimits = ObservedLimits { departed: 2, first_seen: 3, reorgs: 2, mempool_samples: 2 };

/// An empty index that keeps few.
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
        outcome: Some(Outcome {
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
    indexed.index.snapshot().unwrap().written_mempool().unwrap().map(Result::unwrap).collect()
}

#[test]
fn the_mempool_is_what_was_written_last_and_can_be_forgotten() {
    let mut indexed = few();
    let there = |byte, row: &[u8]| (txid(byte), Some(row.to_vec()));
    let first = Observations { mempool: vec![there(1, b"one"), there(2, b"two")], ..Observations::default() };
    observe(&mut indexed, &first);
    let then = vec![(txid(1), None), there(2, b"two anew"), there(3, b"three"), (txid(4), None)];
    observe(&mut indexed, &Observations { mempool: then, ..Observations::default() });
    assert_eq!(mempool(&indexed), [(txid(2), b"two anew".to_vec()), (txid(3), b"three".to_vec())]);
    let mut update = indexed.index.update().unwrap();
    update.forget_mempool().unwrap();
    update.commit().unwrap();
    assert_eq!(mempool(&indexed), []);
}

#[test]
fn the_newest_departures_and_samples_stay() {
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
    let departed: Vec<_> = snapshot.written_departed().unwrap().map(|row| row.unwrap().0).collect();
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
fn a_first_seen_time_lives_as_long_as_its_block_is_in_the_chain() {
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
        update.note_first_seen(height.into(), [(0, seconds)]).unwrap();
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
    assert_eq!(seen(&indexed, 11), None, "it has to be noted again");

    let mut update = indexed.index.update().unwrap();
    update.note_first_seen(9.into(), [(0, 9)]).unwrap();
    update.note_first_seen(11.into(), [(0, 11)]).unwrap();
    update.commit().unwrap();
    assert_eq!(all(&indexed), [None, Some(9), Some(1_000), Some(11)], "three stay, of the newest transactions");
    let refused = indexed.index.update().unwrap().note_first_seen(12.into(), [(0, 1)]);
    assert!(matches!(refused, Err(IndexError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn reorganisations_are_numbered_found_by_their_blocks_and_the_newest_stay() {
    let mut indexed = few();
    // 3 takes the place of 1 and 2, then 1 and 2 come back, then the chain only shortens
    let all = [reorg(&[2, 1], &[3], 10), reorg(&[3], &[1, 2, 4], 20), reorg(&[4], &[], 30)];
    let numbers = |indexed: &Indexed| -> Vec<_> {
        indexed.index.snapshot().unwrap().reorgs(0..u64::MAX).unwrap().map(Result::unwrap).collect()
    };
    for (number, reorg) in (1..).zip(&all[..2]) {
        let mut update = indexed.index.update().unwrap();
        update.note_reorg(reorg).unwrap();
        update.commit().unwrap();
        assert_eq!(numbers(&indexed).last(), Some(&(number, reorg.clone())));
    }
    let snapshot = indexed.index.snapshot().unwrap();
    let left = |byte| snapshot.reorg_that_disconnected(block(byte)).unwrap();
    let to = |byte| snapshot.reorg_to(block(byte)).unwrap();
    assert_eq!([1, 2, 3, 4].map(left), [Some(all[0].clone()), Some(all[0].clone()), Some(all[1].clone()), None]);
    assert_eq!([3, 2, 4].map(to), [Some(all[0].clone()), None, Some(all[1].clone())]);

    let mut update = indexed.index.update().unwrap();
    update.note_reorg(&all[2]).unwrap();
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
fn a_reorganisation_that_is_written_again_keeps_its_number_and_is_found_by_what_it_is_now() {
    let mut indexed = few();
    // 1 leaves, 1 comes back, and then 4 leaves, for 5 and 6 in two commits
    let all = [reorg(&[2], &[1], 10), reorg(&[4], &[], 20)];
    for reorg in &all {
        let mut update = indexed.index.update().unwrap();
        update.note_reorg(reorg).unwrap();
        update.commit().unwrap();
    }
    let to = |indexed: &Indexed, byte| indexed.index.snapshot().unwrap().reorg_to(block(byte)).unwrap();
    assert_eq!(to(&indexed, 0), Some(all[1].clone()));
    let mut grown = reorg(&[4, 3], &[1], 20);
    amend(&mut indexed, 2, &grown);
    assert_eq!([0, 1].map(|byte| to(&indexed, byte)), [None, Some(grown.clone())]);
    grown = Reorg { outcome: None, first_seen: vec![(txid(3), 5)], ..reorg(&[4, 3], &[1, 5], 20) };
    amend(&mut indexed, 2, &grown);
    // what the other had before is its own again
    assert_eq!([1, 5].map(|byte| to(&indexed, byte)), [Some(all[0].clone()), Some(grown.clone())]);
    let snapshot = indexed.index.snapshot().unwrap();
    assert_eq!(
        [3, 4].map(|byte| snapshot.reorg_that_disconnected(block(byte)).unwrap()),
        [(); 2].map(|()| Some(grown.clone()))
    );
    assert_eq!(snapshot.kept_reorgs().unwrap(), 1..3);

    // one that is not kept any more stays away
    for at in [30, 40] {
        let mut update = indexed.index.update().unwrap();
        assert_eq!(update.note_reorg(&reorg(&[8], &[9], at)).unwrap(), at / 10);
        update.commit().unwrap();
    }
    amend(&mut indexed, 2, &grown);
    assert_eq!((indexed.index.snapshot().unwrap().kept_reorgs().unwrap(), to(&indexed, 5)), (3..5, None));
}

#[test]
fn a_block_that_left_twice_is_found_in_the_newer_reorganisation_also_when_the_older_is_forgotten() {
    let mut indexed = few();
    let all = [reorg(&[1], &[2], 10), reorg(&[2], &[1], 20), reorg(&[1], &[2], 30)];
    for reorg in &all {
        let mut update = indexed.index.update().unwrap();
        update.note_reorg(reorg).unwrap();
        update.commit().unwrap();
    }
    let snapshot = indexed.index.snapshot().unwrap();
    assert_eq!(snapshot.reorg_that_disconnected(block(1)).unwrap(), Some(all[2].clone()));
    assert_eq!(snapshot.reorg_to(block(2)).unwrap(), Some(all[2].clone()));
    assert_eq!(snapshot.reorg_to(block(1)).unwrap(), Some(all[1].clone()));
}

#[test]
fn what_was_seen_is_no_part_of_the_chain() {
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
    update.note_first_seen(1.into(), [(0, 1)]).unwrap();
    update.note_reorg(&reorg(&[2, 1], &[3], 10)).unwrap();
    update.commit().unwrap();
    assert_eq!(indexed.rows(), rows);
}
