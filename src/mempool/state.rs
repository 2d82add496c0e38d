//! The data of the mempool, in persistent maps: a copy costs a few pointers and shares all unchanged parts with the
//! original.
//!
//! ```text
//!   entries        number of arrival → Entry      the only map that owns entries
//!   txids, wtxids  → number of arrival
//!   spends         outpoint → (number of arrival, vin)
//!   scripts        script → numbers of arrival, totals
//!   by_…           sorted indexes: ranks with the number of arrival
//!   chunks         number of arrival → chunk      only for transactions with a parent or a child
//! ```
//!
//! `writer` and `clusters` change it.

use std::sync::Arc;

use bitcoin::hashes::Hash;
use imbl::{OrdMap, OrdSet};

use super::arrivals::Arrivals;
use super::departed::Journal;
use super::entry::Entry;
use super::events::RecentEvents;
use super::feerate::{FeeFraction, Rank};
use super::ids::{Ids, Spends};
use super::limits::{MempoolLimits, NodeMempool};
use super::scripts::{Entries, Scripts};

/// The totals over all transactions of the mempool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MempoolTotals {
    /// Transactions.
    pub count: u64,
    /// Their virtual sizes by which nodes judge them, in vbytes.
    pub vsize: u64,
    /// Their weights, in weight units.
    pub weight: u64,
    /// Bytes of their serialisations, witness included.
    pub size: u64,
    /// Their fees, in sat.
    pub fee: u64,
    /// Their outputs.
    pub outputs: u64,
}

/// Transactions that a miner includes together, because the last of them pays for the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Their total fee per total weight.
    pub(super) feerate: FeeFraction,
    /// The lowest number of arrival in the cluster of the chunk.
    pub(super) cluster: u64,
    /// The lowest number of arrival in the chunk, which orders chunks of the same feerate.
    pub(super) first: u64,
    /// Their numbers of arrival, each after those of its ancestors.
    pub(super) sequences: Box<[u64]>,
}

/// The weights of a transaction, in weight units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weights {
    /// What it takes in a block.
    pub(super) own: u32,
    /// That by which it is judged ([`Entry::policy_weight`]).
    pub(super) policy: u32,
}

impl Weights {
    pub(super) fn of(entry: &Entry) -> Self {
        let [own, policy] = [entry.weight, entry.policy_weight].map(|weight| u32::try_from(weight).unwrap_or(u32::MAX));
        Self { own, policy }
    }
}

#[derive(Clone, Default)]
pub(super) struct MempoolState {
    pub(super) limits: MempoolLimits,
    pub(super) entries: Entries,
    pub(super) txids: Ids,
    pub(super) wtxids: Ids,
    pub(super) spends: Spends,
    pub(super) scripts: Scripts,
    pub(super) by_feerate: OrdSet<Rank<FeeFraction>>,
    pub(super) by_value: OrdSet<Rank<u64>>,
    /// With the weights of each transaction. Lacks transactions whose clusters are not updated yet.
    pub(super) by_effective: OrdMap<Rank<FeeFraction>, Weights>,
    pub(super) chunks: OrdMap<u64, Arc<Chunk>>,
    pub(super) totals: MempoolTotals,
    pub(super) events: RecentEvents,
    pub(super) journal: Journal,
    pub(super) arrivals: Arrivals,
    pub(super) node: NodeMempool,
}

impl MempoolState {
    /// The effective feerate of a transaction: that of its chunk.
    pub(super) fn effective_feerate(&self, entry: &Entry) -> FeeFraction {
        self.chunks.get(&entry.sequence).map_or_else(|| entry.policy_feerate(), |chunk| chunk.feerate)
    }

    pub(super) fn effective_rank(&self, entry: &Entry) -> Rank<FeeFraction> {
        Rank { by: self.effective_feerate(entry), sequence: entry.sequence }
    }

    /// Removes entries from all maps but that of the scripts.
    ///
    /// Looks up in one map after the other and removes from it, each in key order: a block removes thousands of entries, and
    /// neighbouring keys share cache lines.
    pub(super) fn remove_but_for_scripts(&mut self, removed: &[Arc<Entry>]) {
        for rank in sorted(removed.iter().map(|entry| self.effective_rank(entry))) {
            self.by_effective.remove(&rank);
        }
        for sequence in sorted(removed.iter().map(|entry| entry.sequence)) {
            self.remove_chunk(sequence);
            self.entries.remove(&sequence);
        }
        for (txid, sequence) in sorted(removed.iter().map(|entry| (*entry.txid.as_byte_array(), entry.sequence))) {
            self.txids.remove(&txid, sequence);
        }
        for (wtxid, sequence) in sorted(removed.iter().map(|entry| (*entry.wtxid.as_byte_array(), entry.sequence))) {
            self.wtxids.remove(&wtxid, sequence);
        }
        let spends = |entry: &'_ Arc<Entry>| {
            let sequence = entry.sequence;
            (0..).zip(entry.outpoints()).map(move |(vin, outpoint)| (outpoint, vin, sequence)).collect::<Vec<_>>()
        };
        for (outpoint, vin, sequence) in sorted(removed.iter().flat_map(spends)) {
            self.spends.remove(&outpoint, vin, sequence);
        }
        for rank in sorted(removed.iter().map(|entry| Rank { by: entry.feerate(), sequence: entry.sequence })) {
            self.by_feerate.remove(&rank);
        }
        for rank in sorted(removed.iter().map(|entry| Rank { by: entry.output_value, sequence: entry.sequence })) {
            self.by_value.remove(&rank);
        }
    }

    /// Removes the chunk of a transaction, if it has one.
    pub(super) fn remove_chunk(&mut self, sequence: u64) {
        // a removal copies the nodes on its way, even to a key that is not there
        if self.chunks.contains_key(&sequence) {
            self.chunks.remove(&sequence);
        }
    }
}

impl MempoolTotals {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.count = self.count.saturating_add(1);
        self.vsize = self.vsize.saturating_add(entry.policy_vsize());
        self.weight = self.weight.saturating_add(entry.weight);
        self.size = self.size.saturating_add(entry.size());
        self.fee = self.fee.saturating_add(entry.fee);
        self.outputs = self.outputs.saturating_add(entry.output_count.into());
    }

    pub(super) fn take(&mut self, entry: &Entry) {
        self.count = self.count.saturating_sub(1);
        self.vsize = self.vsize.saturating_sub(entry.policy_vsize());
        self.weight = self.weight.saturating_sub(entry.weight);
        self.size = self.size.saturating_sub(entry.size());
        self.fee = self.fee.saturating_sub(entry.fee);
        self.outputs = self.outputs.saturating_sub(entry.output_count.into());
    }
}

/// In order, which looks up neighbours after each other.
pub(super) fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut sorted: Vec<T> = all.collect();
    sorted.sort_unstable();
    sorted
}
