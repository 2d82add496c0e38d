//! Entries come and go; parents, children and all sums stay right.
//!
//! The sums of an entry are what a walk over its ancestors or descendants would add up to. An entry that comes without
//! descendants, or goes with all of them, changes only its ancestors' sums, of which policy allows few. One that goes
//! into a block has no ancestors left. Only what returns from a block can come below others: then the sums of all that
//! it touches are added up anew.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{Transaction, Txid};

use super::{Assessment, Entry, Mempool, Sums};
use crate::chain::Height;

impl Mempool {
    /// Adds what was assessed, after all that it replaces is gone. Nothing here spends its outputs; if something does,
    /// [`join_children`](Mempool::join_children) has to follow.
    pub(crate) fn insert(&mut self, tx: Arc<Transaction>, assessed: Assessment, time: u32, height: Height) {
        let Assessment { txid, wtxid, fee, weight, vsize, sigops, spends_coinbase, parents, ancestors, .. } = assessed;
        let own = Sums { count: 1, vsize, fee };
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
        let entry = Entry {
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

    /// Removes a transaction that a block holds, as all that it stood on was before it.
    pub(crate) fn remove_mined(&mut self, txid: &Txid) -> Option<Entry> {
        let own = self.entries.get(txid)?.sums();
        for descendant in self.descendants(txid) {
            if let Some(descendant) = self.entries.get_mut(&descendant) {
                descendant.ancestors.take(own);
                descendant.parents.remove(txid);
            }
        }
        self.forget(txid)
    }

    /// Removes a transaction and all that stands on it, and returns them in the order in which they came.
    pub(crate) fn remove_with_descendants(&mut self, txid: &Txid) -> Vec<Entry> {
        if !self.entries.contains_key(txid) {
            return Vec::new();
        }
        let mut removed = self.descendants(txid);
        removed.insert(*txid);
        self.remove_all(&removed)
    }

    /// Removes transactions among which is all that stands on any of them, and returns them in the order in which they
    /// came.
    pub(crate) fn remove_all(&mut self, removed: &BTreeSet<Txid>) -> Vec<Entry> {
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
        let mut entries: Vec<Entry> = removed.iter().filter_map(|txid| self.forget(txid)).collect();
        entries.sort_unstable_by_key(|entry| entry.arrival);
        entries
    }

    /// Joins transactions that came below others, as those of a disconnected block do, to what spends their outputs.
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
        let mut touched: BTreeSet<Txid> = returned.iter().copied().collect();
        for txid in returned {
            touched.extend(self.ancestors(txid));
            touched.extend(self.descendants(txid));
        }
        for txid in touched {
            let (ancestors, descendants) = (self.add_up(&self.ancestors(&txid)), self.add_up(&self.descendants(&txid)));
            if let Some(entry) = self.entries.get_mut(&txid) {
                let own = entry.sums();
                (entry.ancestors, entry.descendants) = (ancestors, descendants);
                entry.ancestors.add(own);
                entry.descendants.add(own);
            }
        }
    }

    /// What stands on more than policy allows, after transactions returned below it (Core's
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

    pub(super) fn add_up(&self, txids: &BTreeSet<Txid>) -> Sums {
        let mut sums = Sums::NONE;
        for entry in txids.iter().filter_map(|txid| self.entries.get(txid)) {
            sums.add(entry.sums());
        }
        sums
    }

    fn forget(&mut self, txid: &Txid) -> Option<Entry> {
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
