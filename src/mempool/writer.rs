//! The only writer: adds and removes transactions.
//!
//! Invariants after each operation:
//!
//! - no two entries spend the same output;
//! - a prevout is `Unconfirmed` if and only if its transaction is in the mempool;
//! - a transaction is in the mempool or in the journal of departures, never in both;
//! - totals, sorted indexes and totals of scripts are those of the entries; only the effective feerates are updated with
//!   the next snapshot.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::{panic, thread};

use bitcoin::hashes::Hash;
use bitcoin::{BlockHash, OutPoint, Txid};

use super::admission::{AddError, checked};
use super::arrivals::ArrivalRate;
use super::departed::Departed;
use super::entry::{Arrival, Cause, Entry};
use super::events::{Departure, MempoolEventKind};
use super::feerate::Rank;
use super::limits::{MempoolLimits, NodeMempool};
use super::prevouts::PrevoutSource;
use super::snapshot::MempoolSnapshot;
use super::state::{MempoolState, sorted};
use crate::chain::Height;

/// From so many on, transactions are removed by two threads. To begin one takes as long as to remove ten. The tests of the mempool
/// remove some both ways.
const WORTH_A_THREAD: usize = if cfg!(test) { 3 } else { 200 };

/// The unconfirmed transactions of one node; its owner is the only writer. A clone costs a few pointers and is an
/// independent mempool with the same content.
#[derive(Clone, Default)]
pub struct Mempool {
    state: MempoolState,
    /// The numbers of arrival whose clusters must be linearised before the next snapshot.
    changed: BTreeSet<u64>,
    /// The snapshot of this state, if it has not changed since.
    newest: Option<MempoolSnapshot>,
}

/// The result of adding a transaction.
#[derive(Clone, Debug)]
pub struct Added {
    /// Its entry.
    pub entry: Arc<Entry>,
    /// Earlier transactions that spend its outputs; these prevouts are now unconfirmed.
    pub rejoined: Vec<Txid>,
    /// Its former record in the journal of departures.
    pub departed: Option<Arc<Departed>>,
}

/// The part of a block that concerns the mempool.
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

/// The transactions that a block removed from the mempool.
#[derive(Clone, Debug, Default)]
pub struct BlockEffect {
    /// Those in the block, in its order.
    pub mined: Vec<Arc<Entry>>,
    /// Those that conflict with its transactions, and their descendants.
    pub conflicted: Vec<Arc<Entry>>,
}

impl Mempool {
    /// An empty mempool.
    #[must_use]
    pub fn new(limits: MempoolLimits) -> Self {
        Self { state: MempoolState { limits, ..MempoolState::default() }, ..Self::default() }
    }

    /// Adds a transaction, with one event. If it is in the journal of departures, it is removed from there and keeps the
    /// time of its first sight.
    ///
    /// Departures for an unknown reason that conflict with it are corrected to replaced, with their descendants. The events
    /// of these corrections precede its own.
    ///
    /// A prevout counts as unconfirmed if its transaction is in the mempool, whatever `arrival` says. The prevouts of
    /// earlier transactions that spend its outputs become unconfirmed: when blocks are disconnected, it suffices to add
    /// their transactions in block order.
    pub fn add(&mut self, arrival: Arrival) -> Result<Added, AddError> {
        let mut entry = checked(&self.state, arrival)?;
        self.newest = None;
        let departed = self.state.journal.remove(&entry.txid);
        // its first sight precedes its departure
        entry.first_seen = departed.as_ref().map_or(entry.first_seen, |left| left.first_seen.min(entry.first_seen));
        self.explain_conflicts(entry.outpoints(), Departure::Replaced { by: entry.txid });
        let cause = entry.cause();
        let added = MempoolEventKind::Added { txid: entry.txid, cause };
        entry.sequence = self.state.events.push(added, self.state.limits.events);
        if cause == Cause::New {
            self.state.arrivals.count(entry.first_seen, entry.policy_vsize());
        }
        let entry = self.insert(entry);
        let children = self.state.children_of(&entry.txid);
        for child in children.values() {
            self.change_source(child, &entry.txid, |_| PrevoutSource::Unconfirmed);
        }
        self.changed.insert(entry.sequence);
        let rejoined = children.values().map(|child| child.txid).collect();
        Ok(Added { entry, rejoined, departed })
    }

    /// Removes a transaction and its descendants for the same reason, with one event each, at `at` in seconds since 1970.
    /// Returns the removed transactions: this one, then the others in the order of arrival. Returns none if it is not in the
    /// mempool.
    ///
    /// A mined transaction is removed alone: its outputs become confirmed.
    pub fn remove(&mut self, txid: &Txid, departure: Departure, at: u64) -> Vec<Arc<Entry>> {
        let Some(entry) = self.state.get(txid).cloned() else { return Vec::new() };
        if let Departure::Mined { block, height } = departure {
            return self.mine(&[*txid], block, height);
        }
        let descendants = self.state.descendants_of(&entry);
        let removed: Vec<_> = std::iter::once(entry).chain(descendants.into_values()).collect();
        self.remove_entries(&removed, departure);
        for entry in &removed {
            let along_with = (entry.txid != *txid).then_some(*txid);
            let departed = Departed::new(entry, departure, along_with, at);
            self.state.journal.push(departed, self.state.limits.departed, self.state.limits.departed_bytes);
        }
        if departure.conflicting().is_some() {
            for entry in &removed {
                self.explain_above(&entry.txid, *txid, departure);
            }
        }
        removed
    }

    /// Removes the transactions of a block and those that conflict with it, and marks the outputs of the block confirmed.
    /// Departures for an unknown reason that conflict with the block are corrected, with one event each.
    pub fn connect_block(&mut self, block: &ConnectedBlock<'_>) -> BlockEffect {
        let mined = self.mine(block.txids, block.hash, block.height);
        let was_here: HashSet<Txid> = mined.iter().map(|entry| entry.txid).collect();
        let mut effect = BlockEffect { mined, conflicted: Vec::new() };
        for (outpoint, by) in block.spends {
            let departure = Departure::Conflicted { by: *by, block: block.hash };
            // no two entries spend the same output, so nothing here conflicts with a transaction that was here
            let spender = if was_here.contains(by) { None } else { self.spender(outpoint).map(|entry| entry.txid) };
            if let Some(spender) = spender {
                effect.conflicted.extend(self.remove(&spender, departure, block.at));
            }
            self.explain_conflicts(std::iter::once(*outpoint), departure);
        }
        effect
    }

    /// Loads departures of an earlier run, the oldest first, with their numbers and without events. Call it before any
    /// other departure; departures out of order are skipped.
    pub fn load_departed(&mut self, departed: impl IntoIterator<Item = Departed>) {
        self.newest = None;
        for departed in departed {
            if departed.sequence > self.state.journal.sequence() && self.state.get(&departed.txid).is_none() {
                self.state.journal.put(departed, self.state.limits.departed, self.state.limits.departed_bytes);
            }
        }
    }

    /// Numbers later departures above this number, the last one that an earlier run persisted.
    pub fn number_departures_after(&mut self, number: u64) {
        self.newest = None;
        self.state.journal.skip_to(number);
    }

    /// Records departures of transactions that were not in the mempool, the oldest first, under new numbers and without
    /// events. Skips transactions that are in the mempool.
    pub fn record_departed(&mut self, departed: impl IntoIterator<Item = Departed>) {
        self.newest = None;
        for departed in departed {
            if self.state.get(&departed.txid).is_none() {
                self.state.journal.push(departed, self.state.limits.departed, self.state.limits.departed_bytes);
            }
        }
    }

    /// Stores the node's report of its mempool.
    pub fn set_node(&mut self, node: NodeMempool) {
        self.newest = None;
        self.state.node = node;
    }

    /// An immutable copy of this state. Costs a few pointers and the linearisation of the clusters that changed since the
    /// last snapshot.
    pub fn snapshot(&mut self) -> MempoolSnapshot {
        if let Some(newest) = &self.newest {
            return newest.clone();
        }
        self.state.update_clusters(&std::mem::take(&mut self.changed));
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

    /// The transactions that spend outputs of this one, which may be outside the mempool, in the order of arrival. For a
    /// transaction of a disconnected block that does not return, these must be removed with it.
    #[must_use]
    pub fn children(&self, txid: &Txid) -> Vec<Arc<Entry>> {
        self.state.children_of(txid).into_values().collect()
    }

    /// The number of transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.entries.len()
    }

    /// Whether there are no transactions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.entries.is_empty()
    }

    /// Whether a block can affect the mempool or a departure for an unknown reason.
    #[must_use]
    pub fn awaits_blocks(&self) -> bool {
        !self.is_empty() || self.state.journal.has_unexplained()
    }

    /// Whether the journal of departures has any transaction.
    #[must_use]
    pub fn has_departed(&self) -> bool {
        self.state.journal.len() > 0
    }

    /// The number of the newest event, 0 before the first.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.state.events.sequence()
    }

    /// The rate of arrivals in the seconds up to `now`, in seconds since 1970.
    #[must_use]
    pub fn arrival_rate(&self, now: u64) -> ArrivalRate {
        self.state.arrivals.rate(now)
    }

    /// Corrects departures for an unknown reason that spend one of these outputs, which another transaction spends, and
    /// those of their descendants.
    fn explain_conflicts(&mut self, spent: impl Iterator<Item = OutPoint>, departure: Departure) {
        if !self.state.journal.has_unexplained() {
            return;
        }
        for outpoint in spent {
            for departed in self.state.journal.unexplained_spending(&outpoint) {
                // the block may contain the departed transaction itself
                if departure.conflicting() != Some(departed.txid) {
                    self.correct(&departed, departure, None);
                    self.explain_above(&departed.txid, departed.txid, departure);
                }
            }
        }
    }

    /// Corrects departures for an unknown reason of the descendants of a transaction, which left by itself or with `root`.
    fn explain_above(&mut self, txid: &Txid, root: Txid, departure: Departure) {
        for departed in self.state.journal.unexplained_above(txid) {
            self.correct(&departed, departure, Some(root));
        }
    }

    fn correct(&mut self, departed: &Departed, departure: Departure, along_with: Option<Txid>) {
        self.newest = None;
        let corrected = MempoolEventKind::Corrected { txid: departed.txid, departure };
        self.state.events.push(corrected, self.state.limits.events);
        let departed = Departed { departure, along_with, ..Departed::clone(departed) };
        self.state.journal.push(departed, self.state.limits.departed, self.state.limits.departed_bytes);
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
        state.scripts.add(&entry, &state.entries);
        state.entries.insert(sequence, Arc::clone(&entry));
        entry
    }

    /// Removes entries from all maps, with one event each in their order. Their scripts take as long as all else: another thread
    /// removes those of many.
    fn remove_entries(&mut self, removed: &[Arc<Entry>], departure: Departure) {
        if removed.is_empty() {
            return;
        }
        self.newest = None;
        // children leave with them, or their prevouts become confirmed, which marks them as changed
        for entry in removed {
            self.changed.extend(self.state.parents_of(entry).into_keys());
        }
        for entry in removed {
            self.changed.remove(&entry.sequence);
        }
        let mut scripts = std::mem::take(&mut self.state.scripts);
        let are_removed = thread::scope(|scope| {
            let scripts = &mut scripts;
            let begin = move || {
                thread::Builder::new().name("scripts".into()).spawn_scoped(scope, move || scripts.remove(removed))
            };
            let thread = (removed.len() >= WORTH_A_THREAD).then(begin);
            self.state.remove_but_for_scripts(removed);
            match thread {
                Some(Ok(thread)) => thread.join().map_or_else(|panic| panic::resume_unwind(panic), |()| true),
                // few, or the system refuses the thread
                Some(Err(_)) | None => false,
            }
        });
        if !are_removed {
            scripts.remove(removed);
        }
        let state = &mut self.state;
        state.scripts = scripts;
        for entry in removed {
            state.totals.take(entry);
            state.events.push(MempoolEventKind::Removed { txid: entry.txid, departure }, state.limits.events);
        }
    }

    /// Removes the transactions of a block that are in the mempool, and marks the outputs of all of them confirmed.
    fn mine(&mut self, txids: &[Txid], block: BlockHash, height: Height) -> Vec<Arc<Entry>> {
        let by_txid = sorted(txids.iter().zip(0_usize..));
        let found = by_txid.iter().filter_map(|(txid, index)| Some((*index, self.state.get(txid)?.clone())));
        let mut mined: Vec<_> = found.collect();
        mined.sort_unstable_by_key(|(index, _)| *index);
        let mined: Vec<_> = mined.into_iter().map(|(_, entry)| entry).collect();
        self.remove_entries(&mined, Departure::Mined { block, height });
        for (txid, _) in by_txid {
            for child in self.state.children_of(txid).values() {
                self.change_source(child, txid, |before| match before {
                    PrevoutSource::Confirmed { coinbase, .. } => PrevoutSource::Confirmed { height, coinbase },
                    PrevoutSource::Unconfirmed => PrevoutSource::Confirmed { height, coinbase: false },
                });
            }
        }
        mined
    }

    /// Changes the source of the prevouts of one transaction in an entry that spends them.
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
        state.scripts.change_sources(spender, &changed);
        state.entries.insert(changed.sequence, Arc::new(changed));
        self.changed.insert(spender.sequence);
    }
}
