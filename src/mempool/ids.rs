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

/// Ids → numbers of arrival. A transaction is in one of the two maps, and a prefix in the second only if it is in the first.
#[derive(Clone, Default)]
pub(super) struct Ids {
    /// One transaction of each prefix: a lookup of one key allocates nothing, a range does.
    one: OrdMap<u64, u64>,
    /// All further transactions of a prefix, by prefix and number of arrival. Nearly always empty, so a range of it costs nothing.
    others: OrdSet<(u64, u64)>,
}

impl Ids {
    pub(super) fn insert(&mut self, id: &[u8; 32], sequence: u64) {
        let prefix = prefix(id);
        if let Some(before) = self.one.insert(prefix, sequence)
            && before != sequence
        {
            self.others.insert((prefix, before));
            // one that is inserted again may be there
            self.others.remove(&(prefix, sequence));
        }
    }

    pub(super) fn remove(&mut self, id: &[u8; 32], sequence: u64) {
        let prefix = prefix(id);
        let one = self.one.remove(&prefix);
        if let Some(one) = one.filter(|one| *one != sequence) {
            self.one.insert(prefix, one);
            self.others.remove(&(prefix, sequence));
            return;
        }
        let next = self.others_of(prefix).next();
        if let Some(next) = next {
            self.others.remove(&(prefix, next));
            self.one.insert(prefix, next);
        }
    }

    /// The transactions that may have this id.
    pub(super) fn candidates(&self, id: &[u8; 32]) -> impl Iterator<Item = u64> {
        let prefix = prefix(id);
        self.one.get(&prefix).copied().into_iter().chain(self.others_of(prefix))
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

/// Outpoints → the inputs that spend them, each given by number of arrival and vin.
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
        // a range with an end descends the tree a second time, for the end
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn id(prefix: u8, end: u8) -> [u8; 32] {
        let mut id = [prefix; 32];
        id[31] = end;
        id
    }

    proptest! {
        #[test]
        fn ids_are_a_set_of_prefixes_and_numbers(
            steps in prop::collection::vec((any::<bool>(), 0_u8..3, 0_u8..5), 0..60),
        ) {
            let (mut ids, mut model) = (Ids::default(), BTreeSet::new());
            for (is_arrival, prefix, number) in steps {
                let (id, number) = (id(prefix, number), u64::from(number));
                if is_arrival {
                    ids.insert(&id, number);
                    model.insert((prefix, number));
                } else {
                    ids.remove(&id, number);
                    model.remove(&(prefix, number));
                }
                for prefix in 0..3 {
                    let mut found: Vec<_> = ids.candidates(&self::id(prefix, 9)).collect();
                    found.sort_unstable();
                    let wanted = model.range((prefix, 0)..=(prefix, u64::MAX)).map(|(_, number)| *number);
                    prop_assert_eq!(found, wanted.collect::<Vec<_>>());
                }
            }
        }
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
