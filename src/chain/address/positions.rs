//! Where a text is wrong as an address: every position that is likely to be mistyped.
//!
//! The bech32 checksum is a code of distance 5 (BIP173): if up to two characters are replaced, exactly one choice of at
//! most two positions can have been. The code is linear, so no replacement has to be tried: the effect of a difference at
//! a position on the residue does not depend on the other characters. Three or more replaced characters have no positions,
//! or now and then wrong ones. The positions are those of Bitcoin Core (`LocateErrors` in `bech32.cpp`).
//!
//! As BIP173 advises, only positions are reported, never a correction.

use std::collections::BTreeSet;

use bitcoin::bech32::primitives::checksum::Engine;
use bitcoin::bech32::{Bech32, Bech32m, Checksum, Fe32, Hrp};

use super::error::{AddressEncoding, AddressError};
use super::form::{BASE58_ALPHABET, LONGEST_BECH32, LONGEST_TEXT, bech32_prefix, leading_space};

/// The differences that a replaced character can have from the right one.
const DIFFERENCES: usize = 31;

impl AddressError {
    /// All positions at which `text`, for which this is the error, is likely to be wrong: ascending, counted in characters
    /// from 0. Empty if they are not known, and for a text that is far too long.
    ///
    /// - a character that the encoding does not have: all such characters, and of bech32 those of mixed case
    /// - mixed case: all letters that are not in the case of the first
    /// - a bech32 text that is too long: the characters behind the longest
    /// - a bech32 text that is cut short: the separator, which has too little behind it
    /// - a bech32 checksum: the one or two characters whose replacement corrects it
    #[must_use]
    pub fn positions(&self, text: &str) -> Vec<usize> {
        if text.len() > LONGEST_TEXT {
            return Vec::new();
        }
        let prefix = bech32_prefix(text).map(|(prefix, _)| prefix.len());
        match (self, prefix) {
            (Self::Character { .. }, None) if leading_space(text).is_some() => {
                (0..text.chars().take_while(|character| character.is_whitespace()).count()).collect()
            }
            (Self::Character { encoding, .. }, _) => {
                let data_at = prefix.map_or(0, |prefix| prefix + 1);
                let of_case = prefix.into_iter().flat_map(|_| other_case(text));
                let foreign = |character: char| match encoding {
                    AddressEncoding::Base58 => !BASE58_ALPHABET.contains(character),
                    AddressEncoding::Bech32 => Fe32::from_char(character.to_ascii_lowercase()).is_err(),
                };
                let characters = text.chars().enumerate().skip(data_at);
                let wrong = characters.filter(|(_, character)| foreign(*character)).map(|(position, _)| position);
                wrong.chain(of_case).collect::<BTreeSet<_>>().into_iter().collect()
            }
            (Self::MixedCase { .. }, _) => other_case(text).collect(),
            (Self::TooLong { .. }, Some(_)) => (LONGEST_BECH32..text.len()).collect(),
            (Self::TooShort { .. }, Some(separator)) => vec![separator],
            (Self::Checksum { positions }, _) => positions.clone(),
            _ => self.position().into_iter().collect(),
        }
    }
}

/// The letters that are not in the case of the first.
pub(super) fn other_case(text: &str) -> impl Iterator<Item = usize> {
    let is_upper = text.chars().find(char::is_ascii_alphabetic).is_some_and(|first| first.is_ascii_uppercase());
    let letters = text.chars().enumerate().filter(|(_, character)| character.is_ascii_alphabetic());
    letters.filter(move |(_, letter)| letter.is_ascii_uppercase() != is_upper).map(|(position, _)| position)
}

/// The positions in `data` (the characters after the separator, 0 being the witness version) of the one or two characters
/// whose replacement corrects the checksum of either variant; of the variant that needs fewer. Empty if no replacement
/// does. The prefix is assumed to be right.
pub(super) fn mistyped(prefix: &str, data: &[Fe32]) -> Vec<usize> {
    let Some(residue) = residue(prefix, data) else { return Vec::new() };
    let effects = ResidueEffects::of(data.len());
    let variants = [Bech32::TARGET_RESIDUE, Bech32m::TARGET_RESIDUE].map(|target| effects.explain(residue ^ target));
    let found = variants.into_iter().filter(|positions| !positions.is_empty());
    found.min_by_key(Vec::len).unwrap_or_default()
}

/// What each difference at each position does to the residue.
struct ResidueEffects {
    /// The effects and their positions, ascending by effect.
    sorted: Vec<(u32, usize)>,
}

impl ResidueEffects {
    /// Of a text with so many characters of data.
    fn of(length: usize) -> Self {
        let mut sorted = Vec::with_capacity(length.saturating_mul(DIFFERENCES));
        let mut effects: [u32; DIFFERENCES] = std::array::from_fn(|index| (1..).nth(index).unwrap_or(0));
        for position in (0..length).rev() {
            sorted.extend(effects.map(|effect| (effect, position)));
            effects = effects.map(times_x);
        }
        sorted.sort_unstable();
        Self { sorted }
    }

    fn position(&self, effect: u32) -> Option<usize> {
        let found = self.sorted.binary_search_by_key(&effect, |(known, _)| *known).ok()?;
        self.sorted.get(found).map(|(_, position)| *position)
    }

    /// The one or two positions whose effects make up a difference of residues, ascending. Empty if none do.
    fn explain(&self, difference: u32) -> Vec<usize> {
        if let Some(position) = self.position(difference) {
            return vec![position];
        }
        let pair = self.sorted.iter().find_map(|(effect, one)| {
            let other = self.position(difference ^ effect)?;
            (*one != other).then(|| [*one.min(&other), *one.max(&other)])
        });
        pair.map(Vec::from).unwrap_or_default()
    }
}

fn residue(prefix: &str, data: &[Fe32]) -> Option<u32> {
    let mut engine = Engine::<Bech32>::new();
    engine.input_hrp(Hrp::parse(prefix).ok()?);
    for value in data {
        engine.input_fe(*value);
    }
    Some(*engine.residue())
}

/// A residue after one more character of value 0.
fn times_x(residue: u32) -> u32 {
    let (top, shifted) = (residue >> 25, (residue & 0x01ff_ffff) << 5);
    let generators = Bech32::GENERATOR_SH.into_iter().enumerate();
    generators.filter(|(bit, _)| top >> bit & 1 == 1).fold(shifted, |sum, (_, generator)| sum ^ generator)
}
