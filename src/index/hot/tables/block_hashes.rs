//! `block_hashes`: block hash (32) → height u32 ‖ 0 main, 1 stale.

use redb::TableDefinition;

use super::super::super::error::IndexError;
use super::{join, split};
use crate::chain::Height;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 32], &[u8; 5]> = TableDefinition::new("block_hashes");

/// Whether a block is part of the active chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainMembership {
    /// The block is part of it.
    Main,
    /// The block was part of it and was disconnected.
    Stale,
}

/// The height of a block, and whether it is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// The height of the block in its own chain.
    pub height: Height,
    /// Whether that is the active chain.
    pub membership: ChainMembership,
}

impl BlockPlace {
    pub(in crate::index) fn value(self) -> [u8; 5] {
        let flag = match self.membership {
            ChainMembership::Main => 0,
            ChainMembership::Stale => 1,
        };
        join(self.height.to_u32().to_be_bytes(), [flag])
    }

    pub(in crate::index) fn decode(value: &[u8; 5]) -> Result<Self, IndexError> {
        let (height, [flag]) = split(value);
        let membership = match flag {
            0 => ChainMembership::Main,
            1 => ChainMembership::Stale,
            other => return Err(IndexError::corrupt("block_hashes", format!("a row has the unknown flag {other}"))),
        };
        Ok(Self { height: u32::from_be_bytes(height).into(), membership })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_encoding_and_an_unknown_flag_is_refused() {
        for membership in [ChainMembership::Main, ChainMembership::Stale] {
            let place = BlockPlace { height: 91_842.into(), membership };
            assert_eq!(BlockPlace::decode(&place.value()).unwrap(), place);
        }
        assert!(BlockPlace::decode(&[0, 0, 0, 1, 2]).is_err());
    }
}
