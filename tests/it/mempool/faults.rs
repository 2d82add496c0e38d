//! A node that loads its mempool, refuses requests, is unreachable or is slow: the published mempool stays, and new
//! blocks are still connected.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bitcoin::{Amount, Network};
use btcgraph::index::{Index, IndexError};
use btcgraph::live::Live;
use btcgraph::mempool::{Cause, MempoolLimits};
use btcgraph::node::{Node, NodeOptions};
use btcgraph::sim::{Mining, Payment, SimNode, Spendable};
use btcgraph::sync::{FreezeBounds, PersistentMempool};
use btcgraph::view::Published;

use super::following::{Following, How, PATIENCE, password};
use super::simulated::{now, owner, pay, pay_on, quiet, send};
use crate::support::bitcoind::wait_for;
use crate::support::following::{catch_up, freezing};
use crate::support::indexed::{in_memory, options};

const LIST: &str = "getrawmempool";

/// Waits until the node receives `more` further requests for its list.
fn wait_for_lists(sim: &SimNode, more: u64) {
    let before = sim.calls(LIST);
    wait_for("the list to be asked for", PATIENCE, || (sim.calls(LIST) >= before + more).then_some(()));
}

fn wait_for_sync(following: &Following) {
    wait_for("the mempool to be in sync", PATIENCE, || following.is_mempool_in_sync().then_some(()));
}

fn mine(sim: &SimNode) {
    sim.with(|world| world.mine_exactly(Vec::new(), Mining::default())).unwrap().unwrap();
}

/// Waits until the published tip is the tip of the node.
fn wait_for_tip(sim: &SimNode, following: &Following, patience: Duration) {
    let tip = sim.with(|world| world.chain().tip()).unwrap();
    wait_for("the tip", patience, || (following.head().tip.hash == tip).then_some(()));
}

#[test]
fn nothing_is_removed_while_a_restarted_node_loads_its_mempool() {
    for listening in [true, false] {
        let (mut sim, coins) = quiet();
        for coin in &coins[..3] {
            send(&sim, &pay(coin, 5));
        }
        let following = Following::of_simulated(&sim, listening);
        let before = following.assert_catches_up(&sim).mempool.sequence();
        wait_for_sync(&following);

        sim.stop_serving();
        sim.report_loading(Some(1));
        sim.answer().unwrap();
        let reports_loading = || (!following.head().mempool.node().loaded).then_some(());
        wait_for("the node to report that it loads its mempool", PATIENCE, reports_loading);
        wait_for_lists(&sim, 2);
        assert_eq!((following.head().mempool.len(), following.head().mempool.sequence()), (3, before));
        assert!(!following.is_mempool_in_sync());

        let read = send(&sim, &pay(&coins[3], 5));
        sim.report_loading(None);
        let head = following.assert_catches_up(&sim);
        wait_for_sync(&following);
        assert_eq!(head.mempool.get(&read).unwrap().cause(), Cause::Loaded);
        assert_eq!(head.mempool.sequence(), before + 1, "only this transaction is added, and none is removed");
        following.stop();
    }
}

#[test]
fn a_node_that_refuses_is_asked_again_only_after_a_pause() {
    let (sim, _) = quiet();
    let following = Following::with_options(&sim, How { patience: Duration::ZERO, ..How::default() });
    following.assert_catches_up(&sim);
    sim.warm_up(Some("Replaying blocks…"));
    let (asked, started) = (sim.calls("getblockchaininfo"), Instant::now());
    while started.elapsed() < Duration::from_millis(2_500) {
        following.wake.wake();
        std::thread::sleep(Duration::from_millis(5));
    }
    let tries = sim.calls("getblockchaininfo") - asked;
    assert!((1..=4).contains(&tries), "{tries} tries");
    sim.warm_up(None);
    mine(&sim);
    following.assert_catches_up(&sim);
    following.stop();
}

#[test]
fn unusable_mempool_answers_only_suspend_the_mempool() {
    for (status, body) in [(403, ""), (200, "<html>hello</html>"), (404, r#"{"result":null,"error":null,"id":0}"#)] {
        let (sim, coins) = quiet();
        let following = Following::of_simulated(&sim, true);
        following.assert_catches_up(&sim);
        wait_for_sync(&following);
        // answers to the list, and to the request for an announced transaction
        for (method, coin) in [(LIST, &coins[0]), ("getrawtransaction", &coins[1])] {
            sim.override_response(method, Some((status, body)));
            send(&sim, &pay(coin, 5));
            sim.stop_publishing();
            sim.publish().unwrap();
            let is_out_of_sync = || (!following.is_mempool_in_sync() && sim.calls(method) > 1).then_some(());
            wait_for("the mempool to be out of sync", PATIENCE, is_out_of_sync);
            mine(&sim);
            wait_for_tip(&sim, &following, PATIENCE);
            sim.override_response(method, None);
            following.assert_catches_up(&sim);
            wait_for_sync(&following);
        }
        following.stop();
    }
}

/// Indexes the chain of the node, all of it but the newest blocks frozen.
fn freeze(sim: &SimNode, directory: &Path, bounds: FreezeBounds) {
    let mut index = Index::open(&options(directory)).unwrap();
    let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), password())).unwrap();
    let freezing = freezing(&index, &node, directory, bounds);
    catch_up(&node, &mut index, &Published::default(), &Live::default(), Some(freezing)).unwrap();
}

/// Without the node nothing of this mempool can be read: each spends an output of a frozen block, or of one that does.
fn assert_loaded_without_unreadable(directory: &Path) {
    let index = Index::open(&options(directory)).unwrap();
    let limits = MempoolLimits::default();
    assert!(matches!(PersistentMempool::load(&index, limits), Err(IndexError::RawUnavailable { .. })));
    assert!(PersistentMempool::load_readable(&index, limits).unwrap().snapshot().is_empty());
}

/// The bytes of what it spends, of a frozen block, come from the node.
#[test]
fn a_transaction_whose_prevouts_cannot_be_read_holds_up_nothing_else() {
    for listening in [true, false] {
        let (sim, coins) = quiet();
        let bounds = FreezeBounds { depth: 5, every: 20, transactions: u64::MAX };
        let directory = Arc::new(in_memory());
        freeze(&sim, directory.path(), bounds);
        let how = How { listening, freezes: Some(bounds), ..How::default() };
        let following = Following::within_with_options(&directory, &sim, how);
        let before = pay(&coins[0], 5);
        send(&sim, &before);
        let left = send(&sim, &pay(&coins[1], 5));
        following.assert_catches_up(&sim);
        wait_for_sync(&following);
        let set = |response| ["block", "getblock"].map(|method| sim.override_response(method, response));
        set(Some((403, "")));
        let announced = now();
        let unreadable = pay(&coins[2], 5);
        let kept_out = [send(&sim, &unreadable), send(&sim, &pay_on(&unreadable, 5))];
        let next = send(&sim, &pay_on(&before, 5));
        sim.with(|world| world.evict(&left)).unwrap();
        wait_for("what came and left after it", PATIENCE, || {
            let mempool = &following.head().mempool;
            (mempool.get(&next).is_some() && mempool.get(&left).is_none()).then_some(())
        });
        let list_again = || {
            if listening {
                // messages that were lost
                sim.stop_publishing();
                sim.publish().unwrap();
            }
            wait_for_lists(&sim, 1);
        };
        // more often than one is requested whose parents stay unknown, and longer than a second, which times are in
        for _ in 0..7 {
            list_again();
        }
        wait_for("another second", PATIENCE, || (now() >= announced + 3).then_some(()));
        let is_in_mempool = |txid| following.head().mempool.get(txid).is_some();
        assert!(!kept_out.iter().any(is_in_mempool));
        set(None);
        list_again();
        let head = following.assert_catches_up(&sim);
        for txid in kept_out {
            let first_seen = head.mempool.get(&txid).unwrap().first_seen;
            assert!((announced..=announced + 1).contains(&first_seen), "{announced}, {first_seen}");
        }
        following.stop();
        assert_loaded_without_unreadable(directory.path());
    }
}

#[test]
fn a_block_of_known_transactions_connects_without_reading_what_it_spends() {
    let (sim, coins) = quiet();
    let bounds = FreezeBounds { depth: 5, every: 20, transactions: u64::MAX };
    let directory = Arc::new(in_memory());
    freeze(&sim, directory.path(), bounds);
    let how = How { listening: true, freezes: Some(bounds), ..How::default() };
    let following = Following::within_with_options(&directory, &sim, how);
    let payments: Vec<_> = coins[..3].iter().map(|coin| pay(coin, 5)).collect();
    for payment in &payments {
        send(&sim, payment);
    }
    following.assert_catches_up(&sim);
    wait_for_sync(&following);
    // RPC has blocks, too, and is counted
    sim.override_response("block", Some((404, "")));
    let read = sim.calls("getblock");
    sim.with(|world| world.mine_exactly(payments, Mining::default())).unwrap().unwrap();
    wait_for_tip(&sim, &following, PATIENCE);
    assert_eq!(sim.calls("getblock"), read + 1, "the new block, and no block of what it spends");
    // unknown ones are read
    sim.with(|world| world.mine_exactly(vec![pay(&coins[3], 5)], Mining::default())).unwrap().unwrap();
    wait_for_tip(&sim, &following, PATIENCE);
    assert_eq!(sim.calls("getblock"), read + 3);
    following.assert_catches_up(&sim);
    following.stop();
}

#[test]
fn a_transaction_is_first_seen_when_the_node_announces_it() {
    // the whole node is unreachable, or only its transactions are
    for is_away in [true, false] {
        let (sim, coins) = quiet();
        let following = Following::of_simulated(&sim, true);
        following.assert_catches_up(&sim);
        // the first signal is received by now
        send(&sim, &pay(&coins[0], 5));
        following.assert_catches_up(&sim);
        wait_for_sync(&following);
        if is_away {
            sim.warm_up(Some("Replaying blocks…"));
        } else {
            sim.override_response("getrawtransaction", Some((403, "")));
        }
        let announced = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let txid = send(&sim, &pay(&coins[1], 5));
        std::thread::sleep(Duration::from_secs(4));
        sim.warm_up(None);
        sim.override_response("getrawtransaction", None);
        let first_seen = following.assert_catches_up(&sim).mempool.get(&txid).unwrap().first_seen;
        assert!(
            (announced..=announced + 2).contains(&first_seen),
            "announced at {announced}, first seen at {first_seen}"
        );
        following.stop();
    }
}

#[test]
fn a_reorg_is_announced_without_the_mempool_of_the_node() {
    let (sim, _) = quiet();
    let following = Following::of_simulated(&sim, true);
    following.assert_catches_up(&sim);
    wait_for_sync(&following);
    sim.override_response(LIST, Some((503, "Work queue depth exceeded")));
    sim.with(|world| world.reorg(1, 2, Vec::new(), &Mining::default())).unwrap().unwrap();
    wait_for_tip(&sim, &following, Duration::from_secs(20));
    sim.override_response(LIST, None);
    following.assert_catches_up(&sim);
    following.stop();
}

#[test]
fn while_a_mempool_is_loaded_its_list_is_not_asked_for_again() {
    // loaded in three steps
    const COUNT: u32 = 4_300;
    let (sim, coins) = quiet();
    let value = Amount::from_sat(100_000);
    let many = (0..COUNT).fold(Payment::of([coins[0].clone()]), |payment, _| payment.to(owner(), value));
    let many = many.sign().unwrap();
    sim.with(|world| world.mine_exactly(vec![many.clone()], Mining::default())).unwrap().unwrap();
    for vout in 0..COUNT {
        send(&sim, &pay(&Spendable::of(&many, vout, owner()).unwrap(), 5));
    }
    sim.delay(Duration::from_millis(20));
    let following =
        Following::with_options(&sim, How { listening: false, poll: Duration::from_millis(20), ..How::default() });
    wait_for_sync(&following);
    assert_eq!(sim.calls(LIST), 2, "one list before the load and one after");
    following.assert_catches_up(&sim);
    following.stop();
}

#[test]
fn after_lost_signals_the_mempool_is_out_of_sync_for_a_list() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    following.assert_catches_up(&sim);
    // the list that is requested because signals before the subscription are lost
    wait_for_lists(&sim, 1);
    // the first message that is received: gaps are detected from here on
    send(&sim, &pay(&coins[2], 5));
    following.assert_catches_up(&sim);
    wait_for_sync(&following);
    sim.delay(Duration::from_millis(200));
    sim.drop_messages(1);
    send(&sim, &pay(&coins[0], 5));
    assert!(following.is_mempool_in_sync());
    send(&sim, &pay(&coins[1], 5));
    wait_for("the loss of signals to be reported", PATIENCE, || (!following.is_mempool_in_sync()).then_some(()));
    sim.delay(Duration::ZERO);
    following.assert_catches_up(&sim);
    wait_for_sync(&following);
    following.stop();
}
