//! What stands on blocks that left.

use btcgraph::mempool::Departure;
use btcgraph::sim::{Mining, SimNode};

use super::following::{Following, How};
use super::simulated::{pay, pay_on, quiet, send};

/// The last block leaves for two others, the first of which holds these.
fn reorganise(sim: &SimNode, transactions: Vec<bitcoin::Transaction>) {
    sim.with(|world| world.reorg(1, 2, vec![transactions], &Mining::default())).unwrap().unwrap();
}

#[test]
fn without_the_blocks_that_left_nothing_stands_on_them() {
    let (sim, coins) = quiet();
    let following = Following::as_said(&sim, How { stale_blocks_kept: 0, ..How::default() });
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
