//! The state of the mempool that survives a restart of the process.

use std::sync::Arc;
use std::time::Duration;

use bitcoin::Txid;
use btcgraph::index::{DeadTransaction, Index, Reorg, ReorgOutcome};
use btcgraph::mempool::{Departure, Entry, MempoolLimits, MempoolSample, MempoolSnapshot};
use btcgraph::sim::{Mining, SimNode};
use btcgraph::sync::PersistentMempool;
use btcgraph::view::Head;
use tempfile::TempDir;

use super::following::{Following, How, PATIENCE};
use super::simulated::{live, now, pay, pay_on, quiet, send, start};
use crate::support::bitcoind::wait_for;
use crate::support::indexed::{in_memory, options};

const LIST: &str = "getrawmempool";

/// The first published state, before the mempool of the node is requested.
fn first_head(following: &Following) -> Arc<Head> {
    wait_for("something to be published", PATIENCE, || following.published.head())
}

fn entries(mempool: &MempoolSnapshot) -> Vec<Entry> {
    // each run numbers arrivals anew
    mempool.by_arrival(..).map(|entry| Entry { sequence: 0, ..Entry::clone(entry) }).collect()
}

fn open(directory: &Arc<TempDir>) -> Index {
    Index::open(&options(directory.path())).unwrap()
}

fn written(directory: &Arc<TempDir>) -> Vec<Txid> {
    let index = open(directory);
    let snapshot = index.snapshot().unwrap();
    let mut txids: Vec<_> = snapshot.persisted_mempool().unwrap().map(|row| row.unwrap().0).collect();
    txids.sort_unstable();
    txids
}

fn first_seen(head: &Head, txid: &Txid) -> Option<u64> {
    let positions = head.chain.positions(txid).unwrap();
    head.chain.first_seen_at(*positions.last().unwrap()).unwrap()
}

fn mine(sim: &SimNode) {
    sim.with(|world| world.mine(Mining::default())).unwrap().unwrap();
}

#[test]
fn a_restart_answers_at_once_for_the_mempool_as_it_was() {
    let (mut sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let following = Following::within(&directory, &sim);
    let parent = pay(&coins[0], 5);
    let (stays, above) = (send(&sim, &parent), send(&sim, &pay_on(&parent, 9)));
    let replaced = send(&sim, &pay(&coins[1], 5));
    following.assert_catches_up(&sim);
    let replacement = send(&sim, &pay(&coins[1], 50));
    let before = following.assert_catches_up(&sim);
    following.stop();
    let mut expected = vec![stays, above, replacement];
    expected.sort_unstable();
    assert_eq!(written(&directory), expected);

    // the persisted mempool is readable without a node
    let kept = PersistentMempool::load(&open(&directory), MempoolLimits::default()).unwrap().snapshot();
    assert_eq!(entries(&kept), entries(&before.mempool));

    // the node starts with an empty mempool, and reports that it still loads the one of its last run
    sim.restart().unwrap();
    sim.report_loading(Some(0));
    let following = Following::within(&directory, &sim);
    let head = first_head(&following);
    assert_eq!(entries(&head.mempool), entries(&before.mempool));
    assert_eq!(head.mempool.departed(&replaced), before.mempool.departed(&replaced));
    assert!(!following.is_mempool_in_sync(), "the node has not reported its mempool yet");
    sim.report_loading(None);
    let head = following.assert_catches_up(&sim);
    assert_eq!(head.mempool.departed(&replaced), before.mempool.departed(&replaced));
    assert!(head.mempool.departed(&stays).is_some());
    following.stop();
    assert_eq!(written(&directory), []);
}

#[test]
fn the_persisted_mempool_loads_as_far_as_the_chain_allows() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let following = Following::within(&directory, &sim);
    let [mined, conflicted, stays] = [0, 1, 2].map(|coin| send(&sim, &pay(&coins[coin], 5)));
    let seen = following.assert_catches_up(&sim).mempool.get(&mined).unwrap().first_seen;
    following.stop();
    let payments = [pay(&coins[0], 5), pay(&coins[1], 7)].to_vec();
    let block = sim.with(|world| world.mine_exactly(payments, Mining::default())).unwrap().unwrap();

    let following = Following::within(&directory, &sim);
    let head = following.assert_catches_up(&sim);
    assert_eq!((first_seen(&head, &mined), head.mempool.departed(&mined)), (Some(seen), None));
    let by = block.txdata[2].compute_txid();
    let departure = head.mempool.departed(&conflicted).map(|departed| departed.departure);
    assert_eq!(departure, Some(Departure::Conflicted { by, block: block.block_hash() }));
    assert!(head.mempool.get(&stays).is_some());
    assert_eq!(first_seen(&head, &by), None, "it is unseen before its block");
    following.stop();
}

#[test]
fn first_seen_times_survive_blocks_and_reorgs() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let following = Following::within(&directory, &sim);
    let [returns, moves, dies] = [0, 1, 2].map(|coin| send(&sim, &pay(&coins[coin], 5)));
    let seen = |head: &Head| [returns, moves].map(|txid| first_seen(head, &txid));
    let head = following.assert_catches_up(&sim);
    let waited = [returns, moves].map(|txid| Some(head.mempool.get(&txid).unwrap().first_seen));
    assert!(waited.iter().flatten().all(|seconds| seconds.abs_diff(now()) < 60));
    // the index connects the block in a later second than it sees the payments
    std::thread::sleep(Duration::from_millis(1_100));
    mine(&sim);
    let head = following.assert_catches_up(&sim);
    assert_eq!(seen(&head), waited);
    let (fork, left) = (head.chain.block_hash(head.tip.height.previous().unwrap()).unwrap(), head.tip);

    let other = pay(&coins[2], 9);
    let branch = vec![vec![pay(&coins[1], 5), other.clone()]];
    sim.with(|world| world.reorg(1, 2, branch, &Mining::default())).unwrap().unwrap();
    let head = following.assert_catches_up(&sim);
    assert_eq!(Some(head.mempool.get(&returns).unwrap().first_seen), waited[0]);
    assert_eq!(first_seen(&head, &moves), waited[1]);
    let reorgs: Vec<(u64, Reorg)> = head.chain.reorgs(0..u64::MAX).unwrap().map(Result::unwrap).collect();
    let [(1, reorg)] = &reorgs[..] else { panic!("{reorgs:?}") };
    assert!(reorg.at.abs_diff(now()) < 60);
    let joined = [2, 1].map(|below| head.chain.block_hash((head.tip.height.to_u32() + 1 - below).into()).unwrap());
    let expected = Reorg {
        at: reorg.at,
        fork: btcgraph::index::Tip { height: left.height.previous().unwrap(), hash: fork },
        disconnected: vec![left.hash],
        connected: joined.to_vec(),
        outcome: Some(ReorgOutcome {
            returned: vec![returns],
            died: vec![DeadTransaction { txid: dies, block: left.hash, conflicting: vec![other.compute_txid()] }],
            is_whole: true,
        }),
        first_seen: Vec::new(),
    };
    assert_eq!(*reorg, expected);

    mine(&sim);
    assert_eq!(seen(&following.assert_catches_up(&sim)), waited);
    following.stop();
}

#[test]
fn a_sample_a_minute_says_what_the_mempool_was() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let following = Following::within(&directory, &sim);
    send(&sim, &pay(&coins[0], 5));
    let head = following.assert_catches_up(&sim);
    wait_for("the mempool to be in sync", PATIENCE, || following.is_mempool_in_sync().then_some(()));
    following.stop();
    let index = open(&directory);
    let snapshot = index.snapshot().unwrap();
    let samples: Vec<_> = snapshot.mempool_samples(0..=u32::MAX).unwrap().map(Result::unwrap).collect();
    let (minute, row) = samples.last().expect("there is a sample");
    assert!(samples.len() <= 2 && (u64::from(*minute) * 60).abs_diff(now()) <= 120, "{samples:?}");
    let sample = MempoolSample::decode(row).unwrap();
    let totals = head.mempool.totals();
    assert_eq!((sample.count, sample.vsize, sample.total_fee), (totals.count, totals.vsize, totals.fee));
}

#[test]
fn the_persisted_mempool_equals_the_mempool_at_any_restart() {
    let (mut life, sim) = start(btcgraph::sim::Profile::Hostile, 21);
    let directory = Arc::new(in_memory());
    let mut before = Vec::new();
    for _ in 0..8 {
        let loaded = PersistentMempool::load(&open(&directory), MempoolLimits::default()).unwrap().snapshot();
        let found: Vec<_> = loaded.by_arrival(..).map(|entry| entry.txid).collect();
        assert_eq!(found, before, "the index connected no block since");
        let following = Following::within(&directory, &sim);
        following.assert_catches_up(&sim);
        live(&mut life, &sim, 40);
        let head = following.assert_catches_up(&sim);
        following.stop();
        before = head.mempool.by_arrival(..).map(|entry| entry.txid).collect();
        let mut expected = before.clone();
        expected.sort_unstable();
        assert_eq!(written(&directory), expected);
        live(&mut life, &sim, 30);
    }
}

#[test]
fn an_orphan_is_first_seen_when_it_is_announced() {
    let (sim, coins) = quiet();
    let following = Following::with_options(&sim, How { patience: Duration::ZERO, ..How::default() });
    following.assert_catches_up(&sim);
    wait_for("the second list", PATIENCE, || (sim.calls(LIST) >= 2 && following.is_mempool_in_sync()).then_some(()));
    // the first message that is received: gaps are detected from here on
    send(&sim, &pay(&coins[0], 5));
    following.assert_catches_up(&sim);
    sim.override_response(LIST, Some((503, "Work queue depth exceeded")));
    let parents = [1, 2].map(|coin| pay(&coins[coin], 5));
    let [waits, joins] = [0, 1].map(|number| pay_on(&parents[number], 9));
    sim.drop_messages(2);
    for parent in &parents {
        send(&sim, parent);
    }
    let asked = sim.calls("getrawtransaction");
    for above in [&waits, &joins] {
        send(&sim, above);
    }
    wait_for("their descendants to be requested", PATIENCE, || {
        (sim.calls("getrawtransaction") >= asked + 2).then_some(())
    });
    // a pause follows a failed list, in which no signal is processed
    std::thread::sleep(Duration::from_millis(2_500));
    let latest = now();
    std::thread::sleep(Duration::from_millis(2_100));

    let [one, other] = parents;
    let block = vec![one, other, joins.clone()];
    sim.with(|world| world.mine_exactly(block, Mining::default())).unwrap().unwrap();
    sim.override_response(LIST, None);
    let head = following.assert_catches_up(&sim);
    assert!(head.mempool.get(&waits.compute_txid()).unwrap().first_seen <= latest);
    assert!(first_seen(&head, &joins.compute_txid()).is_some_and(|seconds| seconds <= latest));
    following.stop();
}

#[test]
fn departures_are_numbered_on_after_a_restart() {
    let (sim, coins) = quiet();
    let directory = Arc::new(in_memory());
    let mut numbers = Vec::new();
    for round in [0, 1, 2] {
        let following = Following::within(&directory, &sim);
        for coin in [2 * round, 2 * round + 1] {
            let txid = send(&sim, &pay(&coins[coin], 5));
            following.assert_catches_up(&sim);
            sim.with(|world| world.evict(&txid)).unwrap();
            let head = following.assert_catches_up(&sim);
            numbers.push(head.mempool.departed(&txid).unwrap().sequence);
        }
        if round == 1 {
            // the last of these is mined, so that its departure is not loaded again
            let last = pay(&coins[2 * round + 1], 5);
            sim.with(|world| world.mine_exactly(vec![last], Mining::default())).unwrap().unwrap();
            following.assert_catches_up(&sim);
        }
        following.stop();
    }
    assert_eq!(numbers.len(), 6);
    assert!(numbers.is_sorted_by(|before, after| before < after), "{numbers:?}");
    let index = open(&directory);
    let written: Vec<_> = index.snapshot().unwrap().persisted_departed().unwrap().map(|row| row.unwrap().0).collect();
    assert!(numbers.iter().all(|number| written.contains(number)), "{numbers:?} in {written:?}");
}
