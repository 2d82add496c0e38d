//! Whether an optional table is on, and from which transaction on it is complete: its row in `meta`.

use redb::ReadableTable;

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::hot::live_tables::Tables;
use super::super::keys::TxNum;
use super::OptionalTable;

const DROPPING: u8 = 0;
const ON: u8 = 1;
const THEN_ON: u8 = 2;

/// Whether a table is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum TableState {
    /// It has no rows.
    Off,
    /// Its rows are of no use and are deleted in small commits.
    Dropping {
        /// Whether it is on afterwards.
        then_on: bool,
    },
    /// It has rows of all transactions from this one on, but of those whose generation has the table in a file.
    On {
        /// The first such transaction. A transaction that is connected later never precedes it.
        from: TxNum,
    },
}

impl TableState {
    /// The row in `meta`, `None` for none.
    pub(in crate::index) fn encode(self, version: u32) -> Option<Vec<u8>> {
        let (state, from) = match self {
            Self::Off => return None,
            Self::Dropping { then_on } => (if then_on { THEN_ON } else { DROPPING }, TxNum::default()),
            Self::On { from } => (ON, from),
        };
        let mut row = Encoder::default();
        row.u32(version).bytes(&[state]).u32(from.0);
        Some(row.finish())
    }

    /// The version of the rows, and the state. Rows of another version than `version` are of no use.
    pub(in crate::index) fn decode(version: u32, row: &[u8]) -> Result<(u32, Self), IndexError> {
        let mut row = Decoder::new("meta", row);
        let (found, state, from) = (row.u32()?, row.u8()?, TxNum(row.u32()?));
        row.finish()?;
        Ok((
            found,
            match state {
                ON if found == version => Self::On { from },
                state => Self::Dropping { then_on: state != DROPPING },
            },
        ))
    }

    /// Whether the table is on, or will be.
    pub(in crate::index) fn is_wanted(self) -> bool {
        matches!(self, Self::On { .. } | Self::Dropping { then_on: true })
    }
}

/// The state of a table that is recorded.
pub(in crate::index) fn read_state(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
    table: OptionalTable,
) -> Result<TableState, IndexError> {
    let row = meta.get(table.name())?;
    row.map_or(Ok(TableState::Off), |row| TableState::decode(table.live_version(), row.value()).map(|(_, state)| state))
}

pub(in crate::index) fn write_state(
    tables: &mut Tables<'_>,
    table: OptionalTable,
    state: TableState,
) -> Result<(), IndexError> {
    match state.encode(table.live_version()) {
        Some(row) => tables.meta.insert(table.name(), row.as_slice())?,
        None => tables.meta.remove(table.name())?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_survives_its_encoding() {
        assert_eq!(TableState::Off.encode(1), None);
        let dropping = |then_on| TableState::Dropping { then_on };
        for state in [dropping(false), dropping(true), TableState::On { from: TxNum(7) }] {
            let row = state.encode(1).unwrap();
            assert_eq!(TableState::decode(1, &row).unwrap(), (1, state));
            assert!(TableState::decode(1, &row[1..]).is_err());
        }
        // rows of another version are of no use
        let mut other = TableState::On { from: TxNum(7) }.encode(1).unwrap();
        other[3] = 9;
        assert_eq!(TableState::decode(1, &other).unwrap(), (9, dropping(true)));
    }
}
