//! The transactions that a simulated node accepts, refuses, mines and returns to the mempool.

mod blocks;
mod random;
mod verdicts;

use std::collections::BTreeSet;

use bitcoin::{Amount, Block, BlockHash, OutPoint, Transaction, Txid, Weight};

use super::*;
use crate::chain::Height;
use crate::sim::{Owner, Payment, Policy, Rejection, ScriptKind, SimChain, SimMempoolEntry, Spendable};

fn someone(n: u32) -> Owner {
    Owner::new(ScriptKind::P2wsh, n)
}

/// A world of 110 blocks, and the coins of its first ten blocks, which are mature.
fn world() -> (World, Vec<Spendable>) {
    let mut chain = SimChain::new(1);
    let blocks = chain.mine_empty(110).unwrap();
    let coins = blocks.iter().take(10).map(|block| Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap());
    (World::new(chain), coins.collect())
}

fn coinbase_coin(block: &Block) -> Spendable {
    Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap()
}

/// Spends a whole coin, at this feerate, to owner `n`.
fn pass_on(coin: &Spendable, sat_per_vb: u64, n: u32) -> Transaction {
    Payment::of([coin.clone()]).change(someone(n), sat_per_vb).sign().unwrap()
}

/// Splits a coin into equal outputs to owner `n`, at 2 sat/vB or slightly more.
fn split(coin: &Spendable, count: u32, n: u32) -> Transaction {
    let each = coin.output.value / u64::from(count) - Amount::from_sat(500);
    (0..count).fold(Payment::of([coin.clone()]), |payment, _| payment.to(someone(n), each)).sign().unwrap()
}

fn coin_of(tx: &Transaction, vout: u32, n: u32) -> Spendable {
    Spendable::of(tx, vout, someone(n)).unwrap()
}

/// A chain of transactions: the first spends this coin, each other the whole output of the one before.
fn line(coin: &Spendable, length: u32) -> Vec<Transaction> {
    let mut spent = coin.clone();
    (0..length)
        .map(|n| {
            let tx = pass_on(&spent, 2, n);
            spent = coin_of(&tx, 0, n);
            tx
        })
        .collect()
}

fn take_all(world: &mut World, transactions: &[Transaction]) {
    for tx in transactions {
        world.submit(tx.clone()).unwrap();
    }
}

fn ids(transactions: &[Transaction]) -> Vec<Txid> {
    transactions.iter().map(Transaction::compute_txid).collect()
}

fn set(txids: impl IntoIterator<Item = Txid>) -> BTreeSet<Txid> {
    txids.into_iter().collect()
}

fn mempool_txids(world: &World) -> BTreeSet<Txid> {
    world.mempool().entries().map(|entry| entry.txid).collect()
}

fn since(world: &World, number: u64) -> Vec<WorldEvent> {
    world.events_since(number).unwrap().map(|numbered| numbered.event).collect()
}

fn connected(world: &World, block: &Block) -> WorldEvent {
    let hash = block.block_hash();
    WorldEvent::BlockConnected { hash, height: world.chain().height_of(&hash).unwrap() }
}

fn disconnected(world: &World, block: &Block) -> WorldEvent {
    let hash = block.block_hash();
    WorldEvent::BlockDisconnected { hash, height: world.chain().height_of(&hash).unwrap() }
}

/// Code and reason.
fn verdict(refused: Result<Accepted, Rejection>) -> (i32, String) {
    let rejection = refused.unwrap_err();
    (rejection.code(), rejection.reason())
}

#[test]
fn eviction_and_expiry_remove_descendants() {
    let (mut world, coins) = world();
    world.set_time(2_000_000_000);
    let old = line(&coins[0], 2);
    let evicted = line(&coins[1], 3);
    take_all(&mut world, &evicted);
    take_all(&mut world, &old[..1]);
    world.set_time(2_000_000_100);
    take_all(&mut world, &old[1..]);
    let young = pass_on(&coins[2], 2, 1);
    take_all(&mut world, std::slice::from_ref(&young));
    let before = world.event_count();

    assert_eq!(world.evict(&evicted[1].compute_txid()), ids(&evicted[1..]));
    assert_eq!(world.evict(&evicted[1].compute_txid()), []);
    world.evict(&evicted[0].compute_txid());
    assert_eq!(world.expire(2_000_000_100), ids(&old));
    assert_eq!(mempool_txids(&world), set([young.compute_txid()]));
    let evictions = [1, 2, 0].map(|n| WorldEvent::Evicted { txid: evicted[n].compute_txid() });
    let expiries = ids(&old).into_iter().map(|txid| WorldEvent::Expired { txid });
    assert_eq!(since(&world, before), evictions.into_iter().chain(expiries).collect::<Vec<_>>());
}

#[test]
fn only_the_most_recent_events_are_kept() {
    let (world, _) = world();
    let mut world = world.keeping_events(3);
    let from = world.event_count();
    for _ in 0..4 {
        world.mine(Mining::default()).unwrap();
    }
    assert_eq!(world.event_count(), from + 4);
    assert!(world.events_since(from).is_none(), "the first is dropped");
    let numbers: Vec<u64> = world.events_since(from + 1).unwrap().map(|numbered| numbered.number).collect();
    assert_eq!(numbers, [from + 1, from + 2, from + 3]);
    assert_eq!(world.events_since(from + 4).unwrap().count(), 0);
}

#[test]
fn a_block_has_its_worlds_time_but_never_one_too_early() {
    let (mut world, _) = world();
    let tip = world.chain().block(&world.chain().tip()).unwrap().header.time;
    assert_eq!(world.mine(Mining::default()).unwrap().header.time, tip + 600);
    world.set_time(tip + 700);
    assert_eq!(world.mine(Mining::default()).unwrap().header.time, tip + 700);
    world.set_time(7);
    let median = world.chain().median_time_past(&world.chain().tip()).unwrap();
    assert_eq!(world.mine(Mining::default()).unwrap().header.time, median + 1);
    assert_eq!(world.mine(Mining { time: Some(tip + 5), ..Mining::default() }).unwrap().header.time, tip + 5);
}
