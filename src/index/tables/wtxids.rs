//! `wtxids` (optional): 6 bytes of the keyed hash of the wtxid ‖ txnum (4) → (). Only transactions with a witness: the wtxid
//! of all others is their txid. Readers compare the full wtxid.
//!
//! Its row in `meta` says whether the table is on, and from which transaction on it is complete.

use redb::TableDefinition;

use super::super::codec::{Decoder, Encoder};
use super::super::error::IndexError;
use super::super::keys::{TxNum, TxidPrefix};
use super::{join, split};

pub(in crate::index) const NAME: &str = "wtxids";

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 10], ()> = TableDefinition::new(NAME);

/// The version of the rows. Rows of another version are deleted and made again.
pub(in crate::index) const VERSION: u32 = 1;

const DROPPING: u8 = 0;
const ON: u8 = 1;
const THEN_ON: u8 = 2;

pub(in crate::index) type WtxidKey = [u8; 10];

pub(in crate::index) fn key(prefix: TxidPrefix, txnum: TxNum) -> WtxidKey {
    join(prefix.0, txnum.to_key())
}

pub(in crate::index) fn split_key(key: &WtxidKey) -> (TxidPrefix, TxNum) {
    let (prefix, txnum) = split(key);
    (TxidPrefix(prefix), TxNum::from_key(txnum))
}

/// Whether the table is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::index) enum WtxidsState {
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

impl WtxidsState {
    /// The row in `meta`, `None` for none.
    pub(in crate::index) fn encode(self) -> Option<Vec<u8>> {
        let (state, from) = match self {
            Self::Off => return None,
            Self::Dropping { then_on } => (if then_on { THEN_ON } else { DROPPING }, TxNum::default()),
            Self::On { from } => (ON, from),
        };
        let mut row = Encoder::default();
        row.u32(VERSION).bytes(&[state]).u32(from.0);
        Some(row.finish())
    }

    /// The version of the rows, and the state.
    pub(in crate::index) fn decode(row: &[u8]) -> Result<(u32, Self), IndexError> {
        let mut row = Decoder::new("meta", row);
        let (version, state, from) = (row.u32()?, row.u8()?, TxNum(row.u32()?));
        row.finish()?;
        Ok((
            version,
            match state {
                ON if version == VERSION => Self::On { from },
                state => Self::Dropping { then_on: state != DROPPING },
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_encoding() {
        let prefix = TxidPrefix([1, 2, 3, 4, 5, 6]);
        assert_eq!(split_key(&key(prefix, TxNum(142_572))), (prefix, TxNum(142_572)));
    }

    #[test]
    fn the_state_survives_its_encoding() {
        assert_eq!(WtxidsState::Off.encode(), None);
        let dropping = |then_on| WtxidsState::Dropping { then_on };
        for state in [dropping(false), dropping(true), WtxidsState::On { from: TxNum(7) }] {
            let row = state.encode().unwrap();
            assert_eq!(WtxidsState::decode(&row).unwrap(), (VERSION, state));
            assert!(WtxidsState::decode(&row[1..]).is_err());
        }
        // rows of another version are of no use
        let mut other = WtxidsState::On { from: TxNum(7) }.encode().unwrap();
        other[3] = 9;
        assert_eq!(WtxidsState::decode(&other).unwrap(), (9, dropping(true)));
    }
}
