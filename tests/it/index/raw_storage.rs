//! The bytes of frozen blocks beside the index: they survive reorganisations, restarts, kills and damage, need no node, and move
//! when the setting changes.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bitcoin::Block;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::consensus::serialize;
use btcgraph::chain::Height;
use btcgraph::index::{ImportOptions, Index, IndexError, IndexOptions, RawFiles, RawStorage, Tip, TxNum};
use btcgraph::sim::{Hostile, Rng, SimChain};
use btcgraph::sync::{FreezeBounds, SyncError};
use serde_json::{Value, json};

use crate::index::generations::{begin, hostile_blocks, import_options, serialized, unwatched};
use crate::support::agree::assert_agrees;
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::frozen::BlockBytes;
use crate::support::indexed::{Indexed, in_memory, options};
use crate::support::model::Model;
use crate::support::program::{btcgraph_on, run as run_program};
use crate::support::test_process::TestProcess;
use crate::sync::freezing::{FrozenFollower, hostile_chain};

const BOUNDS: FreezeBounds = FreezeBounds { depth: 5, every: 20, transactions: u64::MAX };

/// An index that stores the bytes of frozen blocks there, on a node with this chain.
fn follower(chain: SimChain, storage: Option<RawStorage>) -> FrozenFollower {
    let mut followed = FrozenFollower::start(chain, BOUNDS);
    followed.raw_transactions = storage;
    followed
}

/// Checks the index without any node: all bytes of frozen blocks are in its raw files.
#[track_caller]
fn assert_complete(followed: &mut FrozenFollower) {
    followed.restart();
    let blocks = followed.blocks();
    let snapshot = followed.indexed.index.snapshot().unwrap();
    assert!(snapshot.frozen().is_some());
    assert_eq!(snapshot.raw_progress(Height::GENESIS).unwrap().first_missing, None);
    followed.indexed.verified();
    assert_agrees(&snapshot, &Model::of(blocks.iter().map(AsRef::as_ref)));
}

fn raw_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.join("index.raw")).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn mine(followed: &FrozenFollower, hostile: &mut Hostile, blocks: u32) {
    for _ in 0..blocks {
        followed.sim.with(|world| world.change_chain(|chain| hostile.mine(chain))).unwrap().unwrap();
    }
}

#[test]
fn raw_files_have_all_frozen_blocks_through_reorganisations() {
    let (chain, mut hostile) = hostile_chain(71, 160);
    let mut followed = follower(chain, Some(RawStorage::Index));
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - 5));
    assert_complete(&mut followed);
    for depth in [1, 9, 60, 3, followed.tip() - 1] {
        let branch = |chain: &mut SimChain| hostile.branch(chain, depth, depth + 25);
        followed.sim.with(|world| world.change_chain(branch)).unwrap().unwrap();
        followed.catch_up();
        assert_complete(&mut followed);
    }
    let files = raw_files(followed.indexed.directory.path());
    assert!(!files.is_empty());
}

#[test]
fn without_a_setting_the_recorded_storage_stays() {
    let (chain, mut hostile) = hostile_chain(72, 100);
    let mut followed = follower(chain, Some(RawStorage::Index));
    followed.catch_up();
    followed.raw_transactions = None;
    followed.restart();
    mine(&followed, &mut hostile, 30);
    followed.catch_up();
    assert_complete(&mut followed);
    let (chain, _) = hostile_chain(72, 100);
    let mut other = follower(chain, None);
    other.catch_up();
    assert_eq!(other.indexed.index.raw_storage().unwrap(), Some(RawStorage::Node));
    assert!(raw_files(other.indexed.directory.path()).is_empty());
}

#[test]
fn a_change_to_the_index_copies_blocks_and_continues_after_a_restart() {
    let (chain, mut hostile) = hostile_chain(73, 150);
    let mut followed = follower(chain, Some(RawStorage::Node));
    followed.catch_up();
    let index = &mut followed.indexed.index;
    index.set_raw_storage(RawStorage::Index).unwrap();
    let mut copied = 0;
    let mut some = || {
        copied += 1;
        if copied < 30 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let heights = index.snapshot().unwrap().copy_raw_blocks(Height::GENESIS, &mut some).unwrap();
    assert_eq!(heights, (0..30).map(Height::from).collect::<Vec<_>>());
    index.name_raw_blocks(&heights).unwrap();
    // more, which a kill leaves without a name
    assert_eq!(index.snapshot().unwrap().copy_raw_blocks(Height::GENESIS, &mut some).unwrap().len(), 1);
    followed.restart();
    let snapshot = followed.indexed.index.snapshot().unwrap();
    assert_eq!(snapshot.raw_progress(Height::GENESIS).unwrap().first_missing, Some(Height::from(30)));
    // of a node that prunes only the blocks that it still has take space
    let (blocks, frozen) = (followed.blocks(), snapshot.frozen().unwrap().height.to_u32());
    for (from, first) in [(0, 30), (30, 30), (77, 77)] {
        let heights = usize::try_from(first).unwrap()..=usize::try_from(frozen).unwrap();
        let bytes = blocks[heights].iter().map(|block| serialize(block.as_ref()).len() as u64).sum::<u64>();
        let progress = snapshot.raw_progress(Height::from(from)).unwrap();
        assert_eq!((progress.first_missing, progress.missing_bytes), (Some(Height::from(first)), bytes));
    }
    // no node is known: what is copied is read, and nothing else
    assert!(snapshot.transaction(TxNum(5)).is_ok());
    let last = followed.blocks().iter().take(100).map(|block| block.txdata.len()).sum::<usize>();
    let error = snapshot.transaction(TxNum(u32::try_from(last).unwrap())).unwrap_err();
    assert!(matches!(error, IndexError::RawUnavailable { .. }), "{error}");
    drop(snapshot);
    followed.raw_transactions = None;
    mine(&followed, &mut hostile, 25);
    followed.catch_up();
    assert_complete(&mut followed);
}

#[test]
fn a_change_to_the_node_removes_raw_files_after_all_were_read_back() {
    let (chain, _) = hostile_chain(74, 150);
    let mut followed = follower(chain, Some(RawStorage::Index));
    followed.catch_up();
    followed.restart();
    let blocks = followed.blocks();
    let index = &mut followed.indexed.index;
    index.set_raw_storage(RawStorage::Node).unwrap();
    // a node that lacks a block
    index.set_raw_blocks(Arc::new(BlockBytes::of(blocks.iter().take(40).map(AsRef::as_ref))));
    let snapshot = index.snapshot().unwrap();
    let mut all = || ControlFlow::Continue(());
    let read = snapshot.read_back_raw_blocks(Height::GENESIS, &mut all).unwrap().unwrap();
    assert_eq!(read.height, Height::from(39));
    let error = snapshot.read_back_raw_blocks(Height::from(40), &mut all).unwrap_err();
    assert!(matches!(error, IndexError::RawUnavailable { height, .. } if height == Height::from(40)), "{error}");
    drop(snapshot);
    index.record_read_back(read).unwrap();
    followed.restart();
    assert_eq!(followed.indexed.index.read_back_block().unwrap(), Some(Height::from(39)));
    assert!(!raw_files(followed.indexed.directory.path()).is_empty());
    followed.raw_transactions = None;
    followed.catch_up();
    assert!(!followed.indexed.directory.path().join("index.raw").exists());
    followed.assert_agrees();
    followed.restart();
    let snapshot = followed.indexed.index.snapshot().unwrap();
    assert_eq!(snapshot.raw_progress(Height::GENESIS).unwrap().stored_bytes, 0);
    assert!(matches!(snapshot.transaction(TxNum(5)).unwrap_err(), IndexError::RawUnavailable { .. }));
}

#[test]
fn damaged_and_lost_raw_files_are_replaced_by_the_node() {
    let (chain, _) = hostile_chain(75, 150);
    let mut followed = follower(chain, Some(RawStorage::Index));
    followed.catch_up();
    assert_complete(&mut followed);
    let file = raw_files(followed.indexed.directory.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    // each block behind its header
    let mut at = 0;
    while at < bytes.len() {
        let length = usize::try_from(u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap())).unwrap();
        bytes[at + 8 + 81 + 40] ^= 1;
        at += 8 + length;
    }
    fs::write(&file, &bytes).unwrap();
    followed.restart();
    let blocks = followed.blocks();
    let expected: Vec<u8> = blocks[..100].iter().flat_map(|block| &block.txdata).flat_map(serialize).collect();
    let count = u32::try_from(blocks[..100].iter().map(|block| block.txdata.len()).sum::<usize>()).unwrap();
    let read = |index: &Index| {
        let mut bytes = Vec::new();
        let read = index.snapshot().unwrap().append_raw_transactions(TxNum(0), count, &mut bytes);
        read.map(|()| bytes)
    };
    let error = read(&followed.indexed.index).unwrap_err().to_string();
    assert!(error.contains("00000.dat") || error.contains("the own raw file"), "{error}");
    followed.indexed.index.set_raw_blocks(Arc::new(BlockBytes::of(blocks.iter().map(AsRef::as_ref))));
    assert!(read(&followed.indexed.index).unwrap() == expected);
    let differences = followed.indexed.report().differences;
    let is_of_raw_file = |line: &String| line.starts_with("raw_blocks: block ") && line.contains("damaged or missing");
    let (more, named) = differences.split_last().unwrap();
    assert!(named.len() == 100 && named.iter().all(is_of_raw_file), "{named:?}");
    assert_eq!(more, "and 46 more", "each block is named once");

    for lost in [true, false] {
        if lost {
            fs::remove_file(&file).unwrap();
        } else {
            let newest = raw_files(followed.indexed.directory.path()).pop().unwrap();
            let length = fs::metadata(&newest).unwrap().len();
            fs::File::options().write(true).open(&newest).unwrap().set_len(length / 2).unwrap();
        }
        followed.restart();
        let snapshot = followed.indexed.index.snapshot().unwrap();
        assert!(snapshot.raw_progress(Height::GENESIS).unwrap().first_missing.is_some());
        drop(snapshot);
        // they are copied again
        followed.catch_up();
        assert_complete(&mut followed);
    }
}

#[test]
fn an_import_that_is_interrupted_continues_its_raw_files() {
    let blocks = hostile_blocks(76);
    let serialized = serialized(&blocks);
    let directory = in_memory();
    let raw = || Arc::new(RawFiles::open(directory.path().join("index.raw"), bitcoin::Network::Regtest).unwrap());
    let import = |raw: Arc<RawFiles>| {
        let every = ImportOptions { checkpoint_interval: Duration::ZERO, ..import_options(directory.path(), 150) };
        begin(&ImportOptions { raw_files: Some(raw), ..every })
    };
    let written = || raw_files(directory.path()).iter().flat_map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    let mut rng = Rng::new(77);
    loop {
        let mut running = import(raw());
        let first = usize::try_from(running.next_height().to_u32()).unwrap();
        if first == serialized.len() {
            running.finish(&mut unwatched).unwrap();
            break;
        }
        let last = (first + usize::try_from(rng.between(1, 40)).unwrap()).min(serialized.len());
        running.push(&serialized[first..last]).unwrap();
        if rng.between(0, 2) == 0 {
            running.checkpoint().unwrap();
        }
        drop(running);
        // what a kill leaves behind the checkpoint
        let mut end = fs::File::options().append(true).open(raw_files(directory.path()).pop().unwrap()).unwrap();
        std::io::Write::write_all(&mut end, &serialized[last - 1].1).unwrap();
    }
    let magic = bitcoin::Network::Regtest.magic().to_bytes();
    let framed = |bytes: &Vec<u8>| [&magic[..], &u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat();
    assert!(written() == serialized.iter().flat_map(|(_, bytes)| framed(bytes)).collect::<Vec<_>>());

    let mut index = Index::open(&options(directory.path())).unwrap();
    index.set_raw_storage(RawStorage::Index).unwrap();
    index.adopt(&directory.path().join("imported.redb")).unwrap();
    let indexed = Indexed { index, directory };
    assert_eq!(indexed.index.snapshot().unwrap().raw_progress(Height::GENESIS).unwrap().first_missing, None);
    indexed.verified();
}

#[test]
fn a_node_that_prunes_is_followed_with_copies_of_its_blocks() {
    let (mut chain, mut hostile) = (SimChain::new(78).keeping(40), Hostile::new(78));
    for _ in 0..25 {
        hostile.mine(&mut chain).unwrap();
    }
    let mut followed = follower(chain, Some(RawStorage::Index));
    let mut all = followed.blocks();
    for _ in 0..6 {
        followed.catch_up();
        mine(&followed, &mut hostile, 20);
        let newest = followed.blocks();
        all.extend(newest.into_iter().rev().take(20).rev());
    }
    followed.catch_up();
    let info = followed.node.chain_info().unwrap();
    assert!(info.pruned && info.prune_height.unwrap() > Height::from(100), "{info:?}");
    followed.restart();
    let snapshot = followed.indexed.index.snapshot().unwrap();
    assert!(snapshot.frozen().unwrap().height > Height::from(110));
    assert_agrees(&snapshot, &Model::of(all.iter().map(AsRef::as_ref)));
    followed.indexed.verified();

    // it cannot keep what it deletes, nor give what it deleted
    followed.raw_transactions = Some(RawStorage::Node);
    let error = followed.try_to_catch_up().unwrap_err();
    assert!(matches!(error, SyncError::NodePrunes), "{error}");
    followed.indexed = Indexed::empty();
    followed.raw_transactions = None;
    let error = followed.try_to_catch_up().unwrap_err();
    assert!(matches!(error, SyncError::BlocksPruned { kept_from } if Some(kept_from) == info.prune_height), "{error}");
    assert_eq!(followed.indexed.index.raw_storage().unwrap(), Some(RawStorage::Index));
}

#[test]
fn raw_files_stay_when_the_node_begins_to_prune() {
    let (mut chain, mut hostile) = (SimChain::new(82).keeping(155), Hostile::new(82));
    for _ in 0..150 {
        hostile.mine(&mut chain).unwrap();
    }
    let mut followed = follower(chain, Some(RawStorage::Index));
    followed.catch_up();
    let half = Tip { height: 70.into(), hash: followed.blocks()[70].block_hash() };
    followed.indexed.index.set_raw_storage(RawStorage::Node).unwrap();
    followed.indexed.index.record_read_back(half).unwrap();
    mine(&followed, &mut hostile, 50);
    assert_eq!(followed.node.chain_info().unwrap().prune_height, Some(Height::from(46)));

    // the blocks above are read back from the node, those below are here alone
    followed.restart();
    followed.raw_transactions = None;
    followed.catch_up();
    assert!(!raw_files(followed.indexed.directory.path()).is_empty());
    let index = &followed.indexed.index;
    assert!(index.snapshot().unwrap().transaction(TxNum(5)).is_ok());
    assert_eq!(index.read_back_block().unwrap(), None, "another node may lack what this one returned");
    followed.restart();
    followed.raw_transactions = Some(RawStorage::Node);
    let error = followed.try_to_catch_up().unwrap_err();
    assert!(matches!(error, SyncError::NodePrunes), "{error}");
}

fn submit(real: &RealNode, blocks: &[Arc<Block>]) {
    for block in blocks {
        real.must("submitblock", &[json!(serialize_hex(block.as_ref()))]);
    }
}

/// What the program is asked for about a transaction.
fn raw_transaction(served: &TestProcess, txid: &impl ToString) -> Value {
    served.query(&format!("{{ transaction(txid: \"{}\") {{ hex }} }}", txid.to_string()))
}

fn expected_answer(transaction: &bitcoin::Transaction) -> Value {
    json!({ "data": { "transaction": { "hex": serialize_hex(transaction) } } })
}

const FREEZE: [(&str, &str); 2] = [("BTCGRAPH_INDEX__FREEZE_DEPTH", "3"), ("BTCGRAPH_INDEX__FREEZE_EVERY", "4")];

#[test]
fn raw_transactions_are_answered_without_the_node_and_its_files() {
    let Some(mut real) = RealNode::start(&["-disablewallet"]) else { return };
    let (mut chain, mut hostile) = (SimChain::new(79), Hostile::new(79));
    let mut next = |count: u32| (0..count).map(|_| hostile.mine(&mut chain).unwrap()).collect::<Vec<_>>();
    let mut blocks = next(120);
    submit(&real, &blocks);
    let directory = tempfile::tempdir().unwrap();
    let variables = [FREEZE[0], FREEZE[1], ("BTCGRAPH_INDEX__RAW_TRANSACTIONS", "index")];
    let mut served = TestProcess::start_with(&real, directory.path(), &variables);
    served.wait_for_height(120);
    // these are frozen out of live rows
    let more = next(30);
    submit(&real, &more);
    blocks.extend(more);
    served.wait_for_height(150);
    wait_for("the blocks to be frozen", Duration::from_mins(1), || {
        let generations = fs::read_dir(directory.path().join("regtest/index.frozen")).unwrap().count();
        (generations > 1).then_some(())
    });
    assert!(served.stop().success());
    real.stop();
    fs::remove_dir_all(real.blocks_dir()).unwrap();
    let mut served = TestProcess::start_with(&real, directory.path(), &variables);
    for block in &blocks {
        for transaction in &block.txdata {
            let answer = raw_transaction(&served, &transaction.compute_txid());
            assert_eq!(answer, expected_answer(transaction));
        }
    }
    assert!(served.stop().success());
}

#[test]
fn a_program_that_is_killed_leaves_the_raw_files_of_one_that_was_not() {
    let Some(real) = RealNode::start(&["-disablewallet"]) else { return };
    let (mut chain, mut hostile) = (SimChain::new(80), Hostile::new(80));
    let first: Vec<_> = (0..140).map(|_| hostile.mine(&mut chain).unwrap()).collect();
    submit(&real, &first);
    let directory = tempfile::tempdir().unwrap();
    let program = |command: &[&str]| {
        let mut program = btcgraph_on(&real, directory.path(), command);
        program.envs(FREEZE).env("BTCGRAPH_INDEX__RAW_TRANSACTIONS", "index");
        program
    };
    let (mut rng, mut kills, mut latest) = (Rng::new(81), 0, 250);
    while kills < 24 {
        // half of them while copies are removed or made again
        let storage = if kills % 8 < 4 { "index" } else { "node" };
        let mut running = program(&["import"]);
        running.env("BTCGRAPH_INDEX__RAW_TRANSACTIONS", storage);
        let mut running = running.stderr(std::process::Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(rng.between(1, latest)));
        let is_running = running.try_wait().unwrap().is_none();
        let _ = running.kill();
        running.wait().unwrap();
        if !is_running {
            latest = (latest * 3 / 4).max(2);
            continue;
        }
        kills += 1;
        match kills % 3 {
            0 => submit(&real, &[hostile.mine(&mut chain).unwrap(), hostile.mine(&mut chain).unwrap()]),
            1 if kills > 8 => submit(&real, &hostile.branch(&mut chain, 5, 7).unwrap()),
            _ => {}
        }
    }
    let (code, printed) = run_program(&mut program(&["import"]));
    assert_eq!(code, Some(0), "{printed}");
    // every byte of every frozen block is there, and every row follows from them
    let (code, printed) = run_program(&mut program(&["verify", "--without-node"]));
    assert_eq!(code, Some(0), "{printed}");
    let path = directory.path().join("regtest/index.redb");
    let index = Index::open(&IndexOptions { path, salt: None, ..options(directory.path()) }).unwrap();
    let snapshot = index.snapshot().unwrap();
    assert!(snapshot.frozen().unwrap().height > Height::from(130));
    assert_agrees(&snapshot, &Model::of(chain.active_blocks().map(AsRef::as_ref)));
}

#[test]
fn a_node_that_prunes_later_is_followed_without_the_transactions_it_deletes() {
    let arguments = ["-disablewallet", "-txindex=0", "-fastprune=1"];
    let Some(mut real) = RealNode::start(&arguments) else { return };
    let first = real.mine(700);
    let directory = tempfile::tempdir().unwrap();
    let mut served = TestProcess::start_with(&real, directory.path(), &FREEZE);
    served.wait_for_height(700);
    assert!(served.stop().success());
    let coinbase = |hash: &bitcoin::BlockHash| real_block(&real, hash).txdata.remove(0);
    let (old, new) = (coinbase(&first[50]), coinbase(&first[690]));
    real.restart_with(&[&arguments[..], &["-prune=1"]].concat());
    real.must("pruneblockchain", &[json!(300)]);
    let mut served = TestProcess::start_with(&real, directory.path(), &FREEZE);
    real.mine(2);
    served.wait_for_height(702);
    let refused = raw_transaction(&served, &old.compute_txid());
    assert_eq!(refused["errors"][0]["extensions"]["code"], json!("NODE_UNAVAILABLE"), "{refused}");
    assert_eq!(raw_transaction(&served, &new.compute_txid()), expected_answer(&new));
    assert!(served.stop().success());

    // what it still has is copied, and stays
    let variables = [FREEZE[0], FREEZE[1], ("BTCGRAPH_INDEX__RAW_TRANSACTIONS", "index")];
    let mut program = btcgraph_on(&real, directory.path(), &["import"]);
    let (code, printed) = run_program(program.envs(variables));
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("the node has pruned blocks of which the index has no copy"), "{printed}");
    real.stop();
    let mut served = TestProcess::start_with(&real, directory.path(), &variables);
    assert_eq!(raw_transaction(&served, &new.compute_txid()), expected_answer(&new));
    assert!(served.stop().success());
}

fn real_block(real: &RealNode, hash: &bitcoin::BlockHash) -> Block {
    let hex = real.must("getblock", &[json!(hash.to_string()), json!(0)]);
    bitcoin::consensus::encode::deserialize_hex(hex.as_str().unwrap()).unwrap()
}

#[test]
fn a_pruned_node_is_refused_for_an_empty_index_and_as_the_only_storage() {
    let Some(real) = RealNode::start(&["-disablewallet", "-txindex=0", "-prune=1", "-fastprune=1"]) else { return };
    real.mine(700);
    let directory = tempfile::tempdir().unwrap();
    let import = |storage: &str| {
        let mut program = btcgraph_on(&real, directory.path(), &["import"]);
        run_program(program.envs(FREEZE).env("BTCGRAPH_INDEX__RAW_TRANSACTIONS", storage))
    };
    // it prunes, and has all blocks still
    let (code, printed) = import("node");
    assert!(code == Some(3) && printed.contains("index.raw_transactions is `node`, but the node prunes"), "{printed}");
    let (code, printed) = import("auto");
    assert_eq!(code, Some(0), "{printed}");
    real.must("pruneblockchain", &[json!(300)]);
    let (code, printed) = run_program(&mut btcgraph_on(&real, directory.path(), &["verify", "--without-node"]));
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = import("node");
    assert!(code == Some(3) && printed.contains("index.raw_transactions is `node`, but the node prunes"), "{printed}");
    fs::remove_dir_all(directory.path().join("regtest")).unwrap();
    let (code, printed) = import("auto");
    let clear = "the index is empty and needs all blocks, and the node has pruned those below height";
    assert!(code == Some(3) && printed.contains(clear), "{printed}");
}
