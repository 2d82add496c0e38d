//! The journal of transactions that left without being mined, and of replacements.
//!
//! ```text
//!   left ──► by number of departure ──► more than `departed` transactions: the oldest are evicted
//!                                       more than `departed_bytes`: the oldest lose their bytes
//! ```
//!
//! A transaction is here or in the mempool, never in both: one that arrives again is removed from the journal.
//!
//! A transaction that left for an unknown reason is indexed by the outputs that it spends, as long as its bytes are kept:
//! the transaction that replaced it, or that conflicts with it in a block, may arrive later. Its record is then corrected
//! under a new number, so that it is persisted like any other departure.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use bitcoin::{OutPoint, Txid, Wtxid};
use imbl::{OrdMap, OrdSet};

use super::entry::Entry;
use super::events::Departure;
use super::ids::Spends;
use crate::chain::wide;

/// A transaction that left the mempool and was not mined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departed {
    /// Its txid.
    pub txid: Txid,
    /// Its wtxid.
    pub wtxid: Wtxid,
    /// Its fee in sat; `None` if that is unknown.
    pub fee: Option<u64>,
    /// Its weight in weight units.
    pub weight: u64,
    /// When it was first seen, in seconds since 1970.
    pub first_seen: u64,
    /// Why it left.
    pub departure: Departure,
    /// The ancestor that left for that reason and removed this one, too; `None` if it left by itself.
    pub along_with: Option<Txid>,
    /// When it left, in seconds since 1970.
    pub at: u64,
    /// The number of its departure: later ones have higher ones. Given by the journal.
    pub sequence: u64,
    /// Its last entry, as long as `departed_bytes` allows.
    pub entry: Option<Arc<Entry>>,
}

impl Departed {
    pub(super) fn new(entry: &Arc<Entry>, departure: Departure, along_with: Option<Txid>, at: u64) -> Self {
        Self {
            txid: entry.txid,
            wtxid: entry.wtxid,
            fee: Some(entry.fee),
            weight: entry.weight,
            first_seen: entry.first_seen,
            departure,
            along_with,
            at,
            sequence: 0,
            entry: Some(Arc::clone(entry)),
        }
    }

    /// The transaction that replaced it by spending one of its prevouts. `None` for a descendant of a replaced one.
    #[must_use]
    pub fn replaced_by(&self) -> Option<Txid> {
        match self.departure {
            Departure::Replaced { by } if self.along_with.is_none() => Some(by),
            _ => None,
        }
    }

    fn bytes(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.size())
    }

    /// The outpoints it spends.
    fn outpoints(&self) -> impl Iterator<Item = OutPoint> {
        self.entry.iter().flat_map(|entry| entry.outpoints())
    }
}

/// The newest departures.
#[derive(Clone, Default)]
pub(super) struct Journal {
    /// The number of the newest departure.
    sequence: u64,
    by_sequence: OrdMap<u64, Arc<Departed>>,
    txids: OrdMap<Txid, u64>,
    /// (replacing, number of the departure of what it replaced)
    replacements: OrdSet<(Txid, u64)>,
    /// Number of the first departure that it caused → the replacing transaction.
    replacing: OrdMap<u64, Txid>,
    /// The inputs of transactions that left for an unknown reason and have their bytes, by number of departure.
    unexplained: Spends,
    /// The total size of the transactions that have their bytes.
    bytes: u64,
    /// All departures from this number on have their bytes.
    whole_from: u64,
}

impl Journal {
    pub(super) fn get(&self, txid: &Txid) -> Option<&Arc<Departed>> {
        self.by_sequence.get(self.txids.get(txid)?)
    }

    /// The number of the newest departure, 0 before the first.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn len(&self) -> usize {
        self.by_sequence.len()
    }

    /// The departures with numbers below `before`, the newest first.
    pub(super) fn newest(&self, before: u64) -> impl DoubleEndedIterator<Item = &Arc<Departed>> {
        self.by_sequence.range(..before).rev().map(|(_, departed)| departed)
    }

    /// The transactions that this one replaced directly, the oldest departure first.
    pub(super) fn replaced(&self, by: &Txid) -> impl DoubleEndedIterator<Item = &Arc<Departed>> {
        let range = self.replacements.range((*by, 0)..=(*by, u64::MAX));
        range.filter_map(|(_, sequence)| self.by_sequence.get(sequence))
    }

    /// The transactions that replaced others, the newest first, each with the number of the first departure it caused; only
    /// numbers in this range.
    pub(super) fn replacing(&self, within: impl RangeBounds<u64>) -> impl DoubleEndedIterator<Item = (u64, Txid)> {
        self.replacing.range(within).rev().map(|(sequence, by)| (*sequence, *by))
    }

    /// The number from which on departures have their bytes.
    pub(super) fn whole_from(&self) -> u64 {
        self.whole_from
    }

    /// Whether any transaction left for an unknown reason that may become known.
    pub(super) fn has_unexplained(&self) -> bool {
        !self.unexplained.is_empty()
    }

    /// The transactions that left for an unknown reason and spend this output, the oldest departure first.
    pub(super) fn unexplained_spending(&self, outpoint: &OutPoint) -> Vec<Arc<Departed>> {
        let candidates = self.unexplained.candidates(outpoint).map(|(sequence, _)| sequence);
        self.matching(candidates, |spent| spent == *outpoint)
    }

    /// The descendants of this transaction that left for an unknown reason, the oldest departure first.
    pub(super) fn unexplained_above(&self, txid: &Txid) -> Vec<Arc<Departed>> {
        let (mut found, mut below) = (BTreeMap::new(), vec![*txid]);
        while let Some(parent) = below.pop() {
            for child in self.matching(self.unexplained.candidates_of(&parent), |spent| spent.txid == parent) {
                below.extend(found.insert(child.sequence, Arc::clone(&child)).is_none().then_some(child.txid));
            }
        }
        found.into_values().collect()
    }

    /// The departures with these numbers that spend a matching output, each once.
    fn matching(&self, candidates: impl Iterator<Item = u64>, spent: impl Fn(OutPoint) -> bool) -> Vec<Arc<Departed>> {
        let mut numbers: Vec<u64> = candidates.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let candidates = numbers.iter().filter_map(|number| self.by_sequence.get(number));
        candidates.filter(|departed| departed.outpoints().any(&spent)).cloned().collect()
    }

    /// Reserves the numbers up to this one: later departures get higher ones.
    pub(super) fn skip_to(&mut self, number: u64) {
        self.sequence = self.sequence.max(number);
    }

    /// Records a departure under the next number and evicts what exceeds the limits.
    pub(super) fn push(&mut self, departed: Departed, limit: usize, byte_limit: usize) {
        self.put(Departed { sequence: self.sequence + 1, ..departed }, limit, byte_limit);
    }

    /// Records a departure under its own number, which must be higher than all before, and evicts what exceeds the limits.
    pub(super) fn put(&mut self, departed: Departed, limit: usize, byte_limit: usize) {
        self.remove(&departed.txid);
        let sequence = departed.sequence;
        self.sequence = sequence;
        if let Some(by) = departed.replaced_by() {
            if self.first_replaced(&by).is_none() {
                self.replacing.insert(sequence, by);
            }
            self.replacements.insert((by, sequence));
        }
        self.bytes = self.bytes.saturating_add(departed.bytes());
        self.txids.insert(departed.txid, sequence);
        let departed = Arc::new(departed);
        if departed.departure == Departure::Unknown {
            for (vin, outpoint) in (0..).zip(departed.outpoints()) {
                self.unexplained.insert(&outpoint, vin, sequence);
            }
        }
        self.by_sequence.insert(sequence, departed);
        while self.by_sequence.len() > limit {
            let Some(oldest) = self.by_sequence.get_min().map(|(_, oldest)| oldest.txid) else { break };
            self.remove(&oldest);
        }
        while self.bytes > wide(byte_limit) {
            let Some((_, oldest)) = self.by_sequence.range(self.whole_from..).next() else { break };
            let oldest = Arc::clone(oldest);
            self.forget_spends(&oldest);
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            let bare = Departed { entry: None, ..Departed::clone(&oldest) };
            self.by_sequence.insert(oldest.sequence, Arc::new(bare));
            self.whole_from = oldest.sequence + 1;
        }
    }

    /// Removes a transaction from the journal.
    pub(super) fn remove(&mut self, txid: &Txid) -> Option<Arc<Departed>> {
        let sequence = self.txids.remove(txid)?;
        let departed = self.by_sequence.remove(&sequence)?;
        self.bytes = self.bytes.saturating_sub(departed.bytes());
        self.forget_spends(&departed);
        if let Some(by) = departed.replaced_by() {
            self.replacements.remove(&(by, sequence));
            if self.replacing.remove(&sequence).is_some()
                && let Some(next) = self.first_replaced(&by)
            {
                self.replacing.insert(next, by);
            }
        }
        Some(departed)
    }

    /// Removes its inputs from the index.
    fn forget_spends(&mut self, departed: &Departed) {
        if departed.departure == Departure::Unknown {
            for (vin, outpoint) in (0..).zip(departed.outpoints()) {
                self.unexplained.remove(&outpoint, vin, departed.sequence);
            }
        }
    }

    fn first_replaced(&self, by: &Txid) -> Option<u64> {
        self.replacements.range((*by, 0)..=(*by, u64::MAX)).next().map(|(_, sequence)| *sequence)
    }
}
