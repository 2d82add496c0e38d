//! The chain: it is generated into block files, and served as a simulated node.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use bitcoin::{Block, BlockHash, Network};
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::blkfile::{BlockFiles, BlockFilesLayout};
use btcgraph::sim::{LoadGenerator, LoadProfile, SimChain, SimNode, SimNodeOptions, World};

use super::{Arguments, command};

/// Transactions of a block.
const BLOCK: u64 = 3_200;
/// What the node prints before its port.
const SERVING: &str = "serving on port ";

/// The block files of the node.
pub(super) fn blocks_dir(directory: &Path) -> PathBuf {
    directory.join("node/blocks")
}

/// Makes the chain, and serves it until the process is killed.
pub(super) fn serve(directory: &Path, transactions: u64, rest: bool) -> anyhow::Result<()> {
    let blocks_dir = blocks_dir(directory);
    if blocks_dir.try_exists()? {
        std::fs::remove_dir_all(&blocks_dir)?;
    }
    // XORed as by default
    let layout = BlockFilesLayout { key: Some(*b"bulk key"), ..BlockFilesLayout::default() };
    let mut files = BlockFiles::create(&blocks_dir, layout)?;
    let mut chain = SimChain::new(1).keeping(10);
    let write = |chain: &SimChain, hash: BlockHash, files: &mut BlockFiles| -> anyhow::Result<()> {
        let block: &Block = chain.block(&hash).context("the newest block is in memory")?;
        Ok(files.write(block, &chain.spent_coins(&hash)?)?)
    };
    write(&chain, chain.tip(), &mut files)?;
    let blocks = u32::try_from(100 + transactions.div_ceil(BLOCK))?;
    let mut load = LoadGenerator::new(LoadProfile { transactions, blocks, seed: 1 });
    let (start, mut inputs, mut outputs) = (Instant::now(), 0, 0);
    while let Some(block) = load.next_block(&mut chain)? {
        write(&chain, block.block_hash(), &mut files)?;
        for transaction in block.txdata.iter().skip(1) {
            inputs += transaction.input.len();
            outputs += transaction.output.len();
        }
    }
    ensure!(load.transactions() == transactions, "the blocks hold only {} transactions", load.transactions());
    println!("  seconds: {:.2}", start.elapsed().as_secs_f64());
    println!("  blocks: {blocks}, {} bytes, {inputs} inputs, {outputs} outputs", files.size());
    files.flush()?;
    // the disk would be busy with them while others are measured
    for file in std::fs::read_dir(&blocks_dir)? {
        File::open(file?.path())?.sync_all()?;
    }
    let options = SimNodeOptions { files: Some(files), rest, ..SimNodeOptions::default() };
    let node = SimNode::start(Arc::new(Mutex::new(World::new(chain))), options)?;
    println!("{SERVING}{}", node.port());
    loop {
        std::thread::park();
    }
}

/// A connection to the node that serves at a port.
pub(super) fn connect(port: u16) -> anyhow::Result<Node> {
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    Ok(Node::connect(NodeOptions::new(Network::Regtest, format!("http://127.0.0.1:{port}"), auth))?)
}

/// The process that serves the chain. It is killed when this is dropped.
pub(super) struct NodeProcess {
    process: Child,
    port: u16,
}

impl NodeProcess {
    /// Waits until the chain is made.
    pub(super) fn start(arguments: &Arguments, step: &str) -> anyhow::Result<Self> {
        let mut process = command(arguments, step)?.stdout(Stdio::piped()).spawn()?;
        let printed = process.stdout.take().context("it is piped")?;
        let mut node = Self { process, port: 0 };
        println!("{step}");
        for line in BufReader::new(printed).lines() {
            let line = line?;
            match line.strip_prefix(SERVING) {
                Some(port) => {
                    node.port = port.parse()?;
                    return Ok(node);
                }
                None => println!("{line}"),
            }
        }
        bail!("the node ended")
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
