//! Insertion and removal of entries, which keep parents, children and all sums correct.
//!
//! The sums of an entry are the sums over its ancestors or descendants. An entry that is inserted without descendants,
//! or removed with all of them, changes only its ancestors' sums, and policy limits the number of ancestors. An entry
//! that is mined has no ancestors left. Only a transaction that returns from a block can be inserted below others: then
//! the sums of all its relatives are recomputed.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{Transaction, Txid};

use super::accept::Assessment;
use super::entry::{PackageSums, SimMempoolEntry};
use super::sim_mempool::SimMempool;
use crate::chain::Height;

impl SimMempool {
    /// Inserts an assessed transaction, after the transactions that it replaces are removed. No transaction here may
    /// spend its outputs; otherwise [`join_children`](SimMempool::join_children) must follow.
    pub(crate) fn insert(&mut self, tx: Arc<Transaction>, assessed: Assessment, time: u32, height: Height) {
        let Assessment { txid, wtxid, fee, weight, vsize, sigops, spends_coinbase, parents, ancestors, .. } = assessed;
        let own = PackageSums { count: 1, vsize, fee };
        let mut sums = own;
        for ancestor in &ancestors {
            if let Some(ancestor) = self.entries.get_mut(ancestor) {
                sums.add(ancestor.sums());
                ancestor.descendants.add(own);
            }
        }
        for parent in &parents {
            if let Some(parent) = self.entries.get_mut(parent) {
                parent.children.insert(txid);
            }
        }
        self.spends.extend(tx.input.iter().map(|input| (input.previous_output, txid)));
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.by_arrival.insert(arrival, txid);
        self.totals.vsize += vsize;
        self.totals.weight += weight.to_wu();
        self.totals.fee += fee;
        let entry = SimMempoolEntry {
            tx,
            txid,
            wtxid,
            fee,
            weight,
            vsize,
            sigops,
            arrival,
            time,
            height,
            spends_coinbase,
            parents,
            children: BTreeSet::new(),
            ancestors: sums,
            descendants: own,
        };
        self.entries.insert(txid, entry);
    }

    /// Removes a mined transaction, whose ancestors must already be removed.
    pub(crate) fn remove_mined(&mut self, txid: &Txid) -> Option<SimMempoolEntry> {
        let own = self.entries.get(txid)?.sums();
        for descendant in self.descendants(txid) {
            if let Some(descendant) = self.entries.get_mut(&descendant) {
                descendant.ancestors.take(own);
                descendant.parents.remove(txid);
            }
        }
        self.forget(txid)
    }

    /// Removes a transaction and its descendants, and returns them in the order of their arrival.
    pub(crate) fn remove_with_descendants(&mut self, txid: &Txid) -> Vec<SimMempoolEntry> {
        if !self.entries.contains_key(txid) {
            return Vec::new();
        }
        let mut removed = self.descendants(txid);
        removed.insert(*txid);
        self.remove_all(&removed)
    }

    /// Removes a set of transactions that includes the descendants of each, and returns them in the order of their
    /// arrival.
    pub(crate) fn remove_all(&mut self, removed: &BTreeSet<Txid>) -> Vec<SimMempoolEntry> {
        for txid in removed {
            let Some(entry) = self.entries.get(txid) else { continue };
            let (own, parents) = (entry.sums(), entry.parents.clone());
            for ancestor in self.ancestors(txid).difference(removed) {
                if let Some(ancestor) = self.entries.get_mut(ancestor) {
                    ancestor.descendants.take(own);
                }
            }
            for parent in parents.difference(removed) {
                if let Some(parent) = self.entries.get_mut(parent) {
                    parent.children.remove(txid);
                }
            }
        }
        let mut entries: Vec<SimMempoolEntry> = removed.iter().filter_map(|txid| self.forget(txid)).collect();
        entries.sort_unstable_by_key(|entry| entry.arrival);
        entries
    }

    /// Links transactions that were inserted below others, as those of a disconnected block, with the transactions that
    /// spend their outputs.
    pub(crate) fn join_children(&mut self, returned: &[Txid]) {
        for txid in returned {
            let Some(entry) = self.entries.get(txid) else { continue };
            let outpoints = (0..).zip(&entry.tx.output).map(|(vout, _)| bitcoin::OutPoint { txid: *txid, vout });
            let children: BTreeSet<Txid> =
                outpoints.filter_map(|outpoint| self.spends.get(&outpoint).copied()).collect();
            for child in &children {
                if let Some(child) = self.entries.get_mut(child) {
                    child.parents.insert(*txid);
                }
            }
            if let Some(entry) = self.entries.get_mut(txid) {
                entry.children = children;
            }
        }
        let mut affected: BTreeSet<Txid> = returned.iter().copied().collect();
        for txid in returned {
            affected.extend(self.ancestors(txid));
            affected.extend(self.descendants(txid));
        }
        for txid in affected {
            let (ancestors, descendants) = (self.add_up(&self.ancestors(&txid)), self.add_up(&self.descendants(&txid)));
            if let Some(entry) = self.entries.get_mut(&txid) {
                let own = entry.sums();
                (entry.ancestors, entry.descendants) = (ancestors, descendants);
                entry.ancestors.add(own);
                entry.descendants.add(own);
            }
        }
    }

    /// The transactions that exceed the ancestor limits after these returned below them (Core's
    /// `UpdateTransactionsFromBlock`).
    pub(crate) fn beyond_ancestor_limits(&self, returned: &[Txid]) -> BTreeSet<Txid> {
        let count = u64::try_from(self.policy.ancestor_count).unwrap_or(u64::MAX);
        let descendants = returned.iter().flat_map(|txid| self.descendants(txid));
        descendants
            .filter_map(|txid| self.entries.get(&txid))
            .filter(|entry| entry.ancestors.count > count || entry.ancestors.vsize > self.policy.ancestor_vsize)
            .map(|entry| entry.txid)
            .collect()
    }

    pub(super) fn add_up(&self, txids: &BTreeSet<Txid>) -> PackageSums {
        let mut sums = PackageSums::NONE;
        for entry in txids.iter().filter_map(|txid| self.entries.get(txid)) {
            sums.add(entry.sums());
        }
        sums
    }

    fn forget(&mut self, txid: &Txid) -> Option<SimMempoolEntry> {
        let entry = self.entries.remove(txid)?;
        for outpoint in entry.spends() {
            self.spends.remove(&outpoint);
        }
        self.by_arrival.remove(&entry.arrival);
        self.totals.vsize -= entry.vsize;
        self.totals.weight -= entry.weight.to_wu();
        self.totals.fee -= entry.fee;
        Some(entry)
    }
}
