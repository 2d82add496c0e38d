//! The scripts that the mempool's transactions fund or spend: which transactions do, and the totals of each script.
//!
//! Most scripts appear in one transaction only. For these only the number of that transaction is stored, and a query
//! computes the totals from it. A script of several transactions has stored totals, so that a query never iterates over
//! its transactions.
//!
//! Unspendable outputs belong to no script, as in the index.

pub(in crate::mempool) mod list;

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::entry::{Entry, script_hash};
use super::prevouts::PrevoutSource;

/// Outputs counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coins {
    /// How many.
    pub count: u64,
    /// Their amounts, in sat.
    pub value: u64,
}

impl Coins {
    fn add(&mut self, other: Coins) {
        self.count = self.count.saturating_add(other.count);
        self.value = self.value.saturating_add(other.value);
    }

    fn subtract(&mut self, other: Coins) {
        self.count = self.count.saturating_sub(other.count);
        self.value = self.value.saturating_sub(other.value);
    }

    fn one(value: u64) -> Coins {
        Coins { count: 1, value }
    }
}

/// The totals of one script in the mempool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptTotals {
    /// Transactions with an output or a spent output of the script.
    pub transactions: u64,
    /// Outputs of the script that the mempool's transactions create, spent in the mempool or not.
    pub pending: Coins,
    /// Outputs of the script in the chain that the mempool's transactions spend.
    pub spent_confirmed: Coins,
    /// Outputs among `pending` that the mempool's transactions spend.
    pub spent_unconfirmed: Coins,
}

impl ScriptTotals {
    fn add(&mut self, other: &ScriptTotals) {
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.pending.add(other.pending);
        self.spent_confirmed.add(other.spent_confirmed);
        self.spent_unconfirmed.add(other.spent_unconfirmed);
    }

    fn subtract(&mut self, other: &ScriptTotals) {
        self.transactions = self.transactions.saturating_sub(other.transactions);
        self.pending.subtract(other.pending);
        self.spent_confirmed.subtract(other.spent_confirmed);
        self.spent_unconfirmed.subtract(other.spent_unconfirmed);
    }
}

/// The first half of the SHA-256 of a script. Two scripts of the same half can be made with 2^64 hashes, which mixes up
/// only the maker's own scripts; to match the half of a given script takes 2^128.
pub(super) type ScriptPrefix = [u8; 16];

/// A script of several transactions.
#[derive(Clone)]
struct SharedScript {
    totals: ScriptTotals,
    sequences: OrdSet<u64>,
}

/// Every script that the mempool's transactions fund or spend, in one of two maps.
#[derive(Clone, Default)]
pub(super) struct Scripts {
    /// Scripts of one transaction: the number of its arrival.
    single: OrdMap<ScriptPrefix, u64>,
    /// Scripts of two or more transactions.
    shared: OrdMap<ScriptPrefix, Arc<SharedScript>>,
}

/// Transactions by number of arrival.
pub(super) type Entries = OrdMap<u64, Arc<Entry>>;

impl Scripts {
    /// Adds a transaction. `entries` contains at least all transactions that were added before.
    pub(super) fn add(&mut self, entry: &Entry, entries: &Entries) {
        for (key, contribution) in contributions(entry) {
            if let Some(shared) = self.shared_mut(&key) {
                shared.totals.add(&contribution);
                shared.sequences.insert(entry.sequence);
            } else if let Some(first) = self.single.insert(key, entry.sequence) {
                self.single.remove(&key);
                let mut totals = entries.get(&first).map(|first| contribution_to(first, key)).unwrap_or_default();
                totals.add(&contribution);
                let sequences = [first, entry.sequence].into_iter().collect();
                self.shared.insert(key, Arc::new(SharedScript { totals, sequences }));
            }
        }
    }

    /// Removes transactions in the state in which they were added, or to which [`change_sources`](Self::change_sources) changed them.
    pub(super) fn remove(&mut self, entries: &[Arc<Entry>]) {
        let of = |entry: &Arc<Entry>| {
            let sequence = entry.sequence;
            contributions(entry).into_iter().map(move |(key, contribution)| (key, sequence, contribution))
        };
        let mut leaving: Vec<_> = entries.iter().flat_map(of).collect();
        leaving.sort_unstable_by_key(|(key, sequence, _)| (*key, *sequence));
        for (key, sequence, contribution) in leaving {
            let Some(shared) = self.shared_mut(&key) else {
                self.single.remove(&key);
                continue;
            };
            shared.totals.subtract(&contribution);
            shared.sequences.remove(&sequence);
            if let (1, Some(last)) = (shared.sequences.len(), shared.sequences.get_min().copied()) {
                self.shared.remove(&key);
                self.single.insert(key, last);
            }
        }
    }

    /// Changes the totals from a transaction to the same one, whose prevouts have other sources.
    pub(super) fn change_sources(&mut self, before: &Entry, after: &Entry) {
        for ((key, before), after) in contributions(before).into_iter().zip(contributions(after).into_values()) {
            if before != after
                && let Some(shared) = self.shared_mut(&key)
            {
                shared.totals.subtract(&before);
                shared.totals.add(&after);
            }
        }
    }

    /// A script of several transactions, to change it.
    fn shared_mut(&mut self, key: &ScriptPrefix) -> Option<&mut SharedScript> {
        // a look-up for a change copies the nodes on its way, even to a key that is not there
        if !self.shared.contains_key(key) {
            return None;
        }
        self.shared.get_mut(key).map(Arc::make_mut)
    }

    pub(super) fn totals(&self, script_hash: &[u8; 32], entries: &Entries) -> ScriptTotals {
        let key = prefix_of(script_hash);
        if let Some(shared) = self.shared.get(&key) {
            return shared.totals;
        }
        let once = self.single.get(&key).and_then(|sequence| entries.get(sequence));
        once.map(|entry| contribution_to(entry, key)).unwrap_or_default()
    }

    /// The scripts within a range that one transaction funds or spends, and those of several transactions; each in order.
    pub(super) fn keys(
        &self,
        range: (Bound<ScriptPrefix>, Bound<ScriptPrefix>),
    ) -> (
        impl DoubleEndedIterator<Item = ScriptPrefix> + use<'_>,
        impl DoubleEndedIterator<Item = ScriptPrefix> + use<'_>,
    ) {
        let once = self.single.range(range).map(|(key, _)| *key);
        (once, self.shared.range(range).map(|(key, _)| *key))
    }

    /// The number of scripts.
    pub(super) fn len(&self) -> usize {
        self.single.len().saturating_add(self.shared.len())
    }

    /// The number of the oldest transaction of a script.
    pub(super) fn first_of(&self, key: ScriptPrefix) -> Option<u64> {
        let often = || self.shared.get(&key)?.sequences.get_min().copied();
        self.single.get(&key).copied().or_else(often)
    }

    /// The numbers within a range of the transactions of a script, the newest first.
    pub(super) fn sequences(
        &self,
        script_hash: &[u8; 32],
        within: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = u64> + use<'_> {
        let key = prefix_of(script_hash);
        // a range that ends before it begins is empty
        let within = within.start..within.end.max(within.start);
        let once = self.single.get(&key).copied().filter(|sequence| within.contains(sequence));
        let often = self.shared.get(&key).into_iter();
        once.into_iter().chain(often.flat_map(move |shared| shared.sequences.range(within.clone()).rev().copied()))
    }
}

pub(super) fn prefix_of(script_hash: &[u8; 32]) -> ScriptPrefix {
    let (halves, _) = script_hash.as_chunks::<16>();
    halves.first().copied().unwrap_or_default()
}

/// What one transaction adds to the totals of each of its scripts.
fn contributions(entry: &Entry) -> BTreeMap<ScriptPrefix, ScriptTotals> {
    let mut contributions = BTreeMap::new();
    for_each_coin(entry, |key, coin| {
        let contribution: &mut ScriptTotals = contributions.entry(key).or_default();
        contribution.add(&coin);
        contribution.transactions = 1;
    });
    contributions
}

/// What one transaction adds to the totals of one script.
fn contribution_to(entry: &Entry, wanted: ScriptPrefix) -> ScriptTotals {
    let mut contribution = ScriptTotals { transactions: 1, ..ScriptTotals::default() };
    for_each_coin(entry, |key, coin| {
        if key == wanted {
            contribution.add(&coin);
        }
    });
    contribution
}

fn for_each_coin(entry: &Entry, mut visit: impl FnMut(ScriptPrefix, ScriptTotals)) {
    for prevout in &entry.prevouts {
        let Some(hash) = script_hash(prevout.script_pubkey) else { continue };
        let coin = Coins::one(prevout.value);
        visit(
            prefix_of(&hash),
            match prevout.source {
                PrevoutSource::Confirmed { .. } => ScriptTotals { spent_confirmed: coin, ..ScriptTotals::default() },
                PrevoutSource::Unconfirmed => ScriptTotals { spent_unconfirmed: coin, ..ScriptTotals::default() },
            },
        );
    }
    for output in entry.outputs() {
        let Some(hash) = script_hash(output.script_pubkey) else { continue };
        visit(prefix_of(&hash), ScriptTotals { pending: Coins::one(output.value), ..ScriptTotals::default() });
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;
    use bitcoin::{Txid, Wtxid};

    use super::*;
    use crate::chain::Height;
    use crate::mempool::{PrevoutRef, Prevouts};

    /// A transaction without outputs that spends one of a script.
    fn spending(sequence: u64, value: u64) -> Arc<Entry> {
        let source = PrevoutSource::Confirmed { height: Height::GENESIS, coinbase: false };
        Arc::new(Entry {
            txid: Txid::all_zeros(),
            wtxid: Wtxid::all_zeros(),
            raw: Arc::from([]),
            prevouts: Prevouts::from_iter([PrevoutRef { value, script_pubkey: &[0x51], source }]),
            fee: value,
            weight: 400,
            policy_weight: 400,
            output_value: 0,
            output_count: 0,
            height: Height::GENESIS,
            first_seen: 0,
            sequence,
            returned_from: None,
            loaded: false,
        })
    }

    #[test]
    fn a_script_disappears_with_its_last_transaction() {
        let entries: Entries = (1..=3).map(|sequence| (sequence, spending(sequence, 10 * sequence))).collect();
        let hash = script_hash(&[0x51]).unwrap();
        let mut scripts = Scripts::default();
        let spent = |scripts: &Scripts| scripts.totals(&hash, &entries).spent_confirmed;
        for (sequence, count, value) in [(1, 1, 10), (2, 2, 30), (3, 3, 60)] {
            scripts.add(&entries[&sequence], &entries);
            assert_eq!(spent(&scripts), Coins { count, value });
        }
        assert_eq!((scripts.single.len(), scripts.shared.len()), (0, 1));
        for (sequence, count, value) in [(2, 2, 40), (1, 1, 30), (3, 0, 0)] {
            scripts.remove(&[entries[&sequence].clone()]);
            assert_eq!(spent(&scripts), Coins { count, value });
        }
        assert_eq!((scripts.single.len(), scripts.shared.len()), (0, 0));
    }
}
