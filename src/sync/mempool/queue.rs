//! A queue of transactions, each with a note, with removal by txid.

use std::collections::{BTreeMap, HashMap};

use bitcoin::Txid;

/// The capacity that is never released.
const MIN_CAPACITY: usize = 1_000;

/// A queue in the order of insertion that contains each txid once.
pub(super) struct Queue<N> {
    by_position: BTreeMap<u64, Txid>,
    notes: HashMap<Txid, (u64, N)>,
    next: u64,
}

impl<N> Default for Queue<N> {
    fn default() -> Self {
        Self { by_position: BTreeMap::new(), notes: HashMap::new(), next: 0 }
    }
}

impl<N> Queue<N> {
    pub(super) fn len(&self) -> usize {
        self.notes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    pub(super) fn contains(&self, txid: &Txid) -> bool {
        self.notes.contains_key(txid)
    }

    /// Appends a transaction. One that is in the queue keeps its position and its note.
    pub(super) fn push(&mut self, txid: Txid, note: N) {
        if self.contains(&txid) {
            return;
        }
        let position = self.next;
        self.next += 1;
        self.by_position.insert(position, txid);
        self.notes.insert(txid, (position, note));
    }

    pub(super) fn remove(&mut self, txid: &Txid) -> Option<N> {
        let (position, note) = self.notes.remove(txid)?;
        self.by_position.remove(&position);
        self.shrink();
        Some(note)
    }

    /// Removes up to this number of transactions from the front.
    pub(super) fn take_first(&mut self, count: usize) -> Vec<(Txid, N)> {
        let taken = std::iter::from_fn(|| {
            let (_, txid) = self.by_position.pop_first()?;
            let (_, note) = self.notes.remove(&txid)?;
            Some((txid, note))
        });
        let taken = taken.take(count).collect();
        self.shrink();
        taken
    }

    /// Releases memory after a long list: the list of the whole mempool takes some 50 MB, once.
    fn shrink(&mut self) {
        if self.notes.capacity() / 4 > self.notes.len().max(MIN_CAPACITY) {
            self.notes.shrink_to(self.notes.len().saturating_mul(2));
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_position.clear();
        self.notes.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Txid, &N)> {
        let noted = self.by_position.values().map(|txid| (txid, self.notes.get(txid)));
        noted.filter_map(|(txid, noted)| noted.map(|(_, note)| (txid, note)))
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Push(u8, u8),
        Remove(u8),
        Take(usize),
        Clear,
    }

    fn step() -> impl Strategy<Value = Operation> {
        prop_oneof![
            8 => (0_u8..6, any::<u8>()).prop_map(|(txid, note)| Operation::Push(txid, note)),
            3 => (0_u8..6).prop_map(Operation::Remove),
            2 => (0_usize..4).prop_map(Operation::Take),
            1 => Just(Operation::Clear),
        ]
    }

    fn txid(number: u8) -> Txid {
        Txid::from_byte_array([number; 32])
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_list_without_duplicates(steps in proptest::collection::vec(step(), 0..60)) {
            let (mut queue, mut list) = (Queue::default(), Vec::new());
            for step in steps {
                match step {
                    Operation::Push(number, note) => {
                        queue.push(txid(number), note);
                        if list.iter().all(|(other, _)| *other != txid(number)) {
                            list.push((txid(number), note));
                        }
                    }
                    Operation::Remove(number) => {
                        let at = list.iter().position(|(other, _)| *other == txid(number));
                        let expected = at.map(|at| list.remove(at).1);
                        prop_assert_eq!(queue.remove(&txid(number)), expected);
                    }
                    Operation::Take(count) => {
                        let expected: Vec<_> = list.drain(..count.min(list.len())).collect();
                        prop_assert_eq!(queue.take_first(count), expected);
                    }
                    Operation::Clear => {
                        queue.clear();
                        list.clear();
                    }
                }
                prop_assert_eq!((queue.len(), queue.is_empty()), (list.len(), list.is_empty()));
                prop_assert_eq!(queue.iter().map(|(txid, note)| (*txid, *note)).collect::<Vec<_>>(), list.clone());
                let there = (0..6).filter(|number| queue.contains(&txid(*number))).count();
                prop_assert_eq!(there, list.len());
            }
        }
    }
}
