//! An index with the optional table whose chain changes, and the model of its lookups.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash, Transaction, Wtxid};
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexError, NamedTable, OptionalTables, RawBlocks, Snapshot, Tip, TxNum};
use btcgraph::sim::{Hostile, SimChain};

use crate::support::frozen::part;
use crate::support::indexed::{Indexed, in_memory, options};

pub(crate) const ON: OptionalTables =
    OptionalTables { wtxids: true, address_prefixes: false, op_returns: false, block_filters: false };
pub(crate) const OFF: OptionalTables =
    OptionalTables { wtxids: false, address_prefixes: false, op_returns: false, block_filters: false };

/// All blocks that ever were in the chain.
#[derive(Default)]
pub(crate) struct AllBlocks(Mutex<HashMap<BlockHash, Vec<u8>>>);

impl AllBlocks {
    pub(crate) fn insert(&self, hash: BlockHash, bytes: Vec<u8>) {
        self.0.lock().unwrap().insert(hash, bytes);
    }

    pub(crate) fn remove(&self, hash: BlockHash) -> Vec<u8> {
        self.0.lock().unwrap().remove(&hash).unwrap()
    }
}

impl RawBlocks for AllBlocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        part(self.0.lock().unwrap().get(&block.hash).ok_or("the block is not there")?, offset, length)
    }
}

/// An index of a chain that changes.
pub(crate) struct History {
    pub(crate) chain: SimChain,
    pub(crate) hostile: Hostile,
    pub(crate) raw: Arc<AllBlocks>,
    pub(crate) indexed: Indexed,
    /// The blocks that the index has.
    pub(crate) blocks: Vec<Arc<Block>>,
}

impl History {
    pub(crate) fn new(seed: u64, blocks: u32) -> Self {
        let (chain, hostile) = (SimChain::new(seed), Hostile::new(seed));
        let (raw, indexed) = (Arc::default(), Indexed::within(in_memory()));
        let mut history = Self { chain, hostile, raw, indexed, blocks: Vec::new() };
        history.indexed.index.set_raw_blocks(history.raw.clone());
        // a coinbase that comes twice, also with its witness
        history.hostile.repeat_coinbase(&mut history.chain, 1).unwrap();
        history.mine(blocks);
        history
    }

    pub(crate) fn mine(&mut self, blocks: u32) {
        for _ in 0..blocks {
            self.hostile.mine(&mut self.chain).unwrap();
        }
        self.follow(7);
    }

    pub(crate) fn reorganise(&mut self, depth: u32, length: u32) {
        self.hostile.branch(&mut self.chain, depth, length).unwrap();
        self.follow(3);
    }

    /// Disconnects and connects blocks up to those of the chain.
    pub(crate) fn follow(&mut self, run: usize) {
        let blocks: Vec<_> = self.chain.active_blocks().cloned().collect();
        let common = self.blocks.iter().zip(&blocks).take_while(|(one, other)| one == other).count();
        for block in &blocks {
            self.raw.insert(block.block_hash(), serialize(&**block));
        }
        self.indexed.disconnect_to(u32::try_from(common).unwrap());
        self.indexed.connect(blocks[common..].iter().map(Arc::as_ref), run);
        self.blocks = blocks;
    }

    /// Puts all but the newest blocks into a generation.
    pub(crate) fn freeze(&mut self, depth: u32) {
        let snapshot = self.indexed.index.snapshot().unwrap();
        let first = snapshot.frozen().map_or(Height::GENESIS, |frozen| frozen.height.next());
        let Some(last) = snapshot.tip().unwrap().height.to_u32().checked_sub(depth).map(Height::from) else { return };
        if first <= last {
            let path = self.indexed.directory.path().join("generation");
            snapshot.pack(first..=last, &path).unwrap();
            self.indexed.index.adopt(&path).unwrap();
        }
    }

    pub(crate) fn restart(&mut self, tables: OptionalTables) {
        let indexed = std::mem::replace(&mut self.indexed, Indexed::within(in_memory()));
        drop(indexed.index);
        self.indexed = Indexed::within(indexed.directory);
        self.indexed.index.set_raw_blocks(self.raw.clone());
        self.indexed.index.switch_tables(tables).unwrap();
        // as at every start, once the node says which blocks are in its chain
        for generation in self.indexed.index.unnamed_generations().unwrap() {
            Index::remove_unused(&generation).unwrap();
        }
        self.indexed.index.remove_unused_tables().unwrap();
    }

    /// Builds and names a table that is due. Returns whether one was.
    pub(crate) fn build(&mut self) -> bool {
        let Some(due) = self.indexed.index.due_table().unwrap() else { return false };
        due.with_run_records(40).build(&Arc::default(), &mut |_| {}).unwrap();
        let due = self.indexed.index.due_table().unwrap().unwrap();
        assert!(matches!(self.indexed.index.name_table(&due).unwrap(), NamedTable::InForce));
        true
    }

    pub(crate) fn complete(&mut self) {
        while self.indexed.index.tend_tables(50).unwrap() {}
        while self.build() {}
        while self.indexed.index.sweep(1_000).unwrap() {}
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.indexed.index.snapshot().unwrap()
    }

    /// Whether lookups are answered. Those that are equal the model's.
    pub(crate) fn is_answered(&self) -> bool {
        is_answered(&self.snapshot(), &self.blocks)
    }

    /// The files of tables.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.frozen()) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> = paths.filter(|path| path.to_str().unwrap().contains(".wtxids-")).collect();
        paths.sort();
        paths
    }

    pub(crate) fn frozen(&self) -> PathBuf {
        options(self.indexed.directory.path()).path.with_extension("frozen")
    }
}

pub(crate) fn is_answered(snapshot: &Snapshot, blocks: &[Arc<Block>]) -> bool {
    let transactions = blocks.iter().flat_map(|block| &block.txdata);
    let model: HashMap<Wtxid, TxNum> =
        transactions.clone().map(Transaction::compute_wtxid).zip((0..).map(TxNum)).collect();
    let answer = snapshot.find_wtxid(&Wtxid::all_zeros());
    if let Err(IndexError::TableOff { .. } | IndexError::TableNotReady { .. }) = answer {
        return false;
    }
    assert_eq!(answer.unwrap(), None);
    for (wtxid, txnum) in &model {
        let found = snapshot.find_wtxid(wtxid).unwrap().map(|found| found.txnum);
        assert_eq!(found, Some(*txnum), "{wtxid}");
    }
    // the txid of a transaction with a witness is no wtxid
    let with_witness = transactions.map(|transaction| transaction.compute_txid().to_byte_array());
    let others = with_witness.map(Wtxid::from_byte_array).filter(|txid| !model.contains_key(txid));
    let others: Vec<_> = others.collect();
    assert!(others.len() > 20);
    assert!(others.iter().all(|txid| snapshot.find_wtxid(txid).unwrap().is_none()));
    true
}

pub(crate) fn progress(snapshot: &Snapshot) -> (u64, u64) {
    match snapshot.find_wtxid(&Wtxid::all_zeros()) {
        Err(IndexError::TableNotReady { built, transactions, .. }) => (built, transactions),
        other => panic!("{other:?}"),
    }
}
