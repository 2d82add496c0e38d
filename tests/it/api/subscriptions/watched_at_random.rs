//! A wallet that uses its addresses within the gap is sent the same through its descriptor as through the list of all its
//! scripts, whatever happens to the chain and the mempool, however late the stream looks, and from wherever it resumes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bitcoin::{OutPoint, ScriptBuf, Transaction, TxOut, Txid};
use btcgraph::mempool::Departure;
use btcgraph::sim::{Rng, SimChain};
use serde_json::{Value, json};

use super::ledger_events::{EventReader, event as event_of, short};
use super::watched_descriptors::document;
use crate::api::ledgers::descriptors::{pay, script, wallet};
use crate::api::mempool::projected::chain_with_coins;
use crate::support::api::{Api, branch};

const GAP: u32 = 3;
const SCRIPTS: u32 = 200;

/// A wallet, the chain, and the transactions by where they are.
struct World {
    chain: SimChain,
    api: Api,
    random: Rng,
    coins: Vec<OutPoint>,
    waiting: BTreeMap<Txid, Transaction>,
    /// In no block of the chain and not in the mempool.
    lost: Vec<Transaction>,
    /// The transactions of the newest blocks, oldest block first.
    blocks: Vec<Vec<Transaction>>,
    /// The index behind the last used one of each branch.
    used: [u32; 2],
    /// By how many scripts the wallet goes beyond its gap at most.
    beyond: u32,
}

impl World {
    fn new(seed: u64, beyond: u32) -> Self {
        let (chain, coins) = chain_with_coins(150);
        let (api, random) = (Api::of_chain(&chain), Rng::new(seed));
        let (waiting, lost, blocks) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { chain, api, random, coins, waiting, lost, blocks, used: [0; 2], beyond }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.between(0, u64::try_from(end).unwrap() - 1)).unwrap()
    }

    /// A payment to one or two scripts within the gap of all that was used so far, or beyond it.
    fn payment(&mut self) -> Option<Transaction> {
        let coin = self.coins.pop()?;
        let mut outputs = Vec::new();
        for _ in 0..=self.below(2) {
            let branch = self.below(2);
            let index =
                u32::try_from(self.random.between(0, u64::from(self.used[branch] + GAP - 1 + self.beyond))).unwrap();
            self.used[branch] = self.used[branch].max(index + 1);
            outputs.push((branch, index, 1_000));
        }
        Some(pay(coin, &outputs))
    }

    /// Some of the transactions that wait, and some that nobody has seen.
    fn for_block(&mut self) -> Vec<Transaction> {
        let mut transactions: Vec<_> = self.waiting.values().cloned().collect();
        transactions.retain(|_| self.random.between(0, 2) > 0);
        for _ in 0..self.below(3) {
            transactions.extend(self.payment());
        }
        transactions
    }

    fn mine(&mut self) {
        let transactions = self.for_block();
        for mined in &transactions {
            self.waiting.remove(&mined.compute_txid());
        }
        let block = self.chain.mine(transactions.clone()).unwrap();
        self.api.connect(&block);
        self.blocks.push(transactions);
    }

    fn reorganise(&mut self) {
        let depth = 1 + self.below(2.min(self.blocks.len()));
        let mut fork = self.chain.tip();
        for _ in 0..depth {
            fork = self.chain.block(&fork).unwrap().header.prev_blockhash;
        }
        let mut left: Vec<_> = self.blocks.drain(self.blocks.len() - depth..).flatten().collect();
        let mut again = self.for_block();
        left.retain(|transaction| {
            let comes_again = self.random.between(0, 1) == 0;
            comes_again.then(|| again.push(transaction.clone()));
            !comes_again
        });
        for mined in &again {
            self.waiting.remove(&mined.compute_txid());
        }
        let blocks = branch(&mut self.chain, fork, depth + 1, &again);
        self.api.change(u32::try_from(depth).unwrap(), blocks.iter().map(AsRef::as_ref));
        self.blocks.extend((0..depth).map(|_| Vec::new()));
        self.blocks.push(again);
        self.lost.extend(left);
    }

    /// What is known of the chain and the mempool to whom all scripts of the wallet are known.
    fn known(&self, scripts: &HashSet<ScriptBuf>) -> Known {
        let of_wallet = |output: &&TxOut| scripts.contains(&output.script_pubkey);
        let net = |payment: &Transaction| payment.output.iter().filter(of_wallet).map(|paid| paid.value.to_sat()).sum();
        let (mined, waiting) = (self.blocks.iter().flatten(), self.waiting.values());
        let txid = |payment: &Transaction| payment.compute_txid().to_string();
        Known {
            confirmed: mined.clone().map(txid).collect(),
            waiting: waiting.clone().map(txid).collect(),
            nets: mined.chain(waiting).map(|payment| (txid(payment), net(payment))).collect(),
        }
    }

    fn step(&mut self) {
        match self.below(10) {
            0..=3 => {
                let payments: Vec<_> = (0..=self.below(3)).filter_map(|_| self.payment()).collect();
                self.api.arrive(&payments);
                self.waiting.extend(payments.into_iter().map(|payment| (payment.compute_txid(), payment)));
            }
            4..=6 => self.mine(),
            7 if !self.blocks.is_empty() => self.reorganise(),
            8 if !self.waiting.is_empty() => {
                let place = self.below(self.waiting.len());
                let txid = *self.waiting.keys().nth(place).unwrap();
                self.lost.extend(self.waiting.remove(&txid));
                self.api.depart(&txid, Departure::Evicted);
            }
            9 if !self.lost.is_empty() => {
                let place = self.below(self.lost.len());
                let back = self.lost.swap_remove(place);
                self.api.arrive([&back]);
                self.waiting.insert(back.compute_txid(), back);
            }
            _ => {}
        }
    }
}

/// Reads up to the event that a transaction arrived.
fn read_to(stream: &mut EventReader, events: &mut Vec<Value>, last: &Transaction) {
    let is_last = |event: &Value| short(std::slice::from_ref(event))[0] == event_of("SEEN", last);
    if !events.last().is_some_and(is_last) {
        events.extend(stream.up_to(is_last));
    }
    let (end, txid) = (events.last(), last.compute_txid());
    assert!(end.is_some_and(is_last), "the stream ends with {end:?} instead of the arrival of {txid}");
}

/// The subscription to all scripts of the wallet, one by one.
fn explicit() -> String {
    let scripts = (0..2).flat_map(|branch| (0..SCRIPTS).map(move |index| (branch, index)));
    let scripts: Vec<_> = scripts.map(|(branch, index)| script(&wallet(), branch, index).to_hex_string()).collect();
    let fields = "kind depth reason replacedByTxid entry { net transaction { txid } }";
    format!("subscription {{ ledgerEvents(watch: {{ scripts: {} }} depths: [2, 4]) {{ {fields} }} }}", json!(scripts))
}

fn nets(events: &[Value]) -> Vec<Value> {
    events.iter().map(|event| event["entry"]["net"].clone()).collect()
}

#[test]
fn a_descriptor_is_sent_what_its_scripts_are_sent() {
    let (mut kinds, mut furthest) = (BTreeSet::new(), 0);
    for seed in 0..3 {
        let mut world = World::new(seed, 0);
        let arguments = "depths: [2, 4]";
        let mut by_scripts = EventReader::begin(&world.api, &explicit());
        let mut by_descriptor = EventReader::begin(&world.api, &document(arguments));
        let (mut expected, mut found) = (by_scripts.more(), by_descriptor.more());
        for _ in 0..40 {
            world.step();
            // each looks when it likes
            if world.below(3) == 0 {
                expected.extend(by_scripts.more());
            }
            if world.below(4) == 0 {
                found.extend(by_descriptor.more());
            }
        }
        // a last payment ends both lists
        let last = world.payment().unwrap();
        world.api.arrive([&last]);
        for (stream, events) in [(&mut by_scripts, &mut expected), (&mut by_descriptor, &mut found)] {
            read_to(stream, events, &last);
        }
        assert_eq!(short(&found), short(&expected), "seed {seed}");
        assert_eq!(nets(&found), nets(&expected), "seed {seed}");
        assert!(found.iter().all(|event| event["isBackfill"] == false), "seed {seed}");
        for _ in 0..8 {
            let number = world.below(found.len());
            let after = format!("{arguments} after: {}", found[number]["cursor"]);
            let rest = EventReader::begin(&world.api, &document(&after)).more();
            assert_eq!(short(&rest), short(&found[number + 1..]), "seed {seed} behind event {number}");
            assert_eq!(nets(&rest), nets(&found[number + 1..]), "seed {seed} behind event {number}");
        }
        kinds.extend(found.iter().map(|event| event["kind"].to_string()));
        furthest = furthest.max(world.used[0]).max(world.used[1]);
        assert!(furthest < SCRIPTS);
    }
    assert!(kinds.len() >= 5 && furthest > 20, "{kinds:?}, {furthest}");
}

/// What a client knows: the txids that are confirmed and those that wait, and the newest net of each that it was sent.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Known {
    confirmed: BTreeSet<String>,
    waiting: BTreeSet<String>,
    nets: BTreeMap<String, u64>,
}

impl Known {
    fn apply(&mut self, events: &[Value]) {
        for event in events {
            let txid = event["entry"]["transaction"]["txid"].as_str().unwrap().to_owned();
            let is_backfill = event["isBackfill"] == true;
            self.nets.insert(txid.clone(), event["entry"]["net"].as_u64().unwrap());
            match event["kind"].as_str().unwrap() {
                "SEEN" => {
                    assert!(!self.confirmed.contains(&txid), "{event}");
                    assert!(self.waiting.insert(txid) || is_backfill, "{event}: it was sent before");
                }
                "CONFIRMED" => {
                    self.waiting.remove(&txid);
                    assert!(self.confirmed.insert(txid) || is_backfill, "{event}: it was sent before");
                }
                "DEPTH_REACHED" => assert!(self.confirmed.contains(&txid), "{event}"),
                "UNCONFIRMED_BY_REORG" => assert!(self.confirmed.remove(&txid), "{event}: it is not confirmed"),
                "EVICTED" | "REPLACED" => drop(self.waiting.remove(&txid)),
                kind => panic!("{kind}"),
            }
        }
        self.nets.retain(|txid, _| self.confirmed.contains(txid) || self.waiting.contains(txid));
    }
}

#[test]
fn a_wallet_beyond_its_gap_is_known_whole_once_the_gap_reaches_it() {
    let scripts: HashSet<_> =
        (0..2).flat_map(|branch| (0..SCRIPTS).map(move |index| script(&wallet(), branch, index))).collect();
    let mut backfilled = 0;
    for seed in 100..103 {
        let mut world = World::new(seed, 5);
        let mut stream = EventReader::begin(&world.api, &document("depths: [2]"));
        let mut found = stream.more();
        for _ in 0..35 {
            world.step();
            if world.below(4) == 0 {
                found.extend(stream.more());
            }
        }
        // one payment closes all gaps
        let all = (0..2).flat_map(|branch| (0..world.used[branch]).map(move |index| (branch, index, 100)));
        let last = pay(world.coins.pop().unwrap(), &all.collect::<Vec<_>>());
        world.api.arrive([&last]);
        world.waiting.insert(last.compute_txid(), last.clone());
        read_to(&mut stream, &mut found, &last);
        backfilled += found.iter().filter(|event| event["isBackfill"] == true).count();

        assert_eq!(stream.more(), Vec::<Value>::new(), "seed {seed}: nothing follows the last event");
        let expected = world.known(&scripts);
        let mut known = Known::default();
        known.apply(&found);
        assert_eq!(known, expected, "seed {seed}");
        // and so does a client know it that resumes anywhere, within the history that is sent late, too
        for number in 0..found.len() {
            let mut known = Known::default();
            known.apply(&found[..=number]);
            let after = format!("depths: [2] after: {}", found[number]["cursor"]);
            let (mut resumed, mut rest) = (EventReader::begin(&world.api, &document(&after)), Vec::new());
            if number + 1 < found.len() {
                read_to(&mut resumed, &mut rest, &last);
            }
            known.apply(&rest);
            assert_eq!(known, expected, "seed {seed} behind event {number}");
        }
    }
    assert!(backfilled > 20, "{backfilled}");
}
