//! `p2pk`: HASH160 of the public key (20) ‖ script key (10) → first txnum (4). The P2PK scripts of the public key
//! of an address; each has a history of its own and no address.

use bitcoin::hashes::{Hash, hash160};
use redb::TableDefinition;

use super::super::keys::ScriptKey;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_encoding() {
        let row = (hash160::Hash::hash(b"key"), ScriptKey([9; 10]));
        assert_eq!(split_key(&key(row.0, row.1)), row);
    }
}
