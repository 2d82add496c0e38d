//! `block_filters` (optional): height (4) → filter header (32). The header of the basic compact filter of each block of the
//! active chain (BIP157), in internal byte order.
//!
//! A filter header commits to the filters of all blocks before, so rows are made from the genesis block on. The filters are not
//! stored. Their row in `meta` has the version of the rows, and the height up to which they are complete.

use redb::{ReadableTable, TableDefinition};

use super::super::super::codec::{Decoder, Encoder};
use super::super::super::error::IndexError;
use crate::chain::Height;

/// The name of the table, of the row in `meta` and of the setting in `index`.
pub(in crate::index) const NAME: &str = "block_filters";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 4], &[u8; 32]> = TableDefinition::new(NAME);

/// The version of the rows. Rows of another version are deleted and made again.
const VERSION: u32 = 1;

const DROPPING: u8 = 0;
const ON: u8 = 1;
const THEN_ON: u8 = 2;

pub(in crate::index) type BlockFilterKey = [u8; 4];

pub(in crate::index) fn key(height: Height) -> BlockFilterKey {
    height.to_u32().to_be_bytes()
}

/// Whether the table is on, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum FiltersState {
    /// It has no rows.
    Off,
    /// Its rows are of no use and are deleted in small commits.
    Dropping {
        /// Whether it is on afterwards.
        then_on: bool,
    },
    /// It has the rows of all blocks below a height.
    On {
        /// The lowest height without a row.
        next: Height,
    },
}

impl FiltersState {
    /// A table that is on and has no rows yet.
    pub(in crate::index) const EMPTY: Self = Self::On { next: Height::GENESIS };

    /// The row in `meta`, `None` for none.
    pub(in crate::index) fn encode(self) -> Option<Vec<u8>> {
        let (state, next) = match self {
            Self::Off => return None,
            Self::Dropping { then_on } => (if then_on { THEN_ON } else { DROPPING }, Height::GENESIS),
            Self::On { next } => (ON, next),
        };
        let mut row = Encoder::default();
        row.u32(VERSION).bytes(&[state]).u32(next.to_u32());
        Some(row.finish())
    }

    /// Rows of another version are of no use.
    pub(in crate::index) fn decode(row: &[u8]) -> Result<Self, IndexError> {
        let mut row = Decoder::new("meta", row);
        let (version, state, next) = (row.u32()?, row.u8()?, Height::from(row.u32()?));
        row.finish()?;
        Ok(match state {
            ON if version == VERSION => Self::On { next },
            state => Self::Dropping { then_on: state != DROPPING },
        })
    }

    /// Whether the table is on, or will be.
    pub(in crate::index) fn is_wanted(self) -> bool {
        matches!(self, Self::On { .. } | Self::Dropping { then_on: true })
    }
}

/// The state of the table that is recorded.
pub(in crate::index) fn read_state(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<FiltersState, IndexError> {
    let row = meta.get(NAME)?;
    row.map_or(Ok(FiltersState::Off), |row| FiltersState::decode(row.value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_heights() {
        assert!(key(Height::from(256)) > key(Height::from(255)));
        assert_eq!(key(Height::from(0x0102_0304)), [1, 2, 3, 4]);
    }

    #[test]
    fn the_state_survives_its_encoding() {
        assert_eq!(FiltersState::Off.encode(), None);
        let dropping = |then_on| FiltersState::Dropping { then_on };
        for state in [dropping(false), dropping(true), FiltersState::On { next: Height::from(7) }] {
            let row = state.encode().unwrap();
            assert_eq!(FiltersState::decode(&row).unwrap(), state);
            assert!(FiltersState::decode(&row[1..]).is_err());
        }
        // rows of another version are of no use
        let mut other = FiltersState::EMPTY.encode().unwrap();
        other[3] = 9;
        assert_eq!(FiltersState::decode(&other).unwrap(), dropping(true));
    }
}
