//! Generations: packed blocks give the same answers as the live rows that they were packed from.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, hash160};
use bitcoin::{Amount, Block, BlockHash, Network, OutPoint, Transaction, TxIn};
use btcgraph::chain::Height;
use btcgraph::chain::script::p2pk_key;
use btcgraph::index::{
    ChainMembership, Generation, HistoryRow, Import, ImportOptions, ImportPhase, ImportProgress, IndexError,
    OutputPosition, ScriptKey, Snapshot, TxNum, UnspentKey, UnspentRow,
};
use btcgraph::sim::{Owner, ScriptKind, SimChain};

use crate::support::bitcoind::wait_for;
use crate::support::hostile::repeated_coinbases;
use crate::support::indexed::{Indexed, SALT};
use crate::sync::faults::set_meta;

const ALL: TxNum = TxNum(u32::MAX);

fn blocks(chain: &SimChain) -> Vec<Arc<Block>> {
    chain.active_blocks().cloned().collect()
}

pub(crate) fn hostile_blocks(seed: u64) -> Vec<Arc<Block>> {
    repeated_coinbases(seed, 120)
}

pub(crate) fn open(path: &Path) -> Generation {
    Generation::open(path, Network::Regtest, SALT, 8 << 20).unwrap()
}

/// Packs all blocks of an index into generations that end at these heights.
fn pack(snapshot: &Snapshot, directory: &Path, ends: &[u32]) -> Vec<Generation> {
    let mut first = 0;
    let pack = |end: &u32| {
        let path = directory.join(format!("{first}-{end}.redb"));
        let range = snapshot.pack(Height::from(first)..=Height::from(*end), &path).unwrap();
        let generation = open(&path);
        assert_eq!((generation.range(), range.first, range.last.height), (range, first.into(), (*end).into()));
        first = end + 1;
        generation
    };
    ends.iter().map(pack).collect()
}

fn all<T>(rows: impl Iterator<Item = Result<T, IndexError>>) -> Vec<T> {
    rows.map(Result::unwrap).collect()
}

/// Asserts that consecutive generations answer as the live rows of a snapshot whose tip is their last block.
fn assert_equal(generations: &[Generation], snapshot: &Snapshot, blocks: &[Arc<Block>]) {
    let owner = |txnum: TxNum| generations.iter().find(|generation| generation.range().contains(txnum)).unwrap();
    let (mut scripts, mut public_keys, mut next) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (block, height) in blocks.iter().zip((0..).map(Height::from)) {
        let first = TxNum(next);
        let row = snapshot.block(height).unwrap();
        assert_eq!(owner(first).block(height).unwrap(), row, "height {height}");
        let place = owner(first).block_place(block.block_hash()).unwrap().unwrap();
        assert_eq!((place.height, place.membership), (height, ChainMembership::Main));
        let bytes = serialize(&**block);
        for transaction in &block.txdata {
            let txnum = TxNum(next);
            let (generation, live) = (owner(txnum), snapshot.transaction(txnum).unwrap().unwrap());
            assert_eq!(generation.txid(txnum).unwrap(), Some(live.txid));
            assert_eq!(generation.occurrence(txnum).unwrap(), Some(snapshot.occurrence(txnum).unwrap()));
            let (offset, length, fee) = generation.block_offset(txnum).unwrap().unwrap();
            let offset = usize::try_from(offset).unwrap();
            assert_eq!((&bytes[offset..][..length.try_into().unwrap()], fee), (live.parts.raw(), live.fee), "{txnum}");
            let copies: Vec<_> =
                generations.iter().flat_map(|generation| generation.positions(&live.txid).unwrap()).collect();
            assert_eq!(copies, snapshot.positions(&live.txid).unwrap(), "{txnum}");
            for (output, vout) in transaction.output.iter().zip(0..) {
                let spender = generations.iter().find_map(|generation| generation.spender(txnum, vout).unwrap());
                assert_eq!(spender, snapshot.spender(txnum, vout).unwrap(), "{txnum}:{vout}");
                scripts.insert(output.script_pubkey.clone());
                public_keys.extend(p2pk_key(&output.script_pubkey).map(hash160::Hash::hash));
            }
            let beyond = u32::try_from(transaction.output.len()).unwrap();
            assert_eq!(generation.spender(txnum, beyond).unwrap(), None);
            next += 1;
        }
    }
    for script in &scripts {
        assert_script_equal(generations, snapshot, snapshot.script_key(script.as_bytes()), TxNum(next));
    }
    assert!(!public_keys.is_empty() && scripts.len() > 50);
    for key_hash in public_keys {
        let mut earliest = BTreeMap::new();
        for (script, txnum) in generations.iter().flat_map(|generation| generation.p2pk_scripts(key_hash).unwrap()) {
            earliest.entry(script).or_insert(txnum);
        }
        assert_eq!(earliest.into_iter().collect::<Vec<_>>(), snapshot.p2pk_scripts(key_hash).unwrap());
    }
}

fn assert_script_equal(generations: &[Generation], snapshot: &Snapshot, script: ScriptKey, end: TxNum) {
    let history = |txnums: std::ops::Range<TxNum>| -> Vec<(TxNum, HistoryRow)> {
        let rows = |generation: &Generation| all(generation.history(script, txnums.clone()).unwrap());
        generations.iter().flat_map(rows).collect()
    };
    let expected = all(snapshot.history(script, TxNum(0)..ALL).unwrap());
    assert_eq!(history(TxNum(0)..ALL), expected);
    for (txnum, _) in expected.iter().step_by(expected.len().div_ceil(3).max(1)) {
        assert_eq!(history(*txnum..ALL), all(snapshot.history(script, *txnum..ALL).unwrap()));
        for before in [*txnum, TxNum(txnum.0 + 1), end] {
            let found = generations.iter().rev().find_map(|generation| generation.totals(script, before).unwrap());
            assert_eq!(found, snapshot.totals(script, before).unwrap());
        }
    }
    let heights = Height::GENESIS..Height::from(u32::MAX);
    let payouts = generations.iter().flat_map(|generation| all(generation.payouts(script, heights.clone()).unwrap()));
    assert_eq!(payouts.collect::<Vec<_>>(), all(snapshot.payouts(script, heights.clone()).unwrap()));
    let unspent = generations.iter().flat_map(|generation| {
        all(generation.unspent(script, OutputPosition::default()..OutputPosition::END).unwrap())
    });
    // what a later generation spends or overwrites
    let is_unspent = |(output, _): &(UnspentKey, UnspentRow)| {
        let (txnum, vout) = (output.txnum, output.vout);
        generations.iter().all(|generation| {
            generation.spender(txnum, vout).unwrap().is_none() && generation.overwriter(txnum, vout).unwrap().is_none()
        })
    };
    let expected = all(snapshot.unspent(script, OutputPosition::default()..OutputPosition::END).unwrap());
    assert_eq!(unspent.filter(is_unspent).collect::<Vec<_>>(), expected);
}

#[test]
fn packed_blocks_answer_as_the_rows_that_they_were_packed_from() {
    for seed in [1, 2] {
        let blocks = hostile_blocks(seed);
        let tip = u32::try_from(blocks.len()).unwrap() - 1;
        let indexed = Indexed::of(blocks.iter().map(Arc::as_ref), 50);
        let snapshot = indexed.index.snapshot().unwrap();
        for ends in [vec![tip], vec![tip / 2, tip], vec![0, 1, 12, tip / 3, tip - 1, tip]] {
            let directory = tempfile::tempdir().unwrap();
            assert_equal(&pack(&snapshot, directory.path(), &ends), &snapshot, &blocks);
        }
    }
}

#[test]
fn a_generation_has_nothing_of_the_blocks_above_it() {
    let blocks = hostile_blocks(3);
    let tip = u32::try_from(blocks.len()).unwrap() - 1;
    let whole = Indexed::of(blocks.iter().map(Arc::as_ref), 50);
    for cut in [0, 1, 9, tip / 2, tip - 1] {
        let below = &blocks[..=usize::try_from(cut).unwrap()];
        let indexed = Indexed::of(below.iter().map(Arc::as_ref), 50);
        let part = indexed.index.snapshot().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        let heights = Height::GENESIS..=Height::from(cut);
        let range = whole.index.snapshot().unwrap().pack(heights.clone(), &one).unwrap();
        assert_eq!(part.pack(heights, &other).unwrap(), range);
        // row for row, whatever came after
        assert_eq!(open(&one).checksums().unwrap(), open(&other).checksums().unwrap(), "height {cut}");
        if cut > 100 {
            assert_equal(&[open(&one)], &part, below);
        }
    }
}

/// Begins or continues an import once no other holds its directory: a program that another test starts at the moment at which one
/// is dropped has a copy of its lock until it runs.
pub(crate) fn begin(options: &ImportOptions) -> Import {
    wait_for("the directory", Duration::from_secs(10), || match Import::begin(options.clone()) {
        Err(IndexError::TemporaryDirectoryInUse { .. }) => None,
        begun => Some(begun.unwrap()),
    })
}

pub(crate) fn import_options(directory: &Path, range: u32) -> ImportOptions {
    ImportOptions {
        path: directory.join("imported.redb"),
        directory: directory.to_path_buf(),
        network: Network::Regtest,
        salt: SALT,
        memory: 1 << 20,
        threads: 3,
        transactions: 1_000,
        range,
        checkpoint_interval: ImportOptions::CHECKPOINT_INTERVAL,
        raw_files: None,
    }
}

pub(crate) fn unwatched(_: ImportProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub(crate) fn serialized(blocks: &[Arc<Block>]) -> Vec<(BlockHash, Vec<u8>)> {
    blocks.iter().map(|block| (block.block_hash(), serialize(&**block))).collect()
}

#[test]
fn an_import_makes_the_rows_that_packing_an_index_makes() {
    for (seed, range, at_once) in [(5, 1, 1), (6, 40, 7), (7, 1_000_000, 1_000)] {
        let blocks = hostile_blocks(seed);
        let indexed = Indexed::of(blocks.iter().map(Arc::as_ref), 50);
        let (directory, snapshot) = (tempfile::tempdir().unwrap(), indexed.index.snapshot().unwrap());
        let packed = directory.path().join("packed.redb");
        let expected = snapshot.pack(Height::GENESIS..=snapshot.tip().unwrap().height, &packed).unwrap();
        let options = import_options(directory.path(), range);
        let mut import = begin(&options);
        for blocks in serialized(&blocks).chunks(at_once) {
            import.push(blocks).unwrap();
        }
        assert_eq!(import.finish(&mut unwatched).unwrap().unwrap().range, expected);
        assert_eq!(open(&options.path).checksums().unwrap(), open(&packed).checksums().unwrap());
    }
}

/// The block with further transactions, which are not validated.
fn with(block: &Block, transactions: impl IntoIterator<Item = Transaction>) -> Arc<Block> {
    let mut block = block.clone();
    block.txdata.extend(transactions);
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    Arc::new(block)
}

/// Spends an output to two of this value.
fn spend(coin: OutPoint, value: u64) -> Transaction {
    let output = Owner::new(ScriptKind::P2a, 9_999).output(Amount::from_sat(value));
    Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: vec![TxIn { previous_output: coin, ..TxIn::default() }],
        output: vec![output.clone(), output],
    }
}

/// The error of an import of these blocks, and of an index that connects them one by one.
fn refusals(blocks: &[Arc<Block>]) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut import = Import::begin(import_options(directory.path(), 30)).unwrap();
    let imported = import.push(&serialized(blocks)).and_then(|()| import.finish(&mut unwatched));
    let mut indexed = Indexed::empty();
    let parser = indexed.index.parser();
    let connect = |block: &Arc<Block>| {
        let block = parser.parse(block.block_hash(), serialize(&**block))?;
        let mut update = indexed.index.update()?;
        update.connect(&[block])?;
        update.commit()
    };
    let connected = blocks.iter().try_for_each(connect);
    (imported.unwrap_err().to_string(), connected.unwrap_err().to_string())
}

#[test]
fn blocks_that_an_index_refuses_are_refused_by_an_import() {
    let mut chain = SimChain::new(8);
    let coinbase = chain.mine(Vec::new()).unwrap().txdata[0].compute_txid();
    chain.mine_empty(99).unwrap();
    let (coin, next) = (OutPoint::new(coinbase, 0), chain.mine(Vec::new()).unwrap());
    let before = blocks(&chain)[..101].to_vec();
    let first = spend(coin, 1_000);
    let own = |vout| OutPoint::new(first.compute_txid(), vout);
    for (transactions, expected) in [
        (vec![first.clone(), spend(own(0), 1), spend(own(0), 2)], "input 0"),
        (vec![first.clone(), spend(own(2), 1)], "input 0"),
        (vec![spend(own(0), 1), first.clone()], "input 0"),
        (vec![spend(OutPoint::null(), 1)], "coinbase"),
        (vec![first.clone(), spend(own(0), 501)], "creates more than it spends"),
        (vec![first.clone(), spend(own(0), u64::MAX / 2 + 1)], "more coins than can exist"),
    ] {
        let wrong = with(&next, transactions);
        let (imported, connected) = refusals(&[before.clone(), vec![wrong.clone()]].concat());
        assert!(imported.contains(expected), "{imported} ({connected})");
        assert!(imported.contains(&wrong.block_hash().to_string()), "{imported}");
    }
    let too_much = with(&next, []);
    let mut too_much = Block::clone(&too_much);
    too_much.txdata[0].output[0].value += Amount::from_sat(1);
    let too_much = with(&too_much, []);
    let (imported, connected) = refusals(&[before.clone(), vec![too_much]].concat());
    assert_eq!(imported, connected);

    let mut other_root = Block::clone(&next);
    other_root.header.merkle_root = before[0].header.merkle_root;
    let gap = before[..50].iter().chain(&before[51..]).cloned().collect::<Vec<_>>();
    for wrong in [[before.clone(), vec![Arc::new(other_root)]].concat(), gap, before[1..].to_vec()] {
        let (imported, connected) = refusals(&wrong);
        assert_eq!(imported, connected);
    }
}

#[test]
fn an_import_of_damaged_bytes_is_refused_and_of_none_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let options = import_options(directory.path(), 10);
    assert_eq!(begin(&options).finish(&mut unwatched).unwrap(), None);
    let genesis = serialized(&blocks(&SimChain::new(9))[..1]).remove(0);
    for (at, length) in [(0, 79), (0, 80), (0, 81), (0, genesis.1.len() - 1), (1, genesis.1.len())] {
        let options = ImportOptions { path: directory.path().join(format!("{at}-{length}")), ..options.clone() };
        let damaged = (genesis.0, genesis.1[at..length].to_vec());
        let error = Import::begin(options).unwrap().push(&[damaged]).unwrap_err();
        assert!(matches!(error, IndexError::Malformed { .. } | IndexError::InvalidBlock { .. }), "{error}");
    }
}

/// The names of the files in a directory.
pub(crate) fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn an_import_is_broken_after_a_failed_push() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = serialized(&blocks(&SimChain::new(9))[..1]);
    let mut import = Import::begin(import_options(directory.path(), 10)).unwrap();
    let damaged = (blocks[0].0, blocks[0].1[..100].to_vec());
    import.push(&[damaged]).unwrap_err();
    // the block itself is valid, but it is counted twice if the import accepts it now
    assert!(matches!(import.push(&blocks), Err(IndexError::Broken)));
    assert!(matches!(import.push(&[]), Err(IndexError::Broken)));
    assert!(matches!(import.checkpoint(), Err(IndexError::Broken)));
    assert!(matches!(import.finish(&mut unwatched), Err(IndexError::Broken)));
}

#[test]
fn only_an_import_that_can_be_continued_leaves_its_files() {
    let mut chain = SimChain::new(8);
    let coinbase = chain.mine(Vec::new()).unwrap().txdata[0].compute_txid();
    chain.mine_empty(99).unwrap();
    let next = chain.mine(Vec::new()).unwrap();
    let twice = [spend(OutPoint::new(coinbase, 0), 1_000), spend(OutPoint::new(coinbase, 0), 999)];
    let invalid = [blocks(&chain)[..101].to_vec(), vec![with(&next, twice)]].concat();

    let directory = tempfile::tempdir().unwrap();
    let begin = || begin(&import_options(directory.path(), 10));
    let mut dropped = begin();
    dropped.push(&serialized(&invalid)).unwrap();
    drop(dropped);
    assert!(files(directory.path()).contains(&"imported.redb".to_owned()));
    Import::discard(&import_options(directory.path(), 10)).unwrap();
    assert_eq!(files(directory.path()), [""; 0]);

    let mut failed = begin();
    failed.push(&serialized(&invalid)).unwrap();
    assert!(matches!(failed.finish(&mut unwatched), Err(IndexError::InvalidBlock { .. })));
    assert_eq!(files(directory.path()), [""; 0]);

    assert_eq!(begin().finish(&mut unwatched).unwrap(), None);
    assert_eq!(files(directory.path()), [""; 0]);
    let mut finished = begin();
    finished.push(&serialized(&blocks(&chain))).unwrap();
    finished.finish(&mut unwatched).unwrap().unwrap();
    assert_eq!(files(directory.path()), ["imported.redb"]);
}

#[test]
fn an_import_reports_every_partition_and_range() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = hostile_blocks(5);
    let mut import = Import::begin(import_options(directory.path(), 40)).unwrap();
    import.push(&serialized(&blocks)).unwrap();
    let mut reports: Vec<ImportProgress> = Vec::new();
    let mut watch = |progress| {
        reports.push(progress);
        ControlFlow::Continue(())
    };
    let imported = import.finish(&mut watch).unwrap().unwrap();
    let phases: Vec<_> = reports.chunk_by(|one, other| one.phase == other.phase).collect();
    let order: Vec<_> = phases.iter().map(|phase| phase[0].phase.name()).collect();
    assert_eq!(order, ["joining", "outputs", "scripts", "flushing"]);
    for phase in &phases[..3] {
        let total = phase[0].total;
        assert!(total > 1);
        assert_eq!(phase.iter().map(|report| report.done).collect::<Vec<_>>(), (0..=total).collect::<Vec<_>>());
        assert!(phase.iter().all(|report| report.total == total));
    }
    assert_eq!((phases[3].len(), phases[3][0].done, phases[3][0].total), (1, 0, 1));
    let bytes: Vec<_> = phases.iter().map(|phase| phase[0].temporary_bytes).collect();
    assert!(bytes.iter().all(|bytes| (1..=imported.temporary_bytes).contains(bytes)), "{bytes:?}");
    // only the list of blocks and the P2PK scripts are left
    assert!(bytes[3] < bytes[0] / 4, "{bytes:?}");
}

#[test]
fn an_interrupted_import_stops_in_any_phase() {
    let blocks = serialized(&hostile_blocks(5));
    let directory = tempfile::tempdir().unwrap();
    for (phase, done) in [
        (ImportPhase::Joining, 0),
        (ImportPhase::Joining, 2),
        (ImportPhase::Outputs, 1),
        (ImportPhase::Scripts, 1),
        (ImportPhase::Flushing, 0),
    ] {
        let mut import = Import::begin(import_options(directory.path(), 40)).unwrap();
        import.push(&blocks).unwrap();
        let mut after = None;
        let mut watch = |progress: ImportProgress| {
            if let Some(after) = &mut after {
                *after += 1;
            } else if (progress.phase, progress.done) == (phase, done) {
                after = Some(0);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        assert!(matches!(import.finish(&mut watch), Err(IndexError::Interrupted)), "{phase:?} {done}");
        assert_eq!(after, Some(0));
        Import::discard(&import_options(directory.path(), 40)).unwrap();
        assert_eq!(files(directory.path()), [""; 0]);
    }
}

#[test]
fn a_file_of_another_kind_network_or_salt_is_refused() {
    let blocks = hostile_blocks(4);
    let indexed = Indexed::of(blocks.iter().map(Arc::as_ref), 50);
    let path = indexed.directory.path().join("generation");
    let snapshot = indexed.index.snapshot().unwrap();
    snapshot.pack(Height::GENESIS..=Height::from(20), &path).unwrap();
    // a file that exists is neither added to nor replaced
    let bytes = std::fs::read(&path).unwrap();
    let error = snapshot.pack(Height::from(21)..=Height::from(30), &path).unwrap_err();
    assert!(matches!(error, IndexError::File { .. }), "{error}");
    let existing = ImportOptions { path: path.clone(), ..import_options(indexed.directory.path(), 10) };
    assert!(matches!(Import::begin(existing.clone()), Err(IndexError::File { .. })));
    assert!(matches!(Import::discard(&existing), Err(IndexError::File { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let open = |network, salt| Generation::open(&path, network, salt, 1 << 20).err().unwrap();
    assert!(matches!(open(Network::Signet, SALT), IndexError::WrongNetwork { .. }));
    assert!(matches!(open(Network::Regtest, btcgraph::index::Salt([0; 16])), IndexError::WrongSalt { .. }));
    let tip = snapshot.tip().unwrap().height.to_u32();
    let beyond = Height::from(tip)..=Height::from(tip + 1);
    assert!(matches!(snapshot.pack(beyond, &indexed.directory.path().join("beyond")), Err(IndexError::Corrupt { .. })));
    // an index is a database, but not a generation
    let not_one = indexed.directory.path().join("index.redb");
    drop((snapshot, indexed.index));
    let error = Generation::open(&not_one, Network::Regtest, SALT, 1 << 20).err().unwrap();
    assert!(matches!(error, IndexError::WrongVersion { .. } | IndexError::Foreign { .. }), "{error}");
}

#[test]
fn a_generation_of_an_older_format_is_refused_in_a_sentence_that_names_the_file() {
    let blocks = hostile_blocks(5);
    let indexed = Indexed::of(blocks[..20].iter().map(Arc::as_ref), 20);
    let path = indexed.directory.path().join("generation");
    indexed.index.snapshot().unwrap().pack(Height::GENESIS..=Height::from(10), &path).unwrap();
    set_meta(&path, "format", &1_u32.to_be_bytes());
    let error = Generation::open(&path, Network::Regtest, SALT, 1 << 20).err().unwrap().to_string();
    let expected = "has index format 1, but this version of btcgraph reads format 3: remove the file and import again";
    assert!(error.starts_with(&format!("{} {expected}", path.display())), "{error}");
}
