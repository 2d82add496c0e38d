//! What both nodes tell by themselves: the same things are done to both, and they say the same of them, word for word.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Block, Network, Transaction, Txid};
use btcgraph::node::{Auth, Node, NodeSettings, NodeSignal, Signals, StopFlag};
use btcgraph::sim::{Mining, Owner, Payment, ScriptKind, SimChain, SimNode, SimNodeOptions, Spendable, World};
use serde_json::json;

use super::pair::{client, submit};
use crate::support::bitcoind::{RealNode, wait_for};

const PATIENCE: Duration = Duration::from_mins(1);
const CAPACITY: usize = 10_000;
/// What happens before the node tells us is told to nobody: after this time something else has to happen.
const AGAIN: Duration = Duration::from_millis(100);

fn owner(n: u32) -> Owner {
    Owner::new(ScriptKind::P2wpkh, n)
}

/// A simulated node with 120 blocks that publishes, these blocks, and the coins of the first of them.
fn start() -> (SimNode, Vec<Arc<Block>>, Vec<Spendable>) {
    let mut chain = SimChain::new(13);
    let blocks = chain.mine_empty(120).unwrap();
    let coins = blocks.iter().take(10).map(|block| Spendable::of(&block.txdata[0], 0, SimChain::miner()).unwrap());
    let coins = coins.collect();
    let options = SimNodeOptions { zmq: Some(0), ..SimNodeOptions::default() };
    (SimNode::start(Arc::new(Mutex::new(World::new(chain))), options).unwrap(), blocks, coins)
}

fn mine(sim: &SimNode) -> Arc<Block> {
    sim.with(|world| world.mine(Mining::default())).unwrap().unwrap()
}

fn added(txid: Txid, mempool_sequence: u64) -> NodeSignal {
    NodeSignal::Added { txid, mempool_sequence }
}

fn removed(txid: Txid, mempool_sequence: u64) -> NodeSignal {
    NodeSignal::Removed { txid, mempool_sequence }
}

/// A node that is listened to where it says that it publishes.
struct Heard {
    signals: Signals,
    wakings: Arc<AtomicUsize>,
}

impl Heard {
    fn start(node: &Node, capacity: usize) -> Heard {
        let endpoint = node.signal_endpoint().unwrap().expect("the node publishes");
        let wakings = Arc::new(AtomicUsize::new(0));
        let woken = Arc::clone(&wakings);
        let on_signal = move || {
            woken.fetch_add(1, Ordering::SeqCst);
        };
        Heard { signals: Signals::start(&endpoint, capacity, &StopFlag::new(), on_signal).unwrap(), wakings }
    }

    /// Takes those that came.
    fn drain(&self) -> Vec<NodeSignal> {
        self.signals.drain().into_iter().map(|heard| heard.signal).collect()
    }

    /// Waits for this many signals more, and takes them.
    #[track_caller]
    fn next(&self, count: usize) -> Vec<NodeSignal> {
        let mut heard = Vec::new();
        wait_for("signals", PATIENCE, || {
            heard.extend(self.drain());
            (heard.len() >= count).then_some(())
        });
        heard
    }

    /// Waits until the node tells us what happens: it does so some time after the connection is there.
    #[track_caller]
    fn is_told(&self, happen: impl FnMut() -> NodeSignal) {
        are_told(&[self], happen);
    }
}

/// Waits until all are told what happens, and have been told all of it. `happen` returns the signal of what it did.
#[track_caller]
fn are_told(all: &[&Heard], mut happen: impl FnMut() -> NodeSignal) {
    let (mut last, mut since) = (happen(), Instant::now());
    let mut told = vec![false; all.len()];
    wait_for("the subscription", PATIENCE, || {
        for (heard, told) in all.iter().zip(&mut told) {
            *told |= heard.drain().contains(&last);
        }
        if told.iter().all(|told| *told) {
            return Some(());
        }
        if since.elapsed() > AGAIN {
            told.fill(false);
            (last, since) = (happen(), Instant::now());
        }
        None
    });
}

/// A simulated and a real node that hold the same blocks, and are listened to.
struct Both {
    sim: SimNode,
    real: RealNode,
    heard: [Heard; 2],
}

impl Both {
    /// `None` where there is no bitcoind.
    fn start() -> Option<(Both, Vec<Spendable>)> {
        let (sim, blocks, coins) = start();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let zmq = format!("-zmqpubsequence=tcp://127.0.0.1:{free}");
        let policy = ["-acceptnonstdtxn=1", "-minrelaytxfee=0.00001", "-incrementalrelayfee=0.00001"];
        let arguments = [&["-txindex=0", "-disablewallet", "-persistmempool=0", &zmq][..], &policy].concat();
        let real = RealNode::start(&arguments)?;
        for block in &blocks {
            submit(&real, block);
        }
        let settings = NodeSettings::new(Network::Regtest, real.rpc_url(), Auth::Cookie(real.cookie_path()));
        let nodes = [client(&sim), Node::connect(settings).unwrap()];
        let heard = nodes.each_ref().map(|node| Heard::start(node, CAPACITY));
        for heard in &heard {
            assert_eq!(heard.next(1), [NodeSignal::Lost], "listening begins");
        }
        let both = Both { sim, real, heard };
        both.are_told();
        Some((both, coins))
    }

    fn are_told(&self) {
        are_told(&self.heard.each_ref(), || {
            let block = mine(&self.sim);
            self.submit(&block);
            NodeSignal::BlockConnected(block.block_hash())
        });
    }

    fn submit(&self, block: &Block) {
        submit(&self.real, block);
    }

    fn send(&self, tx: &Transaction) {
        let sent = self.sim.with(|world| world.submit(tx.clone())).unwrap();
        sent.unwrap();
        self.real.must("sendrawtransaction", &[json!(serialize_hex(tx))]);
    }

    /// A block of the simulated node, for the real one too.
    fn mine_exactly(&self, transactions: Vec<Transaction>) -> Arc<Block> {
        let block = self.sim.with(|world| world.mine_exactly(transactions, Mining::default())).unwrap().unwrap();
        self.submit(&block);
        block
    }

    /// Asks both to change their chain.
    fn call(&self, method: &str, block: &Block) {
        let body = json!({"method": method, "params": [block.block_hash()], "id": 1}).to_string();
        assert_eq!(super::pair::post(&self.sim.url(), "user:password", &body).status, 200);
        self.real.must(method, &[json!(block.block_hash())]);
    }

    /// What both say next, word for word the same.
    #[track_caller]
    fn say(&self, expected: &[NodeSignal]) {
        let [sim, real] = self.heard.each_ref().map(|heard| heard.next(expected.len()));
        assert_eq!(real, expected, "the real node");
        assert_eq!(sim, expected, "the simulated node");
    }
}

#[test]
fn both_tell_the_same_of_transactions_blocks_reorganisations_and_restarts() {
    use NodeSignal::{BlockConnected, BlockDisconnected, Lost};

    let Some((mut both, coins)) = Both::start() else { return };
    let pay = |coin: &Spendable, n: u32, rate: u64| {
        Payment::of([coin.clone()]).to(owner(n), coin.output.value / 2).change(owner(n + 100), rate).sign().unwrap()
    };
    let first = pay(&coins[0], 1, 2);
    let better = pay(&coins[0], 2, 20);
    let child = pay(&Spendable::of(&better, 0, owner(2)).unwrap(), 3, 5);
    let loser = pay(&coins[1], 4, 5);
    let winner = pay(&coins[1], 5, 9);
    let later = pay(&coins[2], 6, 5);
    let [first_id, better_id, child_id, loser_id, winner_id, later_id] =
        [&first, &better, &child, &loser, &winner, &later].map(Transaction::compute_txid);

    both.send(&first);
    both.say(&[added(first_id, 1)]);
    both.send(&better);
    both.say(&[removed(first_id, 2), added(better_id, 3)]);
    both.send(&child);
    both.send(&loser);
    both.say(&[added(child_id, 4), added(loser_id, 5)]);

    // what the block holds leaves without a word, but not without a number
    let block = both.mine_exactly(vec![better, winner]);
    both.say(&[removed(loser_id, 7), BlockConnected(block.block_hash())]);
    both.send(&later);
    both.say(&[added(later_id, 8)]);

    both.call("invalidateblock", &block);
    both.say(&[BlockDisconnected(block.block_hash()), added(better_id, 9), added(winner_id, 10)]);
    both.call("reconsiderblock", &block);
    both.say(&[BlockConnected(block.block_hash())]);

    // a longer branch without what the block held
    let branch = both.sim.with(|world| world.reorg(1, 2, vec![vec![later]], &Mining::default())).unwrap().unwrap();
    for block in &branch {
        both.submit(block);
    }
    both.say(&[
        BlockDisconnected(block.block_hash()),
        added(better_id, 14),
        added(winner_id, 15),
        BlockConnected(branch[0].block_hash()),
        BlockConnected(branch[1].block_hash()),
    ]);

    both.sim.restart().unwrap();
    both.real.restart();
    for heard in &both.heard {
        assert_eq!(heard.next(1), [Lost], "listening begins anew");
    }
    both.are_told();
    let again = pay(&coins[3], 7, 5);
    both.send(&again);
    both.say(&[added(again.compute_txid(), 1)]);
}

#[test]
fn messages_that_get_lost_are_told_as_a_loss_and_signals_go_on() {
    let (sim, _, coins) = start();
    let heard = Heard::start(&client(&sim), CAPACITY);
    assert_eq!(heard.next(1), [NodeSignal::Lost]);
    heard.is_told(|| NodeSignal::BlockConnected(mine(&sim).block_hash()));
    sim.lose_messages(2);
    let lost = [mine(&sim), mine(&sim)];
    let block = mine(&sim);
    assert_eq!(heard.next(2), [NodeSignal::Lost, NodeSignal::BlockConnected(block.block_hash())], "{lost:?}");
    let tx = Payment::of([coins[0].clone()]).change(owner(1), 5).sign().unwrap();
    sim.with(|world| world.submit(tx.clone())).unwrap().unwrap();
    assert_eq!(heard.next(1), [added(tx.compute_txid(), 1)]);
}

#[test]
fn a_publisher_that_goes_and_comes_again_is_a_loss() {
    let (sim, ..) = start();
    let heard = Heard::start(&client(&sim), CAPACITY);
    heard.next(1);
    heard.is_told(|| NodeSignal::BlockConnected(mine(&sim).block_hash()));
    assert!(heard.signals.is_connected());
    sim.stop_publishing();
    wait_for("the end of the connection", PATIENCE, || (!heard.signals.is_connected()).then_some(()));
    assert_eq!(client(&sim).signal_endpoint().unwrap(), None);
    mine(&sim);
    sim.publish().unwrap();
    assert_eq!(heard.next(1), [NodeSignal::Lost]);
    assert!(heard.signals.is_connected());
    heard.is_told(|| NodeSignal::BlockConnected(mine(&sim).block_hash()));
    let block = mine(&sim);
    assert_eq!(heard.next(1), [NodeSignal::BlockConnected(block.block_hash())]);
}

#[test]
fn whoever_does_not_take_its_signals_is_told_of_a_loss_in_their_place() {
    let (sim, ..) = start();
    let heard = Heard::start(&client(&sim), 5);
    heard.next(1);
    heard.is_told(|| NodeSignal::BlockConnected(mine(&sim).block_hash()));
    let before = heard.wakings.load(Ordering::SeqCst);
    let mined: Vec<_> = (0..8).map(|_| NodeSignal::BlockConnected(mine(&sim).block_hash())).collect();
    wait_for("all of them", PATIENCE, || (heard.wakings.load(Ordering::SeqCst) - before >= 8).then_some(()));
    let taken = heard.drain();
    assert_eq!((taken[0], &taken[1..]), (NodeSignal::Lost, &mined[6..]));
}

#[test]
fn a_publisher_that_is_not_there_yet_is_waited_for_until_the_flag_goes_up() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stop = StopFlag::new();
    let signals = Signals::start(&format!("tcp://127.0.0.1:{port}"), CAPACITY, &stop, || {}).unwrap();
    assert!(!signals.is_connected());
    let options = SimNodeOptions { zmq: Some(port), ..SimNodeOptions::default() };
    let sim = SimNode::start(Arc::new(Mutex::new(World::new(SimChain::new(1)))), options).unwrap();
    assert_eq!(sim.zmq_url(), Some(format!("tcp://127.0.0.1:{port}")));
    wait_for("the connection", PATIENCE, || signals.is_connected().then_some(()));
    stop.raise();
    wait_for("its end", Duration::from_secs(5), || (!signals.is_connected()).then_some(()));
}
