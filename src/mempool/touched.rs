//! Walks over all scripts that the mempool's transactions touch, in an order that no transaction changes.

use std::ops::Bound;

use super::entry::{Entry, script_hash};
use super::scripts::{ScriptKey, ScriptTotals, key_of};
use super::snapshot::MempoolSnapshot;

/// Where a script stands among those that the mempool touches: by the first half of its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScriptPlace(pub [u8; 16]);

/// A script and what the mempool does to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedScript {
    /// The scriptPubKey.
    pub script_pubkey: Box<[u8]>,
    /// What the mempool does to it.
    pub totals: ScriptTotals,
}

impl MempoolSnapshot {
    /// How many scripts the mempool touches.
    #[must_use]
    pub fn touched_len(&self) -> usize {
        self.state().scripts.len()
    }

    /// The scripts that the mempool touches and that stand behind a place, or in front of it if the order is not
    /// ascending; all of them without a place.
    pub fn touched(&self, from: Option<ScriptPlace>, ascending: bool) -> impl Iterator<Item = ScriptPlace> {
        let from = from.map_or(Bound::Unbounded, |ScriptPlace(key)| Bound::Excluded(key));
        let range = if ascending { (from, Bound::Unbounded) } else { (Bound::Unbounded, from) };
        let (once, often) = self.state().scripts.keys(range);
        let (once, often) = (directed(once, ascending), directed(often, ascending));
        merged(once, often, ascending).map(ScriptPlace)
    }

    /// One of the transactions that touch the script at a place: whoever asks for the script reads it.
    #[must_use]
    pub fn toucher(&self, place: ScriptPlace) -> Option<&Entry> {
        let sequence = self.state().scripts.first_of(place.0)?;
        self.by_sequence(sequence).map(AsRef::as_ref)
    }

    /// The script at a place.
    #[must_use]
    pub fn touched_script(&self, place: ScriptPlace) -> Option<TouchedScript> {
        let entry = self.toucher(place)?;
        let is_wanted = |script: &&[u8]| script_hash(script).is_some_and(|hash| key_of(&hash) == place.0);
        let spent = entry.prevouts.iter().map(|prevout| prevout.script_pubkey);
        let script_pubkey = spent.chain(entry.outputs().map(|output| output.script_pubkey)).find(is_wanted)?;
        let totals = self.script_totals(&script_hash(script_pubkey)?);
        Some(TouchedScript { script_pubkey: script_pubkey.into(), totals })
    }
}

fn directed<'m>(
    keys: impl DoubleEndedIterator<Item = ScriptKey> + 'm,
    ascending: bool,
) -> Box<dyn Iterator<Item = ScriptKey> + 'm> {
    if ascending { Box::new(keys) } else { Box::new(keys.rev()) }
}

/// Both in one order; each is in it.
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
        fn two_orders_become_one(all in prop::collection::btree_map(any::<u16>(), any::<bool>(), 0..40)) {
            let of = |which: bool| all.iter().filter(move |(_, kind)| **kind == which).map(|(key, _)| *key);
            let keys: BTreeSet<u16> = all.keys().copied().collect();
            prop_assert!(merged(of(true), of(false), true).eq(keys.iter().copied()));
            prop_assert!(merged(of(true).rev(), of(false).rev(), false).eq(keys.iter().copied().rev()));
        }
    }
}
