//! Parents and children of transactions. Parents follow from the inputs of a transaction, children from the index of
//! spends; neither is stored again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Txid, Wtxid};

use super::entry::{Entry, outpoint};
use super::prevouts::PrevoutSource;
use super::state::MempoolState;
use crate::chain::wide;

/// Transactions counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The number of transactions.
    pub count: u64,
    /// Their virtual sizes, each rounded up, in vbytes.
    pub vsize: u64,
    /// Their weights, in weight units.
    pub weight: u64,
    /// Their fees, in sat.
    pub fee: u64,
}

impl Sums {
    /// The sums over these entries.
    pub(super) fn of<'a>(entries: impl IntoIterator<Item = &'a Arc<Entry>>) -> Self {
        let mut sums = Self::default();
        for entry in entries {
            sums.count += 1;
            sums.vsize = sums.vsize.saturating_add(entry.policy_vsize());
            sums.weight = sums.weight.saturating_add(entry.weight);
            sums.fee = sums.fee.saturating_add(entry.fee);
        }
        sums
    }
}

/// The ancestors or the descendants of a transaction, without itself.
#[derive(Clone, Debug, Default)]
pub struct Relatives {
    /// The transactions, in the order of their arrival.
    pub entries: Vec<Arc<Entry>>,
    /// Their sums.
    pub sums: Sums,
}

impl MempoolState {
    pub(super) fn get(&self, txid: &Txid) -> Option<&Arc<Entry>> {
        let mut candidates = self.txids.candidates(txid.as_byte_array()).filter_map(|it| self.entries.get(&it));
        candidates.find(|entry| entry.txid == *txid)
    }

    pub(super) fn get_by_wtxid(&self, wtxid: &Wtxid) -> Option<&Arc<Entry>> {
        let mut candidates = self.wtxids.candidates(wtxid.as_byte_array()).filter_map(|it| self.entries.get(&it));
        candidates.find(|entry| entry.wtxid == *wtxid)
    }

    /// The input that spends an output: its transaction and its index there.
    pub(super) fn spender(&self, outpoint: &OutPoint) -> Option<(&Arc<Entry>, u32)> {
        self.spends.candidates(outpoint).find_map(|(sequence, vin)| {
            let entry = self.entries.get(&sequence)?;
            let spends = entry.outpoints().nth(usize::try_from(vin).ok()?)? == *outpoint;
            spends.then_some((entry, vin))
        })
    }

    /// The inputs that spend outputs of a transaction, which may be outside the mempool: (vout, transaction, vin) by vout.
    pub(super) fn spenders(&self, txid: &Txid) -> Vec<(u32, &Arc<Entry>, u32)> {
        let sequences: BTreeSet<u64> = self.spends.candidates_of(txid).collect();
        let mut spenders = Vec::new();
        for entry in sequences.iter().filter_map(|sequence| self.entries.get(sequence)) {
            let inputs = (0..).zip(entry.outpoints()).filter(|(_, outpoint)| outpoint.txid == *txid);
            spenders.extend(inputs.map(|(vin, outpoint)| (outpoint.vout, entry, vin)));
        }
        spenders.sort_unstable_by_key(|(vout, ..)| *vout);
        spenders
    }

    /// The parents of an entry, each once, by arrival.
    pub(super) fn parents_of(&self, entry: &Entry) -> BTreeMap<u64, Arc<Entry>> {
        if !entry.has_parents() {
            return BTreeMap::new();
        }
        let unconfirmed = entry.inputs().filter(|(_, prevout)| prevout.source == PrevoutSource::Unconfirmed);
        let parents = unconfirmed.filter_map(|(input, _)| self.get(&outpoint(&input).txid));
        parents.map(|parent| (parent.sequence, Arc::clone(parent))).collect()
    }

    /// The children of a transaction, each once, by arrival.
    pub(super) fn children_of(&self, txid: &Txid) -> BTreeMap<u64, Arc<Entry>> {
        let sequences: BTreeSet<u64> = self.spends.candidates_of(txid).collect();
        let candidates = sequences.into_iter().filter_map(|sequence| Some((sequence, self.entries.get(&sequence)?)));
        let children = candidates.filter(|(_, entry)| entry.outpoints().any(|outpoint| outpoint.txid == *txid));
        children.map(|(sequence, entry)| (sequence, Arc::clone(entry))).collect()
    }

    /// The ancestors of an entry, by arrival.
    pub(super) fn ancestors_of(&self, entry: &Entry) -> BTreeMap<u64, Arc<Entry>> {
        closure(entry, |entry| self.parents_of(entry))
    }

    /// The descendants of an entry, by arrival.
    pub(super) fn descendants_of(&self, entry: &Entry) -> BTreeMap<u64, Arc<Entry>> {
        closure(entry, |entry| self.children_of(&entry.txid))
    }
}

/// All entries that can be reached from `start`, without it.
fn closure(start: &Entry, next: impl Fn(&Entry) -> BTreeMap<u64, Arc<Entry>>) -> BTreeMap<u64, Arc<Entry>> {
    let mut found: BTreeMap<u64, Arc<Entry>> = BTreeMap::new();
    let mut waiting: Vec<Arc<Entry>> = next(start).into_values().collect();
    while let Some(entry) = waiting.pop() {
        if found.contains_key(&entry.sequence) {
            continue;
        }
        waiting.extend(next(&entry).into_values().filter(|entry| !found.contains_key(&entry.sequence)));
        found.insert(entry.sequence, entry);
    }
    found
}

impl From<BTreeMap<u64, Arc<Entry>>> for Relatives {
    fn from(entries: BTreeMap<u64, Arc<Entry>>) -> Self {
        let entries: Vec<_> = entries.into_values().collect();
        let sums = Sums::of(&entries);
        debug_assert_eq!(sums.count, wide(entries.len()));
        Self { entries, sums }
    }
}
