//! Finding the mistyped character of a bech32 address.
//!
//! The checksum is a code of distance 5 (BIP173): if one character is replaced, a replacement corrects the checksum at
//! exactly one position. The code is linear, so no replacement has to be tried: the effect of a difference `e` at a
//! position on the residue does not depend on the other characters.
//!
//! As BIP173 advises, only the position is reported, never a correction.

use bitcoin::bech32::primitives::checksum::Engine;
use bitcoin::bech32::{Bech32, Bech32m, Checksum, Fe32, Hrp};

/// The position in `data` (the characters after the separator, 0 being the witness version) of the one character whose
/// replacement gives a valid address, `None` if no single replacement does. The prefix is assumed to be right.
pub(super) fn locate(prefix: &str, data: &[Fe32]) -> Option<usize> {
    let residue = residue(prefix, data)?;
    let version = data.first()?.to_u8();
    // the effect of each difference on the residue, beginning at the last position
    let mut effects: [u32; 31] = std::array::from_fn(|index| (1..).nth(index).unwrap_or(0));
    for place in (0..data.len()).rev() {
        for (difference, effect) in (1_u8..).zip(&mut effects) {
            let mended_version = if place == 0 { version ^ difference } else { version };
            let target = if mended_version == 0 { Bech32::TARGET_RESIDUE } else { Bech32m::TARGET_RESIDUE };
            if residue ^ *effect == target {
                return Some(place);
            }
            *effect = times_x(*effect);
        }
    }
    None
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
