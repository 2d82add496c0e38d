//! What the mempool's transactions do to each script: who touches it, and what that adds up to.
//!
//! Most scripts are touched by one transaction only. Of these nothing but that transaction's number is kept, and their
//! totals are read from it when somebody asks; a script that several touch has its totals kept up to date, so that
//! asking never walks over its transactions.
//!
//! Outputs that nobody can ever spend belong to no script, as in the index.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::entry::{Entry, PrevoutSource, script_hash};

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

    fn take(&mut self, other: Coins) {
        self.count = self.count.saturating_sub(other.count);
        self.value = self.value.saturating_sub(other.value);
    }

    fn one(value: u64) -> Coins {
        Coins { count: 1, value }
    }
}

/// What the mempool does to one script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptTotals {
    /// Transactions with an output or a spent output of the script.
    pub transactions: u64,
    /// Outputs of the script that the mempool's transactions create, spent there or not.
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

    fn take(&mut self, other: &ScriptTotals) {
        self.transactions = self.transactions.saturating_sub(other.transactions);
        self.pending.take(other.pending);
        self.spent_confirmed.take(other.spent_confirmed);
        self.spent_unconfirmed.take(other.spent_unconfirmed);
    }
}

/// The first half of the SHA-256 of a script. Two scripts of the same half can be made with 2^64 hashes, but only
/// by somebody who thereby mixes up scripts of his own; to meet the half of another's script takes 2^128.
pub(super) type ScriptKey = [u8; 16];

/// What several transactions do to a script.
#[derive(Clone)]
struct Several {
    totals: ScriptTotals,
    sequences: OrdSet<u64>,
}

/// Every script that the mempool's transactions touch, in one of two maps.
#[derive(Clone, Default)]
pub(super) struct Scripts {
    /// Touched by one transaction: the number of its arrival.
    once: OrdMap<ScriptKey, u64>,
    /// Touched by two or more.
    often: OrdMap<ScriptKey, Arc<Several>>,
}

/// Transactions by number of arrival.
pub(super) type Entries = OrdMap<u64, Arc<Entry>>;

impl Scripts {
    /// Counts a transaction in. `entries` has at least all that were counted in before.
    pub(super) fn enter(&mut self, entry: &Entry, entries: &Entries) {
        for (key, share) in shares(entry) {
            if let Some(several) = self.often.get_mut(&key) {
                let several = Arc::make_mut(several);
                several.totals.add(&share);
                several.sequences.insert(entry.sequence);
            } else if let Some(first) = self.once.insert(key, entry.sequence) {
                self.once.remove(&key);
                let mut totals = entries.get(&first).map(|first| share_of(first, key)).unwrap_or_default();
                totals.add(&share);
                let sequences = [first, entry.sequence].into_iter().collect();
                self.often.insert(key, Arc::new(Several { totals, sequences }));
            }
        }
    }

    /// Counts transactions out again, just as they were counted in.
    pub(super) fn leave(&mut self, entries: &[Arc<Entry>]) {
        let of = |entry: &Arc<Entry>| {
            let sequence = entry.sequence;
            shares(entry).into_iter().map(move |(key, share)| (key, sequence, share))
        };
        let mut leaving: Vec<_> = entries.iter().flat_map(of).collect();
        leaving.sort_unstable_by_key(|(key, sequence, _)| (*key, *sequence));
        for (key, sequence, share) in leaving {
            let Some(several) = self.often.get_mut(&key) else {
                self.once.remove(&key);
                continue;
            };
            let several = Arc::make_mut(several);
            several.totals.take(&share);
            several.sequences.remove(&sequence);
            if let (1, Some(last)) = (several.sequences.len(), several.sequences.get_min().copied()) {
                self.often.remove(&key);
                self.once.insert(key, last);
            }
        }
    }

    pub(super) fn totals(&self, script_hash: &[u8; 32], entries: &Entries) -> ScriptTotals {
        let key = key_of(script_hash);
        if let Some(several) = self.often.get(&key) {
            return several.totals;
        }
        let once = self.once.get(&key).and_then(|sequence| entries.get(sequence));
        once.map(|entry| share_of(entry, key)).unwrap_or_default()
    }

    /// The scripts within a range that one transaction touches, and those that several do; each in order.
    pub(super) fn keys(
        &self,
        range: (Bound<ScriptKey>, Bound<ScriptKey>),
    ) -> (impl DoubleEndedIterator<Item = ScriptKey> + use<'_>, impl DoubleEndedIterator<Item = ScriptKey> + use<'_>)
    {
        let once = self.once.range(range).map(|(key, _)| *key);
        (once, self.often.range(range).map(|(key, _)| *key))
    }

    /// How many scripts there are.
    pub(super) fn len(&self) -> usize {
        self.once.len().saturating_add(self.often.len())
    }

    /// The number of the oldest transaction that touches a script.
    pub(super) fn first_of(&self, key: ScriptKey) -> Option<u64> {
        let often = || self.often.get(&key)?.sequences.get_min().copied();
        self.once.get(&key).copied().or_else(often)
    }

    /// The numbers within a range of the transactions that touch a script, the newest first.
    pub(super) fn sequences(
        &self,
        script_hash: &[u8; 32],
        within: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = u64> + use<'_> {
        let key = key_of(script_hash);
        // a range that ends before it begins holds nothing
        let within = within.start..within.end.max(within.start);
        let once = self.once.get(&key).copied().filter(|sequence| within.contains(sequence));
        let often = self.often.get(&key).into_iter();
        once.into_iter().chain(often.flat_map(move |several| several.sequences.range(within.clone()).rev().copied()))
    }
}

pub(super) fn key_of(script_hash: &[u8; 32]) -> ScriptKey {
    let (halves, _) = script_hash.as_chunks::<16>();
    halves.first().copied().unwrap_or_default()
}

/// What one transaction does to each script that it touches.
fn shares(entry: &Entry) -> BTreeMap<ScriptKey, ScriptTotals> {
    let mut shares = BTreeMap::new();
    for_each_touch(entry, |key, touch| {
        let share: &mut ScriptTotals = shares.entry(key).or_default();
        share.add(&touch);
        share.transactions = 1;
    });
    shares
}

/// What one transaction does to one script.
fn share_of(entry: &Entry, wanted: ScriptKey) -> ScriptTotals {
    let mut share = ScriptTotals { transactions: 1, ..ScriptTotals::default() };
    for_each_touch(entry, |key, touch| {
        if key == wanted {
            share.add(&touch);
        }
    });
    share
}

fn for_each_touch(entry: &Entry, mut touch: impl FnMut(ScriptKey, ScriptTotals)) {
    for prevout in &entry.prevouts {
        let Some(hash) = script_hash(prevout.script_pubkey) else { continue };
        let coin = Coins::one(prevout.value);
        touch(
            key_of(&hash),
            match prevout.source {
                PrevoutSource::Confirmed { .. } => ScriptTotals { spent_confirmed: coin, ..ScriptTotals::default() },
                PrevoutSource::Unconfirmed => ScriptTotals { spent_unconfirmed: coin, ..ScriptTotals::default() },
            },
        );
    }
    for output in entry.outputs() {
        let Some(hash) = script_hash(output.script_pubkey) else { continue };
        touch(key_of(&hash), ScriptTotals { pending: Coins::one(output.value), ..ScriptTotals::default() });
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
    fn nothing_is_left_of_a_script_that_nobody_touches_any_more() {
        let entries: Entries = (1..=3).map(|sequence| (sequence, spending(sequence, 10 * sequence))).collect();
        let hash = script_hash(&[0x51]).unwrap();
        let mut scripts = Scripts::default();
        let spent = |scripts: &Scripts| scripts.totals(&hash, &entries).spent_confirmed;
        for (sequence, count, value) in [(1, 1, 10), (2, 2, 30), (3, 3, 60)] {
            scripts.enter(&entries[&sequence], &entries);
            assert_eq!(spent(&scripts), Coins { count, value });
        }
        assert_eq!((scripts.once.len(), scripts.often.len()), (0, 1));
        for (sequence, count, value) in [(2, 2, 40), (1, 1, 30), (3, 0, 0)] {
            scripts.leave(&[entries[&sequence].clone()]);
            assert_eq!(spent(&scripts), Coins { count, value });
        }
        assert_eq!((scripts.once.len(), scripts.often.len()), (0, 0));
    }
}
