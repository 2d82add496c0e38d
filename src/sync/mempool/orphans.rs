//! Orphans: transactions that spend outputs of an unknown transaction, or of one that an error of the index hides.

use std::collections::HashMap;

use bitcoin::Txid;

use super::incoming::Incoming;

/// The orphans by parent.
#[derive(Default)]
pub(super) struct Orphans {
    by_parent: HashMap<Txid, Vec<Incoming>>,
    /// The parent under which each orphan is stored.
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

    /// Adds an orphan under one unknown parent.
    pub(super) fn push(&mut self, parent: Txid, incoming: Incoming) {
        self.remove(&incoming.txid);
        self.parents.insert(incoming.txid, parent);
        self.by_parent.entry(parent).or_default().push(incoming);
    }

    /// Adds one whose prevouts cannot be read now, under its own txid: [`Self::take_failed`] returns it.
    pub(super) fn push_failed(&mut self, incoming: Incoming) {
        self.push(incoming.txid, incoming);
    }

    /// Removes and returns those whose prevouts could not be read, and their orphans.
    pub(super) fn take_failed(&mut self) -> Vec<Incoming> {
        let failed: Vec<_> =
            self.parents.iter().filter(|(txid, parent)| txid == parent).map(|(txid, _)| *txid).collect();
        failed.iter().flat_map(|txid| self.take(txid)).collect()
    }

    /// Removes and returns the orphans of a parent.
    pub(super) fn take(&mut self, parent: &Txid) -> Vec<Incoming> {
        let taken = self.by_parent.remove(parent).unwrap_or_default();
        for incoming in &taken {
            self.parents.remove(&incoming.txid);
        }
        taken
    }

    /// Removes and returns all orphans.
    pub(super) fn take_all(&mut self) -> Vec<Incoming> {
        std::mem::take(self).by_parent.into_values().flatten().collect()
    }

    pub(super) fn txids(&self) -> Vec<Txid> {
        self.parents.keys().copied().collect()
    }

    /// The first-seen time of each orphan.
    pub(super) fn first_seen(&self) -> impl Iterator<Item = (Txid, u64)> {
        self.by_parent.values().flatten().map(|incoming| (incoming.txid, incoming.first_seen))
    }

    /// Removes an orphan.
    pub(super) fn remove(&mut self, txid: &Txid) {
        let Some(parent) = self.parents.remove(txid) else { return };
        let Some(siblings) = self.by_parent.get_mut(&parent) else { return };
        siblings.retain(|sibling| sibling.txid != *txid);
        if siblings.is_empty() {
            self.by_parent.remove(&parent);
        }
    }

    /// Keeps only these orphans.
    pub(super) fn retain(&mut self, those: impl Fn(&Txid) -> bool) {
        let gone: Vec<_> = self.parents.keys().filter(|txid| !those(txid)).copied().collect();
        for txid in &gone {
            self.remove(txid);
        }
    }
}
