//! An index in a temporary directory, fed straight with blocks.

use std::ops::ControlFlow;
use std::path::Path;

use bitcoin::consensus::serialize;
use bitcoin::{Block, Network};
use btcgraph::index::{Index, IndexOptions, ObservedLimits, Report, Salt, Tip, VerifyOptions, verify};
use tempfile::TempDir;

/// The salt of every index in the tests, so that equal chains make equal rows.
pub(crate) const SALT: Salt = Salt(*b"salt of the test");

/// An index and its directory, which goes with it.
pub(crate) struct Indexed {
    pub(crate) index: Index,
    pub(crate) directory: TempDir,
}

pub(crate) fn options(directory: &Path) -> IndexOptions {
    IndexOptions {
        path: directory.join("index.redb"),
        network: Network::Regtest,
        salt: Some(SALT),
        cache_bytes: 64 << 20,
        freezes: false,
        stale_blocks_kept: 1_000,
        observed: ObservedLimits::default(),
    }
}

/// A directory in memory where the system has such a place, for commits wait until the disk has written.
pub(crate) fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = memory.is_dir().then(|| tempfile::tempdir_in(memory)).transpose();
    made.ok().flatten().unwrap_or_else(|| tempfile::tempdir().unwrap())
}

impl Indexed {
    pub(crate) fn empty() -> Self {
        Self::within(tempfile::tempdir().unwrap())
    }

    /// A new index, or the one that is there, in this directory.
    pub(crate) fn within(directory: TempDir) -> Self {
        let index = Index::open(&options(directory.path())).unwrap();
        Self { index, directory }
    }

    /// A fresh index of these blocks, connected `run` at a time.
    pub(crate) fn of<'b>(blocks: impl IntoIterator<Item = &'b Block>, run: usize) -> Self {
        let mut indexed = Self::empty();
        indexed.connect(blocks, run);
        indexed
    }

    pub(crate) fn connect<'b>(&mut self, blocks: impl IntoIterator<Item = &'b Block>, run: usize) {
        let parser = self.index.parser();
        let parse = |block: &Block| parser.parse(block.block_hash(), serialize(block)).unwrap();
        let blocks: Vec<_> = blocks.into_iter().map(parse).collect();
        for run in blocks.chunks(run) {
            let mut update = self.index.update().unwrap();
            update.connect(run).unwrap();
            update.commit().unwrap();
        }
    }

    /// Connects blocks `run` at a time, and commits them together.
    pub(crate) fn connect_at_once<'b>(&mut self, blocks: impl IntoIterator<Item = &'b Block>, run: usize) {
        let mut update = self.index.update().unwrap();
        let parser = update.parser();
        let parse = |block: &Block| parser.parse(block.block_hash(), serialize(block)).unwrap();
        for run in blocks.into_iter().map(parse).collect::<Vec<_>>().chunks(run) {
            update.connect(run).unwrap();
        }
        update.commit().unwrap();
    }

    /// Takes blocks out until this many are left; returns those taken out, newest first.
    pub(crate) fn disconnect_to(&mut self, blocks: u32) -> Vec<Tip> {
        let mut update = self.index.update().unwrap();
        let mut taken = Vec::new();
        while update.tip().is_some_and(|tip| tip.height.to_u32() >= blocks) {
            taken.push(update.disconnect().unwrap().expect("there is a block to disconnect"));
        }
        update.commit().unwrap();
        taken
    }

    /// Checks the whole index; fails unless it is clean.
    pub(crate) fn verified(&self) -> Report {
        let report = self.report();
        assert_eq!(report.differences, Vec::<String>::new());
        report
    }

    pub(crate) fn report(&self) -> Report {
        report(&self.index, self.directory.path())
    }

    /// Name, rows and digest of every table that is a function of the chain.
    pub(crate) fn rows(&self) -> TableRows {
        rows(&self.index, self.directory.path())
    }
}

/// Name, rows and digest of tables.
pub(crate) type TableRows = Vec<(&'static str, u64, String)>;

pub(crate) fn report(index: &Index, temporary: &Path) -> Report {
    let options = VerifyOptions { memory: 64 << 20, directory: temporary.into() };
    verify(&index.snapshot().unwrap(), &options, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Checks a whole index, and returns every table of it that is a function of the chain.
pub(crate) fn rows(index: &Index, temporary: &Path) -> TableRows {
    let report = report(index, temporary);
    assert_eq!(report.differences, Vec::<String>::new());
    let tables = report.tables.into_iter();
    // the miners depend on the table of pools, and are added later than the rest where blocks are not connected
    let others = ["block_hashes", "stale_transactions", "miner_blocks"];
    let tables = tables.filter(|table| !others.contains(&table.name));
    tables.map(|table| (table.name, table.rows, table.digest.to_string())).collect()
}
