//! Transactions that spend outputs of one that is not known yet.

use std::collections::HashMap;

use bitcoin::Txid;

use super::incoming::Incoming;

/// What waits, by what it waits for.
#[derive(Default)]
pub(super) struct Orphans {
    by_parent: HashMap<Txid, Vec<Incoming>>,
    /// What each that waits is found under.
    parents: HashMap<Txid, Txid>,
}

impl Orphans {
    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    pub(super) fn contains(&self, txid: &Txid) -> bool {
        self.parents.contains_key(txid)
    }

    /// Lets a transaction wait for another.
    pub(super) fn push(&mut self, parent: Txid, incoming: Incoming) {
        self.remove(&incoming.txid);
        self.parents.insert(incoming.txid, parent);
        self.by_parent.entry(parent).or_default().push(incoming);
    }

    /// Takes what waited for a transaction.
    pub(super) fn take(&mut self, parent: &Txid) -> Vec<Incoming> {
        let taken = self.by_parent.remove(parent).unwrap_or_default();
        for incoming in &taken {
            self.parents.remove(&incoming.txid);
        }
        taken
    }

    /// Takes all that waits.
    pub(super) fn take_all(&mut self) -> Vec<Incoming> {
        std::mem::take(self).by_parent.into_values().flatten().collect()
    }

    pub(super) fn txids(&self) -> Vec<Txid> {
        self.parents.keys().copied().collect()
    }

    /// Those that wait, and when each was first heard of.
    pub(super) fn first_seen(&self) -> impl Iterator<Item = (Txid, u64)> {
        self.by_parent.values().flatten().map(|incoming| (incoming.txid, incoming.first_seen))
    }

    /// Forgets a transaction that waits.
    pub(super) fn remove(&mut self, txid: &Txid) {
        let Some(parent) = self.parents.remove(txid) else { return };
        let Some(siblings) = self.by_parent.get_mut(&parent) else { return };
        siblings.retain(|sibling| sibling.txid != *txid);
        if siblings.is_empty() {
            self.by_parent.remove(&parent);
        }
    }

    /// Forgets all but these.
    pub(super) fn retain(&mut self, those: impl Fn(&Txid) -> bool) {
        let gone: Vec<_> = self.parents.keys().filter(|txid| !those(txid)).copied().collect();
        for txid in &gone {
            self.remove(txid);
        }
    }
}
