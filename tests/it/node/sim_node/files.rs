//! Block files: a real node reads them, and a simulated node serves blocks from them that its chain has dropped.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bitcoin::consensus::encode::serialize;
use bitcoin::{Block, BlockHash};
use btcgraph::chain::Height;
use btcgraph::node::TxOutSetHash;
use btcgraph::sim::blkfile::{BlockFiles, BlockFilesLayout};
use btcgraph::sim::{Hostile, SimChain, SimNode, SimNodeOptions, World};
use serde_json::json;

use super::pair::{client, get};
use crate::support::bitcoind::{RealNode, wait_for};

/// The layout of a node that downloaded from several peers, but with small files.
const OUT_OF_ORDER: BlockFilesLayout = BlockFilesLayout {
    key: Some([0xa1, 0x02, 0, 0xff, 0x55, 7, 8, 0x99]),
    file_bytes: 40_000,
    disorder: 16,
    allocation: 4_096,
};

fn write_all(files: &mut BlockFiles, chain: &SimChain) {
    for block in chain.active_blocks() {
        files.write(block, &chain.spent_coins(&block.block_hash()).unwrap()).unwrap();
    }
}

fn hostile_chain() -> SimChain {
    let (mut chain, mut hostile) = (SimChain::new(5), Hostile::new(5));
    for _ in 0..170 {
        hostile.mine(&mut chain).unwrap();
    }
    chain
}

fn files_in(directory: &Path, kind: &str) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name.to_string_lossy().starts_with(kind)).count()
}

#[test]
fn a_real_node_reads_plain_and_xored_files_in_any_order() {
    let chain = hostile_chain();
    for layout in [BlockFilesLayout::default(), OUT_OF_ORDER] {
        let Some(mut real) = RealNode::start(&["-disablewallet"]) else { return };
        real.stop();
        let blocks = real.blocks_dir();
        std::fs::remove_dir_all(&blocks).unwrap();
        let mut files = BlockFiles::create(&blocks, layout).unwrap();
        write_all(&mut files, &chain);
        files.flush().unwrap();
        assert_eq!(files_in(&blocks, "blk") > 3, layout.disorder > 0);
        assert_eq!(blocks.join("xor.dat").exists(), layout.key.is_some());

        real.restart_with(&["-disablewallet", "-reindex"]);
        wait_for("the node to read the files", Duration::from_mins(2), || {
            (real.must("getbestblockhash", &[]) == json!(chain.tip())).then_some(())
        });
        // the node reads the blocks from the files that were written here
        for height in [0, 100, 170] {
            let hash = real.must("getblockhash", &[json!(height)]);
            let block = get(&real.rpc_url(), &format!("/rest/block/{}.bin", hash.as_str().unwrap()));
            assert_eq!(
                block.body,
                serialize(chain.block(&chain.hash_at(Height::from(height)).unwrap()).unwrap().as_ref())
            );
        }
    }
}

#[test]
fn undo_files_equal_those_of_a_real_node() {
    let Some(mut real) = RealNode::start(&["-disablewallet", "-blocksxor=0"]) else { return };
    let chain = hostile_chain();
    chain.active_blocks().skip(1).for_each(|block| super::pair::submit(&real, block));
    real.stop();
    let directory = tempfile::tempdir().unwrap();
    let layout = BlockFilesLayout { allocation: 0, ..BlockFilesLayout::default() };
    let mut files = BlockFiles::create(directory.path(), layout).unwrap();
    write_all(&mut files, &chain);
    for name in ["blk00000.dat", "rev00000.dat"] {
        let ours = std::fs::read(directory.path().join(name)).unwrap();
        let theirs = std::fs::read(real.blocks_dir().join(name)).unwrap();
        // a node preallocates more than it has written
        assert!(
            ours.len() > 20_000 && theirs.starts_with(&ours) && theirs[ours.len()..].iter().all(|byte| *byte == 0),
            "{name}"
        );
    }
}

#[test]
fn a_node_serves_dropped_blocks_from_its_files() {
    let whole = hostile_chain();
    let directory = tempfile::tempdir().unwrap();
    let (mut chain, mut hostile) = (SimChain::new(5).keeping(10), Hostile::new(5));
    let mut files = BlockFiles::create(directory.path(), OUT_OF_ORDER).unwrap();
    write_all(&mut files, &chain);
    for _ in 0..150 {
        let block = hostile.mine(&mut chain).unwrap();
        files.write(&block, &chain.spent_coins(&block.block_hash()).unwrap()).unwrap();
    }
    let options = SimNodeOptions { files: Some(files), ..SimNodeOptions::default() };
    let pruned = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options).unwrap();
    // blocks that are mined while it runs are archived as well
    for _ in 0..20 {
        pruned.with(|world| world.change_chain(|chain| hostile.mine(chain))).unwrap().unwrap();
    }
    let full = SimNode::start(Arc::new(Mutex::new(World::new(whole))), SimNodeOptions::default()).unwrap();

    let (one, other) = (client(&pruned), client(&full));
    let info = one.chain_info().unwrap();
    assert_eq!(info, other.chain_info().unwrap());
    assert_eq!((info.blocks, info.pruned), (Height::from(170), false));
    let set = |node: &btcgraph::node::Node| node.txout_set_info(TxOutSetHash::HashSerialized3).unwrap();
    assert_eq!(set(&one), set(&other));
    let genesis = one.block_hash(Height::GENESIS).unwrap().unwrap();
    let headers = one.headers(&genesis, 2_000).unwrap();
    assert_eq!(headers, other.headers(&genesis, 2_000).unwrap());
    let dropped = |hash: &BlockHash| pruned.with(|world| world.chain().block(hash).is_none()).unwrap();
    assert_eq!(headers.iter().filter(|(hash, _)| dropped(hash)).count(), 161);
    for (hash, _) in headers {
        let block = one.block(&hash).unwrap();
        assert!(block == other.block(&hash).unwrap());
        assert_eq!(bitcoin::consensus::deserialize::<Block>(&block).unwrap().block_hash(), hash);
        assert_eq!(one.spent_outputs(&hash).unwrap(), other.spent_outputs(&hash).unwrap());
        assert_eq!(one.block_verbose(&hash).unwrap(), other.block_verbose(&hash).unwrap());
        assert_eq!(one.header(&hash).unwrap(), other.header(&hash).unwrap());
    }
}

#[test]
fn a_node_does_not_start_without_dropped_blocks() {
    let mut chain = SimChain::new(1).keeping(5);
    chain.mine_empty(10).unwrap();
    let started = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default());
    assert!(started.unwrap_err().to_string().contains("was dropped before"));
}
