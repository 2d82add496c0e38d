//! The outputs that a transaction spends, packed into one allocation.
//!
//! ```text
//!   for each, in the order of the inputs:   amount ‖ source ‖ length ‖ scriptPubKey
//! ```
//!
//! Amount, source and length are CompactSizes. A full mempool has some 700,000 prevouts; one allocation for each and one
//! for its script would take nearly twice the memory.

use bitcoin::consensus::{Decodable, Encodable};
use bitcoin::{Amount, ScriptBuf, TxOut, VarInt};

use crate::chain::{Height, wide};

/// Where a spent output was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrevoutSource {
    /// In a block of the active chain.
    Confirmed {
        /// The height of that block.
        height: Height,
        /// Whether the transaction is that block's coinbase.
        coinbase: bool,
    },
    /// In a transaction of the mempool.
    Unconfirmed,
}

/// A spent output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prevout {
    /// Its amount in sat.
    pub value: u64,
    /// Its scriptPubKey.
    pub script_pubkey: Box<[u8]>,
    /// Where it was created.
    pub source: PrevoutSource,
}

/// The outputs that a transaction spends, in the order of its inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prevouts {
    packed: Box<[u8]>,
}

/// A spent output, borrowed from [`Prevouts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrevoutRef<'a> {
    /// Its amount in sat.
    pub value: u64,
    /// Its scriptPubKey.
    pub script_pubkey: &'a [u8],
    /// Where it was created.
    pub source: PrevoutSource,
}

impl PrevoutRef<'_> {
    /// In the form of the library.
    pub(super) fn to_output(self) -> TxOut {
        TxOut { value: Amount::from_sat(self.value), script_pubkey: ScriptBuf::from_bytes(self.script_pubkey.to_vec()) }
    }
}

impl Prevouts {
    /// The outputs in order.
    #[must_use]
    pub fn iter(&self) -> PrevoutsIter<'_> {
        PrevoutsIter { left: &self.packed }
    }

    /// Replaces the source of each output.
    pub(super) fn with_sources(&self, sources: impl Iterator<Item = PrevoutSource>) -> Self {
        self.iter().zip(sources).map(|(prevout, source)| PrevoutRef { source, ..prevout }).collect()
    }
}

impl<'a, P: Into<PrevoutRef<'a>>> FromIterator<P> for Prevouts {
    fn from_iter<I: IntoIterator<Item = P>>(prevouts: I) -> Self {
        let mut packed = Vec::new();
        for PrevoutRef { value, script_pubkey, source } in prevouts.into_iter().map(Into::into) {
            for number in [value, number_of(source), wide(script_pubkey.len())] {
                // a write to a Vec does not fail
                let _ = VarInt(number).consensus_encode(&mut packed);
            }
            packed.extend_from_slice(script_pubkey);
        }
        // a copy without spare capacity
        Self { packed: packed.as_slice().into() }
    }
}

impl<'a> From<&'a Prevout> for PrevoutRef<'a> {
    fn from(Prevout { value, script_pubkey, source }: &'a Prevout) -> Self {
        Self { value: *value, script_pubkey, source: *source }
    }
}

impl From<PrevoutRef<'_>> for Prevout {
    fn from(PrevoutRef { value, script_pubkey, source }: PrevoutRef<'_>) -> Self {
        Self { value, script_pubkey: script_pubkey.into(), source }
    }
}

impl<'a> IntoIterator for &'a Prevouts {
    type Item = PrevoutRef<'a>;
    type IntoIter = PrevoutsIter<'a>;

    fn into_iter(self) -> PrevoutsIter<'a> {
        self.iter()
    }
}

/// An iterator over [`Prevouts`].
#[derive(Clone, Debug)]
pub struct PrevoutsIter<'a> {
    left: &'a [u8],
}

impl<'a> Iterator for PrevoutsIter<'a> {
    type Item = PrevoutRef<'a>;

    fn next(&mut self) -> Option<PrevoutRef<'a>> {
        // only valid encodings are packed: a read fails at the end only
        let mut number = || VarInt::consensus_decode(&mut self.left).ok().map(|VarInt(number)| number);
        let (value, source, length) = (number()?, number()?, number()?);
        let (script_pubkey, left) = self.left.split_at_checked(usize::try_from(length).ok()?)?;
        self.left = left;
        Some(PrevoutRef { value, script_pubkey, source: source_of(source) })
    }
}

/// 0 for unconfirmed, else 1 + twice the height, plus one for a coinbase.
pub(super) fn number_of(source: PrevoutSource) -> u64 {
    match source {
        PrevoutSource::Unconfirmed => 0,
        PrevoutSource::Confirmed { height, coinbase } => 1 + 2 * u64::from(height.to_u32()) + u64::from(coinbase),
    }
}

pub(super) fn source_of(number: u64) -> PrevoutSource {
    let Some(confirmed) = number.checked_sub(1) else { return PrevoutSource::Unconfirmed };
    let height = Height::from(u32::try_from(confirmed / 2).unwrap_or(u32::MAX));
    PrevoutSource::Confirmed { height, coinbase: confirmed % 2 == 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source() -> impl Strategy<Value = PrevoutSource> {
        let confirmed = |(height, coinbase): (u32, bool)| PrevoutSource::Confirmed { height: height.into(), coinbase };
        prop_oneof![Just(PrevoutSource::Unconfirmed), any::<(u32, bool)>().prop_map(confirmed)]
    }

    fn prevout() -> impl Strategy<Value = Prevout> {
        let script = prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..40), 1 => Just(vec![7; 70_000])];
        let value = prop_oneof![any::<u64>(), 0_u64..1_000_000];
        (value, script, source()).prop_map(|(value, script, source)| Prevout {
            value,
            script_pubkey: script.into(),
            source,
        })
    }

    fn owned(prevouts: &Prevouts) -> Vec<Prevout> {
        prevouts.iter().map(Into::into).collect()
    }

    proptest! {
        #[test]
        fn packed_prevouts_are_read_back_unchanged(prevouts in prop::collection::vec(prevout(), 0..8)) {
            prop_assert_eq!(owned(&prevouts.iter().collect()), prevouts);
        }

        #[test]
        fn replacing_sources_changes_nothing_else(prevouts in prop::collection::vec((prevout(), source()), 0..8)) {
            let (mut prevouts, sources): (Vec<_>, Vec<_>) = prevouts.into_iter().unzip();
            let changed = prevouts.iter().collect::<Prevouts>().with_sources(sources.iter().copied());
            for (prevout, source) in prevouts.iter_mut().zip(sources) {
                prevout.source = source;
            }
            prop_assert_eq!(owned(&changed), prevouts);
        }
    }
}
