//! The one writer: what enters and what leaves.
//!
//! It keeps these true after each of its operations:
//!
//! - no two entries spend the same output;
//! - a prevout is `Unconfirmed` just if the transaction it is of is in the mempool;
//! - a transaction is in the mempool or among the departed, never in both;
//! - totals, orders and per-script figures are those of the entries, only the effective feerates wait for the next
//!   snapshot.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, Txid};

use super::arrivals::ArrivalRate;
use super::departed::Departed;
use super::entry::{Arrival, Cause, Entry, PrevoutSource, outpoint, wide};
use super::events::{Departure, MempoolEventKind};
use super::feerate::Rank;
use super::limits::{MempoolLimits, NodeMempool};
use super::snapshot::MempoolSnapshot;
use super::state::State;
use crate::chain::Height;
use crate::chain::raw::{RawError, RawTransaction};

/// The unconfirmed transactions of one node. Whoever holds it is its only writer. A copy costs a few pointers, and is
/// another mempool that begins where this one is.
#[derive(Clone, Default)]
pub struct Mempool {
    limits: MempoolLimits,
    state: State,
    /// By number of arrival: whose cluster has to be put in order before the next snapshot.
    touched: BTreeSet<u64>,
    /// The snapshot of this state, if nothing has changed since it was taken.
    newest: Option<MempoolSnapshot>,
}

/// Why a transaction cannot be added. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// It is in the mempool.
    #[error("it is in the mempool")]
    Present,
    /// Another one spends the same output. If it replaces that one, remove that one first.
    #[error("{spender} in the mempool spends {outpoint}, too")]
    Conflict {
        /// The output.
        outpoint: OutPoint,
        /// The transaction of the mempool that spends it.
        spender: Txid,
    },
    /// It spends an output that is said to be of the mempool, and is not there.
    #[error("it spends {outpoint}, which is not an output of a transaction in the mempool")]
    MissingParent {
        /// The output.
        outpoint: OutPoint,
    },
    /// It spends an output twice.
    #[error("it spends {outpoint} twice")]
    DuplicateInput {
        /// The output.
        outpoint: OutPoint,
    },
    /// It creates coins, so it can only be in a block.
    #[error("it is a coinbase")]
    Coinbase,
    /// Its bytes are not a transaction.
    #[error("its bytes are not a transaction: {0}")]
    Malformed(#[from] RawError),
    /// There is not one prevout for each input.
    #[error("it has {inputs} inputs, and {prevouts} prevouts came with it")]
    PrevoutCount {
        /// How many inputs it has.
        inputs: usize,
        /// How many prevouts were given.
        prevouts: usize,
    },
    /// It pays out more than it spends.
    #[error("it spends {spent} sat and pays out {paid} sat")]
    NegativeFee {
        /// What it spends, in sat.
        spent: u64,
        /// What it pays out, in sat.
        paid: u64,
    },
    /// Amounts that add up to more than 64 bits hold.
    #[error("its amounts are larger than any can be")]
    TooLarge,
}

/// A transaction that has entered.
#[derive(Clone, Debug)]
pub struct Added {
    /// What was made of it.
    pub entry: Arc<Entry>,
    /// Transactions that were there before and spend its outputs; these are unconfirmed now.
    pub rejoined: Vec<Txid>,
    /// What the journal of departed transactions had of it, where it no longer stands.
    pub departed: Option<Arc<Departed>>,
}

/// What of a block concerns the mempool.
#[derive(Clone, Copy, Debug)]
pub struct ConnectedBlock<'a> {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: Height,
    /// The txids of its transactions, in order.
    pub txids: &'a [Txid],
    /// The outputs that it spends, each with the txid of the transaction that does.
    pub spends: &'a [(OutPoint, Txid)],
    /// When it was connected, in seconds since 1970.
    pub at: u64,
}

/// What a block took out of the mempool.
#[derive(Clone, Debug, Default)]
pub struct BlockEffect {
    /// What it holds, in its order.
    pub mined: Vec<Arc<Entry>>,
    /// What spends an output that it spends otherwise, and all that stands on such.
    pub conflicted: Vec<Arc<Entry>>,
}

impl Mempool {
    /// An empty mempool.
    #[must_use]
    pub fn new(limits: MempoolLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds a transaction, with one event. If it was among the departed, it no longer is, and was first seen when it was then.
    ///
    /// Of what left for an unknown reason, all that spends one of the same outputs becomes replaced by it, with what stood
    /// on that. The events of these corrections precede its own.
    ///
    /// What it spends counts as unconfirmed if the transaction it is of is in the mempool, whatever the prevout says.
    /// What in the mempool spends its outputs turns unconfirmed, too: so when blocks are disconnected, their
    /// transactions are added in the order they had there, and what stood on them needs nothing else.
    pub fn add(&mut self, arrival: Arrival) -> Result<Added, AddError> {
        let mut entry = self.checked(arrival)?;
        self.newest = None;
        let departed = self.state.journal.take(&entry.txid);
        // it was seen before it left
        entry.first_seen = departed.as_ref().map_or(entry.first_seen, |left| left.first_seen.min(entry.first_seen));
        self.explain_conflicts(entry.outpoints(), Departure::Replaced { by: entry.txid });
        let cause = entry.cause();
        let added = MempoolEventKind::Added { txid: entry.txid, cause };
        entry.sequence = self.state.events.push(added, self.limits.events);
        if cause == Cause::New {
            self.state.arrivals.count(entry.first_seen, entry.vsize());
        }
        let entry = self.insert(entry);
        let children = self.state.children_of(&entry.txid);
        for child in children.values() {
            self.change_source(child, &entry.txid, |_| PrevoutSource::Unconfirmed);
        }
        self.touched.insert(entry.sequence);
        let rejoined = children.values().map(|child| child.txid).collect();
        Ok(Added { entry, rejoined, departed })
    }

    /// Removes a transaction and all that stands on it, for the same reason, with one event each; `at` is when, in
    /// seconds since 1970. Returns what was removed: the transaction, then the others in the order of their arrival.
    /// Nothing if it is not there.
    ///
    /// One that was mined is removed alone: what it created is confirmed now.
    pub fn remove(&mut self, txid: &Txid, departure: Departure, at: u64) -> Vec<Arc<Entry>> {
        let Some(entry) = self.state.get(txid).cloned() else { return Vec::new() };
        if let Departure::Mined { block, height } = departure {
            return self.mine(&[*txid], block, height);
        }
        let descendants = self.state.descendants_of(&entry);
        let removed: Vec<_> = std::iter::once(entry).chain(descendants.into_values()).collect();
        self.take_out(&removed, departure);
        for entry in &removed {
            let along_with = (entry.txid != *txid).then_some(*txid);
            let departed = Departed::new(entry, departure, along_with, at);
            self.state.journal.push(departed, self.limits.departed, self.limits.departed_bytes);
        }
        if departure.conflicting().is_some() {
            for entry in &removed {
                self.explain_above(&entry.txid, *txid, departure);
            }
        }
        removed
    }

    /// Removes what a block holds and what it makes impossible, and confirms what it creates. What left for an unknown
    /// reason and conflicts with the block is corrected, with one event each.
    pub fn connect_block(&mut self, block: &ConnectedBlock<'_>) -> BlockEffect {
        let mined = self.mine(block.txids, block.hash, block.height);
        let mut effect = BlockEffect { mined, conflicted: Vec::new() };
        for (outpoint, by) in block.spends {
            let departure = Departure::Conflicted { by: *by, block: block.hash };
            if let Some(spender) = self.spender(outpoint).map(|entry| entry.txid) {
                effect.conflicted.extend(self.remove(&spender, departure, block.at));
            }
            self.explain_conflicts(std::iter::once(*outpoint), departure);
        }
        effect
    }

    /// Takes up what an earlier run wrote down of departed transactions, the oldest first, under the numbers that they
    /// had, without events. To be called before anything else leaves; what is not in order is passed over.
    pub fn resume_departed(&mut self, departed: impl IntoIterator<Item = Departed>) {
        self.newest = None;
        for departed in departed {
            if departed.sequence > self.state.journal.sequence() && self.state.get(&departed.txid).is_none() {
                self.state.journal.put(departed, self.limits.departed, self.limits.departed_bytes);
            }
        }
    }

    /// Gives departures from now on only numbers above this one, under which an earlier run wrote down its last.
    pub fn resume_departures_after(&mut self, number: u64) {
        self.newest = None;
        self.state.journal.go_on_from(number);
    }

    /// Notes departed transactions that were not in the mempool, the oldest first, without events. What is in the
    /// mempool is passed over. Their numbers are given anew.
    pub fn restore_departed(&mut self, departed: impl IntoIterator<Item = Departed>) {
        self.newest = None;
        for departed in departed {
            if self.state.get(&departed.txid).is_none() {
                self.state.journal.push(departed, self.limits.departed, self.limits.departed_bytes);
            }
        }
    }

    /// Notes what the node says of its own mempool.
    pub fn set_node(&mut self, node: NodeMempool) {
        self.newest = None;
        self.state.node = node;
    }

    /// This state, to be kept while the writer goes on. Costs a few pointers, and to put in order the clusters that
    /// were touched since the last one.
    pub fn snapshot(&mut self) -> MempoolSnapshot {
        if let Some(newest) = &self.newest {
            return newest.clone();
        }
        self.state.settle(&std::mem::take(&mut self.touched));
        let snapshot = MempoolSnapshot::new(self.state.clone());
        self.newest = Some(snapshot.clone());
        snapshot
    }

    /// The transaction with this txid, without taking a snapshot.
    #[must_use]
    pub fn get(&self, txid: &Txid) -> Option<&Arc<Entry>> {
        self.state.get(txid)
    }

    /// The transaction that spends an output, without taking a snapshot.
    #[must_use]
    pub fn spender(&self, outpoint: &OutPoint) -> Option<&Arc<Entry>> {
        self.state.spender(outpoint).map(|(entry, _)| entry)
    }

    /// What spends outputs of a transaction, which itself may be anywhere, in the order of arrival. Asked of the
    /// transactions of a disconnected block that do not return, it tells what has to leave with them.
    #[must_use]
    pub fn children(&self, txid: &Txid) -> Vec<Arc<Entry>> {
        self.state.children_of(txid).into_values().collect()
    }

    /// How many transactions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.entries.is_empty()
    }

    /// Whether a block can concern any transaction: one that is there, or one that left for an unknown reason.
    #[must_use]
    pub fn awaits_blocks(&self) -> bool {
        !self.is_empty() || self.state.journal.has_unexplained()
    }

    /// Whether any transaction is remembered that left.
    #[must_use]
    pub fn has_departed(&self) -> bool {
        self.state.journal.len() > 0
    }

    /// The number of the newest event, 0 before the first.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.state.events.sequence()
    }

    /// How fast transactions arrived in the seconds up to `now`, in seconds since 1970.
    #[must_use]
    pub fn arrival_rate(&self, now: u64) -> ArrivalRate {
        self.state.arrivals.rate(now)
    }

    /// Corrects what left for an unknown reason and spends one of these outputs, which another transaction spends, and what
    /// stood on it.
    fn explain_conflicts(&mut self, spent: impl Iterator<Item = OutPoint>, departure: Departure) {
        if !self.state.journal.has_unexplained() {
            return;
        }
        for outpoint in spent {
            for departed in self.state.journal.unexplained_spending(&outpoint) {
                // a block may hold the very transaction that left
                if departure.conflicting() != Some(departed.txid) {
                    self.correct(&departed, departure, None);
                    self.explain_above(&departed.txid, departed.txid, departure);
                }
            }
        }
    }

    /// Corrects what left for an unknown reason and stood on a transaction, which left itself or along with `root`.
    fn explain_above(&mut self, txid: &Txid, root: Txid, departure: Departure) {
        for departed in self.state.journal.unexplained_above(txid) {
            self.correct(&departed, departure, Some(root));
        }
    }

    fn correct(&mut self, departed: &Departed, departure: Departure, along_with: Option<Txid>) {
        self.newest = None;
        let corrected = MempoolEventKind::Corrected { txid: departed.txid, departure };
        self.state.events.push(corrected, self.limits.events);
        let departed = Departed { departure, along_with, ..Departed::clone(departed) };
        self.state.journal.push(departed, self.limits.departed, self.limits.departed_bytes);
    }

    /// The entry that an arrival becomes, without its number.
    fn checked(&self, arrival: Arrival) -> Result<Entry, AddError> {
        let Arrival { txid, wtxid, raw, mut prevouts, first_seen, height, cause } = arrival;
        if self.state.get(&txid).is_some() {
            return Err(AddError::Present);
        }
        let transaction = RawTransaction::parse_whole(&raw)?;
        if transaction.input_count() != prevouts.len() {
            return Err(AddError::PrevoutCount { inputs: transaction.input_count(), prevouts: prevouts.len() });
        }
        if transaction.is_coinbase() {
            return Err(AddError::Coinbase);
        }
        let mut seen = HashSet::with_capacity(prevouts.len());
        let mut spent = 0_u64;
        for (input, prevout) in transaction.inputs().zip(&mut prevouts) {
            let outpoint = outpoint(&input);
            if !seen.insert(outpoint) {
                return Err(AddError::DuplicateInput { outpoint });
            }
            if let Some(spender) = self.spender(&outpoint) {
                return Err(AddError::Conflict { outpoint, spender: spender.txid });
            }
            match self.state.get(&outpoint.txid) {
                Some(parent) if outpoint.vout < parent.output_count => prevout.source = PrevoutSource::Unconfirmed,
                None if prevout.source != PrevoutSource::Unconfirmed => {}
                _ => return Err(AddError::MissingParent { outpoint }),
            }
            spent = spent.checked_add(prevout.value).ok_or(AddError::TooLarge)?;
        }
        let paid = transaction.outputs().try_fold(0_u64, |sum, output| sum.checked_add(output.value));
        let paid = paid.ok_or(AddError::TooLarge)?;
        let fee = spent.checked_sub(paid).ok_or(AddError::NegativeFee { spent, paid })?;
        let weight = wide(transaction.weight());
        let output_count = u32::try_from(transaction.output_count()).map_err(|_| AddError::TooLarge)?;
        Ok(Entry {
            txid,
            wtxid,
            raw,
            prevouts: prevouts.iter().collect(),
            fee,
            weight,
            output_value: paid,
            output_count,
            height,
            first_seen,
            sequence: 0,
            returned_from: if let Cause::Returned { block } = cause { Some(Box::new(block)) } else { None },
            loaded: cause == Cause::Loaded,
        })
    }

    fn insert(&mut self, entry: Entry) -> Arc<Entry> {
        let state = &mut self.state;
        let sequence = entry.sequence;
        let entry = Arc::new(entry);
        state.txids.insert(entry.txid.as_byte_array(), sequence);
        state.wtxids.insert(entry.wtxid.as_byte_array(), sequence);
        for (vin, outpoint) in (0..).zip(entry.outpoints()) {
            state.spends.insert(&outpoint, vin, sequence);
        }
        state.by_feerate.insert(Rank { by: entry.feerate(), sequence });
        state.by_value.insert(Rank { by: entry.output_value, sequence });
        state.totals.add(&entry);
        state.scripts.enter(&entry, &state.entries);
        state.entries.insert(sequence, Arc::clone(&entry));
        entry
    }

    /// Takes entries out of everything, and tells so in their order.
    ///
    /// One map after the other, each in its own order: a block takes thousands, and neighbours of a map are in the memory that
    /// the processor has at hand.
    fn take_out(&mut self, gone: &[Arc<Entry>], departure: Departure) {
        if gone.is_empty() {
            return;
        }
        self.newest = None;
        for entry in gone {
            self.touch_around(entry);
        }
        let state = &mut self.state;
        for rank in sorted(gone.iter().map(|entry| state.effective_rank(entry))) {
            state.by_effective.remove(&rank);
        }
        for sequence in sorted(gone.iter().map(|entry| entry.sequence)) {
            state.chunks.remove(&sequence);
            state.entries.remove(&sequence);
            self.touched.remove(&sequence);
        }
        for (txid, sequence) in sorted(gone.iter().map(|entry| (*entry.txid.as_byte_array(), entry.sequence))) {
            state.txids.remove(&txid, sequence);
        }
        for (wtxid, sequence) in sorted(gone.iter().map(|entry| (*entry.wtxid.as_byte_array(), entry.sequence))) {
            state.wtxids.remove(&wtxid, sequence);
        }
        let spends = |entry: &'_ Arc<Entry>| {
            let sequence = entry.sequence;
            (0..).zip(entry.outpoints()).map(move |(vin, outpoint)| (outpoint, vin, sequence)).collect::<Vec<_>>()
        };
        for (outpoint, vin, sequence) in sorted(gone.iter().flat_map(spends)) {
            state.spends.remove(&outpoint, vin, sequence);
        }
        for rank in sorted(gone.iter().map(|entry| Rank { by: entry.feerate(), sequence: entry.sequence })) {
            state.by_feerate.remove(&rank);
        }
        for rank in sorted(gone.iter().map(|entry| Rank { by: entry.output_value, sequence: entry.sequence })) {
            state.by_value.remove(&rank);
        }
        state.scripts.leave(gone);
        for entry in gone {
            state.totals.take(entry);
            state.events.push(MempoolEventKind::Removed { txid: entry.txid, departure }, self.limits.events);
        }
    }

    /// Takes those transactions out that a block holds, as far as they are there, and confirms what all of them created.
    fn mine(&mut self, txids: &[Txid], block: BlockHash, height: Height) -> Vec<Arc<Entry>> {
        let mined: Vec<_> = txids.iter().filter_map(|txid| self.state.get(txid).cloned()).collect();
        self.take_out(&mined, Departure::Mined { block, height });
        for txid in txids {
            for child in self.state.children_of(txid).values() {
                self.change_source(child, txid, |before| match before {
                    PrevoutSource::Confirmed { coinbase, .. } => PrevoutSource::Confirmed { height, coinbase },
                    PrevoutSource::Unconfirmed => PrevoutSource::Confirmed { height, coinbase: false },
                });
            }
        }
        mined
    }

    /// Changes where the outputs of one transaction were created, in what spends them.
    fn change_source(&mut self, spender: &Arc<Entry>, txid: &Txid, change: impl Fn(PrevoutSource) -> PrevoutSource) {
        let sources = spender
            .outpoints()
            .zip(&spender.prevouts)
            .map(|(outpoint, prevout)| if outpoint.txid == *txid { change(prevout.source) } else { prevout.source });
        let prevouts = spender.prevouts.with_sources(sources);
        if prevouts == spender.prevouts {
            return;
        }
        let changed = Entry { prevouts, ..Entry::clone(spender) };
        self.newest = None;
        let state = &mut self.state;
        state.scripts.leave(std::slice::from_ref(spender));
        state.scripts.enter(&changed, &state.entries);
        state.entries.insert(changed.sequence, Arc::new(changed));
        self.touched.insert(spender.sequence);
    }

    /// Notes that the clusters around an entry change, since it leaves.
    fn touch_around(&mut self, entry: &Entry) {
        let parents = self.state.parents_of(entry).into_keys();
        self.touched.extend(parents.chain(self.state.children_of(&entry.txid).into_keys()));
    }
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut sorted: Vec<T> = all.collect();
    sorted.sort_unstable();
    sorted
}
