//! Random arrivals, replacements, removals, blocks and reorganisations, against a model that keeps nothing but the list
//! of transactions and works everything out from it anew. Each snapshot is compared with the model of its time only
//! after all is over.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::consensus::deserialize;
use bitcoin::{OutPoint, Transaction, Txid};
use proptest::prelude::*;
use proptest::sample::Index;

use super::agree::check;
use super::stage::{TIP, block, coin, output, paying, script};
use crate::chain::Height;
use crate::mempool::{
    Arrival, Cause, ConnectedBlock, Departure, Mempool, MempoolEventKind, MempoolLimits, Prevout, PrevoutSource,
};

const COINS: u8 = 6;

#[derive(Clone, Debug)]
enum Step {
    /// Spends some of all outputs there are, spent by others in the mempool or not.
    Arrive {
        spends: Vec<Index>,
        scripts: Vec<u8>,
        rate: u64,
    },
    /// A departed transaction arrives again.
    ComeBack(Index),
    Remove(Index, bool),
    /// Mines some transactions with their ancestors, and perhaps an unknown one that spends a coin.
    Connect {
        picks: Vec<Index>,
        stranger: Option<Index>,
    },
    /// Disconnects the last block; its transactions from one on do not return.
    Disconnect {
        returning: Index,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let spends = proptest::collection::vec(any::<Index>(), 1..4);
    let scripts = proptest::collection::vec(prop_oneof![6 => 0_u8..4, 1 => Just(9)], 1..5);
    let picks = proptest::collection::vec(any::<Index>(), 0..3);
    prop_oneof![
        12 => (spends, scripts, 0_u64..5).prop_map(|(spends, scripts, rate)| Step::Arrive { spends, scripts, rate }),
        1 => any::<Index>().prop_map(Step::ComeBack),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(index, expired)| Step::Remove(index, expired)),
        2 => (picks, proptest::option::of(any::<Index>())).prop_map(|(picks, stranger)| Step::Connect { picks, stranger }),
        2 => any::<Index>().prop_map(|returning| Step::Disconnect { returning }),
    ]
}

#[derive(Clone)]
struct ModelBlock {
    number: u8,
    height: u32,
    /// The transactions in order; of the stranger it is not known how it would arrive.
    transactions: Vec<(Arrival, bool)>,
}

/// A transaction as it arrived, and the number of that event.
#[derive(Clone)]
pub(super) struct Present {
    pub(super) arrival: Arrival,
    pub(super) sequence: u64,
    pub(super) transaction: Transaction,
}

/// A transaction that left, and the number of its departure.
#[derive(Clone)]
pub(super) struct Left {
    pub(super) departure: Departure,
    pub(super) along_with: Option<Txid>,
    pub(super) arrival: Arrival,
    pub(super) sequence: u64,
}

/// The state, as lists.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) present: BTreeMap<Txid, Present>,
    chain: Vec<ModelBlock>,
    pub(super) events: Vec<MempoolEventKind>,
    pub(super) departed: BTreeMap<Txid, Left>,
    departures: u64,
    blocks_made: u8,
    serial: u32,
}

impl Model {
    fn conflicts(&self, arrival: &Arrival) -> BTreeSet<Txid> {
        let spent: BTreeSet<OutPoint> = inputs(&decode(arrival)).collect();
        let conflicting =
            self.present.values().filter(|other| inputs(&other.transaction).any(|input| spent.contains(&input)));
        conflicting.map(|other| other.arrival.txid).collect()
    }

    pub(super) fn ancestors(&self, txid: &Txid) -> BTreeSet<Txid> {
        let mut found = BTreeSet::new();
        let mut waiting = self.parents(txid);
        while let Some(next) = waiting.pop_first() {
            waiting.extend(self.parents(&next));
            found.insert(next);
        }
        found
    }

    pub(super) fn descendants(&self, txid: &Txid) -> BTreeSet<Txid> {
        self.present.keys().filter(|other| self.ancestors(other).contains(txid)).copied().collect()
    }

    pub(super) fn parents(&self, txid: &Txid) -> BTreeSet<Txid> {
        let transaction = &self.present[txid].transaction;
        inputs(transaction).map(|input| input.txid).filter(|txid| self.present.contains_key(txid)).collect()
    }

    /// Every output that is not spent in the chain, with where it is.
    pub(super) fn outputs(&self) -> Vec<(OutPoint, Prevout)> {
        let mut outputs: BTreeMap<OutPoint, Prevout> = (1..=COINS).map(coin).collect();
        for block in &self.chain {
            for (arrival, _) in &block.transactions {
                let transaction = decode(arrival);
                inputs(&transaction).for_each(|input| drop(outputs.remove(&input)));
                let source = PrevoutSource::Confirmed { height: Height::from(block.height), coinbase: false };
                outputs.extend(created(arrival).map(|(outpoint, prevout)| (outpoint, Prevout { source, ..prevout })));
            }
        }
        outputs.extend(self.present.values().flat_map(|present| created(&present.arrival)));
        outputs.into_iter().filter(|(_, prevout)| *prevout.script_pubkey != *script(9)).collect()
    }

    pub(super) fn by_sequence(&self) -> Vec<&Present> {
        let mut present: Vec<&Present> = self.present.values().collect();
        present.sort_by_key(|present| present.sequence);
        present
    }

    fn remove(&mut self, txid: &Txid, departure: Departure) {
        let mut removed: Vec<Txid> = self.descendants(txid).into_iter().collect();
        removed.sort_by_key(|txid| self.present[txid].sequence);
        removed.insert(0, *txid);
        let mut gone = Vec::new();
        for removed in removed {
            let present = self.present.remove(&removed).unwrap();
            self.events.push(MempoolEventKind::Removed { txid: removed, departure });
            self.leave(departure, (removed != *txid).then_some(*txid), present.arrival);
            gone.push(removed);
        }
        if matches!(departure, Departure::Replaced { .. } | Departure::Conflicted { .. }) {
            for removed in gone {
                self.explain_above(&removed, *txid, departure);
            }
        }
    }

    fn leave(&mut self, departure: Departure, along_with: Option<Txid>, arrival: Arrival) {
        self.departures += 1;
        let left = Left { departure, along_with, sequence: self.departures, arrival };
        self.departed.insert(left.arrival.txid, left);
    }

    /// Those that left for an unknown reason and meet a condition, in the order of their departure.
    fn unexplained(&self, condition: impl Fn(&Transaction) -> bool) -> Vec<Left> {
        let unknown = self.departed.values().filter(|left| left.departure == Departure::Unknown);
        let mut found: Vec<Left> = unknown.filter(|left| condition(&decode(&left.arrival))).cloned().collect();
        found.sort_by_key(|left| left.sequence);
        found
    }

    fn correct(&mut self, left: Left, departure: Departure, along_with: Option<Txid>) {
        self.events.push(MempoolEventKind::Corrected { txid: left.arrival.txid, departure });
        self.leave(departure, along_with, left.arrival);
    }

    /// Corrects departures for an unknown reason: another transaction spends these outputs.
    fn explain(&mut self, spent: impl Iterator<Item = OutPoint>, by: &Txid, departure: Departure) {
        for outpoint in spent {
            for left in self.unexplained(|transaction| inputs(transaction).any(|input| input == outpoint)) {
                let txid = left.arrival.txid;
                if txid != *by {
                    self.correct(left, departure, None);
                    self.explain_above(&txid, txid, departure);
                }
            }
        }
    }

    /// Corrects the departures of the descendants of a transaction.
    fn explain_above(&mut self, txid: &Txid, root: Txid, departure: Departure) {
        let mut above = BTreeSet::from([*txid]);
        let mut count = 0;
        while count != above.len() {
            count = above.len();
            let children = self.unexplained(|transaction| inputs(transaction).any(|input| above.contains(&input.txid)));
            above.extend(children.into_iter().map(|left| left.arrival.txid));
        }
        above.remove(txid);
        for left in self.unexplained(|transaction| above.contains(&transaction.compute_txid())) {
            self.correct(left, departure, Some(root));
        }
    }

    fn add(&mut self, arrival: Arrival) {
        self.departed.remove(&arrival.txid);
        let replaced = Departure::Replaced { by: arrival.txid };
        self.explain(inputs(&decode(&arrival)), &arrival.txid, replaced);
        self.events.push(MempoolEventKind::Added { txid: arrival.txid, cause: arrival.cause });
        let (sequence, transaction) = (u64::try_from(self.events.len()).unwrap(), decode(&arrival));
        self.present.insert(arrival.txid, Present { arrival, sequence, transaction });
    }
}

fn decode(arrival: &Arrival) -> Transaction {
    deserialize(&arrival.raw).unwrap()
}

pub(super) fn inputs(transaction: &Transaction) -> impl Iterator<Item = OutPoint> {
    transaction.input.iter().map(|input| input.previous_output)
}

fn created(arrival: &Arrival) -> impl Iterator<Item = (OutPoint, Prevout)> {
    let count = u32::try_from(decode(arrival).output.len()).unwrap();
    (0..count).map(|vout| output(arrival, vout))
}

/// The mempool and its model, taken through the same.
#[derive(Default)]
struct World {
    mempool: Mempool,
    model: Model,
}

impl World {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Arrive { spends, scripts, rate } => {
                let outputs = self.model.outputs();
                let spends: BTreeMap<OutPoint, Prevout> =
                    spends.iter().map(|index| index.get(&outputs).clone()).collect();
                self.model.serial += 1;
                let spends: Vec<_> = spends.into_iter().collect();
                self.arrive(paying(*rate, &spends, scripts, self.model.serial));
            }
            Step::ComeBack(index) => {
                let departed: Vec<Arrival> = self.model.departed.values().map(|left| left.arrival.clone()).collect();
                if !departed.is_empty() {
                    self.arrive(index.get(&departed).clone());
                }
            }
            Step::Remove(index, expired) => {
                let departure = if *expired { Departure::Expired } else { Departure::Unknown };
                let txids: Vec<Txid> = self.model.present.keys().copied().collect();
                if !txids.is_empty() {
                    self.remove(index.get(&txids), departure);
                }
            }
            Step::Connect { picks, stranger } => self.connect(picks, stranger.as_ref()),
            Step::Disconnect { returning } => self.disconnect(returning),
        }
    }

    fn remove(&mut self, txid: &Txid, departure: Departure) {
        self.mempool.remove(txid, departure, 7);
        self.model.remove(txid, departure);
    }

    /// Adds a transaction for which all that is in its way is replaced, unless it needs that itself.
    fn arrive(&mut self, mut arrival: Arrival) {
        let conflicts = self.model.conflicts(&arrival);
        let mut gone: BTreeSet<Txid> = conflicts.clone();
        gone.extend(conflicts.iter().flat_map(|txid| self.model.descendants(txid)));
        let outputs: BTreeMap<OutPoint, Prevout> = self.model.outputs().into_iter().collect();
        for (input, prevout) in inputs(&decode(&arrival)).zip(&mut arrival.prevouts) {
            let Some(output) = outputs.get(&input).filter(|_| !gone.contains(&input.txid)) else { return };
            *prevout = output.clone();
        }
        for conflict in conflicts {
            if self.model.present.contains_key(&conflict) {
                self.remove(&conflict, Departure::Replaced { by: arrival.txid });
            }
        }
        self.mempool.add(arrival.clone()).unwrap();
        self.model.add(arrival);
    }

    fn connect(&mut self, picks: &[Index], stranger: Option<&Index>) {
        let txids: Vec<Txid> = self.model.present.keys().copied().collect();
        let mut mined: BTreeSet<Txid> = BTreeSet::new();
        if !txids.is_empty() {
            for pick in picks {
                mined.insert(*pick.get(&txids));
                mined.extend(self.model.ancestors(pick.get(&txids)));
            }
        }
        let by_sequence = self.model.by_sequence();
        let mined: Vec<Present> =
            by_sequence.into_iter().filter(|present| mined.contains(&present.arrival.txid)).cloned().collect();
        let mut transactions: Vec<(Arrival, bool)> =
            in_order(&mined).into_iter().map(|present| (present.arrival.clone(), true)).collect();
        self.model.blocks_made += 1;
        let (number, height) = (self.model.blocks_made, TIP + u32::try_from(self.model.chain.len()).unwrap() + 1);
        for present in &mined {
            self.model.present.remove(&present.arrival.txid);
        }
        for (arrival, _) in &transactions {
            let departure = Departure::Mined { block: block(number), height: Height::from(height) };
            self.model.events.push(MempoolEventKind::Removed { txid: arrival.txid, departure });
        }
        for (arrival, _) in &transactions {
            let conflicted = Departure::Conflicted { by: arrival.txid, block: block(number) };
            self.model.explain(inputs(&decode(arrival)), &arrival.txid, conflicted);
        }
        self.model.chain.push(ModelBlock { number, height, transactions: transactions.clone() });
        let coins: Vec<_> = self
            .model
            .outputs()
            .into_iter()
            .filter(|(_, prevout)| prevout.source != PrevoutSource::Unconfirmed)
            .collect();
        if let Some(stranger) = stranger.filter(|_| !coins.is_empty()) {
            self.model.serial += 1;
            let stranger = paying(1, &[stranger.get(&coins).clone()], &[2, 3], self.model.serial);
            let conflicted = Departure::Conflicted { by: stranger.txid, block: block(number) };
            for conflict in self.model.conflicts(&stranger) {
                self.model.remove(&conflict, conflicted);
            }
            self.model.explain(inputs(&decode(&stranger)), &stranger.txid, conflicted);
            transactions.push((stranger.clone(), false));
            self.model.chain.last_mut().unwrap().transactions.push((stranger, false));
        }
        let txids: Vec<Txid> = transactions.iter().map(|(arrival, _)| arrival.txid).collect();
        let spends: Vec<(OutPoint, Txid)> = transactions
            .iter()
            .flat_map(|(arrival, _)| inputs(&decode(arrival)).map(|input| (input, arrival.txid)).collect::<Vec<_>>())
            .collect();
        let (hash, height) = (block(number), Height::from(height));
        self.mempool.connect_block(&ConnectedBlock { hash, height, txids: &txids, spends: &spends, at: 7 });
    }

    fn disconnect(&mut self, returning: &Index) {
        let Some(last) = self.model.chain.pop() else { return };
        let hash = block(last.number);
        let returning = returning.index(last.transactions.len() + 1);
        for (number, (arrival, known)) in last.transactions.iter().enumerate() {
            let here = |txid: &Txid| self.model.present.contains_key(txid);
            let returned = last.transactions.iter().map(|(arrival, _)| arrival.txid);
            let stands = inputs(&decode(arrival))
                .all(|input| here(&input.txid) || !returned.clone().any(|txid| txid == input.txid));
            if *known && stands && number < returning {
                let outputs: BTreeMap<OutPoint, Prevout> = self.model.outputs().into_iter().collect();
                let mut arrival = Arrival { cause: Cause::Returned { block: hash }, ..arrival.clone() };
                for (input, prevout) in inputs(&decode(&arrival)).zip(&mut arrival.prevouts) {
                    *prevout = outputs[&input].clone();
                }
                self.mempool.add(arrival.clone()).unwrap();
                self.model.add(arrival);
            } else {
                for orphan in self.mempool.children(&arrival.txid) {
                    if self.model.present.contains_key(&orphan.txid) {
                        self.remove(&orphan.txid, Departure::ReorgedOut { block: hash });
                    }
                }
            }
        }
    }
}

/// Sorts parents before children.
fn in_order(present: &[Present]) -> Vec<&Present> {
    let mut left: Vec<&Present> = present.iter().collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let waits = |one: &Present| {
            inputs(&one.transaction).any(|input| left.iter().any(|other| other.arrival.txid == input.txid))
        };
        let (ready, waiting): (Vec<_>, Vec<_>) = left.iter().partition(|one| !waits(one));
        order.extend(ready);
        left = waiting;
    }
    order
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_agree_with_the_model(steps in proptest::collection::vec((step(), any::<bool>()), 1..40)) {
        let mut world = World { mempool: Mempool::new(MempoolLimits::default()), model: Model::default() };
        let mut kept = Vec::new();
        for (step, look) in &steps {
            world.take(step);
            if *look {
                kept.push((world.mempool.snapshot(), world.model.clone()));
            }
        }
        kept.push((world.mempool.snapshot(), world.model));
        for (snapshot, model) in &kept {
            check(snapshot, model);
        }
    }
}
