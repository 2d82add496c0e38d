//! The mempool of a simulated node through random lives.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use bitcoin::{Transaction, Txid};
use btcgraph::mempool::Departure;
use btcgraph::sim::{
    Life, Owner, Payment, Profile, ScriptKind, SimChain, SimNode, SimNodeOptions, Spendable, World, WorldEvent,
};

use super::following::Following;

pub(crate) fn start(profile: Profile, seed: u64) -> (Life, SimNode) {
    let (life, world) = Life::start(profile, seed, 1_800_000_000).unwrap();
    let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
    (life, SimNode::start(Arc::new(Mutex::new(world)), options).unwrap())
}

pub(crate) fn live(life: &mut Life, sim: &SimNode, steps: usize) {
    for _ in 0..steps {
        sim.with(|world| life.next(world)).unwrap().unwrap();
    }
}

/// A node with 120 empty blocks, and the mature coinbase outputs of these, the oldest first.
pub(super) fn quiet() -> (SimNode, Vec<Spendable>) {
    let mut chain = SimChain::new(17);
    let blocks = chain.mine_empty(120).unwrap();
    let coins = blocks.iter().take(21).map(|block| Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap());
    let coins = coins.collect();
    let mut world = World::new(chain);
    world.set_time(u32::try_from(now()).unwrap());
    let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
    (SimNode::start(Arc::new(Mutex::new(world)), options).unwrap(), coins)
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

pub(super) fn owner() -> Owner {
    Owner::new(ScriptKind::P2wpkh, 1)
}

/// A payment that spends a whole coin at this fee rate.
pub(super) fn pay(coin: &Spendable, sat_per_vb: u64) -> Transaction {
    Payment::of([coin.clone()]).change(owner(), sat_per_vb).sign().unwrap()
}

/// A payment that spends the whole first output of another.
pub(super) fn pay_on(tx: &Transaction, sat_per_vb: u64) -> Transaction {
    pay(&Spendable::of(tx, 0, owner()).unwrap(), sat_per_vb)
}

pub(super) fn send(sim: &SimNode, tx: &Transaction) -> Txid {
    sim.with(|world| world.submit(tx.clone())).unwrap().unwrap().txid
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
fn replaced_transactions_are_reported_with_their_replacement() {
    let (mut life, sim) = start(Profile::Hostile, 8);
    let following = Following::of_simulated(&sim, true);
    following.assert_catches_up(&sim);
    let (mut replaced, mut since) = (0, sim.with(|world| world.event_count()).unwrap());
    for _ in 0..400 {
        let before = following.assert_catches_up(&sim);
        live(&mut life, &sim, 1);
        let head = following.assert_catches_up(&sim);
        let happened: Vec<_> = sim.with(|world| world.events_since(since).unwrap().copied().collect()).unwrap();
        since = sim.with(|world| world.event_count()).unwrap();
        for numbered in happened {
            let WorldEvent::Replaced { txid, by } = numbered.event else { continue };
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
        sim.drop_messages(3);
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
