//! Whether a bulk import, freezing, and connecting block by block make the same rows of a long hostile chain.
//!
//! ```text
//! cargo bench --bench equal -- --transactions 1000000
//! ```
//!
//! An index follows a chain through stale branches, block by block. What it packs is compared with imports of the same blocks,
//! table by table. `verify` then checks the live index, the imported one, and one that was frozen in several steps, and compares
//! each with a node, its UTXO set by hash. The chain is in memory: about 4 GB for 1,000,000 transactions.

mod chain;

use std::collections::HashMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bitcoin::hashes::sha256;
use bitcoin::{BlockHash, Network};
use btcgraph::chain::Height;
use btcgraph::index::{
    Generation, Import, ImportOptions, Index, IndexOptions, ObservedLimits, RawBlocks, Report, Salt, Tip,
    VerifyOptions, verify,
};
use btcgraph::node::{Auth, Node, NodeOptions};
use btcgraph::sim::{SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::{NodeState, compare_with_node};
use clap::Parser;

use chain::HostileChain;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SALT: Salt = Salt(*b"salt of the test");
/// The newest blocks, which stay live.
const LIVE: u32 = 30;
/// Blocks that are compared with the node's, output by output.
const COMPARED: usize = 30;
/// Memory of the imports, in MiB: the lesser makes many partitions.
const MEMORIES: [usize; 2] = [32, 512];

#[derive(Parser)]
struct Arguments {
    /// Transactions of the chain, about.
    #[arg(long, default_value_t = 1_000_000)]
    transactions: u64,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Blocks in memory.
struct Blocks(HashMap<BlockHash, Vec<u8>>);

impl RawBlocks for Blocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let (offset, length) = (usize::try_from(offset)?, usize::try_from(length)?);
        let bytes = self.0.get(&block.hash).and_then(|bytes| bytes.get(offset..offset + length));
        Ok(bytes.ok_or("not in the chain")?.to_vec())
    }
}

type Checksums = Vec<(String, sha256::Hash)>;

/// The chain on a node, and the directory of the indexes.
struct Bench {
    blocks: Arc<Blocks>,
    /// The blocks of the active chain, from genesis on.
    active: Vec<BlockHash>,
    node: Node,
    directory: tempfile::TempDir,
}

fn main() -> Result<()> {
    let Arguments { transactions, .. } = Arguments::parse();
    let began = Instant::now();
    let HostileChain { chain, tips, bytes, repeated, branches } = HostileChain::make(transactions)?;
    let active: Vec<_> = chain.active_blocks().map(|block| block.block_hash()).collect();
    let count: usize = chain.active_blocks().map(|block| block.txdata.len()).sum();
    println!(
        "a chain of {} blocks and {count} transactions, {repeated} repeated coinbases and {branches} other branches: {:.0} s",
        active.len(),
        began.elapsed().as_secs_f64()
    );
    ensure!(repeated > 0 && branches > 3, "too few transactions for repeated coinbases and other branches");
    let directory = tempfile::tempdir()?;
    let mut live = open(directory.path(), "live")?;
    let blocks = Arc::new(Blocks(bytes));
    let began = Instant::now();
    for tip in &tips {
        follow(&mut live, &chain, &blocks, tip)?;
    }
    println!("connected block by block, through {} tips: {:.0} s", tips.len(), began.elapsed().as_secs_f64());

    let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default())?;
    let auth = Auth::UserPassword { user: "user".into(), password: "password".into() };
    let node = Node::connect(NodeOptions::new(Network::Regtest, sim.url(), auth))?;
    let bench = Bench { blocks, active, node, directory };
    bench.run(live)
}

impl Bench {
    fn run(&self, mut live: Index) -> Result<()> {
        let end = u32::try_from(self.active.len())? - 1 - LIVE;
        let packed = self.directory.path().join("packed.redb");
        let began = Instant::now();
        live.snapshot()?.pack(Height::GENESIS..=Height::from(end), &packed)?;
        println!("packed up to height {end}: {:.0} s", began.elapsed().as_secs_f64());
        let expected = checksums(&packed)?;
        let mut imported = None;
        for memory in MEMORIES {
            let path = self.import(memory, end)?;
            compare(&expected, &checksums(&path)?, &format!("imported with {memory} MiB"))?;
            imported = Some(path);
        }

        let report = self.verify("live", &live)?;
        let mut index = open(self.directory.path(), "imported")?;
        index.set_raw_blocks(Arc::clone(&self.blocks) as Arc<dyn RawBlocks>);
        index.adopt(&imported.context("there is an import")?)?;
        self.connect(&mut index, end + 1)?;
        // as serving does in the background: the miners of blocks that were imported
        while index.tend_tables(10_000)? {}
        compare_reports(&report, &self.verify("imported", &index)?, "imported")?;
        // the live rows above the cut, packed over imported and over live ones
        for (index, name) in [(&index, "above-imported.redb"), (&live, "above-live.redb")] {
            let tip = index.snapshot()?.tip().context("there are blocks")?.height;
            index.snapshot()?.pack(Height::from(end + 1)..=tip, &self.directory.path().join(name))?;
        }
        let of = |name: &str| checksums(&self.directory.path().join(name));
        compare(&of("above-live.redb")?, &of("above-imported.redb")?, "blocks above an import")?;
        drop(index);

        live.set_raw_blocks(Arc::clone(&self.blocks) as Arc<dyn RawBlocks>);
        let mut first = 0;
        for last in [end / 2, end * 3 / 4, end] {
            let path = live.freezing_path();
            live.snapshot()?.pack(Height::from(first)..=Height::from(last), &path)?;
            live.adopt(&path)?;
            let name = format!("frozen up to height {last}");
            let with_shadowed = format!("{name}, shadowed rows left");
            compare_reports(&report, &self.verify(&with_shadowed, &live)?, &with_shadowed)?;
            while live.sweep(100_000)? {}
            compare_reports(&report, &self.verify(&name, &live)?, &name)?;
            first = last + 1;
        }
        println!("everything is equal");
        Ok(())
    }

    fn bytes(&self, height: usize) -> (BlockHash, &[u8]) {
        let hash = self.active[height];
        (hash, &self.blocks.0[&hash])
    }

    /// Imports the blocks up to this height, and returns the file.
    fn import(&self, memory: usize, last: u32) -> Result<std::path::PathBuf> {
        let path = self.directory.path().join(format!("imported-{memory}.redb"));
        let began = Instant::now();
        // the memory decides how many partitions and ranges there are, as for a chain that is longer by as much as it is little
        let mut import = Import::begin(ImportOptions {
            path: path.clone(),
            directory: self.directory.path().join("runs"),
            network: Network::Regtest,
            salt: SALT,
            memory: memory << 20,
            threads: std::thread::available_parallelism()?.get(),
            transactions: 1_000_000_000 / u64::try_from(memory)?,
            range: u32::try_from(memory * 1_000)?,
            checkpoint_interval: ImportOptions::CHECKPOINT_INTERVAL,
            raw_files: None,
        })?;
        let heights: Vec<_> = (0..=usize::try_from(last)?).collect();
        for run in heights.chunks(16) {
            let batch: Vec<_> =
                run.iter().map(|height| self.bytes(*height)).map(|(hash, raw)| (hash, raw.to_vec())).collect();
            import.push(&batch)?;
        }
        let Some(imported) = import.finish(&mut |_| ControlFlow::Continue(()))? else { bail!("there are no blocks") };
        let seconds = began.elapsed().as_secs_f64();
        println!("imported {} transactions with {memory} MiB: {seconds:.0} s", imported.range.transactions());
        Ok(path)
    }

    /// Connects the blocks of the active chain from this height on.
    fn connect(&self, index: &mut Index, first: u32) -> Result<()> {
        let mut update = index.update()?;
        for height in usize::try_from(first)?..self.active.len() {
            let (hash, bytes) = self.bytes(height);
            let block = update.parser().parse(hash, bytes.to_vec())?;
            update.connect(&[block])?;
        }
        Ok(update.commit()?)
    }

    /// Checks an index in itself and against the node.
    fn verify(&self, what: &str, index: &Index) -> Result<Report> {
        let (snapshot, began) = (index.snapshot()?, Instant::now());
        let options = VerifyOptions { memory: 512 << 20, directory: self.directory.path().into() };
        let report = verify(&snapshot, &options, &mut |_| ControlFlow::Continue(()))?;
        ensure!(report.differences.is_empty(), "{what}: {:?}", report.differences);
        let state = NodeState::at(&self.node, snapshot.tip())?;
        let comparison = compare_with_node(&self.node, &snapshot, &report, state, COMPARED)?;
        ensure!(comparison.differences.is_empty(), "{what}: {:?}", comparison.differences);
        let set = comparison.node.utxo_set.context("the node is at the tip")?;
        let hash = set.hash_serialized_3.context("the node reports a hash")?;
        println!("verified, {what}: {:.0} s, UTXO set {hash}", began.elapsed().as_secs_f64());
        Ok(report)
    }
}

/// Fails unless two indexes of one chain have the same rows, as their verifications counted and hashed them.
fn compare_reports(expected: &Report, found: &Report, what: &str) -> Result<()> {
    let tables = expected.tables.iter().zip(&found.tables).filter(|(expected, found)| expected != found);
    let other: Vec<_> = tables.map(|(expected, found)| format!("{expected:?} became {found:?}")).collect();
    ensure!(found == expected, "{what}: the report is another: {other:?}, UTXO set {:?}", found.utxo_set);
    Ok(())
}

fn open(directory: &Path, name: &str) -> Result<Index> {
    std::fs::create_dir_all(directory.join(name))?;
    Ok(Index::open(&IndexOptions {
        path: directory.join(name).join("index.redb"),
        network: Network::Regtest,
        salt: Some(SALT),
        cache_bytes: 1 << 30,
        freezes: true,
        stale_blocks_kept: 0,
        observed: ObservedLimits::default(),
    })?)
}

/// Disconnects and connects what lies between the tip of the index and this block, a block at a time.
fn follow(index: &mut Index, chain: &SimChain, blocks: &Blocks, tip: &BlockHash) -> Result<()> {
    let (parser, mut update) = (index.parser(), index.update()?);
    let genesis = chain.hash_at(Height::GENESIS).context("a chain begins with genesis")?;
    let parse = |hash: BlockHash| parser.parse(hash, blocks.0[&hash].clone());
    let from = if let Some(tip) = update.tip() {
        tip.hash
    } else {
        update.connect(&[parse(genesis)?])?;
        genesis
    };
    let path = chain.path(&from, tip)?;
    for expected in path.disconnected {
        ensure!(update.disconnect()?.is_some_and(|tip| tip.hash == expected), "another block is disconnected");
    }
    for hash in path.connected {
        update.connect(&[parse(hash)?])?;
        if update.is_full()? {
            update.commit_non_durable()?;
            update = index.update()?;
        }
    }
    Ok(update.commit()?)
}

fn checksums(path: &Path) -> Result<Checksums> {
    Ok(Generation::open(path, Network::Regtest, SALT, 64 << 20)?.checksums()?)
}

/// Errors: the tables that differ.
fn compare(expected: &Checksums, found: &Checksums, what: &str) -> Result<()> {
    let names = |checksums: &Checksums| checksums.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    ensure!(names(expected) == names(found), "{what}: other tables");
    let differ = expected.iter().zip(found).filter(|(one, other)| one != other).map(|((name, _), _)| name.as_str());
    let differ: Vec<_> = differ.collect();
    ensure!(differ.is_empty(), "{what}: the rows of {} differ", differ.join(", "));
    println!("equal, {what}: {}", names(expected).join(", "));
    Ok(())
}
