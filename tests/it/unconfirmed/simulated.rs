//! The mempool of a simulated node, to which anything happens.

use std::sync::{Arc, Mutex};

use btcgraph::mempool::Departure;
use btcgraph::sim::{Happening, Life, Profile, SimNode, SimNodeOptions};

use super::following::Following;

pub(super) fn start(profile: Profile, seed: u64) -> (Life, SimNode) {
    let (life, world) = Life::start(profile, seed, 1_800_000_000).unwrap();
    let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
    (life, SimNode::start(Arc::new(Mutex::new(world)), options).unwrap())
}

pub(super) fn live(life: &mut Life, sim: &SimNode, steps: usize) {
    for _ in 0..steps {
        sim.with(|world| life.next(world)).unwrap().unwrap();
    }
}

#[test]
fn through_any_life_of_a_node_the_mempool_becomes_the_nodes() {
    for (profile, listening) in [(Profile::Hostile, true), (Profile::Hostile, false), (Profile::Demo, true)] {
        let (mut life, sim) = start(profile, 5);
        let following = Following::of_simulated(&sim, listening);
        following.assert_catches_up(&sim);
        for burst in 0..60 {
            live(&mut life, &sim, 1 + burst % 17);
            if burst % 3 == 0 {
                following.assert_catches_up(&sim);
            }
        }
        following.assert_catches_up(&sim);
        assert!(following.stop() > 20, "{profile:?}: too few states to see");
    }
}

#[test]
fn replaced_transactions_are_told_with_what_replaced_them() {
    let (mut life, sim) = start(Profile::Hostile, 8);
    let following = Following::of_simulated(&sim, true);
    following.assert_catches_up(&sim);
    let (mut replaced, mut since) = (0, sim.with(|world| world.happened()).unwrap());
    for _ in 0..400 {
        let before = following.assert_catches_up(&sim);
        live(&mut life, &sim, 1);
        let head = following.assert_catches_up(&sim);
        let happened: Vec<_> = sim.with(|world| world.happenings_since(since).unwrap().copied().collect()).unwrap();
        since = sim.with(|world| world.happened()).unwrap();
        for noted in happened {
            let Happening::Replaced { txid, by } = noted.happening else { continue };
            let Some(departed) = head.mempool.departed(&txid).filter(|_| before.mempool.get(&txid).is_some()) else {
                continue;
            };
            assert_eq!(departed.departure, Departure::Replaced { by }, "{txid}");
            replaced += 1;
        }
    }
    assert!(replaced >= 5, "only {replaced} replacements");
    following.stop();
}

#[test]
fn lost_signals_and_a_node_that_starts_anew_are_made_up_for() {
    let (mut life, mut sim) = start(Profile::Hostile, 11);
    let following = Following::of_simulated(&sim, true);
    following.assert_catches_up(&sim);
    for round in 0..4 {
        sim.lose_messages(3);
        live(&mut life, &sim, 25);
        following.assert_catches_up(&sim);

        sim.stop_publishing();
        live(&mut life, &sim, 25);
        following.assert_catches_up(&sim);
        sim.publish().unwrap();
        live(&mut life, &sim, 25);
        following.assert_catches_up(&sim);

        if round == 1 {
            sim.restart().unwrap();
            following.assert_catches_up(&sim);
        }
    }
    following.stop();
}
