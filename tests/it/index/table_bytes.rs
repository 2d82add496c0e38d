//! The bytes of a table are those of its keys and values, also where they are computed from the number of rows.

use std::collections::BTreeMap;

use btcgraph::sim::{Hostile, SimChain};
use redb::{Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, Value};

use crate::support::indexed::{Indexed, options};

/// The bytes of all keys and values of a table, read one by one.
fn bytes_of<K: Key + 'static, V: Value + 'static>(transaction: &ReadTransaction, name: &str) -> u64 {
    let table: ReadOnlyTable<K, V> = transaction.open_table(TableDefinition::new(name)).unwrap();
    let row = |row: Result<(redb::AccessGuard<'_, K>, redb::AccessGuard<'_, V>), redb::StorageError>| {
        let (key, value) = row.unwrap();
        K::as_bytes(&key.value()).as_ref().len() + V::as_bytes(&value.value()).as_ref().len()
    };
    table.iter().unwrap().map(|found| u64::try_from(row(found)).unwrap()).sum()
}

#[test]
fn the_bytes_of_tables_are_those_of_their_rows() {
    let (mut chain, mut hostile) = (SimChain::new(31), Hostile::new(31));
    for _ in 0..60 {
        hostile.mine(&mut chain).unwrap();
    }
    let indexed = Indexed::of(chain.active_blocks().map(|block| &**block), 10);
    let found: BTreeMap<String, u64> = {
        let snapshot = indexed.index.snapshot().unwrap();
        let tables = snapshot.tables().unwrap().into_iter();
        let bytes = tables.map(|table| {
            let measured = snapshot.table_bytes(&table.name).unwrap();
            // an empty table needs no measuring
            assert!(measured.is_none() || table.rows == 0 || table.bytes.is_none(), "{}: known twice", table.name);
            (table.name.clone(), table.bytes.or(measured).unwrap())
        });
        bytes.collect()
    };
    let Indexed { index, directory } = indexed;
    drop(index);
    let database = redb::Database::open(options(directory.path()).path).unwrap();
    let transaction = database.begin_read().unwrap();
    for (name, expected) in [
        ("block_hashes", bytes_of::<&[u8; 32], &[u8; 5]>(&transaction, "block_hashes")),
        ("blocks", bytes_of::<&[u8; 4], &[u8]>(&transaction, "blocks")),
        ("history", bytes_of::<&[u8; 14], &[u8; 44]>(&transaction, "history")),
        ("mempool", bytes_of::<&[u8; 32], &[u8]>(&transaction, "mempool")),
        ("stale_blocks", bytes_of::<&[u8; 36], &[u8]>(&transaction, "stale_blocks")),
        ("stale_raw_blocks", bytes_of::<&[u8; 36], &[u8]>(&transaction, "stale_raw_blocks")),
        ("transactions", bytes_of::<&[u8; 4], &[u8]>(&transaction, "transactions")),
        ("txids", bytes_of::<&[u8; 10], ()>(&transaction, "txids")),
        ("unspent", bytes_of::<&[u8; 17], &[u8; 9]>(&transaction, "unspent")),
    ] {
        assert_eq!(found[name], expected, "{name}");
    }
    assert!(found["transactions"] > 1_000 && found["blocks"] > 1_000, "{found:?}");
    assert_eq!(found["mempool"], 0);
}
