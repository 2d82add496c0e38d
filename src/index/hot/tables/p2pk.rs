//! `p2pk`: HASH160 of the public key (20) ‖ script key (10) → first txnum (4). The P2PK scripts of the public key
//! of an address; each has a history of its own and no address.

use bitcoin::hashes::{Hash, hash160};
use redb::{AccessGuard, TableDefinition};

use super::super::super::error::IndexError;
use super::super::super::frozen::StoredTable;
use super::super::super::keys::{ScriptKey, TxNum};
use super::{join, split};

pub(in crate::index) const TABLE: TableDefinition<'static, &[u8; 30], &[u8; 4]> = TableDefinition::new("p2pk");

pub(in crate::index) type P2pkKey = [u8; 30];

pub(in crate::index) fn key(key_hash: hash160::Hash, script: ScriptKey) -> P2pkKey {
    join(key_hash.to_byte_array(), script.0)
}

pub(in crate::index) fn split_key(key: &P2pkKey) -> (hash160::Hash, ScriptKey) {
    let (key_hash, script) = split(key);
    (hash160::Hash::from_byte_array(key_hash), ScriptKey(script))
}

/// The rows of a public key with this HASH160.
pub(in crate::index) fn read(
    table: &impl StoredTable<&'static P2pkKey, &'static [u8; 4]>,
    key_hash: hash160::Hash,
) -> Result<Vec<(ScriptKey, TxNum)>, IndexError> {
    let (from, to) = (key(key_hash, ScriptKey([0; 10])), key(key_hash, ScriptKey([0xff; 10])));
    let rows = table.range::<&P2pkKey>(&from..=&to)?;
    let decode = |(key, row): (AccessGuard<'_, &P2pkKey>, AccessGuard<'_, &[u8; 4]>)| {
        (split_key(key.value()).1, TxNum::from_key(*row.value()))
    };
    rows.map(|row| Ok(decode(row?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_encoding() {
        let row = (hash160::Hash::hash(b"key"), ScriptKey([9; 10]));
        assert_eq!(split_key(&key(row.0, row.1)), row);
    }
}
