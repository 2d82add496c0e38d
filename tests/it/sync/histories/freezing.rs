//! An index that freezes blocks while it follows the chain, fed with blocks without a node between.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::sync::{Arc, Mutex};

use bitcoin::consensus::serialize;
use bitcoin::{BlockHash, ScriptBuf};
use btcgraph::chain::Height;
use btcgraph::index::{Index, RawBlocks, Tip};
use btcgraph::sim::SimChain;

use super::player::Way;
use super::prepared::Prepared;
use super::straight::Straight;
use crate::support::frozen::part;
use crate::support::indexed::{Indexed, rows};
use crate::support::model::Model;

/// As [`Straight`]. After some steps all but a few of the newest blocks are frozen, and after others some of the live rows
/// that are shadowed then are deleted. After each freeze it is verified, and all of its rows are those of an index that
/// follows the same chain and freezes nothing.
pub(crate) struct FreezesOnTheWay {
    /// Added to the number of the step, so that histories differ in when they freeze.
    step: u32,
    blocks: Arc<SeenBlocks>,
    all_live: Indexed,
}

/// All blocks that were ever in the chain.
#[derive(Default)]
struct SeenBlocks(Mutex<HashMap<BlockHash, Vec<u8>>>);

impl RawBlocks for SeenBlocks {
    fn read(&self, block: Tip, offset: u32, length: u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        part(self.0.lock().unwrap().get(&block.hash).ok_or("the block is not there")?, offset, length)
    }
}

impl FreezesOnTheWay {
    pub(crate) fn from_step(step: u32) -> Self {
        Self { step, blocks: Arc::default(), all_live: Indexed::within(Prepared::get().index()) }
    }

    fn compare_all_rows(&self, index: &Index) {
        assert_eq!(rows(index, self.all_live.directory.path()), self.all_live.rows());
    }

    /// Freezes all but so many blocks, if all shadowed rows of earlier ones are deleted.
    fn freeze(&self, index: &mut Index, depth: u32) {
        let snapshot = index.snapshot().unwrap();
        let first = snapshot.frozen().map_or(Height::GENESIS, |frozen| frozen.height.next());
        let last = snapshot.tip().unwrap().height.to_u32().saturating_sub(depth);
        if last < first.to_u32() || index.has_shadowed_rows().unwrap() {
            return;
        }
        let path = index.freezing_path();
        snapshot.check_raw_blocks(first..=Height::from(last), &false.into()).unwrap();
        let range = snapshot.pack(first..=Height::from(last), &path).unwrap();
        assert_eq!(index.adopt(&path).unwrap(), range.last);
        assert_eq!(index.snapshot().unwrap().tip(), snapshot.tip());
        self.compare_all_rows(index);
    }
}

impl Way for FreezesOnTheWay {
    fn complete(&self, index: &Index) {
        index.set_raw_blocks(Arc::clone(&self.blocks) as Arc<dyn RawBlocks>);
    }

    fn follow(&mut self, index: &mut Index, chain: &SimChain) {
        Straight.follow(index, chain);
        Straight.follow(&mut self.all_live.index, chain);
        for block in chain.active_blocks() {
            self.blocks.0.lock().unwrap().entry(block.block_hash()).or_insert_with(|| serialize(block.as_ref()));
        }
        self.step += 1;
        match self.step % 7 {
            0 => self.freeze(index, self.step % 5),
            2 | 3 => assert!(index.sweep(40).unwrap() || !index.has_shadowed_rows().unwrap()),
            5 => while index.sweep(100).unwrap() {},
            _ => {}
        }
    }

    fn refuse(&mut self, _: &mut Index, _: &SimChain) {}

    fn let_go(&mut self) {}

    fn compare(&mut self, _: &Model, _: &BTreeSet<ScriptBuf>) {}

    fn finish(&mut self, _: &Model) {}
}
