//! Iterates over all scripts that the mempool's transactions fund or spend, in an order that new transactions do not
//! change.

use std::ops::Bound;

use super::super::entry::{Entry, script_hash};
use super::super::snapshot::MempoolSnapshot;
use super::{ScriptPrefix, ScriptTotals, prefix_of};

/// The position of a script in the list: the first half of its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScriptPlace(pub [u8; 16]);

/// A script and its totals in the mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolScript {
    /// The scriptPubKey.
    pub script_pubkey: Box<[u8]>,
    /// Its totals in the mempool.
    pub totals: ScriptTotals,
}

impl MempoolSnapshot {
    /// The number of scripts that the mempool's transactions fund or spend.
    #[must_use]
    pub fn script_count(&self) -> usize {
        self.state().scripts.len()
    }

    /// The positions of all scripts, in ascending or descending order: those after `from` in that order, or all without
    /// it.
    pub fn script_places(&self, from: Option<ScriptPlace>, ascending: bool) -> impl Iterator<Item = ScriptPlace> {
        let from = from.map_or(Bound::Unbounded, |ScriptPlace(key)| Bound::Excluded(key));
        let range = if ascending { (from, Bound::Unbounded) } else { (Bound::Unbounded, from) };
        let (once, often) = self.state().scripts.keys(range);
        let (once, often) = (directed(once, ascending), directed(often, ascending));
        merged(once, often, ascending).map(ScriptPlace)
    }

    /// A transaction that funds or spends the script at this position: [`script_at`](Self::script_at) reads it.
    #[must_use]
    pub fn entry_with_script(&self, place: ScriptPlace) -> Option<&Entry> {
        let sequence = self.state().scripts.first_of(place.0)?;
        self.by_sequence(sequence).map(AsRef::as_ref)
    }

    /// The script at this position.
    #[must_use]
    pub fn script_at(&self, place: ScriptPlace) -> Option<MempoolScript> {
        let entry = self.entry_with_script(place)?;
        let is_wanted = |script: &&[u8]| script_hash(script).is_some_and(|hash| prefix_of(&hash) == place.0);
        let spent = entry.prevouts.iter().map(|prevout| prevout.script_pubkey);
        let script_pubkey = spent.chain(entry.outputs().map(|output| output.script_pubkey)).find(is_wanted)?;
        let totals = self.script_totals(&script_hash(script_pubkey)?);
        Some(MempoolScript { script_pubkey: script_pubkey.into(), totals })
    }
}

fn directed<'m>(
    keys: impl DoubleEndedIterator<Item = ScriptPrefix> + 'm,
    ascending: bool,
) -> Box<dyn Iterator<Item = ScriptPrefix> + 'm> {
    if ascending { Box::new(keys) } else { Box::new(keys.rev()) }
}

/// Merges two iterators that are sorted in the given direction.
fn merged<T: Copy + Ord>(
    one: impl Iterator<Item = T>,
    other: impl Iterator<Item = T>,
    ascending: bool,
) -> impl Iterator<Item = T> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if (first < second) == ascending => one.next(),
        (Some(_), None) => one.next(),
        _ => other.next(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merged_iterators_stay_sorted(all in prop::collection::btree_map(any::<u16>(), any::<bool>(), 0..40)) {
            let of = |which: bool| all.iter().filter(move |(_, kind)| **kind == which).map(|(key, _)| *key);
            let keys: BTreeSet<u16> = all.keys().copied().collect();
            prop_assert!(merged(of(true), of(false), true).eq(keys.iter().copied()));
            prop_assert!(merged(of(true).rev(), of(false).rev(), false).eq(keys.iter().copied().rev()));
        }
    }
}
