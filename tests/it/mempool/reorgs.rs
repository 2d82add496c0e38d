//! Unconfirmed transactions that depend on disconnected blocks.

use btcgraph::mempool::Departure;
use btcgraph::sim::{Mining, Payment, SimNode, Spendable};

use super::following::{Following, How, PATIENCE};
use super::simulated::{owner, pay, pay_on, quiet, send};
use crate::support::bitcoind::wait_for;

/// Replaces the last block by two others, the first of which contains these transactions.
fn reorganise(sim: &SimNode, transactions: Vec<bitcoin::Transaction>) {
    sim.with(|world| world.reorg(1, 2, vec![transactions], &Mining::default())).unwrap().unwrap();
}

#[test]
fn without_the_blocks_that_left_nothing_stands_on_them() {
    let (sim, coins) = quiet();
    let following = Following::with_options(&sim, How { stale_blocks_kept: 0, ..How::default() });
    let [returns, vanishes] = [0, 1].map(|coin| pay(&coins[coin], 5));
    let mined = vec![returns.clone(), vanishes.clone()];
    let block = sim.with(|world| world.mine_exactly(mined, Mining::default())).unwrap().unwrap();
    let [above, gone] = [&returns, &vanishes].map(|parent| send(&sim, &pay_on(parent, 5)));
    following.assert_catches_up(&sim);
    reorganise(&sim, vec![pay(&coins[1], 9)]);
    let head = following.assert_catches_up(&sim);
    assert!(head.mempool.get(&above).is_some());
    let reorged_out = Departure::ReorgedOut { block: block.block_hash() };
    assert_eq!(head.mempool.departed(&gone).unwrap().departure, reorged_out);
    following.stop();
}

#[test]
fn what_spends_a_coinbase_that_is_immature_again_is_reorged_out() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    // the youngest of the coins that can be spent
    let [young, old] = [&coins[20], &coins[0]].map(|coin| send(&sim, &pay(coin, 5)));
    following.assert_catches_up(&sim);
    let tip = sim.with(|world| world.chain().tip()).unwrap();
    sim.with(|world| world.invalidate(&tip)).unwrap().unwrap();
    let head = following.assert_catches_up(&sim);
    assert!(head.mempool.get(&old).is_some());
    assert_eq!(head.mempool.departed(&young).unwrap().departure, Departure::ReorgedOut { block: tip });
    following.stop();
}

#[test]
fn relocked_transactions_are_reorged_out_with_the_node() {
    for is_list_late in [false, true] {
        let (sim, coins) = quiet();
        let following = Following::of_simulated(&sim, true);
        let rested = pay(&coins[0], 5);
        sim.with(|world| world.mine_exactly(vec![rested.clone()], Mining::default())).unwrap().unwrap();
        let block = sim.with(|world| world.mine_exactly(Vec::new(), Mining::default())).unwrap().unwrap().block_hash();
        let coin = Spendable::of(&rested, 0, owner()).unwrap();
        // the next block is that of height 123
        let by_height = Payment::of([coins[1].clone()]).change(owner(), 5).lock_time(122).sequence(0xffff_fffd);
        let by_rest = Payment::of([coin]).change(owner(), 5).version(2).sequence(2);
        let free = Payment::of([coins[2].clone()]).change(owner(), 5).lock_time(122).sequence(u32::MAX);
        let [by_height, by_rest, free] = [by_height, by_rest, free].map(|payment| send(&sim, &payment.sign().unwrap()));
        following.assert_catches_up(&sim);
        if is_list_late {
            sim.override_response("getrawmempool", Some((503, "Work queue depth exceeded")));
        }
        sim.with(|world| world.invalidate(&block)).unwrap().unwrap();
        let tip = sim.with(|world| world.chain().tip()).unwrap();
        wait_for("the tip", PATIENCE, || (following.head().tip.hash == tip).then_some(()));
        sim.override_response("getrawmempool", None);
        let head = following.assert_catches_up(&sim);
        for txid in [by_height, by_rest] {
            let departure = head.mempool.departed(&txid).unwrap().departure;
            assert_eq!(departure, Departure::ReorgedOut { block }, "late list: {is_list_late}");
        }
        assert!(head.mempool.get(&free).is_some());
        following.stop();
    }
}

#[test]
fn transactions_not_returned_to_the_node_are_reorged_out() {
    let (sim, coins) = quiet();
    let following = Following::of_simulated(&sim, true);
    let dropped = send(&sim, &pay(&coins[0], 5));
    let block = sim.with(|world| world.mine(Mining::default())).unwrap().unwrap().block_hash();
    following.assert_catches_up(&sim);
    sim.override_response("getrawmempool", Some((503, "Work queue depth exceeded")));
    sim.with(|world| {
        world.reorg(1, 2, Vec::new(), &Mining::default()).unwrap();
        world.evict(&dropped)
    })
    .unwrap();
    let tip = sim.with(|world| world.chain().tip()).unwrap();
    wait_for("the tip", PATIENCE, || (following.head().tip.hash == tip).then_some(()));
    sim.override_response("getrawmempool", None);
    let head = following.assert_catches_up(&sim);
    assert_eq!(head.mempool.departed(&dropped).unwrap().departure, Departure::ReorgedOut { block });
    following.stop();
}
