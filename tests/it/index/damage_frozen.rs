//! Damage to generations: `verify` finds every row that is missing, changed or added, and every page that is not what was
//! written; rows that do not count are ignored.

use std::fs;
use std::hash::Hasher;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bitcoin::hashes::{Hash, sha256};
use bitcoin::{Block, Script};
use btcgraph::index::{Index, IndexError, IndexFile, Report, TxNum, VerifyOptions, verify};
use btcgraph::sim::{Hostile, Rng, SimChain};
use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition, TableHandle};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::index::damage::{Damage, FileDamage, flip};
use crate::support::agree::assert_agrees;
use crate::support::frozen::{BlockBytes, frozen};
use crate::support::indexed::{Indexed, SALT, options};
use crate::support::model::Model;
use crate::sync::faults::{META, set_meta};

/// The tables of a generation; the first has no `filters`.
const TABLES: [&str; 14] = [
    "blocks",
    "block_starts",
    "block_hashes",
    "txids",
    "txid_prefixes",
    "positions",
    "spends",
    "late_spends",
    "overwritten",
    "history",
    "unspent",
    "payouts",
    "p2pk",
    "filters",
];

/// Calls a function with the types of a packed table.
macro_rules! with_types {
    ($table:expr, $call:ident($($argument:expr),*)) => {
        match $table {
            "blocks" | "txids" | "positions" => $call!(&[u8; 4], &[u8], $($argument),*),
            "block_starts" => $call!(&[u8; 4], &[u8; 8], $($argument),*),
            "block_hashes" => $call!(&[u8; 32], &[u8; 5], $($argument),*),
            "txid_prefixes" => $call!(&[u8; 6], &[u8], $($argument),*),
            "spends" => $call!(&[u8; 7], &[u8], $($argument),*),
            "late_spends" => $call!(&[u8; 7], &[u8; 7], $($argument),*),
            "overwritten" => $call!(&[u8; 7], &[u8; 4], $($argument),*),
            "history" => $call!(&[u8; 14], &[u8], $($argument),*),
            "unspent" => $call!(&[u8; 17], &[u8; 9], $($argument),*),
            "payouts" => $call!(&[u8; 14], (), $($argument),*),
            "p2pk" => $call!(&[u8; 30], &[u8; 4], $($argument),*),
            "filters" => $call!(&[u8; 9], &[u8], $($argument),*),
            table => panic!("unknown table {table}"),
        }
    };
}

macro_rules! damage_a_row {
    ($key:ty, $value:ty, $file:expr, $table:expr, $damage:expr) => {
        $damage.damage::<$key, $value>($file, $table)
    };
}

macro_rules! flip_a_bit {
    ($key:ty, $value:ty, $file:expr, $table:expr, $random:expr) => {
        flip::<$key, $value>($file, $table, $random)
    };
}

/// A closed index with generations, and its files as they were.
struct Closed {
    directory: tempfile::TempDir,
    blocks: Vec<Arc<Block>>,
    /// The files of the generations, the oldest first, and that of the index.
    files: Vec<(PathBuf, Vec<u8>)>,
    report: Report,
}

impl Closed {
    /// Two generations, of which the newer overwrites and spends outputs of both, and live blocks. With `lowered`, some
    /// blocks of the newer left the chain.
    fn new(seed: u64, lowered: bool) -> Self {
        let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
        let (once, _) = hostile.repeat_coinbase(&mut chain, 1).unwrap();
        for _ in 0..20 {
            hostile.mine(&mut chain).unwrap();
        }
        let cut = u32::try_from(chain.active_blocks().count()).unwrap() - 1;
        hostile.repeat_coinbase(&mut chain, 2).unwrap();
        chain.mine_duplicate_coinbase(&once, Vec::new()).unwrap();
        for _ in 0..25 {
            hostile.mine(&mut chain).unwrap();
        }
        let blocks: Vec<_> = chain.active_blocks().cloned().collect();
        let all: Vec<_> = blocks.iter().map(Arc::as_ref).collect();
        let end = u32::try_from(blocks.len()).unwrap() - 6;
        let mut indexed = frozen(&all, &[cut, end]);
        indexed.connect(all[usize::try_from(end + 1).unwrap()..].iter().copied(), 3);
        if lowered {
            indexed.disconnect_to(end - 7);
            indexed.connect(all[usize::try_from(end - 7).unwrap()..].iter().copied(), 3);
        }
        let report = indexed.verified();
        let Indexed { index, directory } = indexed;
        drop(index);
        let mut paths: Vec<_> = fs::read_dir(directory.path().join("index.frozen")).unwrap().collect();
        paths.sort_by_key(|entry| {
            let name = entry.as_ref().unwrap().file_name().into_string().unwrap();
            name.split('-').next().unwrap().parse::<u32>().unwrap()
        });
        let mut paths: Vec<_> = paths.into_iter().map(|entry| entry.unwrap().path()).collect();
        paths.push(options(directory.path()).path);
        let files = paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        Self { directory, blocks, files, report }
    }

    fn restore(&self) {
        for (path, bytes) in &self.files {
            fs::write(path, bytes).unwrap();
        }
    }

    fn verify(&self, index: &Index) -> Result<Report, IndexError> {
        index.set_raw_blocks(Arc::new(BlockBytes::of(self.blocks.iter().map(Arc::as_ref))));
        let options = VerifyOptions { memory: 64 << 20, directory: self.directory.path().into() };
        verify(&index.snapshot()?, &options, &mut |_| ControlFlow::Continue(()))
    }

    /// What a check of the rows says.
    fn check_rows(&self) -> Result<Report, IndexError> {
        self.verify(&Index::open(&options(self.directory.path()))?)
    }

    /// What a check of the closed files says.
    fn check_files(&self) -> Result<Report, IndexError> {
        let file = IndexFile::open(options(self.directory.path()), Box::new(|_| ControlFlow::Continue(())))?;
        self.verify(&file.check()?)
    }
}

fn rows_of(file: &Path, table: &str) -> u64 {
    let database = Database::open(file).unwrap();
    let transaction = database.begin_read().unwrap();
    let handle = transaction.list_tables().unwrap().find(|handle| handle.name() == table);
    handle.map_or(0, |handle| transaction.open_untyped_table(handle).unwrap().len().unwrap())
}

#[test]
fn a_missing_a_changed_and_an_added_packed_row_is_found() {
    let closed = Closed::new(11, false);
    for table in TABLES {
        let mut damaged = 0;
        for (file, _) in &closed.files[..2] {
            for damage in [Damage::Remove, Damage::Change, Damage::Add] {
                closed.restore();
                if rows_of(file, table) == 0 || !with_types!(table, damage_a_row(file, table, damage)) {
                    continue;
                }
                damaged += 1;
                let report = match closed.check_rows() {
                    Err(IndexError::Corrupt { .. }) => continue,
                    report => report.unwrap(),
                };
                // the recorded number of rows is no help against other damage
                let found = report.differences.iter().filter(|difference| !difference.contains("but counted"));
                let names = |difference: &&String| {
                    difference.starts_with(table) || (table == "late_spends" && difference.starts_with("spends"))
                };
                assert!(found.into_iter().any(|found| names(&found)), "{table} {damage:?}: {:?}", report.differences);
            }
        }
        assert!(damaged >= 2, "{table} has rows");
    }
}

#[test]
fn any_changed_bit_of_a_packed_row_is_found() {
    let closed = Closed::new(12, false);
    let mut random = Rng::new(13);
    for round in 0..140 {
        let table = TABLES[round % TABLES.len()];
        let file = &closed.files[usize::try_from(random.below(2)).unwrap()].0;
        closed.restore();
        if rows_of(file, table) == 0 {
            continue;
        }
        let change = with_types!(table, flip_a_bit(file, table, &mut random));
        match closed.check_rows() {
            Ok(report) => assert!(!report.is_clean(), "{table}: {change} is not found"),
            // of rows that are read when the index is opened
            Err(error) => assert!(matches!(error, IndexError::Corrupt { .. }), "{table}: {change}: {error}"),
        }
    }
}

#[test]
fn a_damaged_filter_hides_nothing() {
    let closed = Closed::new(19, false);
    let model = Model::of(closed.blocks.iter().map(Arc::as_ref));
    let newer = &closed.files[1].0;
    let mut random = Rng::new(20);
    let agrees = || {
        let index = Index::open(&options(closed.directory.path())).unwrap();
        index.set_raw_blocks(Arc::new(BlockBytes::of(closed.blocks.iter().map(Arc::as_ref))));
        assert_agrees(&index.snapshot().unwrap(), &model);
    };
    agrees();
    for damage in [Damage::Remove, Damage::Change, Damage::Add] {
        closed.restore();
        assert!(damage.damage::<&[u8; 9], &[u8]>(newer, "filters"), "{damage:?}");
        agrees();
    }
    for _ in 0..20 {
        closed.restore();
        flip::<&[u8; 9], &[u8]>(newer, "filters", &mut random);
        agrees();
    }
}

#[test]
fn damage_anywhere_in_a_generation_is_reported_or_harmless() {
    for lowered in [false, true] {
        let closed = Closed::new(14, lowered);
        assert_eq!(closed.check_files().unwrap(), closed.report);
        let mut random = Rng::new(15);
        let (rounds, mut damaged) = (60, 0);
        for round in 0..rounds {
            closed.restore();
            let (path, whole) = &closed.files[round % 2];
            let damage = FileDamage::drawn(&mut random, whole.len());
            let mut bytes = whole.clone();
            damage.apply(&mut bytes);
            fs::write(path, &bytes).unwrap();
            match closed.check_files() {
                Ok(report) => assert_eq!(report, closed.report, "{damage:?}"),
                Err(error) => {
                    damaged += 1;
                    assert!(error.to_string().contains("the index is damaged"), "{damage:?}: {error}");
                }
            }
            assert!(fs::read(path).unwrap() == bytes, "{damage:?}: a check changes the file");
            // a server does not compare checksums: what it says is a report or an error
            let _ = closed.check_rows();
        }
        // most of a small file is free pages
        assert!(damaged > rounds / 6, "{damaged} of {rounds}");
    }
}

#[test]
fn a_missing_generation_is_reported_with_its_path() {
    let closed = Closed::new(16, false);
    let path = &closed.files[1].0;
    fs::remove_file(path).unwrap();
    for checked in [closed.check_rows(), closed.check_files()] {
        let error = checked.unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    fs::write(path, []).unwrap();
    let error = closed.check_files().unwrap_err();
    assert!(error.to_string().contains("it is empty"), "{error}");
}

#[test]
fn a_wrong_end_of_a_generation_is_found() {
    for lowered in [false, true] {
        let closed = Closed::new(17, lowered);
        let index = &closed.files[2].0;
        // a record ends with: height 4, hash 32, txnum 4
        for behind in [1, 4, 8, 36, 37, 40] {
            closed.restore();
            let mut row = {
                let database = Database::open(index).unwrap();
                let table = database.begin_read().unwrap().open_table(META).unwrap();
                table.get("generations").unwrap().unwrap().value().to_vec()
            };
            let at = row.len() - behind;
            row[at] ^= 1;
            set_meta(index, "generations", &row);
            match closed.check_rows() {
                Ok(report) => assert!(!report.is_clean(), "{behind} bytes before the end"),
                Err(error) => assert!(matches!(error, IndexError::Corrupt { .. }), "{error}"),
            }
        }
    }
}

/// Changes the live tables of an index.
fn change_live<K: redb::Key + 'static, V: redb::Value + 'static>(
    closed: &Closed,
    table: &'static str,
    key: K::SelfType<'_>,
    value: V::SelfType<'_>,
) {
    closed.restore();
    let database = Database::open(&closed.files[2].0).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<K, V>::new(table)).unwrap().insert(key, value).unwrap();
    transaction.commit().unwrap();
}

/// The key of a script, as docs/index-format.md describes it.
fn script_key(script: &Script) -> [u8; 10] {
    let mut hasher = SipHasher24::new_with_key(&SALT.0);
    hasher.write(sha256::Hash::hash(script.as_bytes()).as_byte_array());
    *hasher.finish128().as_bytes().first_chunk().unwrap()
}

#[test]
fn live_rows_below_the_end_count_only_where_they_can() {
    let closed = Closed::new(18, false);
    // a frozen output that the same generation spends, and one that is unspent
    let index = Index::open(&options(closed.directory.path())).unwrap();
    index.set_raw_blocks(Arc::new(BlockBytes::of(closed.blocks.iter().map(Arc::as_ref))));
    let snapshot = index.snapshot().unwrap();
    let spent = (1..200)
        .find_map(|txnum| {
            let spender = snapshot.spender(TxNum(txnum), 0).unwrap()?;
            Some((TxNum(txnum), snapshot.transaction(TxNum(txnum)).unwrap().unwrap(), spender))
        })
        .unwrap();
    drop((snapshot, index));
    let (txnum, transaction, spender) = spent;
    let outpoint = |txnum: TxNum, vout: u32| -> [u8; 7] {
        [&txnum.0.to_be_bytes()[..], &vout.to_be_bytes()[1..]].concat().try_into().unwrap()
    };
    let is_clean = || closed.check_rows().unwrap().is_clean();
    let (output, input) = (outpoint(txnum, 0), outpoint(spender.txnum, spender.vin));

    // what freezing leaves until it is deleted
    change_live::<&[u8; 7], &[u8; 7]>(&closed, "spends", &output, &input);
    assert!(is_clean());
    change_live::<&[u8; 4], &[u8]>(&closed, "transactions", &txnum.0.to_be_bytes(), &[7; 99]);
    assert!(is_clean());
    change_live::<&[u8; 14], &[u8; 44]>(
        &closed,
        "history",
        &[&[7; 10][..], &txnum.0.to_be_bytes()].concat().try_into().unwrap(),
        &[1; 44],
    );
    assert!(is_clean());

    // what contradicts
    change_live::<&[u8; 7], &[u8; 7]>(&closed, "spends", &output, &outpoint(spender.txnum, spender.vin + 1));
    assert!(!is_clean());
    let raw: bitcoin::Transaction = bitcoin::consensus::deserialize(transaction.parts.raw()).unwrap();
    let paid = &raw.output[0];
    let row: [u8; 17] = [&script_key(&paid.script_pubkey)[..], &output].concat().try_into().unwrap();
    let value: [u8; 9] =
        [&paid.value.to_sat().to_be_bytes()[..], &[u8::from(transaction.fee.is_none())]].concat().try_into().unwrap();
    change_live::<&[u8; 17], &[u8; 9]>(&closed, "unspent", &row, &value);
    let report = closed.check_rows().unwrap();
    assert!(report.differences.iter().any(|found| found.starts_with("unspent")), "{:?}", report.differences);
    let hash: [u8; 32] = bitcoin::hashes::Hash::to_byte_array(closed.blocks[30].block_hash());
    change_live::<&[u8; 32], &[u8; 5]>(&closed, "block_hashes", &hash, &[0, 0, 0, 30, 1]);
    assert!(!is_clean());
}
