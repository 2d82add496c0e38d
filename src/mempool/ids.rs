//! Compact indexes from an id or an outpoint to candidate transactions.
//!
//! Both keep only the first 8 bytes of an id. The caller compares the whole id with that of each candidate, so
//! the result is exact; two ids with the same prefix only cost a second comparison. A collision takes 2^32 hashes, many
//! with one prefix ever more.

use bitcoin::hashes::Hash;
use bitcoin::{OutPoint, Txid};
use imbl::{OrdMap, OrdSet};

fn prefix(id: &[u8; 32]) -> u64 {
    id.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Ids → numbers of arrival.
#[derive(Clone, Default)]
pub(super) struct Ids {
    /// The first transaction of each prefix: looking up one key allocates nothing, as a range does.
    first: OrdMap<u64, u64>,
    /// Those whose prefix another one had before.
    others: OrdSet<(u64, u64)>,
}

impl Ids {
    pub(super) fn insert(&mut self, id: &[u8; 32], sequence: u64) {
        let prefix = prefix(id);
        match self.first.get(&prefix) {
            Some(first) if *first != sequence => {
                self.others.insert((prefix, sequence));
            }
            Some(_) => {}
            None => {
                self.first.insert(prefix, sequence);
            }
        }
    }

    pub(super) fn remove(&mut self, id: &[u8; 32], sequence: u64) {
        let prefix = prefix(id);
        if self.others.remove(&(prefix, sequence)).is_some() || self.first.get(&prefix) != Some(&sequence) {
            return;
        }
        self.first.remove(&prefix);
        let next = self.others_of(prefix).next();
        if let Some(next) = next {
            self.others.remove(&(prefix, next));
            self.first.insert(prefix, next);
        }
    }

    /// The transactions that may have this id.
    pub(super) fn candidates(&self, id: &[u8; 32]) -> impl Iterator<Item = u64> {
        let prefix = prefix(id);
        self.first.get(&prefix).copied().into_iter().chain(self.others_of(prefix))
    }

    fn others_of(&self, prefix: u64) -> impl Iterator<Item = u64> {
        self.others.range((prefix, 0)..=(prefix, u64::MAX)).map(|(_, sequence)| *sequence)
    }
}

/// An input, ordered by the outpoint that it spends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SpendKey {
    txid: u64,
    vout: u32,
    vin: u32,
    sequence: u64,
}

impl SpendKey {
    fn new(outpoint: &OutPoint, vin: u32, sequence: u64) -> Self {
        Self { txid: prefix(outpoint.txid.as_byte_array()), vout: outpoint.vout, vin, sequence }
    }
}

/// Outpoints → the inputs that spend them, each given by number of arrival and vin. A range with an end would look that up, too.
#[derive(Clone, Default)]
pub(super) struct Spends {
    set: OrdSet<SpendKey>,
}

impl Spends {
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    pub(super) fn insert(&mut self, outpoint: &OutPoint, vin: u32, sequence: u64) {
        self.set.insert(SpendKey::new(outpoint, vin, sequence));
    }

    pub(super) fn remove(&mut self, outpoint: &OutPoint, vin: u32, sequence: u64) {
        self.set.remove(&SpendKey::new(outpoint, vin, sequence));
    }

    /// The inputs that may spend an output.
    pub(super) fn candidates(&self, outpoint: &OutPoint) -> impl Iterator<Item = (u64, u32)> {
        let first = SpendKey::new(outpoint, 0, 0);
        let spends =
            self.set.range(first..).take_while(move |spend| (spend.txid, spend.vout) == (first.txid, first.vout));
        spends.map(|spend| (spend.sequence, spend.vin))
    }

    /// The transactions with inputs that may spend an output of a transaction, some more than once.
    pub(super) fn candidates_of(&self, txid: &Txid) -> impl Iterator<Item = u64> {
        let first = SpendKey::new(&OutPoint { txid: *txid, vout: 0 }, 0, 0);
        self.set.range(first..).take_while(move |spend| spend.txid == first.txid).map(|spend| spend.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(prefix: u8, end: u8) -> [u8; 32] {
        let mut id = [prefix; 32];
        id[31] = end;
        id
    }

    #[test]
    fn ids_of_the_same_beginning_are_all_candidates() {
        let mut ids = Ids::default();
        for (number, id) in (1..).zip([id(1, 1), id(2, 1), id(2, 2), id(3, 1)]) {
            ids.insert(&id, number);
        }
        assert_eq!(ids.candidates(&id(2, 7)).collect::<Vec<_>>(), [2, 3]);
        ids.remove(&id(2, 1), 2);
        assert_eq!(ids.candidates(&id(2, 1)).collect::<Vec<_>>(), [3]);
        // again, as the second of its prefix, from which it leaves first
        ids.insert(&id(2, 1), 5);
        ids.remove(&id(2, 1), 5);
        assert_eq!(ids.candidates(&id(2, 1)).collect::<Vec<_>>(), [3]);
        ids.remove(&id(2, 1), 5);
        ids.remove(&id(2, 2), 3);
        assert_eq!(ids.candidates(&id(2, 1)).count(), 0);
        assert_eq!(ids.candidates(&id(3, 1)).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn spends_are_found_by_output_and_by_transaction() {
        let outpoint = |prefix, end, vout| OutPoint { txid: Txid::from_byte_array(id(prefix, end)), vout };
        let mut spends = Spends::default();
        spends.insert(&outpoint(1, 1, u32::MAX), 0, 3);
        spends.insert(&outpoint(2, 1, 0), 5, 4);
        spends.insert(&outpoint(2, 2, 0), 6, 9);
        spends.insert(&outpoint(2, 1, 1), 7, 9);
        assert_eq!(spends.candidates(&outpoint(2, 1, 0)).collect::<Vec<_>>(), [(4, 5), (9, 6)]);
        assert_eq!(spends.candidates_of(&outpoint(2, 1, 0).txid).collect::<Vec<_>>(), [4, 9, 9]);
        spends.remove(&outpoint(2, 2, 0), 6, 9);
        assert_eq!(spends.candidates(&outpoint(2, 1, 0)).collect::<Vec<_>>(), [(4, 5)]);
        assert_eq!(spends.candidates(&outpoint(2, 1, 3)).count(), 0);
    }
}
