//! `payouts`: script key (10) ‖ height (4) → (). The blocks whose coinbase pays a script.

use redb::TableDefinition;

use super::super::keys::ScriptKey;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_encoding() {
        let row = (ScriptKey([9; 10]), Height::from(91_842));
        assert_eq!(split_key(&key(row.0, row.1)), row);
    }
}
