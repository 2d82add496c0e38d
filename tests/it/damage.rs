//! Damage to the index file: whatever is missing, changed or added, `verify` ends and tells.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use btcgraph::index::{Index, IndexError, VerifyOptions, verify};
use btcgraph::sim::{Hostile, Rng, SimChain};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::faults::{META, set_meta};
use crate::support::indexed::{Indexed, options};

/// The tables that are a function of the active chain.
const CHAIN_TABLES: [&str; 10] = [
    "blocks",
    "block_starts",
    "block_hashes",
    "transactions",
    "txids",
    "spends",
    "history",
    "unspent",
    "payouts",
    "p2pk",
];

#[test]
fn a_missing_a_changed_and_an_added_row_of_every_table_is_found() {
    for table in CHAIN_TABLES {
        for damage in [Damage::Remove, Damage::Change, Damage::Add] {
            let (mut chain, mut hostile) = (SimChain::new(3), Hostile::new(3));
            for _ in 0..115 {
                hostile.mine(&mut chain).unwrap();
            }
            let blocks: Vec<_> = chain.active_blocks().cloned().collect();
            let indexed = Indexed::of(blocks.iter().map(Arc::as_ref), 50);
            let Indexed { index, directory } = indexed;
            drop(index);
            if !damage.apply(&directory.path().join("index.redb"), table) {
                continue; // rows that are only keys cannot be changed
            }
            let index = Index::open(&options(directory.path())).unwrap();
            let report = Indexed { index, directory }.report();
            assert!(
                report.differences.iter().any(|difference| difference.starts_with(table) || table == "spends"),
                "{table} {damage:?}: {:?}",
                report.differences
            );
        }
    }
}

/// Every byte of the index says something, and whatever one of them is changed to, the check ends and tells.
#[test]
fn any_changed_byte_of_any_row_is_found() {
    let (mut chain, mut hostile) = (SimChain::new(4), Hostile::new(4));
    for _ in 0..115 {
        hostile.mine(&mut chain).unwrap();
    }
    let old: Vec<_> = chain.active_blocks().cloned().collect();
    let mut indexed = Indexed::of(old.iter().map(Arc::as_ref), 50);
    let branch = hostile.branch(&mut chain, 4, 5).unwrap();
    indexed.disconnect_to(112);
    indexed.connect(branch.iter().map(Arc::as_ref), 5);
    indexed.verified();
    let Indexed { index, directory } = indexed;
    drop(index);
    let file = directory.path().join("index.redb");
    let whole = fs::read(&file).unwrap();
    let mut random = Rng::new(5);
    let tables = [&CHAIN_TABLES[..], &["stale_blocks", "stale_transactions", "meta"]].concat();
    for round in 0..300 {
        fs::write(&file, &whole).unwrap();
        let table = tables[round % tables.len()];
        let change = change_a_byte(&file, table, &mut random);
        let index = Index::open(&options(directory.path())).unwrap();
        let memory = if round % 2 == 0 { 64 << 20 } else { 1 };
        let options = VerifyOptions { memory, directory: directory.path().into() };
        let report =
            index.snapshot().and_then(|snapshot| verify(&snapshot, &options, &mut |_| ControlFlow::Continue(())));
        match report {
            Ok(report) => assert!(!report.is_clean(), "{table}: {change} is not found"),
            Err(error) => assert!(table == "meta" && matches!(error, IndexError::Corrupt { .. }), "{change}: {error}"),
        }
    }
}

/// Changes a random byte of a random row, in its key or its value, and tells which.
fn change_a_byte(file: &Path, table: &str, random: &mut Rng) -> String {
    match table {
        "blocks" | "transactions" => flip::<&[u8; 4], &[u8]>(file, table, random),
        "block_starts" => flip::<&[u8; 4], &[u8; 8]>(file, table, random),
        "block_hashes" => flip::<&[u8; 32], &[u8; 5]>(file, table, random),
        "txids" => flip::<&[u8; 10], ()>(file, table, random),
        "spends" => flip::<&[u8; 7], &[u8; 7]>(file, table, random),
        "history" => flip::<&[u8; 14], &[u8; 44]>(file, table, random),
        "unspent" => flip::<&[u8; 17], &[u8; 9]>(file, table, random),
        "payouts" => flip::<&[u8; 14], ()>(file, table, random),
        "p2pk" => flip::<&[u8; 30], &[u8; 4]>(file, table, random),
        "stale_blocks" => flip::<&[u8; 36], &[u8]>(file, table, random),
        "stale_transactions" => flip::<&[u8; 42], ()>(file, table, random),
        "meta" => {
            let database = Database::open(file).unwrap();
            let mut tip = {
                let table = database.begin_read().unwrap().open_table(META).unwrap();
                table.get("tip").unwrap().unwrap().value().to_vec()
            };
            let at = usize::try_from(random.below(36)).unwrap();
            tip[at] ^= 1 << random.below(8);
            drop(database);
            set_meta(file, "tip", &tip);
            format!("byte {at} of the tip")
        }
        _ => panic!("unknown table {table}"),
    }
}

/// Changes one bit of a random row.
fn flip<K: redb::Key + 'static, V: redb::Value + 'static>(file: &Path, name: &str, random: &mut Rng) -> String {
    let database = Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    let (row, at);
    {
        let mut table = transaction.open_table(TableDefinition::<K, V>::new(name)).unwrap();
        let rows = table.iter().unwrap().count();
        row = usize::try_from(random.below(rows as u64)).unwrap();
        let (mut key, mut value) = {
            let (key, value) = table.iter().unwrap().nth(row).unwrap().unwrap();
            (K::as_bytes(&key.value()).as_ref().to_vec(), V::as_bytes(&value.value()).as_ref().to_vec())
        };
        table.remove(K::from_bytes(&key)).unwrap();
        // the running totals in a stale block's row are of a chain that is not kept: what is checked lies around them
        at = match name {
            "stale_blocks" => [random.below(36 + 112), (key.len() + value.len()) as u64 - 1 - random.below(200)]
                [usize::try_from(random.below(2)).unwrap()],
            _ => random.below((key.len() + value.len()) as u64),
        };
        let at = usize::try_from(at).unwrap();
        let key_length = key.len();
        let byte = if at < key_length { &mut key[at] } else { &mut value[at - key_length] };
        *byte ^= 1 << random.below(8);
        table.insert(K::from_bytes(&key), V::from_bytes(&value)).unwrap();
    }
    transaction.commit().unwrap();
    format!("byte {at} of row {row}")
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Remove,
    Change,
    Add,
}

impl Damage {
    fn apply(self, file: &Path, table: &str) -> bool {
        match table {
            "blocks" | "transactions" => self.damage::<&[u8; 4], &[u8]>(file, table),
            "block_starts" => self.damage::<&[u8; 4], &[u8; 8]>(file, table),
            "block_hashes" => self.damage::<&[u8; 32], &[u8; 5]>(file, table),
            "txids" => self.damage::<&[u8; 10], ()>(file, table),
            "spends" => self.damage::<&[u8; 7], &[u8; 7]>(file, table),
            "history" => self.damage::<&[u8; 14], &[u8; 44]>(file, table),
            "unspent" => self.damage::<&[u8; 17], &[u8; 9]>(file, table),
            "payouts" => self.damage::<&[u8; 14], ()>(file, table),
            "p2pk" => self.damage::<&[u8; 30], &[u8; 4]>(file, table),
            _ => panic!("unknown table {table}"),
        }
    }

    /// Damages the row in the middle of a table.
    fn damage<K: redb::Key + 'static, V: redb::Value + 'static>(self, file: &Path, name: &str) -> bool {
        let database = Database::open(file).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut table = transaction.open_table(TableDefinition::<K, V>::new(name)).unwrap();
            let middle = table.iter().unwrap().count() / 2;
            let (mut key, mut value) = {
                let (key, value) = table.iter().unwrap().nth(middle).unwrap().unwrap();
                (K::as_bytes(&key.value()).as_ref().to_vec(), V::as_bytes(&value.value()).as_ref().to_vec())
            };
            match self {
                Damage::Remove => drop(table.remove(K::from_bytes(&key)).unwrap().unwrap()),
                Damage::Change => {
                    let Some(last) = value.last_mut() else { return false };
                    *last ^= 1;
                    table.insert(K::from_bytes(&key), V::from_bytes(&value)).unwrap();
                }
                Damage::Add => {
                    // a key that is not there: the first byte makes it sort behind all that are
                    key[0] = 0xff;
                    assert!(table.insert(K::from_bytes(&key), V::from_bytes(&value)).unwrap().is_none());
                }
            }
        }
        transaction.commit().unwrap();
        true
    }
}
