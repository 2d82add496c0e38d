//! A chain of the shape of mainnet in the block files of a simulated node, and indexes of it: block by block, or with all but the
//! last blocks in a generation.

// figures that are printed with two decimals
#![allow(clippy::cast_precision_loss)]

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_graphql::{Executor, Request, Variables};
use bitcoin::Network;
use btcgraph::api::{self, Features, Schema};
use btcgraph::chain::Height;
use btcgraph::index::{Import, ImportOptions, Index, IndexOptions, ObservedLimits, ParsedBlock, Salt};
use btcgraph::limits::Limits;
use btcgraph::live::Live;
use btcgraph::mempool::MempoolSnapshot;
use btcgraph::node::{Auth, BlockSource, Node, NodeOptions};
use btcgraph::sim::blkfile::{BlockFiles, BlockFilesLayout};
use btcgraph::sim::{LoadGenerator, LoadProfile, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::read_frozen_blocks;
use btcgraph::view::{Head, Published};
use serde_json::Value;
use tokio::runtime::Runtime;

const SALT: Salt = Salt(*b"salt of the test");
/// Transactions of a block.
const BLOCK: u64 = 3_200;
/// The cache of each index.
const CACHE: usize = 512 << 20;
/// Blocks that are connected on top of the generation.
pub(crate) const LIVE: u32 = 30;
/// Blocks of a commit.
const COMMIT: usize = 8;

/// A node with a chain in block files, and the connection to it.
pub(crate) fn simulated(directory: &Path, transactions: u64) -> Result<(SimNode, Node)> {
    let mut files = BlockFiles::create(&directory.join("blocks"), BlockFilesLayout::default())?;
    let mut chain = SimChain::new(1).keeping(10);
    let blocks = u32::try_from(100 + transactions.div_ceil(BLOCK))?;
    let mut load = LoadGenerator::new(LoadProfile { transactions, blocks, seed: 1 });
    let mut next = chain.tip();
    loop {
        files.write(chain.block(&next).context("the newest block is in memory")?, &chain.spent_coins(&next)?)?;
        let Some(block) = load.next_block(&mut chain)? else { break };
        next = block.block_hash();
    }
    files.flush()?;
    let options = SimNodeOptions { files: Some(files), ..SimNodeOptions::default() };
    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options)?;
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth))?;
    Ok((sim, node))
}

/// An index to make and to open.
pub(crate) struct IndexMaker {
    pub(crate) node: Node,
    pub(crate) blocks_dir: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) freezes: bool,
}

pub(crate) struct Opened {
    pub(crate) schema: Schema,
    pub(crate) head: Arc<Head>,
    _index: Index,
}

impl IndexMaker {
    pub(crate) fn options(&self) -> IndexOptions {
        IndexOptions {
            path: self.path.clone(),
            network: Network::Regtest,
            salt: Some(SALT),
            cache_bytes: CACHE,
            freezes: self.freezes,
            stale_blocks_kept: 0,
            observed: ObservedLimits::default(),
        }
    }

    /// Builds the index, and prints how long the last blocks take.
    pub(crate) fn make(&self) -> Result<()> {
        let parent = self.path.parent().context("it has one")?;
        std::fs::create_dir_all(parent)?;
        let hashes = self.node.active_hashes(Height::from(u32::MAX))?;
        let below = hashes.len().saturating_sub(usize::try_from(LIVE)?);
        let mut index = Index::open(&self.options())?;
        let blocks = read_frozen_blocks(&index, &self.node, Some(self.blocks_dir.clone()))?;
        if self.freezes {
            let source = BlockSource::choose(&self.node, Some(&self.blocks_dir), &hashes[..below], &mut |_| {})?;
            let transactions = source.transactions()?;
            let path = self.path.with_extension("building");
            let mut import = Import::begin(ImportOptions {
                path: path.clone(),
                directory: parent.to_path_buf(),
                network: Network::Regtest,
                salt: SALT,
                memory: 1 << 30,
                threads: 2,
                transactions,
                range: ImportOptions::default_range(transactions),
                checkpoint_interval: ImportOptions::CHECKPOINT_INTERVAL,
                raw_files: None,
            })?;
            for batch in source.blocks(0, NonZeroUsize::MIN, 64 << 20)? {
                import.push(&batch?)?;
            }
            import.finish(&mut |_| ControlFlow::Continue(()))?;
            index.adopt(&path)?;
            blocks.locate(Height::GENESIS, &hashes[..below], &mut |_| {})?;
        } else {
            self.connect(&mut index, &hashes[..below])?;
        }
        let start = Instant::now();
        let connected = self.connect(&mut index, &hashes[below..])?;
        let name = if self.freezes { "on a generation" } else { "without generations" };
        println!("catching up {name}: {:.0} transactions a second", connected as f64 / start.elapsed().as_secs_f64());
        Ok(())
    }

    /// Assigns all blocks to pools, as `serve` does in the background.
    #[allow(dead_code, reason = "not every bench asks for pools")]
    pub(crate) fn assign_miners(&self) -> Result<()> {
        let mut index = Index::open(&self.options())?;
        let blocks = read_frozen_blocks(&index, &self.node, Some(self.blocks_dir.clone()))?;
        blocks.locate(Height::GENESIS, &self.node.active_hashes(Height::from(u32::MAX))?, &mut |_| {})?;
        while index.tend_tables(10_000)? {}
        Ok(())
    }

    /// Connects these blocks, and returns the number of their transactions.
    fn connect(&self, index: &mut Index, hashes: &[bitcoin::BlockHash]) -> Result<usize> {
        let source = BlockSource::choose(&self.node, Some(&self.blocks_dir), hashes, &mut |_| {})?;
        let (parser, mut transactions) = (index.parser(), 0);
        for batch in source.blocks(0, NonZeroUsize::MIN, 64 << 20)? {
            let batch = batch?.into_iter().map(|(hash, bytes)| parser.parse(hash, bytes));
            let batch = batch.collect::<Result<Vec<_>, _>>()?;
            for blocks in batch.chunks(COMMIT) {
                let mut update = index.update()?;
                update.connect(blocks)?;
                update.commit()?;
                transactions += blocks.iter().map(ParsedBlock::transaction_count).sum::<usize>();
            }
        }
        Ok(transactions)
    }

    pub(crate) fn open(&self, mempool: MempoolSnapshot) -> Result<Opened> {
        let index = Index::open(&self.options())?;
        let blocks = read_frozen_blocks(&index, &self.node, Some(self.blocks_dir.clone()))?;
        let hashes = self.node.active_hashes(Height::from(u32::MAX))?;
        blocks.locate(Height::GENESIS, &hashes, &mut |_| {})?;
        let head = Head::after(None, Arc::new(index.snapshot()?), mempool);
        let head = Arc::new(head.context("there are blocks")?);
        let published = Published::default();
        published.publish(Arc::clone(&head));
        let schema = api::schema(published, Live::default(), Limits::default(), Features::default());
        Ok(Opened { schema, head, _index: index })
    }
}

/// What a query takes that must be answered without an error.
pub(crate) fn time(runtime: &Runtime, schema: &Schema, query: &str, variables: &Value) -> Result<Duration> {
    let request = Request::new(query).variables(Variables::from_json(variables.clone()));
    let started = Instant::now();
    let answer = runtime.block_on(schema.execute(request));
    let taken = started.elapsed();
    ensure!(answer.errors.is_empty(), "{query}: {:?}", answer.errors);
    Ok(taken)
}
