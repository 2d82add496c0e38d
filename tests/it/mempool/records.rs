//! The durable record of a reorganisation, and when it is written.

use std::sync::Arc;
use std::time::Duration;

use bitcoin::{BlockHash, Txid};
use btcgraph::index::{Index, Reorg, ReorgOutcome};
use btcgraph::sim::{Mining, SimNode};
use btcgraph::view::Head;
use tempfile::TempDir;

use super::following::{Following, How, PATIENCE};
use super::simulated::{pay, pay_on, quiet, send};
use crate::support::bitcoind::wait_for;
use crate::support::indexed::{in_memory, options};

const LIST: &str = "getrawmempool";

fn tip(sim: &SimNode) -> BlockHash {
    sim.with(|world| world.chain().tip()).unwrap()
}

fn mine(sim: &SimNode) {
    sim.with(|world| world.mine(Mining::default())).unwrap().unwrap();
}

fn records(head: &Head) -> Vec<Reorg> {
    head.chain.reorgs(0..u64::MAX).unwrap().map(|row| row.unwrap().1).collect()
}

/// The only record, once it contains the outcome for transactions.
fn finished(following: &Following) -> (Reorg, ReorgOutcome) {
    wait_for("the outcome", PATIENCE, || {
        let [reorg] = &records(&following.head())[..] else { panic!("there is not one record") };
        reorg.outcome.clone().map(|outcome| (reorg.clone(), outcome))
    })
}

/// A copy of the index on disk, as a process that is killed leaves it; `None` if it was being written.
fn as_if_killed(directory: &TempDir) -> Option<Arc<TempDir>> {
    let copy = in_memory();
    for file in directory.path().read_dir().unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    Index::open(&options(copy.path())).ok().map(|_| Arc::new(copy))
}

fn first_seen(head: &Head, txid: &Txid) -> Option<u64> {
    head.mempool.get(txid).map(|entry| entry.first_seen)
}

#[test]
fn a_kill_in_a_reorg_keeps_its_record_and_first_seen_times() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let following = Following::within(&directory, &sim);
    let returns = send(&sim, &pay(&coins[0], 5));
    let seen = first_seen(&following.assert_catches_up(&sim), &returns);
    mine(&sim);
    let before = following.assert_catches_up(&sim);
    std::thread::sleep(Duration::from_millis(1_100));

    // the node is slow to report which transactions returned to its mempool
    sim.delay(Duration::from_millis(400));
    sim.with(|world| world.reorg(1, 2, Vec::new(), &Mining::default())).unwrap().unwrap();
    // another tip than before is not enough: the block that left may not have been on the disk yet
    let killed = wait_for("the record", PATIENCE, || {
        let killed = as_if_killed(&directory)?;
        let snapshot = Index::open(&options(killed.path())).unwrap().snapshot().unwrap();
        snapshot.reorgs(0..u64::MAX).unwrap().next().is_some().then_some(killed)
    });
    sim.delay(Duration::ZERO);
    following.assert_catches_up(&sim);
    assert_eq!(finished(&following).1.returned, [returns]);
    following.stop();

    let following = Following::within(&killed, &sim);
    let head = following.assert_catches_up(&sim);
    let (record, outcome) = finished(&following);
    let fork = head.chain.block_hash(before.tip.height.previous().unwrap()).unwrap();
    assert_eq!((record.fork.hash, &record.disconnected[..]), (fork, &[before.tip.hash][..]));
    assert_eq!((record.connected.len(), record.new_tip()), (2, tip(&sim)));
    assert_eq!(outcome, ReorgOutcome { returned: vec![returns], died: Vec::new(), is_whole: true });
    assert_eq!(first_seen(&head, &returns), seen);
    following.stop();
}

#[test]
fn outcomes_are_recorded_after_the_next_list_of_the_node() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    let [returns, dropped] = [0, 1].map(|coin| send(&sim, &pay(&coins[coin], 5)));
    mine(&sim);
    let left = following.assert_catches_up(&sim).tip;
    sim.override_response(LIST, Some((503, "Work queue depth exceeded")));
    sim.with(|world| {
        world.reorg(1, 2, Vec::new(), &Mining::default()).unwrap();
        world.evict(&dropped)
    })
    .unwrap();
    wait_for("the tip", PATIENCE, || (following.head().tip.hash == tip(&sim)).then_some(()));
    let [record] = &records(&following.head())[..] else { panic!("there is not one record") };
    assert_eq!((&record.disconnected[..], record.connected.len()), (&[left.hash][..], 2));
    assert_eq!(record.outcome, None, "the outcome is unknown until the next list");
    sim.override_response(LIST, None);
    let (_, ReorgOutcome { returned, died, is_whole }) = finished(&following);
    assert_eq!((returned, is_whole), (vec![returns], true));
    assert_eq!(died.iter().map(|dead| dead.txid).collect::<Vec<_>>(), [dropped]);
    following.stop();
}

#[test]
fn removals_in_a_reorg_are_not_reported_as_returned() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    // the block that makes this coin spendable is disconnected, so the block of its spend cannot be connected again
    let (young, old) = (pay(&coins[20], 5), pay(&coins[0], 5));
    let above = pay_on(&young, 9);
    sim.with(|world| world.mine_exactly(vec![young.clone(), old.clone(), above.clone()], Mining::default()))
        .unwrap()
        .unwrap();
    let lower = following.assert_catches_up(&sim).tip.height.previous().unwrap();
    let lower = sim.with(|world| world.chain().hash_at(lower).unwrap()).unwrap();
    sim.override_response(LIST, Some((503, "Work queue depth exceeded")));
    sim.with(|world| world.invalidate(&lower)).unwrap().unwrap();
    wait_for("the tip", PATIENCE, || (following.head().tip.hash == tip(&sim)).then_some(()));
    sim.override_response(LIST, None);
    let (_, outcome) = finished(&following);
    assert_eq!(outcome.returned, [old.compute_txid()]);
    assert_eq!(
        outcome.died.iter().map(|dead| dead.txid).collect::<Vec<_>>(),
        [young, above].map(|tx| tx.compute_txid())
    );
    following.stop();
}

#[test]
fn a_reorg_in_many_commits_is_one_record_up_to_the_old_height() {
    let (sim, coins) = quiet();
    // the cache is so small that every disconnected block is a commit, as there are many
    let following = Following::with_options(&sim, How { cache_bytes: 1 << 14, ..How::default() });
    let [returns, moves, lost] = [0, 1, 2].map(|coin| send(&sim, &pay(&coins[coin], 5)));
    mine(&sim);
    sim.with(|world| (0..12).try_for_each(|_| world.mine(Mining::default()).map(drop))).unwrap().unwrap();
    let before = following.assert_catches_up(&sim);
    let left: Vec<_> = (before.tip.height.to_u32() - 12..=before.tip.height.to_u32()).rev().collect();
    let left: Vec<_> = left.into_iter().map(|height| before.chain.block_hash(height.into()).unwrap()).collect();
    // the transaction that moves is in a block of a later commit
    let other = pay(&coins[2], 9);
    let branch = vec![vec![], vec![other.clone()], vec![], vec![], vec![], vec![], vec![pay(&coins[1], 5)]];
    sim.with(|world| world.reorg(13, 16, branch, &Mining::default())).unwrap().unwrap();
    let head = following.assert_catches_up(&sim);
    let (record, outcome) = finished(&following);
    assert_eq!((record.disconnected.clone(), record.fork.height.to_u32()), (left.clone(), 120));
    let joined: Vec<_> = (121..=136_u32).map(|height| head.chain.block_hash(height.into()).unwrap()).collect();
    assert!(record.connected.len() >= 13, "the record does not reach the old height: {}", record.connected.len());
    assert_eq!(record.connected[..], joined[..record.connected.len()]);
    assert_eq!((outcome.returned, outcome.is_whole), (vec![returns], true));
    let died: Vec<_> = outcome.died.into_iter().map(|dead| (dead.txid, dead.block, dead.conflicting)).collect();
    assert_eq!(died, [(lost, left[12], vec![other.compute_txid()])]);
    assert!(!head.chain.positions(&moves).unwrap().is_empty());
    following.stop();
}

#[test]
fn a_record_without_the_disconnected_blocks_is_incomplete() {
    let (sim, coins) = quiet();
    let following = Following::with_options(&sim, How { stale_blocks_kept: 1, ..How::default() });
    let lower = send(&sim, &pay(&coins[0], 5));
    mine(&sim);
    let upper = send(&sim, &pay(&coins[1], 5));
    mine(&sim);
    following.assert_catches_up(&sim);
    sim.with(|world| world.reorg(2, 3, Vec::new(), &Mining::default())).unwrap().unwrap();
    let head = following.assert_catches_up(&sim);
    let (record, outcome) = finished(&following);
    assert_eq!((record.disconnected.len(), outcome.returned, outcome.is_whole), (2, vec![upper], false));
    assert!(head.mempool.get(&lower).is_some());
    following.stop();
}

#[test]
fn without_a_mempool_list_the_next_reorg_completes_the_record() {
    let (sim, _) = quiet();
    let following = Following::of_simulated(&sim, true);
    following.assert_catches_up(&sim);
    sim.override_response(LIST, Some((503, "Work queue depth exceeded")));
    for records_then in 1..=2 {
        sim.with(|world| world.reorg(1, 2, Vec::new(), &Mining::default())).unwrap().unwrap();
        wait_for("the record", PATIENCE, || {
            let head = following.head();
            (head.tip.hash == tip(&sim) && records(&head).len() == records_then).then_some(())
        });
    }
    let outcomes: Vec<_> = records(&following.head()).into_iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Some(ReorgOutcome::default()), None]);
    sim.override_response(LIST, None);
    wait_for("the outcome", PATIENCE, || records(&following.head())[1].outcome.clone().filter(|it| it.is_whole));
    following.stop();
}

#[test]
fn a_record_that_a_run_did_not_finish_is_finished_by_the_next() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let following = Following::within(&directory, &sim);
    let returns = send(&sim, &pay(&coins[0], 5));
    mine(&sim);
    following.assert_catches_up(&sim);
    sim.override_response(LIST, Some((503, "Work queue depth exceeded")));
    sim.with(|world| world.reorg(1, 2, Vec::new(), &Mining::default())).unwrap().unwrap();
    wait_for("the tip", PATIENCE, || (following.head().tip.hash == tip(&sim)).then_some(()));
    assert_eq!(records(&following.head())[0].outcome, None);
    following.stop();
    sim.override_response(LIST, None);
    let following = Following::within(&directory, &sim);
    following.assert_catches_up(&sim);
    let (record, outcome) = finished(&following);
    assert_eq!(record.first_seen, []);
    assert_eq!(outcome, ReorgOutcome { returned: vec![returns], died: Vec::new(), is_whole: true });
    following.stop();
}

#[test]
fn a_second_reorg_keeps_the_first_seen_times_of_the_first() {
    let (sim, coins) = quiet();
    let how = How { listening: false, stale_blocks_kept: 0, ..How::default() };
    let following = Following::with_options(&sim, how);
    let returns = send(&sim, &pay(&coins[0], 5));
    let seen = first_seen(&following.assert_catches_up(&sim), &returns);
    mine(&sim);
    following.assert_catches_up(&sim);
    std::thread::sleep(Duration::from_millis(1_100));
    sim.override_response(LIST, Some((503, "Work queue depth exceeded")));
    for _ in 0..2 {
        sim.with(|world| world.reorg(1, 2, Vec::new(), &Mining::default())).unwrap().unwrap();
        wait_for("the tip", PATIENCE, || (following.head().tip.hash == tip(&sim)).then_some(()));
    }
    assert_eq!(records(&following.head()).len(), 2);
    sim.override_response(LIST, None);
    assert_eq!(first_seen(&following.assert_catches_up(&sim), &returns), seen);
    following.stop();
}

#[test]
fn a_block_keeps_first_seen_times_while_the_mempool_is_empty() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    let payment = pay(&coins[0], 5);
    let txid = send(&sim, &payment);
    let seen = first_seen(&following.assert_catches_up(&sim), &txid);
    sim.with(|world| world.evict(&txid)).unwrap();
    assert!(following.assert_catches_up(&sim).mempool.is_empty());
    sim.with(|world| world.mine_exactly(vec![payment], Mining::default())).unwrap().unwrap();
    let chain = &following.assert_catches_up(&sim).chain;
    let [position] = chain.positions(&txid).unwrap()[..] else { panic!("it is not in a block once") };
    assert_eq!(chain.first_seen_at(position).unwrap(), seen);
    following.stop();
}

#[test]
fn first_seen_times_survive_a_reorg_without_stale_blocks() {
    let (sim, coins) = quiet();
    let following = Following::with_options(&sim, How { stale_blocks_kept: 0, ..How::default() });
    let returns = send(&sim, &pay(&coins[0], 5));
    let seen = first_seen(&following.assert_catches_up(&sim), &returns);
    mine(&sim);
    following.assert_catches_up(&sim);
    std::thread::sleep(Duration::from_millis(1_100));
    sim.with(|world| world.reorg(1, 2, Vec::new(), &Mining::default())).unwrap().unwrap();
    assert_eq!(first_seen(&following.assert_catches_up(&sim), &returns), seen);
    following.stop();
}
