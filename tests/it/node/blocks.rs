//! Parts of blocks are read from the node's block files, wherever the blocks are in them, and else from the node.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::consensus::serialize;
use bitcoin::{Block, BlockHash, Network};
use btcgraph::chain::Height;
use btcgraph::index::{RawBlocks, Tip, TxNum};
use btcgraph::node::{Auth, BlockPosition, BlockPositions, BlockSource, Node, NodeBlocks, NodeOptions};
use btcgraph::sim::blkfile::BlockFilesLayout;
use btcgraph::sim::{SimChain, SimNodeOptions};
use serde_json::json;

use crate::node::block_source::{SCATTERED, Sourced, chain_of};
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::indexed::{Indexed, in_memory};

const CACHE: usize = 1 << 20;

fn heights(sourced: &Sourced) -> impl Iterator<Item = Height> {
    (0..u32::try_from(sourced.hashes.len()).unwrap()).map(Height::from)
}

fn positions(sourced: &Sourced) -> BlockPositions {
    let source =
        BlockSource::choose(&sourced.node, Some(sourced.directory.path()), sourced.hashes.clone(), &mut |_| {})
            .unwrap();
    heights(sourced).zip(source.positions().iter().copied()).collect()
}

fn with_files(sourced: &Sourced, positions: BlockPositions) -> NodeBlocks {
    NodeBlocks::new(&sourced.node, Some(sourced.directory.path().to_path_buf()), positions, CACHE)
}

/// Reads several parts of every block, and compares them.
fn assert_reads(blocks: &NodeBlocks, sourced: &Sourced) {
    for (height, (hash, bytes)) in heights(sourced).zip(&sourced.blocks) {
        let length = bytes.len();
        for (from, to) in [(0, length), (0, 80), (81, length), (length / 2, length / 2 + 3), (length, length)] {
            let (offset, count) = (u32::try_from(from).unwrap(), u32::try_from(to - from).unwrap());
            assert_eq!(blocks.read(height, hash, offset, count).unwrap(), bytes[from..to], "{height}: {from} to {to}");
        }
    }
}

/// The block files are scanned again, after which they give every part without the node.
fn assert_relocates(blocks: &NodeBlocks, sourced: &Sourced) {
    let found = wait_for("a scan", Duration::from_secs(20), || blocks.relocated());
    assert_eq!(found.count(), sourced.hashes.len());
    let before = sourced.rest_requests();
    assert_reads(blocks, sourced);
    assert_eq!(sourced.rest_requests(), before);
}

#[test]
fn parts_are_read_from_block_files_without_the_node() {
    for layout in [BlockFilesLayout::default(), SCATTERED] {
        let sourced = Sourced::new(layout, SimNodeOptions::default());
        let blocks = with_files(&sourced, positions(&sourced));
        let before = sourced.rest_requests();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_reads(&blocks, &sourced));
            }
        });
        assert_eq!(sourced.rest_requests(), before);
        assert!(blocks.relocated().is_none());
    }
}

#[test]
fn without_block_files_whole_blocks_are_requested_and_cached() {
    let sourced = Sourced::new(BlockFilesLayout::default(), SimNodeOptions::default());
    let blocks = NodeBlocks::new(&sourced.node, None, BlockPositions::default(), CACHE);
    let before = sourced.rest_requests();
    assert_reads(&blocks, &sourced);
    // one more shows that the node does not serve parts
    assert_eq!(sourced.rest_requests() - before, 1 + u64::try_from(sourced.hashes.len()).unwrap());

    let uncached = NodeBlocks::new(&sourced.node, None, BlockPositions::default(), 0);
    let before = sourced.rest_requests();
    assert_reads(&uncached, &sourced);
    assert_eq!(sourced.rest_requests() - before, 5 * u64::try_from(sourced.hashes.len()).unwrap());
}

#[test]
fn without_rest_parts_are_read_by_rpc() {
    let options = SimNodeOptions { rest: false, ..SimNodeOptions::default() };
    let sourced = Sourced::new(BlockFilesLayout::default(), options);
    assert_reads(&NodeBlocks::new(&sourced.node, None, BlockPositions::default(), CACHE), &sourced);
}

#[test]
fn unknown_and_wrong_positions_are_found_again() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let right = positions(&sourced);
    let swapped: BlockPositions = right.iter().map(|(height, _)| (height, right.get(5.into()).unwrap())).collect();
    let moved =
        right.iter().map(|(height, position)| (height, BlockPosition { offset: position.offset + 1, ..position }));
    let absent = right.iter().map(|(height, position)| (height, BlockPosition { file: 900, ..position }));
    for wrong in [BlockPositions::default(), swapped, moved.collect(), absent.collect()] {
        let blocks = with_files(&sourced, wrong);
        let before = sourced.rest_requests();
        assert_reads(&blocks, &sourced);
        assert!(sourced.rest_requests() > before, "the node is asked until the blocks are found");
        assert_relocates(&blocks, &sourced);
    }
}

#[test]
fn files_that_are_gone_are_searched_for_once_a_minute() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let blocks = with_files(&sourced, positions(&sourced));
    for file in &sourced.files()[2..] {
        fs::remove_file(file).unwrap();
    }
    assert_reads(&blocks, &sourced);
    let found = wait_for("a scan", Duration::from_secs(20), || blocks.relocated());
    assert!((1..sourced.hashes.len()).contains(&found.count()), "{}", found.count());
    assert_reads(&blocks, &sourced);
    // nothing is to happen, so there is no condition to wait for: a scan of these files takes milliseconds
    std::thread::sleep(Duration::from_millis(500));
    assert!(blocks.relocated().is_none());
}

#[test]
fn newer_blocks_are_located_in_newer_files() {
    let mut chain = SimChain::new(3);
    chain.mine_empty(1_300).unwrap();
    let sourced = Sourced::of(chain, SCATTERED, SimNodeOptions::default());
    let right = positions(&sourced);
    let known = right.iter().filter(|(height, _)| height.to_u32() < 1_280).collect();
    let blocks = with_files(&sourced, known);
    let files = sourced.files().len();
    let mut scanned = 0;
    let found = blocks.locate(1_280.into(), &sourced.hashes[1_280..], &mut |now| scanned = now.files).unwrap();
    let expected: Vec<_> = right.iter().filter(|(height, _)| height.to_u32() >= 1_280).collect();
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    assert!((1..files - 1).contains(&scanned), "{scanned} of {files}");
    let before = sourced.rest_requests();
    assert_reads(&blocks, &sourced);
    assert_eq!(sourced.rest_requests(), before);
}

#[test]
fn bytes_beyond_a_block_are_an_error() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let (hash, bytes) = &sourced.blocks[7];
    let length = u32::try_from(bytes.len()).unwrap();
    for blocks in [
        with_files(&sourced, positions(&sourced)),
        NodeBlocks::new(&sourced.node, None, BlockPositions::default(), CACHE),
    ] {
        for (offset, count) in [(length, 1), (0, length + 1), (u32::MAX, 2)] {
            let error = blocks.read(7.into(), hash, offset, count).unwrap_err().to_string();
            let expected = format!("it has {length} bytes, so there are no {count} bytes at offset {offset}");
            assert!(error.contains(&hash.to_string()) && error.contains(&expected), "{error}");
        }
    }
    let unknown: BlockHash = "00".repeat(32).parse().unwrap();
    let error = with_files(&sourced, positions(&sourced)).read(7.into(), &unknown, 0, 1).unwrap_err();
    assert!(error.to_string().contains(&unknown.to_string()), "{error}");
}

#[test]
fn a_frozen_index_reads_its_transactions_from_block_files() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let decoded: Vec<Block> =
        sourced.blocks.iter().map(|(_, bytes)| bitcoin::consensus::deserialize(bytes).unwrap()).collect();
    let live = Indexed::of(decoded.iter(), 50);
    let mut indexed = Indexed::within(in_memory());
    let blocks = with_files(&sourced, positions(&sourced));
    let tip = Tip { height: 3.into(), hash: sourced.hashes[3] };
    assert_eq!(RawBlocks::read(&blocks, tip, 0, 80).unwrap(), sourced.blocks[3].1[..80]);
    indexed.index.set_raw_blocks(Arc::new(blocks));
    let path = indexed.directory.path().join("generation");
    live.index.snapshot().unwrap().pack(Height::GENESIS..=140.into(), &path).unwrap();
    indexed.index.adopt(&path).unwrap();
    let before = sourced.rest_requests();
    let snapshot = indexed.index.snapshot().unwrap();
    let transactions: Vec<_> = decoded[..=140].iter().flat_map(|block| &block.txdata).collect();
    let count = u32::try_from(transactions.len()).unwrap();
    let mut bytes = Vec::new();
    snapshot.append_raw_transactions(TxNum(0), count, &mut bytes).unwrap();
    let expected: Vec<u8> = transactions.iter().flat_map(|tx| serialize(*tx)).collect();
    assert!(bytes == expected);
    assert_eq!(sourced.rest_requests(), before);
}

#[test]
fn parts_are_read_from_the_files_of_a_running_node() {
    let Some(real) = RealNode::start(&["-disablewallet"]) else { return };
    let chain = chain_of(11, 110);
    for block in chain.active_blocks().skip(1) {
        real.must("submitblock", &[json!(bitcoin::consensus::encode::serialize_hex(&**block))]);
    }
    let node =
        Node::connect(NodeOptions::new(Network::Regtest, real.rpc_url(), Auth::Cookie(real.cookie_path()))).unwrap();
    let of_files = NodeBlocks::new(&node, Some(real.blocks_dir()), BlockPositions::default(), CACHE);
    let of_node = NodeBlocks::new(&node, None, BlockPositions::default(), CACHE);
    let hashes: Vec<_> = chain.active_blocks().map(|block| block.block_hash()).collect();
    assert_eq!(of_files.locate(Height::GENESIS, &hashes, &mut |_| {}).unwrap().count(), hashes.len());
    for (height, block) in (0..).map(Height::from).zip(chain.active_blocks()) {
        let (hash, bytes) = (block.block_hash(), serialize(&**block));
        let length = u32::try_from(bytes.len() - 81).unwrap();
        for blocks in [&of_files, &of_node] {
            assert_eq!(blocks.read(height, &hash, 81, length).unwrap(), bytes[81..]);
        }
    }
    assert!(of_files.relocated().is_none());
}
