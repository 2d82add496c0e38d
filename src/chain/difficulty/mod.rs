//! Proof of work in numbers: the target that a header's `bits` stand for, the difficulty, and work.
//!
//! Nothing is validated here: the node checks whether a block meets its target. Retarget borders are in `epoch`.

pub(in crate::chain) mod epoch;
pub mod retarget;

use bitcoin::{CompactTarget, Target, Work};

use super::float;

/// The sign bit of the compact form. A target with it is negative, or zero.
const SIGN: u32 = 0x0080_0000;

/// The target that `bits` stand for, `None` if they stand for none: negative, zero, or above 256 bits. No valid
/// header has such bits (Core `CheckProofOfWork`, `arith_uint256::SetCompact`).
#[must_use]
pub fn target(bits: CompactTarget) -> Option<Target> {
    let compact = bits.to_consensus();
    let (exponent, mantissa) = (compact >> 24, compact & 0x00ff_ffff);
    let overflows = match mantissa {
        0 => false,
        0x01..=0xff => exponent > 34,
        0x100..=0xffff => exponent > 33,
        _ => exponent > 32,
    };
    if overflows || mantissa & SIGN != 0 {
        return None;
    }
    Some(Target::from_compact(bits)).filter(|target| *target != Target::ZERO)
}

/// The difficulty: how much harder than the easiest mainnet target (`bits` 0x1d00ffff) it is to meet these `bits`.
/// Computed step by step as Core's `GetDifficulty` (`rpc/blockchain.cpp`) does, so that the last digit agrees.
///
/// Below 1 where the network allows easier targets (regtest, signet). Infinite for a mantissa of zero, which no
/// valid header has.
#[must_use]
pub fn difficulty(bits: CompactTarget) -> f64 {
    const EASIEST_EXPONENT: u32 = 29;
    let compact = bits.to_consensus();
    let (exponent, mantissa) = (compact >> 24, compact & 0x00ff_ffff);
    let mut difficulty = f64::from(0x0000_ffff_u32) / f64::from(mantissa);
    for _ in exponent..EASIEST_EXPONENT {
        difficulty *= 256.0;
    }
    for _ in EASIEST_EXPONENT..exponent {
        difficulty /= 256.0;
    }
    difficulty
}

/// The work of a block with these `bits`: the expected number of hashes to find one, `2^256 / (target + 1)`
/// (Core `GetBlockProof`, `chain.cpp`). Zero where [`target`] is `None`.
///
/// Nodes show it and the index stores it as a 32-byte big-endian number: [`Work::to_be_bytes`].
#[must_use]
pub fn work(bits: CompactTarget) -> Work {
    target(bits).map_or_else(no_work, Target::to_work)
}

/// The work of a chain without blocks.
#[must_use]
pub fn no_work() -> Work {
    Work::from_be_bytes([0; 32])
}

/// The work of a chain after one more block, `None` on an overflow of 256 bits.
#[must_use]
pub fn add_work(chainwork: Work, block: Work) -> Option<Work> {
    let room = Work::from_be_bytes([0xff; 32]) - chainwork;
    (block <= room).then(|| chainwork + block)
}

/// The work between two states of one chain, `None` if the later one has less of it.
#[must_use]
pub fn work_between(earlier: Work, later: Work) -> Option<Work> {
    (earlier <= later).then(|| later - earlier)
}

/// Work as a number of hashes.
#[must_use]
pub fn hashes(work: Work) -> f64 {
    float::from_bytes(&work.to_be_bytes())
}

/// The sum of the [`difficulty`] of blocks with this much [`work`] together: the work by that of the easiest mainnet
/// target. The work of each block is a whole number, so the sum is off by less than 2^-32 a block.
#[must_use]
pub fn difficulty_of_work(work: Work) -> f64 {
    // the easiest target is 0xffff × 2^208, and a work is 2^256 by the target
    const TWO_POW_48: f64 = 281_474_976_710_656.0;
    hashes(work) * 65_535.0 / TWO_POW_48
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::test_data::shared_data;

    fn bits(compact: u32) -> CompactTarget {
        CompactTarget::from_consensus(compact)
    }

    fn number(low: u128) -> Work {
        let mut bytes = [0; 32];
        bytes[16..].copy_from_slice(&low.to_be_bytes());
        Work::from_be_bytes(bytes)
    }

    #[test]
    fn bits_stand_for_a_target() {
        for (compact, hex) in [
            (0x1d00_ffff, "00000000ffff0000000000000000000000000000000000000000000000000000"),
            (0x1e03_77ae, "00000377ae000000000000000000000000000000000000000000000000000000"),
            (0x207f_ffff, "7fffff0000000000000000000000000000000000000000000000000000000000"),
            (0x0112_3456, "0000000000000000000000000000000000000000000000000000000000000012"),
            (0x2200_00ff, "ff00000000000000000000000000000000000000000000000000000000000000"),
        ] {
            assert_eq!(target(bits(compact)).map(|target| format!("{target:064x}")).as_deref(), Some(hex));
        }
    }

    #[test]
    fn negative_zero_and_oversized_bits_stand_for_none() {
        for compact in [
            0,
            0x0012_3456,
            0x0100_3456,
            0x0200_0056,
            0x0492_3456,
            0x01fe_dcba,
            0x0180_3456,
            0x0480_0000,
            0xff12_3456,
            0x2101_0000,
            0x2200_0100,
            0x2300_0001,
            0xffff_ffff,
        ] {
            assert_eq!(target(bits(compact)), None, "{compact:08x}");
            assert_eq!(work(bits(compact)), no_work(), "{compact:08x}");
        }
    }

    #[test]
    fn difficulty_is_relative_to_the_easiest_mainnet_target() {
        // the figures that nodes show, to the last digit
        for (compact, shown) in [
            (0x1d00_ffff, "1.0"),
            (0x1b04_04cb, "16307.420938523983"),
            (0x1a04_e0ea, "3438908.9601591383"),
            (0x1708_f9ae, "31360548173144.85"),
            (0x1e03_77ae, "0.001126515290698186"),
            (0x207f_ffff, "4.6565423739069247e-10"),
            (0x1d00_0000, "inf"),
        ] {
            assert_eq!(format!("{:?}", difficulty(bits(compact))), shown, "{compact:08x}");
        }
    }

    #[test]
    fn difficulty_agrees_with_cores_own_test_of_it() {
        for (compact, expected) in [
            (0x1f11_1111, 0.000_001),
            (0x1ef8_8f6f, 0.000_016),
            (0x1df8_8f6f, 0.004_023),
            (0x1cf8_8f6f, 1.029_916),
            (0x1234_5678, 5_913_134_931_067_755_359_633_408.0),
        ] {
            let difficulty = difficulty(bits(compact));
            assert!((difficulty - expected).abs() <= 0.000_001, "{compact:08x}: {difficulty}");
        }
    }

    #[test]
    fn work_is_the_expected_number_of_hashes() {
        assert_eq!(work(bits(0x207f_ffff)), number(2));
        assert_eq!(work(bits(0x1d00_ffff)), number(0x1_0001_0001));
        assert_eq!(format!("{:064x}", work(bits(0x1d00_ffff))), format!("{:064x}", 0x1_0001_0001_u64));
    }

    #[test]
    fn chainwork_grows_by_the_work_of_each_real_block() {
        for name in shared_data::FULL_BLOCKS {
            let Some(block) = shared_data::full_block(name, "chainwork_grows_by_the_work_of_each_real_block") else {
                return;
            };
            let after = add_work(number(block.chainwork_before), work(block.header.bits));
            assert_eq!(after, Some(number(block.chainwork)), "in {name}");
        }
    }

    #[test]
    fn difficulties_are_summed_by_their_work() {
        for compact in [0x1d00_ffff, 0x1b04_04cb, 0x1708_f9ae] {
            let (one, by_work) = (difficulty(bits(compact)), difficulty_of_work(work(bits(compact))));
            assert!((by_work / one - 1.0).abs() < 1e-9, "{compact:08x}: {by_work} for {one}");
        }
        let (easy, hard) = (work(bits(0x1d00_ffff)), work(bits(0x1b04_04cb)));
        let sum = difficulty_of_work(add_work(easy, hard).unwrap());
        assert!((sum - 16_308.420_938_523_983).abs() < 1e-6, "{sum}");
        assert_eq!(work_between(easy, add_work(easy, hard).unwrap()), Some(hard));
        assert_eq!(work_between(hard, easy), None);
        assert!((hashes(easy) - 4_295_032_833.0).abs() < f64::EPSILON);
    }

    #[test]
    fn chainwork_never_wraps_around() {
        let most = Work::from_be_bytes([0xff; 32]);
        assert_eq!(add_work(most, no_work()), Some(most));
        assert_eq!(add_work(no_work(), most), Some(most));
        assert_eq!(add_work(most, number(1)), None);
        assert_eq!(add_work(most, most), None);
    }

    proptest! {
        #[test]
        fn no_bits_make_it_panic(compact: u32) {
            let _ = difficulty(bits(compact));
            prop_assert_eq!(work(bits(compact)) == no_work(), target(bits(compact)).is_none());
        }

        #[test]
        fn small_work_adds_like_numbers(one in any::<u64>(), other in any::<u64>()) {
            let sum = u128::from(one) + u128::from(other);
            prop_assert_eq!(add_work(number(one.into()), number(other.into())), Some(number(sum)));
        }
    }
}
