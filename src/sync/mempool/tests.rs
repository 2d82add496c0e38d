//! Cases that a whole node rarely produces.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::hex::DisplayHex;
use bitcoin::transaction::Version;
use bitcoin::{Amount, Block, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::chain::Height;
use crate::index::{Index, IndexOptions, ObservedLimits, Parser};
use crate::mempool::{
    Arrival, Cause, Departure, MempoolEventKind, MempoolLimits, MempoolSnapshot, Prevout, PrevoutSource,
};
use crate::node::fake::{FakeNode, FakeRequest, FakeResponse, regtest};
use crate::node::{Node, NodeSignal, ReceivedSignal};

const VALUE: u64 = 100_000;

/// A transaction that spends these outputs.
pub(in crate::sync) fn spending(outpoints: &[OutPoint]) -> Transaction {
    let (script_sig, sequence, witness) = (ScriptBuf::new(), Sequence::MAX, Witness::new());
    let input = |previous_output: &OutPoint| TxIn {
        previous_output: *previous_output,
        script_sig: script_sig.clone(),
        sequence,
        witness: witness.clone(),
    };
    let input = outpoints.iter().map(input).collect();
    let output = TxOut { value: Amount::from_sat(VALUE), script_pubkey: ScriptBuf::from(vec![0x51]) };
    Transaction { version: Version::TWO, lock_time: LockTime::ZERO, input, output: vec![output; 2] }
}

pub(in crate::sync) fn txid(number: u8) -> Txid {
    Txid::from_byte_array([number; 32])
}

fn coin(number: u8) -> OutPoint {
    OutPoint { txid: txid(number), vout: 0 }
}

fn output(transaction: &Transaction, vout: u32) -> OutPoint {
    OutPoint { txid: transaction.compute_txid(), vout }
}

pub(in crate::sync) fn arrival(transaction: &Transaction) -> Arrival {
    let source = PrevoutSource::Confirmed { height: Height::GENESIS, coinbase: false };
    let prevout = Prevout { value: 2 * VALUE, script_pubkey: Box::new([0x51]), source };
    Arrival {
        txid: transaction.compute_txid(),
        wtxid: transaction.compute_wtxid(),
        raw: Arc::from(serialize(transaction)),
        prevouts: vec![prevout; transaction.input.len()],
        first_seen: 1,
        height: Height::GENESIS,
        cause: Cause::New,
    }
}

/// An index without blocks.
pub(in crate::sync) fn empty() -> (TempDir, Index) {
    let directory = tempfile::tempdir().unwrap();
    let index = Index::open(&IndexOptions {
        path: directory.path().join("index.redb"),
        network: Network::Regtest,
        salt: None,
        cache_bytes: 1 << 20,
        freezes: false,
        stale_blocks_kept: 1,
        observed: ObservedLimits::default(),
    })
    .unwrap();
    (directory, index)
}

/// An index of the genesis block.
pub(in crate::sync) fn genesis() -> (TempDir, Index) {
    let (directory, mut index) = empty();
    let genesis = genesis_block(Network::Regtest);
    let block = index.parser().parse(genesis.block_hash(), serialize(&genesis)).unwrap();
    let mut update = index.update().unwrap();
    update.connect(&[block]).unwrap();
    update.commit().unwrap();
    (directory, index)
}

fn block(parser: &Parser, transactions: &[&Transaction]) -> crate::index::ParsedBlock {
    let coinbase = genesis_block(Network::Regtest).txdata;
    block_of(parser, coinbase.into_iter().chain(transactions.iter().copied().cloned()).collect())
}

/// A block of only these transactions.
fn block_of(parser: &Parser, transactions: Vec<Transaction>) -> crate::index::ParsedBlock {
    let mut block: Block = genesis_block(Network::Regtest);
    block.txdata = transactions;
    block.header.prev_blockhash = block.block_hash();
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    parser.parse(block.block_hash(), serialize(&block)).unwrap()
}

#[test]
fn the_state_after_blocks_is_computed_apart_from_the_mempool() {
    let (_directory, index) = genesis();
    let parser = index.parser();
    let mut persistent = PersistentMempool::default();
    let (mined, parent, conflicted) = (spending(&[coin(1)]), spending(&[coin(2)]), spending(&[coin(3), coin(4)]));
    let child = spending(&[output(&parent, 1)]);
    for transaction in [&mined, &child, &conflicted] {
        persistent.mempool.add(arrival(transaction)).unwrap();
    }
    let (winner, strangers) = (spending(&[coin(9), coin(4)]), [spending(&[coin(5)]), spending(&[coin(6)])]);
    let mut mempool_sync = MempoolSync::new(&mut persistent, Duration::ZERO);
    let seen = mempool_sync.pre_block_state(None);
    let blocks = [&[&strangers[0], &mined, &parent, &strangers[1]][..], &[&winner]]
        .map(|transactions| block(&parser, transactions));
    let first = seen.post_block_state(&blocks[..1], Height::from(7), None).unwrap();
    // index 0 is the coinbase
    assert_eq!(first.first_seen, [[(2, arrival(&mined).first_seen)]]);
    let second = seen.post_block_state(&blocks[1..], Height::from(8), Some(first.mempool)).unwrap();
    assert_eq!(second.first_seen, [[]]);
    let left = second.mempool;
    assert!(left.get(&mined.compute_txid()).is_none() && left.get(&conflicted.compute_txid()).is_none());
    let child = left.get(&child.compute_txid()).unwrap();
    assert_eq!(
        child.prevouts.iter().next().unwrap().source,
        PrevoutSource::Confirmed { height: Height::from(7), coinbase: false }
    );
    assert_eq!((left.len(), mempool_sync.mempool.len()), (1, 3));
}

/// A node with one transaction in its mempool.
fn node_with(txid: Txid, raw: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> FakeNode {
    FakeNode::start(move |asked| match asked {
        FakeRequest::Rpc("getrawmempool", _) => FakeResponse::Result(json!({ "txids": [txid], "mempool_sequence": 1 })),
        FakeRequest::Rpc("getmempoolinfo", _) => FakeResponse::Result(json!({
            "loaded": true, "size": 1, "bytes": 100, "usage": 1_000, "total_fee": 0.0, "maxmempool": 300_000_000,
            "mempoolminfee": 0.00001, "minrelaytxfee": 0.00001, "incrementalrelayfee": 0.00001, "unbroadcastcount": 0,
            "fullrbf": true,
        })),
        FakeRequest::Rpc("getrawtransaction", _) => FakeResponse::Result(json!(raw().to_lower_hex_string())),
        FakeRequest::Rpc("getmempoolentry", _) => FakeResponse::Result(json!({ "time": 5 })),
        other => regtest(other),
    })
}

/// Signals that were received in this second.
fn received_at(second: u64) -> impl Fn(NodeSignal) -> ReceivedSignal {
    move |signal| ReceivedSignal { signal, at: SystemTime::UNIX_EPOCH + Duration::from_secs(second) }
}

#[test]
fn another_witness_is_noticed_when_removed_and_added_at_once() {
    let (_directory, index) = genesis();
    let before = spending(&[coin(1)]);
    let mut after = before.clone();
    after.input[0].witness.push([7]);
    let (txid, wtxid) = (before.compute_txid(), after.compute_wtxid());
    assert_eq!(after.compute_txid(), txid);
    let fake = node_with(txid, move || serialize(&after));
    let node = Node::connect(fake.options()).unwrap();
    let chain = index.snapshot().unwrap();
    let mut persistent = PersistentMempool::default();
    persistent.mempool.add(arrival(&before)).unwrap();
    let mut mempool_sync = MempoolSync::new(&mut persistent, Duration::ZERO);
    let removed = NodeSignal::Removed { txid, mempool_sequence: 2 };
    let signals = vec![removed, NodeSignal::Added { txid, mempool_sequence: 3 }].into_iter().map(received_at(100));
    mempool_sync.step(&node, &chain, signals.collect(), Instant::now(), true).unwrap();
    // its input is not in this chain
    assert!(mempool_sync.mempool.get(&txid).is_none());
    let orphans = mempool_sync.orphans.take_all();
    let seen: Vec<_> = orphans.iter().map(|incoming| (incoming.wtxid, incoming.first_seen)).collect();
    assert_eq!(seen, [(wtxid, 100)], "it was first seen when its signal arrived, not when that was processed");
}

#[test]
fn an_orphan_without_parents_is_skipped_after_some_lists() {
    let (_directory, index) = genesis();
    let orphan = spending(&[coin(1)]);
    let txid = orphan.compute_txid();
    let requests = Arc::new(AtomicUsize::new(0));
    let fake = node_with(txid, {
        let requests = Arc::clone(&requests);
        move || {
            requests.fetch_add(1, Ordering::Relaxed);
            serialize(&orphan)
        }
    });
    let node = Node::connect(fake.options()).unwrap();
    let chain = index.snapshot().unwrap();
    let mut persistent = PersistentMempool::default();
    let mut mempool_sync = MempoolSync::new(&mut persistent, Duration::ZERO);
    let list = |mempool_sync: &mut MempoolSync<'_>, signals| {
        mempool_sync.request_list();
        mempool_sync.step(&node, &chain, signals, Instant::now(), false).unwrap();
        while mempool_sync.step(&node, &chain, Vec::new(), Instant::now(), true).unwrap() != StepOutcome::Done {}
        (mempool_sync.orphans.contains(&txid), mempool_sync.is_in_sync())
    };
    assert_eq!(list(&mut mempool_sync, Vec::new()), (true, true), "its parent may still arrive");
    for _ in 0..6 {
        list(&mut mempool_sync, Vec::new());
    }
    let before = requests.load(Ordering::Relaxed);
    assert_eq!(list(&mut mempool_sync, Vec::new()), (false, true));
    assert_eq!(requests.load(Ordering::Relaxed), before, "it is not requested again");
    let signals = vec![received_at(100)(NodeSignal::Added { txid, mempool_sequence: 2 })];
    assert_eq!(list(&mut mempool_sync, signals), (true, true), "the node signalled it again");
}

#[test]
fn an_unresolved_transaction_is_not_reported_as_dead() {
    let (_directory, mut index) = genesis();
    let parser = index.parser();
    let mut funding = genesis_block(Network::Regtest).txdata.remove(0);
    funding.input[0].script_sig = ScriptBuf::from(vec![1, 1]);
    let payment = spending(&[output(&funding, 0)]);
    let txid = payment.compute_txid();
    let block = block_of(&parser, vec![funding, payment]);
    let mut update = index.update().unwrap();
    update.connect(&[block]).unwrap();
    update.commit().unwrap();
    let mut update = index.update().unwrap();
    let disconnected = update.disconnect().unwrap().unwrap();
    update.commit().unwrap();
    let chain = index.snapshot().unwrap();
    let mut persistent = PersistentMempool::default();
    let mut mempool_sync = MempoolSync::new(&mut persistent, Duration::ZERO);
    let outcome_of = |mempool_sync: &MempoolSync<'_>| {
        let outcome = mempool_sync.outcome(&chain, &[disconnected]).unwrap();
        assert_eq!(outcome.returned, []);
        (outcome.died.iter().map(|dead| dead.txid).collect::<Vec<_>>(), outcome.is_whole)
    };
    assert_eq!(outcome_of(&mempool_sync), (vec![txid], true));
    mempool_sync.unresolved.record_failure(txid);
    assert_eq!(outcome_of(&mempool_sync), (Vec::new(), false));
}

#[test]
fn signals_are_kept_up_to_the_bound_while_the_node_fails() {
    let (_directory, index) = genesis();
    let fake = FakeNode::start(|asked| match asked {
        FakeRequest::Rpc("getrawtransaction", _) => FakeResponse::Status(503, "Work queue depth exceeded"),
        other => regtest(other),
    });
    let node = Node::connect(fake.impatient_options()).unwrap();
    let chain = index.snapshot().unwrap();
    let mut persistent = PersistentMempool::default();
    let mut mempool_sync = MempoolSync { max_to_fetch: 3, ..MempoolSync::new(&mut persistent, Duration::ZERO) };
    let signals_of = |mempool_sync: &mut MempoolSync<'_>, numbers: std::ops::RangeInclusive<u8>| {
        let added = |number| NodeSignal::Added { txid: txid(number), mempool_sequence: number.into() };
        let signals = numbers.map(added).map(received_at(100)).collect();
        mempool_sync.step(&node, &chain, signals, Instant::now(), true).unwrap_err();
        mempool_sync.mark_behind();
        mempool_sync.to_fetch.iter().map(|(txid, request)| (*txid, request.first_seen)).collect::<Vec<_>>()
    };
    let three = [txid(1), txid(2), txid(3)].map(|txid| (txid, 100));
    assert_eq!(signals_of(&mut mempool_sync, 1..=3), three, "these times are known nowhere else");
    assert_eq!(signals_of(&mut mempool_sync, 4..=4), [], "the list has them all");
    assert!(mempool_sync.last_list.is_none(), "and the next step requests it");
}

/// The departed transactions and their reasons, in the order of departure.
fn reasons(snapshot: &MempoolSnapshot) -> Vec<(Txid, Departure)> {
    snapshot.newest_departed(u64::MAX).map(|departed| (departed.txid, departed.departure)).rev().collect()
}

/// Writes the changes of a mempool into the index.
fn persist(index: &mut Index, persistent: &mut PersistentMempool) {
    let writing = MempoolSync::new(persistent, Duration::ZERO).take_changes(index.snapshot().unwrap().tip());
    let mut update = index.update().unwrap();
    update.observe(&writing.unwrap().observations).unwrap();
    update.commit().unwrap();
}

/// An index, and a transaction in it whose outputs are not spent.
fn funded() -> (TempDir, Index, Transaction) {
    let (directory, mut index) = genesis();
    let mut coinbase = genesis_block(Network::Regtest).txdata.remove(0);
    coinbase.input[0].script_sig = ScriptBuf::from(vec![1, 1]);
    let funding = spending(&[output(&coinbase, 0)]);
    let block = block_of(&index.parser(), vec![coinbase, funding.clone()]);
    let mut update = index.update().unwrap();
    update.connect(&[block]).unwrap();
    update.commit().unwrap();
    (directory, index, funding)
}

/// A transaction that spends all outputs of another.
fn child_of(parent: &Transaction) -> Transaction {
    spending(&[output(parent, 0), output(parent, 1)])
}

#[test]
fn a_parent_that_returned_behind_its_children_is_loaded_with_them() {
    let (_directory, mut index, funding) = funded();
    let parent = child_of(&funding);
    let child = child_of(&parent);
    let grandchild = child_of(&child);
    let mut persistent = PersistentMempool::default();
    // these arrived while a block had the parent, which left the chain
    for (first_seen, transaction) in [(7, &child), (8, &grandchild)] {
        persistent.mempool.add(Arrival { first_seen, ..arrival(transaction) }).unwrap();
    }
    persistent.mempool.add(arrival(&parent)).unwrap();
    persist(&mut index, &mut persistent);

    let mut loaded = PersistentMempool::load(&index, MempoolLimits::default()).unwrap();
    let snapshot = loaded.snapshot();
    let found = [&parent, &child, &grandchild].map(|transaction| {
        let entry = snapshot.get(&transaction.compute_txid()).unwrap();
        (entry.first_seen, entry.prevouts.iter().map(|prevout| prevout.source).collect::<Vec<_>>())
    });
    let confirmed = PrevoutSource::Confirmed { height: Height::from(1), coinbase: false };
    let unconfirmed = vec![PrevoutSource::Unconfirmed; 2];
    assert_eq!(found, [(1, vec![confirmed; 2]), (7, unconfirmed.clone()), (8, unconfirmed)]);
    let changes = MempoolSync::new(&mut loaded, Duration::ZERO).take_changes(index.snapshot().unwrap().tip());
    assert!(changes.is_none(), "their rows stay");
}

#[test]
fn a_child_of_a_parent_of_an_earlier_run_is_loaded_with_it() {
    let (_directory, mut index, funding) = funded();
    let parent = child_of(&funding);
    let child = child_of(&parent);
    let mut persistent = PersistentMempool::default();
    let gone = [1, 2].map(|number| spending(&[coin(number)]));
    for transaction in gone.iter().chain([&parent]) {
        persistent.mempool.add(arrival(transaction)).unwrap();
    }
    for transaction in &gone {
        persistent.mempool.remove(&transaction.compute_txid(), Departure::Expired, 5);
    }
    persist(&mut index, &mut persistent);
    // the numbers of this run begin with 1 again
    let mut second = PersistentMempool::load(&index, MempoolLimits::default()).unwrap();
    second.mempool.add(arrival(&child)).unwrap();
    persist(&mut index, &mut second);
    let snapshot = PersistentMempool::load(&index, MempoolLimits::default()).unwrap().snapshot();
    let there = [&parent, &child].map(|transaction| snapshot.get(&transaction.compute_txid()).is_some());
    assert_eq!(there, [true, true]);
}

#[test]
fn a_child_without_its_parent_is_not_loaded() {
    let (_directory, mut index, funding) = funded();
    let child = child_of(&child_of(&funding));
    let txid = child.compute_txid();
    let mut persistent = PersistentMempool::default();
    persistent.mempool.add(Arrival { first_seen: 7, ..arrival(&child) }).unwrap();
    persist(&mut index, &mut persistent);
    // the node may have it, and its parent
    let mut readable = PersistentMempool::load_readable(&index, MempoolLimits::default()).unwrap();
    assert_eq!((readable.snapshot().len(), readable.freed.get(&txid)), (0, Some(&7)));
    let mut loaded = PersistentMempool::load(&index, MempoolLimits::default()).unwrap();
    assert_eq!((loaded.snapshot().len(), loaded.freed.get(&txid)), (0, None));
    let changes = MempoolSync::new(&mut loaded, Duration::ZERO).take_changes(index.snapshot().unwrap().tip());
    assert_eq!(changes.unwrap().observations.mempool, [(txid, None)], "its row is removed");
}

#[test]
fn departures_conflicting_with_the_chain_are_corrected_on_load() {
    let (_directory, mut index) = genesis();
    let mut coinbase = genesis_block(Network::Regtest).txdata.remove(0);
    coinbase.input[0].script_sig = ScriptBuf::from(vec![1, 1]);
    let funding = spending(&[output(&coinbase, 0)]);
    let (parent, other) = (spending(&[output(&funding, 0), coin(7)]), spending(&[output(&funding, 1)]));
    let child = spending(&[output(&parent, 1)]);
    let mut persistent = PersistentMempool::default();
    for transaction in [&parent, &child, &other] {
        persistent.mempool.add(arrival(transaction)).unwrap();
    }
    for transaction in [&parent, &other] {
        persistent.mempool.remove(&transaction.compute_txid(), Departure::Unknown, 5);
    }
    persist(&mut index, &mut persistent);
    // no mempool follows this block
    let mut conflict = spending(&[output(&funding, 0)]);
    conflict.output.pop();
    let block = block_of(&index.parser(), vec![coinbase, funding, conflict.clone()]);
    let departure = Departure::Conflicted { by: conflict.compute_txid(), block: block.hash() };
    let mut update = index.update().unwrap();
    update.connect(&[block]).unwrap();
    update.commit().unwrap();

    let mut loaded = PersistentMempool::load(&index, MempoolLimits::default()).unwrap();
    let [parent, child, other] = [parent, child, other].map(|transaction| transaction.compute_txid());
    let expected = [(other, Departure::Unknown), (parent, departure), (child, departure)];
    let snapshot = loaded.snapshot();
    assert_eq!(reasons(&snapshot), expected);
    assert_eq!(snapshot.departed(&child).unwrap().along_with, Some(parent));
    let events: Vec<_> = snapshot.events_after(0).unwrap().map(|event| event.kind).collect();
    assert_eq!(events, [parent, child].map(|txid| MempoolEventKind::Corrected { txid, departure }));

    persist(&mut index, &mut loaded);
    let snapshot = PersistentMempool::load(&index, MempoolLimits::default()).unwrap().snapshot();
    assert_eq!(reasons(&snapshot), expected, "the corrections are persisted");
    assert_eq!(snapshot.sequence(), 0, "a correction is announced once");
}
