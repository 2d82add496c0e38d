//! Difficulty epochs: the runs of 2,016 blocks between two retargets.
//!
//! The rule is Core's `GetNextWorkRequired` (`pow.cpp`): the first block of an epoch may have new `bits`, the others
//! keep them, except for the easy blocks that testnets allow. Regtest never retargets; its epochs are counted alike.

use super::super::Height;

/// Blocks in a difficulty epoch.
pub const BLOCKS_PER_EPOCH: u32 = 2_016;

/// A difficulty epoch by its number, counted from 0 at genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DifficultyEpoch(u32);

impl DifficultyEpoch {
    /// The epoch that the block at this height belongs to.
    #[must_use]
    pub const fn of(height: Height) -> DifficultyEpoch {
        DifficultyEpoch(height.to_u32() / BLOCKS_PER_EPOCH)
    }

    /// Epochs before this one.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The height of the epoch's first block, the one that may have a new target.
    #[must_use]
    pub fn first(self) -> Height {
        // an epoch is made from one of its heights, so its first height is not above that
        Height::from(self.0.saturating_mul(BLOCKS_PER_EPOCH))
    }

    /// The height of the epoch's last block.
    #[must_use]
    pub fn last(self) -> Height {
        Height::from(self.first().to_u32().saturating_add(BLOCKS_PER_EPOCH - 1))
    }

    /// How many blocks of its epoch come before the block at this height: 0 to 2,015.
    #[must_use]
    pub const fn position(height: Height) -> u32 {
        height.to_u32() % BLOCKS_PER_EPOCH
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::test_data::shared_data;

    #[test]
    fn an_epoch_is_2016_blocks() {
        for (height, index, first, last, position) in [
            (0, 0, 0, 2_015, 0),
            (2_015, 0, 0, 2_015, 2_015),
            (2_016, 1, 2_016, 4_031, 0),
            (840_000, 416, 838_656, 840_671, 1_344),
            (u32::MAX, 2_130_440, 4_294_967_040, u32::MAX, 255),
        ] {
            let height = Height::from(height);
            let epoch = DifficultyEpoch::of(height);
            assert_eq!(epoch.index(), index);
            assert_eq!((epoch.first(), epoch.last()), (Height::from(first), Height::from(last)));
            assert_eq!(DifficultyEpoch::position(height), position);
        }
    }

    #[test]
    fn a_real_chain_changes_bits_only_at_the_start_of_an_epoch() {
        let name = "a_real_chain_changes_bits_only_at_the_start_of_an_epoch";
        let Some(blocks) = shared_data::chain("mainnet-0-4521", name) else { return };
        for (height, pair) in (1..).map(Height::from).zip(blocks.windows(2)) {
            let first = DifficultyEpoch::of(height).first();
            assert!(pair[0].header.bits == pair[1].header.bits || height == first, "at {height}");
        }
    }

    proptest! {
        #[test]
        fn every_height_lies_in_its_epoch(height: u32) {
            let height = Height::from(height);
            let epoch = DifficultyEpoch::of(height);
            prop_assert!(epoch.first() <= height && height <= epoch.last());
            prop_assert_eq!(epoch.first().to_u32() + DifficultyEpoch::position(height), height.to_u32());
        }
    }
}
