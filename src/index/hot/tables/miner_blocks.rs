//! `miner_blocks`: miner (2) ‖ height (4) → blocks u32 ‖ empty blocks u32 ‖ fees u64 ‖ reward u64. The blocks of each miner, with
//! the totals of its blocks up to and including this one.
//!
//! The miner is the place of a pool in the table of pools plus one; 0 stands for all that are ascribed to no pool. So the rows
//! are derived from coinbases by a table that is not of the chain. Their row in `meta` has its fingerprint, and the height up
//! to which they are complete.

use redb::{ReadableTable, TableDefinition};

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use super::blocks::BlockRow;
use super::meta;
use super::{join, split};
use crate::chain::Height;
use crate::chain::pools::PoolId;

pub(in crate::index) const NAME: &str = "miner_blocks";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 6], &[u8; 24]> = TableDefinition::new(NAME);

/// The version of the rows. Rows of another version are deleted and made again.
const VERSION: u32 = 1;

const DROPPING: u8 = 0;
const DERIVED: u8 = 1;

pub(in crate::index) type MinerBlockKey = [u8; 6];
pub(in crate::index) type MinerBlockValue = [u8; 24];

/// The blocks of a miner, counted and summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinerTotals {
    /// Blocks.
    pub blocks: u32,
    /// Those with only a coinbase.
    pub empty_blocks: u32,
    /// The sum of the fees of their transactions, in sat.
    pub fees: u64,
    /// The sum of the outputs of their coinbases, in sat.
    pub reward: u64,
}

impl MinerTotals {
    /// Those of one block.
    pub(in crate::index) fn of(row: &BlockRow) -> Self {
        let empty_blocks = u32::from(row.transactions == 1);
        Self { blocks: 1, empty_blocks, fees: row.fees, reward: row.coinbase_value }
    }

    /// These totals and others together. `None` if a sum does not fit.
    pub(in crate::index) fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self {
            blocks: self.blocks.checked_add(other.blocks)?,
            empty_blocks: self.empty_blocks.checked_add(other.empty_blocks)?,
            fees: self.fees.checked_add(other.fees)?,
            reward: self.reward.checked_add(other.reward)?,
        })
    }

    /// These totals without others that are part of them. `None` if they are not.
    pub(in crate::index) fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self {
            blocks: self.blocks.checked_sub(other.blocks)?,
            empty_blocks: self.empty_blocks.checked_sub(other.empty_blocks)?,
            fees: self.fees.checked_sub(other.fees)?,
            reward: self.reward.checked_sub(other.reward)?,
        })
    }

    pub(in crate::index) fn encode(self) -> MinerBlockValue {
        let counts: [u8; 8] = join(self.blocks.to_be_bytes(), self.empty_blocks.to_be_bytes());
        let sums: [u8; 16] = join(self.fees.to_be_bytes(), self.reward.to_be_bytes());
        join(counts, sums)
    }

    pub(in crate::index) fn decode(value: &MinerBlockValue) -> Self {
        let (counts, sums): ([u8; 8], [u8; 16]) = split(value);
        let ((blocks, empty_blocks), (fees, reward)) = (split(&counts), split(&sums));
        Self {
            blocks: u32::from_be_bytes(blocks),
            empty_blocks: u32::from_be_bytes(empty_blocks),
            fees: u64::from_be_bytes(fees),
            reward: u64::from_be_bytes(reward),
        }
    }
}

/// The key of a block of this pool, or of none.
pub(in crate::index) fn key(miner: Option<PoolId>, height: Height) -> MinerBlockKey {
    // a table of pools is smaller than that
    let miner = miner.map_or(0, |pool| pool.0.saturating_add(1));
    join(miner.to_be_bytes(), height.to_u32().to_be_bytes())
}

pub(in crate::index) fn height(key: &MinerBlockKey) -> Height {
    let (_, height): ([u8; 2], _) = split(key);
    u32::from_be_bytes(height).into()
}

/// What the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum MinersState {
    /// There are none.
    Absent,
    /// They are of no use and are deleted in small commits.
    Dropping,
    /// They are those of all blocks below a height, by the table of pools with this fingerprint.
    Derived {
        /// Of the table of pools.
        fingerprint: [u8; 32],
        /// The lowest height without a row.
        next: Height,
    },
}

impl MinersState {
    /// The row in `meta`, `None` for none.
    pub(in crate::index) fn encode(self) -> Option<Vec<u8>> {
        let mut row = Encoder::default();
        row.u32(VERSION);
        match self {
            Self::Absent => return None,
            Self::Dropping => row.bytes(&[DROPPING]).bytes(&[0; 32]).u32(0),
            Self::Derived { fingerprint, next } => row.bytes(&[DERIVED]).bytes(&fingerprint).u32(next.to_u32()),
        };
        Some(row.finish())
    }

    pub(in crate::index) fn decode(row: &[u8]) -> Result<Self, IndexError> {
        let mut row = Decoder::new("meta", row);
        let (version, state, fingerprint, next) = (row.u32()?, row.u8()?, row.array()?, Height::from(row.u32()?));
        row.finish()?;
        let is_of_use = state == DERIVED && version == VERSION;
        Ok(if is_of_use { Self::Derived { fingerprint, next } } else { Self::Dropping })
    }
}

/// The state of the table that is recorded.
pub(in crate::index) fn read_state(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<MinersState, IndexError> {
    let row = meta.get(meta::MINERS)?;
    row.map_or(Ok(MinersState::Absent), |row| MinersState::decode(row.value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_its_encoding() {
        for miner in [None, Some(PoolId(0)), Some(PoolId(700))] {
            assert_eq!(height(&key(miner, Height::from(840_000))), Height::from(840_000));
        }
        assert!(key(None, Height::from(u32::MAX)) < key(Some(PoolId(0)), Height::GENESIS));
        assert!(key(Some(PoolId(0)), Height::from(256)) > key(Some(PoolId(0)), Height::from(255)));
        let totals = MinerTotals { blocks: 1 << 20, empty_blocks: 3, fees: 1 << 50, reward: u64::MAX };
        assert_eq!(MinerTotals::decode(&totals.encode()), totals);
    }

    #[test]
    fn totals_neither_overflow_nor_fall_below_zero() {
        let one = MinerTotals { blocks: 1, empty_blocks: 1, fees: 5, reward: 7 };
        let two = one.checked_add(one).unwrap();
        assert_eq!(two, MinerTotals { blocks: 2, empty_blocks: 2, fees: 10, reward: 14 });
        assert_eq!((two.checked_sub(one), one.checked_sub(two)), (Some(one), None));
        assert_eq!(MinerTotals { reward: u64::MAX, ..one }.checked_add(one), None);
    }

    #[test]
    fn the_state_survives_its_encoding() {
        assert_eq!(MinersState::Absent.encode(), None);
        let derived = MinersState::Derived { fingerprint: [7; 32], next: Height::from(9) };
        for state in [MinersState::Dropping, derived] {
            let row = state.encode().unwrap();
            assert_eq!(MinersState::decode(&row).unwrap(), state);
            assert!(MinersState::decode(&row[1..]).is_err());
        }
        // rows of another version are of no use
        let mut other = derived.encode().unwrap();
        other[3] = 9;
        assert_eq!(MinersState::decode(&other).unwrap(), MinersState::Dropping);
    }
}
