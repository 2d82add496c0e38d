//! `verify` finds damage to the table.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use btcgraph::index::{Index, VerifyOptions, verify};
use redb::{Database, Key, ReadableTable, Table, TableDefinition, Value};

use super::history::{History, ON};
use crate::support::indexed::{Indexed, options};

/// Changes a table, of which it receives the first key.
type ChangeRow = dyn Fn(&mut Table<'_, &'static [u8; 10], ()>, [u8; 10]);

const LIVE: TableDefinition<'static, &[u8; 10], ()> = TableDefinition::new("wtxids");
const PACKED: TableDefinition<'static, &[u8; 6], &[u8]> = TableDefinition::new("wtxids");

/// Changes the rows of a table in a file.
fn change_rows<K: Key + 'static, V: Value + 'static>(
    file: &Path,
    table: TableDefinition<'static, K, V>,
    change: impl FnOnce(&mut Table<'_, K, V>),
) {
    let database = Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&mut transaction.open_table(table).unwrap());
    transaction.commit().unwrap();
}

#[test]
fn verify_finds_rows_that_are_missing_or_of_another_transaction() {
    let mut history = History::new(84, 60);
    history.indexed.index.switch_tables(ON).unwrap();
    history.freeze(15);
    history.complete();
    let (file, raw) = (history.files().remove(0), history.raw.clone());
    let Indexed { index, directory } = history.indexed;
    drop(index);
    let index_file = options(directory.path()).path;
    let reported = |file: &Path, damage: &dyn Fn(&Path), expected: &str| {
        let bytes = fs::read(file).unwrap();
        damage(file);
        let index = Index::open(&options(directory.path())).unwrap();
        index.set_raw_blocks(raw.clone());
        let watch = &mut |_| ControlFlow::Continue(());
        let verifying = VerifyOptions { memory: 64 << 20, directory: directory.path().into() };
        let report = verify(&index.snapshot().unwrap(), &verifying, watch).unwrap();
        assert!(
            report.differences.iter().any(|found| found.contains(expected)),
            "{expected}: {:?}",
            report.differences
        );
        drop(index);
        fs::write(file, bytes).unwrap();
    };
    let first_live = |file: &Path, change: &ChangeRow| {
        change_rows(file, LIVE, |table| {
            let first = *table.first().unwrap().unwrap().0.value();
            change(table, first);
        });
    };
    let remove = |file: &Path| first_live(file, &|table, key| drop(table.remove(&key).unwrap()));
    reported(&index_file, &remove, "is not found by its wtxid");
    let add = |file: &Path| {
        first_live(file, &|table, mut key| {
            key[0] ^= 1;
            table.insert(&key, ()).unwrap();
        });
    };
    reported(&index_file, &add, "must not exist");
    let change_packed = |file: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        change_rows(file, PACKED, |table| {
            let (key, mut row) = {
                let (key, row) = table.first().unwrap().unwrap();
                (*key.value(), row.value().to_vec())
            };
            change(&mut row);
            table.insert(&key, row.as_slice()).unwrap();
        });
    };
    // another transaction, fewer, and bytes that are no row
    reported(&file, &|file| change_packed(file, &|row| row[3] ^= 1), "wtxids: transaction");
    reported(&file, &|file| change_packed(file, &|row| row.truncate(4)), "is not found by its hash");
    reported(&file, &|file| change_packed(file, &|row| row.truncate(7)), "wtxids: a row");
    let remove = |file: &Path| change_rows(file, PACKED, |table| drop(table.pop_first().unwrap()));
    reported(&file, &remove, "rows, but counted");
}
