//! The next change of the difficulty, estimated from the blocks of an epoch so far.
//!
//! The rule is Core's `CalculateNextWorkRequired` (`pow.cpp`). It measures from the first block of an epoch to its last,
//! by the times of their headers: 2,015 intervals for 2,016 blocks. Before the last block the result is an estimate,
//! which assumes that the remaining blocks arrive as fast as those so far.

use bitcoin::{CompactTarget, Network};

use super::epoch::BLOCKS_PER_EPOCH;
use super::{difficulty, target};

/// The interval between two blocks that the difficulty aims at, in seconds.
pub const SECONDS_PER_BLOCK: u32 = 600;

/// The blocks of an epoch so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochSoFar {
    /// The network, whose easiest target is a limit.
    pub network: Network,
    /// How many blocks there are, 1 to 2,016.
    pub blocks: u32,
    /// The `bits` of the first.
    pub first_bits: CompactTarget,
    /// The time in the header of the first, in seconds since 1970.
    pub first_time: u32,
    /// The time in the header of block 1, if the epoch is the first and has it. The pace is measured from there, because the
    /// time of the genesis block can be years before the next block.
    pub second_time: Option<u32>,
    /// The `bits` of the last so far.
    pub last_bits: CompactTarget,
    /// The time in the header of the last so far, in seconds since 1970.
    pub last_time: u32,
}

impl EpochSoFar {
    /// Seconds from the first block to the last so far. Headers need not be in the order of their times, so it can be
    /// negative.
    #[must_use]
    pub fn seconds(&self) -> i64 {
        i64::from(self.last_time) - i64::from(self.first_time)
    }

    /// Seconds and intervals between the first mined block and the last so far; `None` if there is only one, or no time
    /// between them.
    #[must_use]
    pub fn measured(&self) -> Option<(u32, u32)> {
        let (from, before) = self.second_time.map_or((self.first_time, 1), |time| (time, 2));
        let (seconds, intervals) = (self.last_time.checked_sub(from)?, self.blocks.checked_sub(before)?);
        (seconds > 0 && intervals > 0).then_some((seconds, intervals))
    }

    /// How many blocks there would be by now at the pace that the difficulty aims at. `None` where
    /// [`measured`](Self::measured) is.
    #[must_use]
    pub fn expected_blocks(&self) -> Option<f64> {
        let (seconds, intervals) = self.measured()?;
        Some(f64::from(self.blocks - intervals) + f64::from(seconds) / f64::from(SECONDS_PER_BLOCK))
    }

    /// How many blocks of the epoch remain.
    #[must_use]
    pub fn left(&self) -> u32 {
        BLOCKS_PER_EPOCH.saturating_sub(self.blocks)
    }

    /// The estimated time of the first block of the next epoch, in seconds since 1970, at the pace of the blocks so
    /// far. `None` where [`measured`](Self::measured) is, and beyond the last time that a header can have.
    #[must_use]
    pub fn next_epoch_at(&self) -> Option<u32> {
        let (seconds, intervals) = self.measured()?;
        time_ahead(self.last_time, (seconds, intervals), self.left() + 1)
    }

    /// The estimated `bits` of the next epoch at the pace of the blocks so far; exact if the epoch is complete. `None`
    /// if it is not complete and [`measured`](Self::measured) is `None`.
    #[must_use]
    pub fn next_bits(&self) -> Option<CompactTarget> {
        if self.left() == 0 {
            return Some(retarget(self.network, self.base(), self.seconds()));
        }
        let (seconds, intervals) = self.measured()?;
        // the rule measures from the first block of the epoch, the genesis block included
        let ahead = i64::from(seconds) * i64::from(self.left()) / i64::from(intervals);
        Some(retarget(self.network, self.base(), self.seconds() + ahead))
    }

    /// How much [`next_bits`](Self::next_bits) changes the difficulty of this epoch, as a fraction: 0.05 is 5 % harder.
    #[must_use]
    pub fn next_change(&self) -> Option<f64> {
        if is_constant(self.network) {
            return Some(0.0);
        }
        self.next_bits().map(|bits| change(self.first_bits, bits))
    }

    /// The `bits` that are adjusted: those of the last block, or, on testnet4, of the first (BIP94). The last block of an
    /// epoch may be one of those that testnets allow to be easy; before it arrives, it is assumed to be like the first.
    fn base(&self) -> CompactTarget {
        if self.network == Network::Testnet4 || self.left() > 0 { self.first_bits } else { self.last_bits }
    }
}

/// The time of the block that is so many blocks after one of this time, in seconds since 1970, at a pace of so many seconds in
/// so many intervals. `None` if either is 0, and beyond the last time that a header can have.
#[must_use]
pub fn time_ahead(from: u32, (seconds, intervals): (u32, u32), blocks: u32) -> Option<u32> {
    if seconds == 0 {
        return None;
    }
    let ahead = (u64::from(seconds) * u64::from(blocks)).checked_div(intervals.into())?;
    u32::try_from(u64::from(from).checked_add(ahead)?).ok()
}

/// Whether the difficulty of a network never changes.
#[must_use]
pub fn is_constant(network: Network) -> bool {
    network.params().no_pow_retargeting
}

/// How much harder the second is than the first, as a fraction.
#[must_use]
pub fn change(from: CompactTarget, to: CompactTarget) -> f64 {
    difficulty(to) / difficulty(from) - 1.0
}

/// The `bits` after an epoch that took this many seconds from its first block to its last. They change by a factor of 4
/// at most, and never beyond the easiest of the network.
fn retarget(network: Network, bits: CompactTarget, seconds: i64) -> CompactTarget {
    let params = network.params();
    // no header has bits beyond that, and the multiplication would overflow
    if target(bits).is_none_or(|target| target > params.max_attainable_target) {
        return bits;
    }
    CompactTarget::from_next_work_required(bits, u64::try_from(seconds).unwrap_or(0), params)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(network: Network, first_time: u32, last_time: u32, bits: u32) -> EpochSoFar {
        let bits = CompactTarget::from_consensus(bits);
        let blocks = BLOCKS_PER_EPOCH;
        EpochSoFar { network, blocks, first_bits: bits, first_time, second_time: None, last_bits: bits, last_time }
    }

    #[test]
    fn a_whole_epoch_gives_what_cores_own_tests_expect() {
        // pow_tests.cpp: get_next_work, _pow_limit, _lower_limit_actual, _upper_limit_actual
        for (first_time, last_time, bits, next) in [
            (1_261_130_161, 1_262_152_739, 0x1d00_ffff, 0x1d00_d86a),
            (1_231_006_505, 1_233_061_996, 0x1d00_ffff, 0x1d00_ffff),
            (1_279_008_237, 1_279_297_671, 0x1c05_a3f4, 0x1c01_68fd),
            (1_263_163_443, 1_269_211_443, 0x1c38_7f6f, 0x1d00_e1fd),
        ] {
            let epoch = whole(Network::Bitcoin, first_time, last_time, bits);
            assert_eq!(epoch.next_bits(), Some(CompactTarget::from_consensus(next)), "{bits:08x}");
        }
    }

    #[test]
    fn times_that_run_backwards_count_as_the_shortest_timespan() {
        let (backwards, short) =
            (whole(Network::Bitcoin, 2_000, 1_000, 0x1c05_a3f4), whole(Network::Bitcoin, 1_000, 2_000, 0x1c05_a3f4));
        assert_eq!(backwards.next_bits(), short.next_bits());
        assert!((backwards.next_change().unwrap() - 3.0).abs() < 1e-4, "four times as hard, but for rounding");
        assert_eq!((backwards.seconds(), backwards.measured()), (-1_000, None));
    }

    #[test]
    fn an_incomplete_epoch_is_measured_by_its_intervals() {
        let bits = CompactTarget::from_consensus(0x1c05_a3f4);
        let so_far = |blocks, last_time| EpochSoFar {
            network: Network::Bitcoin,
            blocks,
            first_bits: bits,
            first_time: 1_000_000,
            second_time: None,
            last_bits: bits,
            last_time,
        };
        // nine intervals at twice the pace, in 2,015 of which the clock is one interval short of two weeks
        let epoch = so_far(10, 1_000_000 + 9 * 300);
        let expected = 2.0 * 2_016.0 / 2_015.0 - 1.0;
        assert!((epoch.next_change().unwrap() - expected).abs() < 1e-4, "{:?}", epoch.next_change());
        assert_eq!(epoch.left(), 2_006);
        assert_eq!(epoch.next_epoch_at(), Some(1_000_000 + 9 * 300 + 2_007 * 300));

        for unmeasured in [so_far(1, 1_000_000), so_far(2, 1_000_000), so_far(2, 999_999)] {
            assert_eq!((unmeasured.next_change(), unmeasured.next_epoch_at()), (None, None), "{unmeasured:?}");
            assert_eq!(unmeasured.expected_blocks(), None, "{unmeasured:?}");
        }
    }

    #[test]
    fn the_genesis_block_says_nothing_of_the_pace() {
        let bits = CompactTarget::from_consensus(0x1d00_ffff);
        // years after the genesis block, ten blocks every five minutes
        let first_time = 1_296_688_602;
        let epoch = EpochSoFar {
            network: Network::Bitcoin,
            blocks: 11,
            first_bits: bits,
            first_time,
            second_time: Some(1_700_000_000),
            last_bits: bits,
            last_time: 1_700_000_000 + 9 * 300,
        };
        assert_eq!(epoch.measured(), Some((2_700, 9)));
        assert_eq!(epoch.expected_blocks(), Some(2.0 + 4.5));
        assert_eq!(epoch.next_epoch_at(), Some(1_700_000_000 + 2_700 + 2_006 * 300));
        // the rule counts those years, and the difficulty cannot fall below the easiest
        assert_eq!(epoch.next_bits(), Some(bits));
        let only_one = EpochSoFar { blocks: 2, last_time: 1_700_000_000, ..epoch };
        assert_eq!((only_one.measured(), only_one.next_epoch_at()), (None, None));
    }

    #[test]
    fn an_epoch_that_ends_beyond_all_header_times_has_no_end() {
        let bits = CompactTarget::from_consensus(0x1d00_ffff);
        let epoch = EpochSoFar { blocks: 2, ..whole(Network::Bitcoin, 0, u32::MAX / 2, bits.to_consensus()) };
        assert_eq!((epoch.measured(), epoch.next_epoch_at()), (Some((u32::MAX / 2, 1)), None));
    }

    #[test]
    fn regtest_never_changes() {
        let epoch = whole(Network::Regtest, 1_000, 2_000, 0x207f_ffff);
        assert_eq!((epoch.next_bits(), epoch.next_change()), (Some(epoch.first_bits), Some(0.0)));
        assert!(!is_constant(Network::Bitcoin) && !is_constant(Network::Testnet4) && !is_constant(Network::Signet));
    }

    #[test]
    fn testnet4_adjusts_the_first_bits_and_testnet3_the_last() {
        let next = |network| {
            let easy = CompactTarget::from_consensus(0x1d00_ffff);
            let two_weeks = 2_016 * SECONDS_PER_BLOCK;
            let epoch = EpochSoFar { last_bits: easy, ..whole(network, 1_000, 1_000 + two_weeks, 0x1c05_a3f4) };
            epoch.next_bits().map(CompactTarget::to_consensus)
        };
        assert_eq!(next(Network::Testnet4), Some(0x1c05_a3f4));
        assert_eq!(next(Network::Testnet), Some(0x1d00_ffff));
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(
            blocks in 1..=BLOCKS_PER_EPOCH, first_bits: u32, last_bits: u32,
            first_time: u32, second_time: Option<u32>, last_time: u32, at in 0..5_usize,
        ) {
            let (first_bits, last_bits) =
                (CompactTarget::from_consensus(first_bits), CompactTarget::from_consensus(last_bits));
            let network = crate::chain::network::ALL[at];
            let epoch = EpochSoFar { network, blocks, first_bits, first_time, second_time, last_bits, last_time };
            let _ = epoch.next_change();
            prop_assert!(epoch.next_epoch_at().is_none_or(|at| at > last_time));
        }
    }
}
