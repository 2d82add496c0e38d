//! Blocks are read in bulk from the fastest source that works, in the order of the chain.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bitcoin::consensus::serialize;
use bitcoin::{BlockHash, Network};
use btcgraph::node::{
    Auth, BlockSource, BlockSourceKind, Interface, Node, NodeError, NodeOptions, RetryPolicy, ScanProgress,
};
use btcgraph::sim::blkfile::{BlockFiles, BlockFilesLayout};
use btcgraph::sim::{Hostile, SimChain, SimNode, SimNodeOptions, World};
use serde_json::json;

use crate::support::bitcoind::RealNode;

const KEY: [u8; 8] = [0x51, 0, 0xff, 0x07, 0x80, 0x33, 0xda, 0x0b];
/// Small files with blocks in no order, as of a node that downloads from several peers.
pub(crate) const SCATTERED: BlockFilesLayout =
    BlockFilesLayout { key: Some(KEY), disorder: 12, file_bytes: 20_000, allocation: 1 << 14 };
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

pub(crate) type SourceBlocks = Vec<(BlockHash, Vec<u8>)>;

pub(crate) fn chain_of(seed: u64, blocks: u32) -> SimChain {
    let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
    for _ in 0..blocks {
        hostile.mine(&mut chain).unwrap();
    }
    chain
}

/// A node of this chain, the block files of another node that has the chain and a branch, and what is expected.
pub(crate) struct Sourced {
    _sim: SimNode,
    pub(crate) node: Node,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) blocks: SourceBlocks,
    pub(crate) hashes: Vec<BlockHash>,
    pub(crate) transactions: u64,
}

impl Sourced {
    pub(crate) fn new(layout: BlockFilesLayout, options: SimNodeOptions) -> Self {
        Self::of(chain_of(11, 150), layout, options)
    }

    pub(crate) fn of(chain: SimChain, layout: BlockFilesLayout, options: SimNodeOptions) -> Self {
        let branch = chain_of(12, 60);
        let directory = tempfile::tempdir().unwrap();
        let mut files = BlockFiles::create(directory.path(), layout).unwrap();
        let mut stale = branch.active_blocks();
        for block in chain.active_blocks() {
            files.write(block, &chain.spent_coins(&block.block_hash()).unwrap()).unwrap();
            if let Some(block) = stale.next() {
                files.write(block, &branch.spent_coins(&block.block_hash()).unwrap()).unwrap();
            }
        }
        files.flush().unwrap();
        let blocks: Vec<_> = chain.active_blocks().map(|block| (block.block_hash(), serialize(&**block))).collect();
        let hashes = blocks.iter().map(|(hash, _)| *hash).collect();
        let transactions = chain.active_blocks().map(|block| u64::try_from(block.txdata.len()).unwrap()).sum();
        let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options).unwrap();
        let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
        let retry = RetryPolicy { patience: std::time::Duration::ZERO, ..RetryPolicy::default() };
        let node = Node::connect(NodeOptions { retry, ..NodeOptions::new(Network::Regtest, sim.url(), auth) }).unwrap();
        Self { _sim: sim, node, directory, blocks, hashes, transactions }
    }

    fn choose(&self) -> BlockSource {
        BlockSource::choose(&self.node, Some(self.directory.path()), self.hashes.clone(), &mut |_| {}).unwrap()
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(self.directory.path()).unwrap().map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.to_str().unwrap().contains("blk"));
        files.sort();
        files
    }

    pub(crate) fn rest_requests(&self) -> u64 {
        self.node.options().metrics.requests(Interface::Rest)
    }
}

/// All blocks, with a buffer of so many bytes.
fn read(source: &BlockSource, buffer_bytes: u64) -> SourceBlocks {
    source.blocks(0, CONNECTIONS, buffer_bytes).unwrap().flat_map(Result::unwrap).collect()
}

#[test]
fn block_files_give_the_blocks_in_the_order_of_the_chain() {
    for layout in [BlockFilesLayout::default(), SCATTERED, BlockFilesLayout { key: None, disorder: 40, ..SCATTERED }] {
        let sourced = Sourced::new(layout, SimNodeOptions::default());
        let before = sourced.rest_requests();
        let source = sourced.choose();
        assert_eq!(source.status().kind, BlockSourceKind::BlockFiles);
        assert_eq!(source.status().to_string(), format!("block files in {}", sourced.directory.path().display()));
        assert_eq!(source.transactions().unwrap(), sourced.transactions);
        for buffer_bytes in [0, 80_000, 64 << 20] {
            assert!(read(&source, buffer_bytes) == sourced.blocks, "{buffer_bytes}");
        }
        assert_eq!(source.positions().len(), sourced.hashes.len());
        assert_eq!(sourced.rest_requests(), before, "the node is not asked");
    }
}

#[test]
fn a_batch_exceeds_its_part_of_the_buffer_by_no_block() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let files = sourced.choose();
    let rest = BlockSource::choose(&sourced.node, None, sourced.hashes.clone(), &mut |_| {}).unwrap();
    for source in [&files, &rest] {
        let batches: Vec<SourceBlocks> =
            source.blocks(0, CONNECTIONS, 8 * 5_000).unwrap().map(Result::unwrap).collect();
        let bytes = |batch: &SourceBlocks| batch.iter().map(|(_, block)| block.len()).sum::<usize>();
        assert!(batches.iter().all(|batch| batch.len() == 1 || bytes(batch) <= 5_000));
        assert!(batches.iter().any(|batch| batch.len() > 1) && batches.len() > 5, "{}", batches.len());
        // each is as large as the bound allows
        for (batch, next) in batches.iter().zip(&batches[1..]) {
            assert!(bytes(batch) + next[0].1.len() > 5_000);
        }
    }
}

#[test]
fn a_scan_reports_its_progress_and_ends_when_all_are_found() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let files = sourced.files().len();
    let mut progress = Vec::new();
    let choose = |hashes: &[BlockHash], progress: &mut Vec<ScanProgress>| {
        BlockSource::choose(&sourced.node, Some(sourced.directory.path()), hashes, &mut |now| progress.push(now))
            .unwrap()
    };
    choose(&sourced.hashes, &mut progress);
    assert!(files > 5 && progress.iter().all(|now| now.files == files));
    assert!(progress.iter().map(|now| now.files_done).eq(1..=progress.len()), "{progress:?}");
    progress.clear();
    assert_eq!(choose(&sourced.hashes[..1], &mut progress).positions().len(), 1);
    assert!(progress.len() < files, "genesis is in the first file");
}

#[test]
fn without_all_blocks_in_the_files_the_node_is_asked() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let source = |directory: Option<&Path>| {
        let source = BlockSource::choose(&sourced.node, directory, sourced.hashes.clone(), &mut |_| {}).unwrap();
        assert_eq!(source.status().kind, BlockSourceKind::Rest);
        assert_eq!((source.positions(), source.transactions().unwrap()), (&[][..], sourced.transactions));
        assert!(read(&source, 1 << 20) == sourced.blocks);
        source.status().to_string()
    };
    assert_eq!(source(None), "REST: the directory of the node's block files is not known (node.blocks_dir)");
    let absent = source(Some(Path::new("/nowhere/blocks")));
    assert!(absent.starts_with("REST: cannot read /nowhere/blocks"), "{absent}");

    fs::remove_file(&sourced.files()[0]).unwrap();
    let pruned = source(Some(sourced.directory.path()));
    assert!(pruned.contains("of 151 blocks, and not block 0f9188f13cb7"), "{pruned}");

    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("blk00000.dat"), [0xf9; 4_000]).unwrap();
    let foreign = source(Some(other.path()));
    assert!(foreign.contains("are not those of this node: they have none of its 151 blocks"), "{foreign}");
}

#[test]
fn without_rest_blocks_are_read_by_rpc() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions { rest: false, ..SimNodeOptions::default() });
    let source = BlockSource::choose(&sourced.node, None, sourced.hashes.clone(), &mut |_| {}).unwrap();
    assert_eq!(source.status().kind, BlockSourceKind::Rpc);
    assert!(source.status().to_string().starts_with("RPC, as the node serves no REST (rest=1): the directory"));
    assert!(read(&source, 1 << 20) == sourced.blocks);
}

#[test]
fn files_that_vanish_or_change_leave_the_rest_to_the_node() {
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let overwrite = |path: &Path| fs::write(path, vec![7; 40_000]).unwrap();
    let cut = |path: &Path| fs::write(path, [7; 400]).unwrap();
    for damage in [remove as fn(&Path), overwrite, cut] {
        let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
        let source = sourced.choose();
        let mut batches = source.blocks(0, CONNECTIONS, 8 * 2_000).unwrap();
        let mut blocks = batches.next().unwrap().unwrap();
        assert_eq!(source.status().kind, BlockSourceKind::BlockFiles);
        // the thread is ahead by a few batches of 2,000 bytes
        sourced.files()[4..].iter().for_each(|path| damage(path));
        blocks.extend(batches.flat_map(Result::unwrap));
        assert!(blocks == sourced.blocks);
        assert_eq!(source.status().kind, BlockSourceKind::Rest);
        assert!(source.status().to_string().contains("blk0"), "{}", source.status());
    }
}

#[test]
fn a_block_that_the_node_lacks_is_an_error_after_the_others() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let mut hashes = sourced.hashes.clone();
    hashes[70] = chain_of(13, 1).tip();
    let source = BlockSource::choose(&sourced.node, Some(sourced.directory.path()), hashes, &mut |_| {}).unwrap();
    let mut blocks = Vec::new();
    let mut batches = source.blocks(0, CONNECTIONS, 0).unwrap();
    let error = loop {
        match batches.next().expect("an error before the end") {
            Ok(batch) => blocks.extend(batch),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, NodeError::BlockNotFound { .. }), "{error}");
    assert!(blocks == sourced.blocks[..70] && batches.next().is_none());
}

#[test]
fn the_stop_flag_ends_scan_and_blocks() {
    let sourced = Sourced::new(SCATTERED, SimNodeOptions::default());
    let stop = sourced.node.stop().child();
    let node = sourced.node.with_stop(stop.clone());
    let choose =
        || BlockSource::choose(&node, Some(sourced.directory.path()), sourced.hashes.clone(), &mut |_| stop.raise());
    let stopped = choose().err().expect("an interrupted scan");
    assert!(matches!(stopped, NodeError::Stopped));

    let stop = sourced.node.stop().child();
    let node = sourced.node.with_stop(stop.clone());
    let source =
        BlockSource::choose(&node, Some(sourced.directory.path()), sourced.hashes.clone(), &mut |_| {}).unwrap();
    let mut batches = source.blocks(0, CONNECTIONS, 0).unwrap();
    assert!(batches.next().unwrap().is_ok());
    stop.raise();
    assert!(matches!(batches.next(), Some(Err(NodeError::Stopped))));
    assert!(batches.next().is_none());
}

#[test]
fn the_files_of_a_node_that_appends_to_them_are_a_source() {
    let Some(real) = RealNode::start(&["-disablewallet"]) else { return };
    let chain = chain_of(11, 120);
    let submit = |blocks: std::ops::Range<usize>| {
        for block in chain.active_blocks().skip(blocks.start).take(blocks.len()) {
            real.must("submitblock", &[json!(bitcoin::consensus::encode::serialize_hex(&**block))]);
        }
    };
    submit(1..101);
    let node =
        Node::connect(NodeOptions::new(Network::Regtest, real.rpc_url(), Auth::Cookie(real.cookie_path()))).unwrap();
    let hashes = node.active_hashes(100.into()).unwrap();
    let expected: SourceBlocks =
        chain.active_blocks().take(101).map(|block| (block.block_hash(), serialize(&**block))).collect();
    assert!(hashes.iter().eq(expected.iter().map(|(hash, _)| hash)));
    let choose = |directory: Option<&Path>| BlockSource::choose(&node, directory, hashes.clone(), &mut |_| {}).unwrap();
    let (files, requests) = (choose(Some(&real.blocks_dir())), choose(None));
    submit(101..121);
    assert_eq!(files.status().kind, BlockSourceKind::BlockFiles, "{}", files.status());
    assert_eq!(files.transactions().unwrap(), requests.transactions().unwrap());
    assert!(read(&files, 1 << 20) == expected && read(&requests, 1 << 20) == expected);
    assert_eq!(node.active_hashes(50.into()).unwrap(), hashes[..51]);
    assert_eq!(node.active_hashes(1_000.into()).unwrap().last(), Some(&chain.tip()));
}
