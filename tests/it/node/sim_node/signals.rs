//! The ZMQ messages of both nodes: the same operations on both cause equal messages.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Block, Network, Transaction, Txid};
use btcgraph::node::{Auth, Node, NodeOptions, NodeSignal, Signals, StopFlag};
use btcgraph::sim::{Mining, Owner, Payment, ScriptKind, SimChain, SimNode, SimNodeOptions, Spendable, World};
use serde_json::json;

use super::pair::{client, submit};
use crate::support::bitcoind::{RealNode, wait_for};

const PATIENCE: Duration = Duration::from_mins(1);
const CAPACITY: usize = 10_000;
/// How long to wait for a signal before the event is repeated: events before the subscription have no message.
const AGAIN: Duration = Duration::from_millis(100);

fn owner(n: u32) -> Owner {
    Owner::new(ScriptKind::P2wpkh, n)
}

/// A simulated node with ZMQ and 120 blocks, these blocks, and the coins of the first ten.
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

/// A subscription to the endpoint that a node reports.
struct Subscription {
    signals: Signals,
    wakeups: Arc<AtomicUsize>,
}

impl Subscription {
    fn start(node: &Node, capacity: usize) -> Subscription {
        let endpoint = node.signal_endpoint().unwrap().expect("the node publishes");
        let wakeups = Arc::new(AtomicUsize::new(0));
        let woken = Arc::clone(&wakeups);
        let on_signal = move || {
            woken.fetch_add(1, Ordering::SeqCst);
        };
        Subscription { signals: Signals::start(&endpoint, capacity, &StopFlag::new(), on_signal).unwrap(), wakeups }
    }

    /// Takes the received signals.
    fn drain(&self) -> Vec<NodeSignal> {
        self.signals.drain().into_iter().map(|received| received.signal).collect()
    }

    /// Waits for this many more signals, and takes them.
    #[track_caller]
    fn next(&self, count: usize) -> Vec<NodeSignal> {
        let mut signals = Vec::new();
        wait_for("signals", PATIENCE, || {
            signals.extend(self.drain());
            (signals.len() >= count).then_some(())
        });
        signals
    }

    /// Repeats `event` until its signal arrives: the subscription begins some time after the connection.
    #[track_caller]
    fn wait_for_subscription(&self, event: impl FnMut() -> NodeSignal) {
        wait_for_subscriptions(&[self], event);
    }
}

/// Repeats `event`, which returns its signal, until all subscriptions have received its last signal.
#[track_caller]
fn wait_for_subscriptions(all: &[&Subscription], mut event: impl FnMut() -> NodeSignal) {
    let (mut last, mut since) = (event(), Instant::now());
    let mut received = vec![false; all.len()];
    wait_for("the subscription", PATIENCE, || {
        for (subscription, received) in all.iter().zip(&mut received) {
            *received |= subscription.drain().contains(&last);
        }
        if received.iter().all(|received| *received) {
            return Some(());
        }
        if since.elapsed() > AGAIN {
            received.fill(false);
            (last, since) = (event(), Instant::now());
        }
        None
    });
}

/// A simulated and a real node with the same blocks, and a subscription to each.
struct Both {
    sim: SimNode,
    real: RealNode,
    subscriptions: [Subscription; 2],
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
        let settings = NodeOptions::new(Network::Regtest, real.rpc_url(), Auth::Cookie(real.cookie_path()));
        let nodes = [client(&sim), Node::connect(settings).unwrap()];
        let subscriptions = nodes.each_ref().map(|node| Subscription::start(node, CAPACITY));
        for subscription in &subscriptions {
            assert_eq!(subscription.next(1), [NodeSignal::Lost], "the subscription begins");
        }
        let both = Both { sim, real, subscriptions };
        both.wait_for_subscriptions();
        Some((both, coins))
    }

    fn wait_for_subscriptions(&self) {
        wait_for_subscriptions(&self.subscriptions.each_ref(), || {
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

    /// Mines a block on the simulated node and submits it to the real one.
    fn mine_exactly(&self, transactions: Vec<Transaction>) -> Arc<Block> {
        let block = self.sim.with(|world| world.mine_exactly(transactions, Mining::default())).unwrap().unwrap();
        self.submit(&block);
        block
    }

    /// Calls a method that changes the chain on both.
    fn call(&self, method: &str, block: &Block) {
        let body = json!({"method": method, "params": [block.block_hash()], "id": 1}).to_string();
        assert_eq!(super::pair::post(&self.sim.url(), "user:password", &body).status, 200);
        self.real.must(method, &[json!(block.block_hash())]);
    }

    /// Compares the next signals of both.
    #[track_caller]
    fn say(&self, expected: &[NodeSignal]) {
        let [sim, real] = self.subscriptions.each_ref().map(|subscription| subscription.next(expected.len()));
        assert_eq!(real, expected, "the real node");
        assert_eq!(sim, expected, "the simulated node");
    }
}

#[test]
fn both_publish_equal_signals_of_transactions_blocks_and_reorgs() {
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

    // a mined transaction has no message, but a sequence number
    let block = both.mine_exactly(vec![better, winner]);
    both.say(&[removed(loser_id, 7), BlockConnected(block.block_hash())]);
    both.send(&later);
    both.say(&[added(later_id, 8)]);

    both.call("invalidateblock", &block);
    both.say(&[BlockDisconnected(block.block_hash()), added(better_id, 9), added(winner_id, 10)]);
    both.call("reconsiderblock", &block);
    both.say(&[BlockConnected(block.block_hash())]);

    // a longer branch without the transactions of the block
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
    for subscription in &both.subscriptions {
        assert_eq!(subscription.next(1), [Lost], "the subscription begins again");
    }
    both.wait_for_subscriptions();
    let again = pay(&coins[3], 7, 5);
    both.send(&again);
    both.say(&[added(again.compute_txid(), 1)]);
}

#[test]
fn lost_messages_are_reported_and_later_signals_arrive() {
    let (sim, _, coins) = start();
    let subscription = Subscription::start(&client(&sim), CAPACITY);
    assert_eq!(subscription.next(1), [NodeSignal::Lost]);
    subscription.wait_for_subscription(|| NodeSignal::BlockConnected(mine(&sim).block_hash()));
    sim.drop_messages(2);
    let lost = [mine(&sim), mine(&sim)];
    let block = mine(&sim);
    assert_eq!(subscription.next(2), [NodeSignal::Lost, NodeSignal::BlockConnected(block.block_hash())], "{lost:?}");
    let tx = Payment::of([coins[0].clone()]).change(owner(1), 5).sign().unwrap();
    sim.with(|world| world.submit(tx.clone())).unwrap().unwrap();
    assert_eq!(subscription.next(1), [added(tx.compute_txid(), 1)]);
}

#[test]
fn a_reconnection_to_the_publisher_is_reported_as_a_loss() {
    let (sim, ..) = start();
    let subscription = Subscription::start(&client(&sim), CAPACITY);
    subscription.next(1);
    subscription.wait_for_subscription(|| NodeSignal::BlockConnected(mine(&sim).block_hash()));
    assert!(subscription.signals.is_connected());
    sim.stop_publishing();
    wait_for("the end of the connection", PATIENCE, || (!subscription.signals.is_connected()).then_some(()));
    assert_eq!(client(&sim).signal_endpoint().unwrap(), None);
    mine(&sim);
    sim.publish().unwrap();
    assert_eq!(subscription.next(1), [NodeSignal::Lost]);
    assert!(subscription.signals.is_connected());
    subscription.wait_for_subscription(|| NodeSignal::BlockConnected(mine(&sim).block_hash()));
    let block = mine(&sim);
    assert_eq!(subscription.next(1), [NodeSignal::BlockConnected(block.block_hash())]);
}

#[test]
fn unread_signals_above_the_capacity_are_replaced_by_a_loss() {
    let (sim, ..) = start();
    let subscription = Subscription::start(&client(&sim), 5);
    subscription.next(1);
    subscription.wait_for_subscription(|| NodeSignal::BlockConnected(mine(&sim).block_hash()));
    let before = subscription.wakeups.load(Ordering::SeqCst);
    let mined: Vec<_> = (0..8).map(|_| NodeSignal::BlockConnected(mine(&sim).block_hash())).collect();
    wait_for("all of them", PATIENCE, || (subscription.wakeups.load(Ordering::SeqCst) - before >= 8).then_some(()));
    let taken = subscription.drain();
    assert_eq!((taken[0], &taken[1..]), (NodeSignal::Lost, &mined[6..]));
}

#[test]
fn the_connection_is_retried_until_the_stop_flag_is_raised() {
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
