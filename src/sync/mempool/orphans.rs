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

    /// Whether its prevouts, or those of one that it waits for, could not be read.
    pub(super) fn waits_for_failed(&self, txid: &Txid) -> bool {
        let mut txid = txid;
        // parents precede their children, so that only one that failed is its own
        while let Some(parent) = self.parents.get(txid) {
            if parent == txid {
                return true;
            }
            txid = parent;
        }
        false
    }

    /// Removes and returns those whose prevouts could not be read. Their orphans stay.
    pub(super) fn take_failed(&mut self) -> Vec<Incoming> {
        let failed: Vec<_> =
            self.parents.iter().filter(|(txid, parent)| txid == parent).map(|(txid, _)| *txid).collect();
        let mut taken = Vec::new();
        for txid in failed {
            self.parents.remove(&txid);
            if let Some(waiting) = self.by_parent.get_mut(&txid) {
                taken.extend(waiting.extract_if(.., |incoming| incoming.txid == txid));
                if waiting.is_empty() {
                    self.by_parent.remove(&txid);
                }
            }
        }
        taken
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bitcoin::OutPoint;
    use bitcoin::consensus::serialize;

    use super::super::tests::{spending, txid};
    use super::*;
    use crate::mempool::Cause;

    fn incoming(spent: Txid) -> Incoming {
        let transaction = spending(&[OutPoint { txid: spent, vout: 0 }]);
        Incoming::of(Arc::from(serialize(&transaction)), 7, Cause::New).unwrap()
    }

    #[test]
    fn those_that_failed_are_taken_and_their_orphans_wait_for_them() {
        let mut orphans = Orphans::default();
        let (failed, other) = (incoming(txid(1)), incoming(txid(2)));
        let child = incoming(failed.txid);
        let grandchild = incoming(child.txid);
        let [of_failed, of_other, of_child, of_grandchild] =
            [&failed, &other, &child, &grandchild].map(|incoming| incoming.txid);
        orphans.push_failed(failed);
        orphans.push(txid(2), other);
        orphans.push(of_failed, child);
        orphans.push(of_child, grandchild);
        let waits = [of_failed, of_child, of_grandchild, of_other].map(|txid| orphans.waits_for_failed(&txid));
        assert_eq!(waits, [true, true, true, false]);
        let taken = orphans.take_failed();
        assert_eq!(
            taken.iter().map(|incoming| (incoming.txid, incoming.first_seen)).collect::<Vec<_>>(),
            [(of_failed, 7)]
        );
        assert!(orphans.take_failed().is_empty());
        assert_eq!(orphans.take(&of_failed).iter().map(|incoming| incoming.txid).collect::<Vec<_>>(), [of_child]);
        assert_eq!(orphans.len(), 2);
    }
}
