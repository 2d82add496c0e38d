//! Damage to the index file: `verify` ends and reports everything that is missing, changed or added.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bitcoin::Block;
use bitcoin::hex::DisplayHex;
use btcgraph::index::{
    Index, IndexError, IndexFile, IndexOptions, OptionalTables, Report, VerifyOptions, catch_damage, verify,
};
use btcgraph::sim::{Hostile, Rng, SimChain};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tempfile::TempDir;

use crate::support::indexed::{Indexed, SALT, options};
use crate::support::program::{btcgraph, run};
use crate::support::test_process::TestProcess;
use crate::sync::faults::{META, set_meta};
use serde_json::json;

/// The tables that are a function of the active chain, and of the table of pools.
const CHAIN_TABLES: [&str; 13] = [
    "blocks",
    "block_starts",
    "block_hashes",
    "transactions",
    "txids",
    "spends",
    "overwritten",
    "history",
    "unspent",
    "payouts",
    "p2pk",
    "miner_blocks",
    "block_filters",
];

/// An index of these blocks with all of these tables.
fn indexed_with_filters(blocks: &[Arc<Block>]) -> Indexed {
    let mut indexed = Indexed::empty();
    indexed.index.switch_tables(OptionalTables { block_filters: true, ..OptionalTables::default() }).unwrap();
    indexed.connect(blocks.iter().map(Arc::as_ref), 50);
    indexed
}

#[test]
fn a_missing_a_changed_and_an_added_row_of_every_table_is_found() {
    let (mut chain, mut hostile) = (SimChain::new(3), Hostile::new(3));
    hostile.repeat_coinbase(&mut chain, 1).unwrap();
    for _ in 0..115 {
        hostile.mine(&mut chain).unwrap();
    }
    let blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let Indexed { index, directory: whole } = indexed_with_filters(&blocks);
    drop(index);
    for table in CHAIN_TABLES {
        for damage in [Damage::Remove, Damage::Change, Damage::Add] {
            let directory = tempfile::tempdir().unwrap();
            fs::copy(whole.path().join("index.redb"), directory.path().join("index.redb")).unwrap();
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

/// Every byte of the index has a meaning: whichever value one of them gets, the check ends and reports it.
#[test]
fn any_changed_byte_of_any_row_is_found() {
    let (mut chain, mut hostile) = (SimChain::new(4), Hostile::new(4));
    hostile.repeat_coinbase(&mut chain, 1).unwrap();
    for _ in 0..115 {
        hostile.mine(&mut chain).unwrap();
    }
    let old: Vec<_> = chain.active_blocks().cloned().collect();
    let mut indexed = indexed_with_filters(&old);
    let branch = hostile.branch(&mut chain, 4, 5).unwrap();
    indexed.disconnect_to(u32::try_from(old.len()).unwrap() - 4);
    indexed.connect(branch.iter().map(Arc::as_ref), 5);
    indexed.verified();
    let Indexed { index, directory } = indexed;
    drop(index);
    let file = directory.path().join("index.redb");
    let whole = fs::read(&file).unwrap();
    let mut random = Rng::new(5);
    let tables = [&CHAIN_TABLES[..], &["stale_blocks", "stale_raw_blocks", "stale_transactions", "meta"]].concat();
    for round in 0..170 {
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

/// Damage to the bytes of a file, as disks and crashes of file systems leave it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileDamage {
    FlippedBit {
        at: usize,
        bit: u8,
    },
    ZeroedPage {
        page: usize,
    },
    /// What belongs elsewhere, as after a write that went to the wrong place.
    SwappedPages {
        one: usize,
        other: usize,
    },
    RandomPage {
        page: usize,
        seed: u64,
    },
    CutOff {
        length: usize,
    },
}

impl FileDamage {
    pub(crate) fn drawn(random: &mut Rng, length: usize) -> Self {
        let mut below = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
        let pages = length / PAGE;
        match below(8) {
            // the header, where a file says what it is and which state of it counts
            0 | 1 => Self::FlippedBit { at: below(PAGE / 8), bit: u8::try_from(below(8)).unwrap() },
            // anywhere, most of which is rows
            2 => Self::FlippedBit { at: below(length), bit: u8::try_from(below(8)).unwrap() },
            // where a page says what it is, how much is in it, and where its children are
            3 | 4 => Self::FlippedBit { at: below(pages) * PAGE + below(64), bit: u8::try_from(below(8)).unwrap() },
            5 => Self::ZeroedPage { page: below(pages) },
            6 if below(2) == 0 => Self::SwappedPages { one: below(pages), other: below(pages) },
            6 => Self::RandomPage { page: below(pages), seed: below(1 << 32) as u64 },
            _ => Self::CutOff { length: below(length) },
        }
    }

    pub(crate) fn apply(self, bytes: &mut Vec<u8>) {
        let page = |page: usize| page * PAGE..(page + 1) * PAGE;
        match self {
            Self::FlippedBit { at, bit } => bytes[at] ^= 1 << bit,
            Self::ZeroedPage { page: zeroed } => bytes[page(zeroed)].fill(0),
            Self::SwappedPages { one, other } => {
                let copy = bytes[page(one)].to_vec();
                bytes.copy_within(page(other), one * PAGE);
                bytes[page(other)].copy_from_slice(&copy);
            }
            Self::RandomPage { page: replaced, seed } => {
                let mut random = Rng::new(seed);
                bytes[page(replaced)].fill_with(|| u8::try_from(random.below(256)).unwrap());
            }
            Self::CutOff { length } => bytes.truncate(length),
        }
    }
}

/// A page of a redb file.
const PAGE: usize = 4096;

/// What a check of the closed file says, row counts and hashes of all tables among it.
fn check_file(options: &IndexOptions) -> Result<Report, IndexError> {
    let index = IndexFile::open(options.clone(), Box::new(|_| ControlFlow::Continue(())))?.check()?;
    let options = VerifyOptions { memory: 64 << 20, directory: options.path.parent().unwrap().into() };
    verify(&index.snapshot()?, &options, &mut |_| ControlFlow::Continue(()))
}

/// The bytes of an index of 100 blocks, as they are while it is open and once it is closed, and more blocks.
fn files() -> ([Vec<u8>; 2], IndexOptions, TempDir, Vec<Arc<Block>>) {
    let (mut chain, mut hostile) = (SimChain::new(6), Hostile::new(6));
    for _ in 0..115 {
        hostile.mine(&mut chain).unwrap();
    }
    let mut blocks: Vec<_> = chain.active_blocks().cloned().collect();
    let more = blocks.split_off(101);
    let Indexed { index, directory } = Indexed::of(blocks.iter().map(Arc::as_ref), 20);
    let options = options(directory.path());
    let open = fs::read(&options.path).unwrap();
    drop(index);
    let closed = fs::read(&options.path).unwrap();
    ([open, closed], options, directory, more)
}

#[test]
fn damage_anywhere_in_the_file_is_reported_or_harmless() {
    let (files, options, _directory, _) = files();
    let mut random = Rng::new(7);
    for whole in files {
        fs::write(&options.path, &whole).unwrap();
        let expected = check_file(&options).unwrap();
        assert!(expected.is_clean());
        assert!(fs::read(&options.path).unwrap() == whole, "a check changes the file");
        let (rounds, mut damaged) = (200, 0);
        for _ in 0..rounds {
            let damage = FileDamage::drawn(&mut random, whole.len());
            let mut bytes = whole.clone();
            damage.apply(&mut bytes);
            fs::write(&options.path, &bytes).unwrap();
            match check_file(&options) {
                Ok(report) => assert_eq!(report, expected, "{damage:?}"),
                Err(error) => {
                    damaged += 1;
                    assert!(error.to_string().contains("the index is damaged"), "{damage:?}: {error}");
                }
            }
            assert!(fs::read(&options.path).unwrap() == bytes, "{damage:?}: a check changes the file");
        }
        // the rest is where nothing is: in free pages and in bytes that are not used
        assert!(damaged > rounds / 3, "{damaged} of {rounds}");
    }
}

/// The program's index of these bytes in a directory.
fn place(directory: &Path, bytes: &[u8]) {
    fs::create_dir_all(directory.join("regtest")).unwrap();
    fs::write(directory.join("regtest/index.redb"), bytes).unwrap();
}

#[test]
fn a_damaged_file_ends_verify_with_4_and_without_a_panic() {
    let ([_, whole], ..) = files();
    let directory = tempfile::tempdir().unwrap();
    let verify = |bytes: &[u8]| {
        place(directory.path(), bytes);
        run(btcgraph(directory.path(), &["verify", "--without-node"]).env_remove("BTCGRAPH_INDEX__SALT"))
    };
    let (code, printed) = verify(&whole);
    assert_eq!(code, Some(0), "{printed}");
    let pages = whole.len() / PAGE;
    let mut random = Rng::new(8);
    let mut found = [0; 5];
    while found.iter().any(|found| *found < 3) {
        let page = usize::try_from(random.below(pages as u64)).unwrap();
        let damages = [
            FileDamage::FlippedBit { at: page % 320, bit: 3 },
            FileDamage::FlippedBit { at: page * PAGE, bit: 1 },
            FileDamage::ZeroedPage { page },
            FileDamage::RandomPage { page, seed: 9 },
            FileDamage::CutOff { length: page * PAGE + 5 },
        ];
        for (found, damage) in found.iter_mut().zip(damages).filter(|(found, _)| **found < 3) {
            let mut bytes = whole.clone();
            damage.apply(&mut bytes);
            let (code, printed) = verify(&bytes);
            assert!(!printed.contains("panicked") && !printed.contains("stack backtrace"), "{damage:?}: {printed}");
            if code != Some(0) {
                *found += 1;
                assert_eq!(code, Some(4), "{damage:?}: {printed}");
                assert!(printed.contains("the index is damaged"), "{damage:?}: {printed}");
            }
        }
    }
}

#[test]
fn opening_a_damaged_index_is_refused_without_a_panic() {
    let ([_, whole], options, _directory, _) = files();
    let mut refused = 0;
    for page in 0..whole.len() / PAGE {
        let mut bytes = whole.clone();
        FileDamage::ZeroedPage { page }.apply(&mut bytes);
        fs::write(&options.path, &bytes).unwrap();
        match Index::open(&options) {
            // what is not read yet may make closing it fail
            Ok(index) => {
                let _ = catch_damage::<_, IndexError>(|| {
                    drop(index);
                    Ok(())
                });
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("the index is damaged"), "page {page}: {error}");
            }
        }
    }
    // the header, and the pages that lead to the tables
    assert!(refused >= 3, "{refused}");
}

/// Zeroed pages that opening the index does not read, and checking its rows does.
fn unreadable(whole: &[u8], options: &IndexOptions) -> Vec<u8> {
    let zeroed = (1..whole.len() / PAGE).map(|page| {
        let mut bytes = whole.to_vec();
        FileDamage::ZeroedPage { page }.apply(&mut bytes);
        bytes
    });
    let is_unreadable = |bytes: &Vec<u8>| {
        fs::write(&options.path, bytes).unwrap();
        let Ok(index) = Index::open(options) else { return false };
        let verify_options = VerifyOptions { memory: 64 << 20, directory: options.path.parent().unwrap().into() };
        let report = verify(&index.snapshot().unwrap(), &verify_options, &mut |_| ControlFlow::Continue(()));
        matches!(report, Err(IndexError::Damaged { .. }))
    };
    zeroed.into_iter().find(is_unreadable).unwrap()
}

#[test]
fn a_server_reports_damage_that_its_check_finds_and_goes_on() {
    let ([_, whole], options, _directory, _) = files();
    let bytes = unreadable(&whole, &options);
    let directory = tempfile::tempdir().unwrap();
    place(directory.path(), &bytes);
    let away = ["--rpc-url", "http://127.0.0.1:1", "--rpc-user", "user", "--rpc-password", "password"].map(Into::into);
    let salt = SALT.0.to_lower_hex_string();
    let variables = [("BTCGRAPH_INDEX__SALT", salt.as_str()), ("BTCGRAPH_NODE__PATIENCE_SECONDS", "0")];
    let mut served = TestProcess::start_on(&away, directory.path(), &variables);
    for _ in 0..2 {
        let mut program = btcgraph(directory.path(), &["verify", "--without-node"]);
        let (code, printed) = run(program.env_remove("BTCGRAPH_INDEX__SALT"));
        assert_eq!(code, Some(4), "{printed}");
        assert!(printed.contains("the server that has the index open checks it"), "{printed}");
        assert!(printed.contains("btcgraph: the index is damaged"), "{printed}");
    }
    assert_eq!(served.query("{ tip { height } }"), json!({ "data": { "tip": { "height": 100 } } }));
    served.stop();
}

/// Changes a random byte of a random row, in its key or its value, and returns which.
fn change_a_byte(file: &Path, table: &str, random: &mut Rng) -> String {
    match table {
        "blocks" | "transactions" => flip::<&[u8; 4], &[u8]>(file, table, random),
        "block_starts" => flip::<&[u8; 4], &[u8; 8]>(file, table, random),
        "block_hashes" => flip::<&[u8; 32], &[u8; 5]>(file, table, random),
        "txids" => flip::<&[u8; 10], ()>(file, table, random),
        "spends" => flip::<&[u8; 7], &[u8; 7]>(file, table, random),
        "overwritten" => flip::<&[u8; 7], &[u8; 4]>(file, table, random),
        "history" => flip::<&[u8; 14], &[u8; 44]>(file, table, random),
        "unspent" => flip::<&[u8; 17], &[u8; 9]>(file, table, random),
        "payouts" => flip::<&[u8; 14], ()>(file, table, random),
        "p2pk" => flip::<&[u8; 30], &[u8; 4]>(file, table, random),
        "miner_blocks" => flip::<&[u8; 6], &[u8; 24]>(file, table, random),
        "block_filters" => flip::<&[u8; 4], &[u8; 32]>(file, table, random),
        "stale_blocks" | "stale_raw_blocks" => flip::<&[u8; 36], &[u8]>(file, table, random),
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
pub(crate) fn flip<K: redb::Key + 'static, V: redb::Value + 'static>(
    file: &Path,
    name: &str,
    random: &mut Rng,
) -> String {
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
            "stale_blocks" => [random.below(36 + 112), (key.len() + value.len()) as u64 - 1 - random.below(80)]
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
pub(crate) enum Damage {
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
            "overwritten" => self.damage::<&[u8; 7], &[u8; 4]>(file, table),
            "history" => self.damage::<&[u8; 14], &[u8; 44]>(file, table),
            "unspent" => self.damage::<&[u8; 17], &[u8; 9]>(file, table),
            "payouts" => self.damage::<&[u8; 14], ()>(file, table),
            "p2pk" => self.damage::<&[u8; 30], &[u8; 4]>(file, table),
            "miner_blocks" => self.damage::<&[u8; 6], &[u8; 24]>(file, table),
            "block_filters" => self.damage::<&[u8; 4], &[u8; 32]>(file, table),
            _ => panic!("unknown table {table}"),
        }
    }

    /// Damages the row in the middle of a table.
    pub(crate) fn damage<K: redb::Key + 'static, V: redb::Value + 'static>(self, file: &Path, name: &str) -> bool {
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
