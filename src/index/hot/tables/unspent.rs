//! `unspent`: script key (10) ‖ txnum (4) ‖ vout (3) → value in sat u64 ‖ coinbase flag u8. The UTXO set, by script.

use std::ops::Range;

use redb::TableDefinition;

use super::super::super::error::IndexError;
use super::super::super::frozen::StoredTable;
use super::super::super::keys::{OutputPosition, Position, ScriptKey, TxNum};
use super::spends::TxPoint;
use super::{join, split, split_tx_point, tx_point};

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 17], &[u8; 9]> = TableDefinition::new("unspent");

pub(in crate::index) type UnspentKeyBytes = [u8; 17];
pub(in crate::index) type UnspentValue = [u8; 9];

/// The key of an unspent output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnspentKey {
    /// Its scriptPubKey.
    pub script: ScriptKey,
    /// The transaction that created it.
    pub txnum: TxNum,
    /// Its number there.
    pub vout: u32,
}

/// The value and origin of an unspent output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnspentRow {
    /// In sat.
    pub value: u64,
    /// Whether a coinbase created it, so that it matures.
    pub is_coinbase: bool,
}

pub(in crate::index) fn key(script: ScriptKey, txnum: TxNum, vout: Position) -> UnspentKeyBytes {
    join(script.0, tx_point(txnum, vout))
}

/// The output that a key names.
pub(in crate::index) fn outpoint(key: &UnspentKeyBytes) -> TxPoint {
    let (_, outpoint): ([u8; 10], _) = split(key);
    outpoint
}

pub(in crate::index) fn split_key(key: &UnspentKeyBytes) -> UnspentKey {
    let (script, outpoint) = split(key);
    let (txnum, vout) = split_tx_point(&outpoint);
    UnspentKey { script: ScriptKey(script), txnum, vout: vout.to_u32() }
}

/// An output that has a row, and that row if the output is unspent.
pub type FoundOutput = (UnspentKey, Option<UnspentRow>);

impl UnspentRow {
    pub(in crate::index) fn encode(self) -> UnspentValue {
        join(self.value.to_be_bytes(), [u8::from(self.is_coinbase)])
    }

    pub(in crate::index) fn decode(row: &UnspentValue) -> Result<Self, IndexError> {
        let (value, [flag]) = split(row);
        let is_coinbase = match flag {
            0 => false,
            1 => true,
            other => return Err(IndexError::corrupt("unspent", format!("a row has the unknown flag {other}"))),
        };
        Ok(Self { value: u64::from_be_bytes(value), is_coinbase })
    }
}

/// The rows of a script at these positions, oldest first.
pub(in crate::index) fn read<T: StoredTable<&'static UnspentKeyBytes, &'static UnspentValue>>(
    table: &T,
    script: ScriptKey,
    positions: Range<OutputPosition>,
) -> Result<impl DoubleEndedIterator<Item = Result<(UnspentKey, UnspentRow), IndexError>> + use<T>, IndexError> {
    let key = |at: OutputPosition| {
        // no row has a larger number: the range continues with the next transaction
        Position::new(at.vout).map_or_else(
            || key(script, TxNum(at.txnum.0.saturating_add(1)), Position::ZERO),
            |vout| key(script, at.txnum, vout),
        )
    };
    let (from, to) = (key(positions.start), key(positions.end.max(positions.start)));
    let rows = table.range::<&UnspentKeyBytes>(&from..&to)?;
    Ok(rows.map(|row| {
        let (key, row) = row?;
        Ok((split_key(key.value()), UnspentRow::decode(row.value())?))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_encoding_and_an_unknown_flag_is_refused() {
        for is_coinbase in [false, true] {
            let row = UnspentRow { value: 5_000_000_000, is_coinbase };
            assert_eq!(UnspentRow::decode(&row.encode()).unwrap(), row);
        }
        assert!(UnspentRow::decode(&[0, 0, 0, 0, 0, 0, 0, 0, 9]).is_err());
        let expected = UnspentKey { script: ScriptKey([1; 10]), txnum: TxNum(2), vout: 3 };
        assert_eq!(split_key(&key(expected.script, expected.txnum, Position::new(3).unwrap())), expected);
    }
}
