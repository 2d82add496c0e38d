//! The reasons of departures, as far as they are known.

use std::time::Duration;

use bitcoin::Txid;
use btcgraph::chain::Feerate;
use btcgraph::mempool::{Departed, Departure};
use btcgraph::sim::{Mining, SimNode};

use super::following::{Following, How, PATIENCE};
use super::simulated::{now, pay, pay_on, quiet, send};
use crate::support::bitcoind::wait_for;

fn departed(following: &Following, txid: &Txid) -> Departed {
    let departed = || following.head().mempool.departed(txid).map(|departed| Departed::clone(departed));
    wait_for("the departure", PATIENCE, departed)
}

/// Waits until only signals are processed: the list is not requested again for half a minute.
pub(super) fn wait_for_silence(sim: &SimNode, following: &Following) {
    following.assert_catches_up(sim);
    let lists = || sim.calls("getrawmempool");
    wait_for("the second list", PATIENCE, || (lists() >= 2 && following.is_mempool_in_sync()).then_some(()));
}

#[test]
fn conflicts_with_a_block_are_reported_even_if_it_is_late() {
    let (sim, coins) = quiet();
    let following = Following::with_options(&sim, How { poll: Duration::from_millis(500), ..How::default() });
    wait_for_silence(&sim, &following);
    let loser = send(&sim, &pay(&coins[0], 5));
    following.assert_catches_up(&sim);
    let winner = pay(&coins[0], 7);
    // the node announces the removal, and withholds all later messages
    sim.buffer_messages_after(1);
    let mined = sim.with(|world| world.mine_exactly(vec![winner.clone()], Mining::default())).unwrap().unwrap();
    let conflicted = Departure::Conflicted { by: winner.compute_txid(), block: mined.block_hash() };
    assert_eq!(departed(&following, &loser).departure, conflicted);
    sim.release_messages();
    following.assert_catches_up(&sim);
    following.stop();
}

#[test]
fn only_what_paid_less_than_a_full_mempool_asks_for_was_evicted() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    let [cheap, dear, parent] = [(0, 2), (1, 20), (2, 2)].map(|(coin, rate)| pay(&coins[coin], rate));
    let helps = pay_on(&parent, 60);
    let [cheap, dear, parent, helps] = [cheap, dear, parent, helps].map(|tx| send(&sim, &tx));
    following.assert_catches_up(&sim);
    sim.report_min_fee(Some(Feerate::from_sat_per_kvb(5_000)));
    for txid in [cheap, dear, parent] {
        sim.with(|world| world.evict(&txid)).unwrap();
    }
    for (txid, departure) in [
        (cheap, Departure::Evicted),
        (dear, Departure::Unknown),
        (parent, Departure::Unknown),
        (helps, Departure::Unknown),
    ] {
        assert_eq!(departed(&following, &txid).departure, departure);
    }
    following.stop();
}

#[test]
fn a_transaction_of_two_weeks_expires_with_its_descendants() {
    let (sim, coins) = quiet();
    let at = |days: u64| u32::try_from(now() - days * 86_400).unwrap();
    sim.with(|world| world.set_time(at(15))).unwrap();
    let old = pay(&coins[0], 5);
    let [old_id, young] = [&old, &pay_on(&old, 5)].map(|tx| {
        let txid = send(&sim, tx);
        sim.with(|world| world.set_time(at(1))).unwrap();
        txid
    });
    let other = send(&sim, &pay(&coins[1], 5));
    let following = Following::of_simulated(&sim, true);
    following.assert_catches_up(&sim);
    sim.with(|world| world.expire(at(14))).unwrap();
    sim.with(|world| world.evict(&other)).unwrap();
    let departures = [old_id, young, other].map(|txid| {
        let departed = departed(&following, &txid);
        (departed.departure, departed.along_with)
    });
    let expected = [(Departure::Expired, None), (Departure::Expired, Some(old_id)), (Departure::Unknown, None)];
    assert_eq!(departures, expected);
    following.stop();
}
