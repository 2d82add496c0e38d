//! What goes wrong while blocks are frozen, and with the files that this makes: the blocks stay in the index file, every answer is
//! right, and the blocks are frozen once the cause is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use bitcoin::{OutPoint, ScriptBuf, TxOut};
use btcgraph::index::{Index, IndexError};
use btcgraph::sim::blkfile::{BlockFiles, BlockFilesLayout};
use btcgraph::sim::{Hostile, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::FreezeBounds;

use crate::node::block_source::SCATTERED;
use crate::support::agree::assert_agrees;
use crate::support::api::{coinbase_output, sat, spend_outputs};
use crate::support::indexed::{Indexed, options};
use crate::support::model::Model;
use crate::support::program::{btcgraph, run};
use crate::sync::freezing::{FrozenFollower, hostile_chain};

const BOUNDS: FreezeBounds = FreezeBounds { depth: 5, every: 20, transactions: u64::MAX };

/// An index of which all but five blocks are frozen, and what mines further ones.
fn followed(seed: u64) -> (FrozenFollower, Hostile) {
    let (chain, hostile) = hostile_chain(seed, 120);
    let mut followed = FrozenFollower::start(chain, BOUNDS);
    followed.catch_up();
    (followed, hostile)
}

fn mine(followed: &FrozenFollower, hostile: &mut Hostile, blocks: u32) {
    for _ in 0..blocks {
        followed.sim.with(|world| world.change_chain(|chain| hostile.mine(chain))).unwrap().unwrap();
    }
}

fn frozen_height(followed: &FrozenFollower) -> u32 {
    followed.indexed.index.snapshot().unwrap().frozen().unwrap().height.to_u32()
}

/// All blocks up to the tip are in the index, and none above this height is frozen.
#[track_caller]
fn assert_stays_live(followed: &mut FrozenFollower, frozen: u32) {
    assert_eq!(followed.assert_agrees(), Some(frozen));
    assert!(followed.tip() >= frozen + BOUNDS.depth + BOUNDS.every);
}

#[test]
fn blocks_stay_live_while_no_generation_can_be_built() {
    let (mut followed, mut hostile) = followed(121);
    let frozen = frozen_height(&followed);
    mine(&followed, &mut hostile, 22);
    // a directory where the file is to be
    let path = followed.indexed.index.freezing_path();
    fs::create_dir_all(path.join("something")).unwrap();
    assert_stays_live(&mut followed, frozen);
    followed.restart();
    assert_stays_live(&mut followed, frozen);
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - BOUNDS.depth));
}

#[test]
fn a_part_of_a_generation_that_a_kill_left_is_replaced() {
    let (mut followed, mut hostile) = followed(122);
    let frozen = fs::read_dir(followed.indexed.directory.path().join("index.frozen")).unwrap().next().unwrap().unwrap();
    let whole = fs::read(frozen.path()).unwrap();
    for part in [0, 1_000, whole.len() / 2] {
        followed.restart();
        mine(&followed, &mut hostile, 22);
        fs::write(followed.indexed.index.freezing_path(), &whole[..part]).unwrap();
        assert_eq!(followed.assert_agrees(), Some(followed.tip() - BOUNDS.depth));
    }
}

/// The file is lost, cut short or changed between its last write and the commit that names it.
#[test]
fn a_built_generation_that_is_lost_or_damaged_is_not_put_into_force() {
    let (mut followed, mut hostile) = followed(123);
    let frozen = frozen_height(&followed);
    mine(&followed, &mut hostile, 10);
    followed.catch_up();
    let snapshot = followed.indexed.index.snapshot().unwrap();
    let path = followed.indexed.index.freezing_path();
    snapshot.pack((frozen + 1).into()..=(frozen + 8).into(), &path).unwrap();
    drop(snapshot);
    let whole = fs::read(&path).unwrap();
    let mut other = whole.clone();
    other[..200].fill(0x55);
    for damaged in [None, Some(&[][..]), Some(&whole[..whole.len() / 2]), Some(&other)] {
        fs::remove_file(&path).unwrap();
        if let Some(bytes) = damaged {
            fs::write(&path, bytes).unwrap();
        }
        let error = followed.indexed.index.adopt(&path).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert!(!matches!(error, IndexError::Broken), "{error}");
        assert_eq!(followed.assert_agrees(), Some(frozen));
        if damaged.is_none() {
            fs::write(&path, []).unwrap();
        }
    }
    fs::write(&path, whole).unwrap();
    followed.indexed.index.adopt(&path).unwrap();
    assert_eq!(followed.assert_agrees(), Some(frozen + 8));
}

/// It is read through its open file. The next start names it, and goes on with a copy.
#[test]
fn a_generation_that_is_removed_while_it_is_read_is_named_at_the_next_start() {
    let (mut followed, mut hostile) = followed(124);
    let frozen = followed.indexed.directory.path().join("index.frozen");
    let generation = fs::read_dir(&frozen).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&generation).unwrap();
    fs::remove_dir_all(&frozen).unwrap();
    mine(&followed, &mut hostile, 22);
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - BOUNDS.depth));

    let Indexed { index, directory } = std::mem::replace(&mut followed.indexed, Indexed::empty());
    drop(index);
    for lost in [None, Some(&bytes[..bytes.len() / 2])] {
        if let Some(part) = lost {
            fs::write(&generation, part).unwrap();
        }
        let error = Index::open(&options(directory.path())).map(drop).unwrap_err().to_string();
        assert!(error.contains(generation.to_str().unwrap()), "{error}");
    }
    fs::write(&generation, bytes).unwrap();
    followed.indexed = Indexed::within(directory);
    mine(&followed, &mut hostile, 22);
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - BOUNDS.depth));
}

/// Block files with all blocks of the node so far.
fn write_files(followed: &FrozenFollower, directory: &Path) {
    let mut files = BlockFiles::create(directory, BlockFilesLayout { disorder: 0, ..SCATTERED }).unwrap();
    write_all(followed, &mut files);
    files.flush().unwrap();
}

fn write_all(followed: &FrozenFollower, files: &mut BlockFiles) {
    let write = |world: &mut World| {
        for block in world.chain().active_blocks() {
            files.write(block, &world.chain().spent_coins(&block.block_hash()).unwrap()).unwrap();
        }
    };
    followed.sim.with(write).unwrap();
}

fn newest_file(directory: &Path) -> PathBuf {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("blk")).max().unwrap()
}

#[test]
fn blocks_that_the_block_files_lack_are_read_from_the_node_before_they_are_frozen() {
    let truncate = |path: &Path| fs::write(path, &fs::read(path).unwrap()[..500]).unwrap();
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let hide = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    let (chain, mut hostile) = hostile_chain(125, 120);
    let mut followed = FrozenFollower::start(chain, BOUNDS);
    let files = tempfile::tempdir().unwrap();
    write_files(&followed, files.path());
    followed.blocks_dir = Some(files.path().to_owned());
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - BOUNDS.depth));
    for damage in [truncate as fn(&Path), remove, hide] {
        mine(&followed, &mut hostile, 22);
        let files = tempfile::tempdir().unwrap();
        write_files(&followed, files.path());
        damage(&newest_file(files.path()));
        followed.blocks_dir = Some(files.path().to_owned());
        assert_eq!(followed.assert_agrees(), Some(followed.tip() - BOUNDS.depth));
        followed.indexed.verified();
    }
}

/// Neither the node nor its files have blocks that are to be frozen: without their bytes they stay in the index file.
#[test]
fn blocks_that_the_node_has_pruned_stay_live_until_it_has_them_again() {
    let (mut followed, mut hostile) = followed(126);
    let frozen = frozen_height(&followed);
    let mut blocks = followed.blocks();
    let files = tempfile::tempdir().unwrap();
    let mut writer = BlockFiles::create(files.path(), BlockFilesLayout { disorder: 0, ..SCATTERED }).unwrap();
    write_all(&followed, &mut writer);
    followed.sim.with(|world| world.change_chain(|chain| *chain = chain.clone().keeping(3))).unwrap();
    for _ in 0..22 {
        mine(&followed, &mut hostile, 1);
        let newest = |world: &mut World| {
            let (chain, tip) = (world.chain(), world.chain().tip());
            (Arc::clone(chain.block(&tip).unwrap()), chain.spent_coins(&tip).unwrap())
        };
        let (block, spent) = followed.sim.with(newest).unwrap();
        writer.write(&block, &spent).unwrap();
        blocks.push(block);
        followed.catch_up();
    }
    writer.flush().unwrap();
    let model = Model::of(blocks.iter().map(AsRef::as_ref));
    let tip = followed.tip();
    for _ in 0..2 {
        assert_eq!(frozen_height(&followed), frozen);
        assert_agrees(&followed.indexed.index.snapshot().unwrap(), &model);
        followed.restart();
        followed.catch_up();
    }
    // files with the blocks that are to be frozen, of another node
    followed.blocks_dir = Some(files.path().to_owned());
    // a freeze that failed is tried again after some minutes, or a restart
    followed.restart();
    followed.catch_up();
    assert_eq!(frozen_height(&followed), tip - BOUNDS.depth);
    assert_agrees(&followed.indexed.index.snapshot().unwrap(), &model);
}

/// Mines a block of about 700 kB in few transactions.
fn mine_large(chain: &mut SimChain, of: usize) {
    let block = Arc::clone(chain.active_blocks().nth(of).unwrap());
    let (coin, prevout): (OutPoint, TxOut) = (coinbase_output(&block, 0), block.txdata[0].output[0].clone());
    let script = ScriptBuf::from([&[0x6a, 0x4d, 0xf0, 0x22][..], &[7; 0x22f0]].concat());
    let outputs = vec![TxOut { value: sat(0), script_pubkey: script }; 78];
    chain.mine(vec![spend_outputs(SimChain::miner(), &[coin], &[prevout], outputs)]).unwrap();
}

/// A file that may not grow is what a full disk is to a write, whatever else is free. The raw files are far larger than the index
/// file can become with the blocks that are added.
#[test]
fn blocks_stay_live_while_the_disk_is_full_for_their_raw_bytes() {
    let mut chain = SimChain::new(127);
    chain.mine_empty(210).unwrap();
    (1..101).for_each(|of| mine_large(&mut chain, of));
    let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let program = |limit: Option<u64>, command: &[&str]| {
        let program = btcgraph(directory.path(), command);
        let limit = limit.map_or_else(|| "unlimited".to_owned(), |bytes| (bytes / 512).to_string());
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap "" XFSZ; ulimit -f "$0"; exec "$@""#, &limit]);
        shell.arg(program.get_program()).args(program.get_args());
        shell.args(["--rpc-url", &node.url(), "--rpc-user", "user", "--rpc-password", "password"]);
        shell.env("BTCGRAPH_INDEX__FREEZE_DEPTH", "3").env("BTCGRAPH_INDEX__FREEZE_EVERY", "4");
        shell.env("BTCGRAPH_INDEX__RAW_TRANSACTIONS", "index");
        let (code, printed) = run(&mut shell);
        assert_eq!(code, Some(0), "{printed}");
        printed
    };
    let printed = program(None, &["import"]);
    assert!(printed.contains("importing in bulk"), "{printed}");
    for of in 101..107 {
        node.with(|world| world.change_chain(|chain| mine_large(chain, of))).unwrap();
    }
    let raw = directory.path().join("regtest/index.raw/00000.dat");
    let length = fs::metadata(&raw).unwrap().len();
    let printed = program(Some(length + (1 << 20)), &["import"]);
    assert!(printed.contains("cannot freeze blocks; they stay in the index file"), "{printed}");
    assert!(printed.contains(&format!("cannot write {}", raw.display())), "{printed}");
    assert!(!printed.contains("froze blocks"), "{printed}");
    let printed = program(None, &["verify"]);
    assert!(printed.contains("everything agrees"), "{printed}");
    let printed = program(None, &["import"]);
    assert!(printed.contains("froze blocks"), "{printed}");
    assert!(fs::metadata(&raw).unwrap().len() > length + (3 << 20));
    let printed = program(None, &["verify"]);
    assert!(printed.contains("everything agrees"), "{printed}");
}
