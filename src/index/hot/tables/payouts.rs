//! `payouts`: script key (10) ‖ height (4) → (). The blocks whose coinbase pays a script.

use std::ops::Range;

use redb::TableDefinition;

use super::super::super::error::IndexError;
use super::super::super::frozen::StoredTable;
use super::super::super::keys::ScriptKey;
use super::{join, split};
use crate::chain::Height;

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 14], ()> = TableDefinition::new("payouts");

pub(in crate::index) type PayoutKey = [u8; 14];

pub(in crate::index) fn key(script: ScriptKey, height: Height) -> PayoutKey {
    join(script.0, height.to_u32().to_be_bytes())
}

pub(in crate::index) fn split_key(key: &PayoutKey) -> (ScriptKey, Height) {
    let (script, height) = split(key);
    (ScriptKey(script), u32::from_be_bytes(height).into())
}

/// Heights of the rows of a script, within `heights`, lowest first.
pub(in crate::index) fn read<T: StoredTable<&'static PayoutKey, ()>>(
    table: &T,
    script: ScriptKey,
    heights: Range<Height>,
) -> Result<impl DoubleEndedIterator<Item = Result<Height, IndexError>> + use<T>, IndexError> {
    let (from, to) = (key(script, heights.start), key(script, heights.end.max(heights.start)));
    let rows = table.range::<&PayoutKey>(&from..&to)?;
    Ok(rows.map(|row| Ok(split_key(row?.0.value()).1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_encoding() {
        let row = (ScriptKey([9; 10]), Height::from(91_842));
        assert_eq!(split_key(&key(row.0, row.1)), row);
    }
}
