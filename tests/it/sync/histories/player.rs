//! Plays a history: does to the simulated chain what its actions say, lets the index follow, and compares the index with
//! the model each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bitcoin::{Block, BlockHash, OutPoint, ScriptBuf};
use btcgraph::chain::Height;
use btcgraph::index::{BlockRow, Index};
use btcgraph::sim::{Hostile, SimChain};
use tempfile::TempDir;

use super::actions::{Action, Step};
use super::counts::Counts;
use super::prepared::Prepared;
use super::purse::Purse;
use crate::support::agree::{assert_agrees, assert_agrees_from, assert_is_stale};
use crate::support::indexed::{Indexed, in_memory, options};
use crate::support::model::Model;

/// How the index comes to follow the chain.
pub(crate) trait Way {
    /// A directory with the index in which a history begins.
    fn directory(&self) -> TempDir {
        Prepared::get().index()
    }

    /// Completes an index that was opened.
    fn complete(&self, _: &Index) {}

    /// Advances the index to the tip of the chain.
    fn follow(&mut self, index: &mut Index, chain: &SimChain);

    /// Refuses to follow a node that has only a small part of the chain.
    fn refuse(&mut self, index: &mut Index, beginning: &SimChain);

    /// Lets go of what it reads, so that the index can be closed.
    fn let_go(&mut self);

    /// Compares what it sees itself with the model. `affected` are the scripts whose rows may have changed.
    fn compare(&mut self, model: &Model, affected: &BTreeSet<ScriptBuf>);

    /// The same at the end of a history, of any scripts.
    fn finish(&mut self, model: &Model);
}

/// A history that is under way.
pub(crate) struct Player<W> {
    pub(super) way: W,
    pub(super) chain: SimChain,
    pub(super) hostile: Hostile,
    pub(super) purse: &'static Purse,
    pub(super) planted: Vec<BlockHash>,
    /// Outputs that were paid to be spent later.
    pub(super) payments: Vec<OutPoint>,
    /// The index; none only while it is being opened.
    pub(super) indexed: Option<Indexed>,
    pub(super) model: Model,
    /// Every block that left the chain and did not come back, with its height and the row it had.
    stale: BTreeMap<BlockHash, (Arc<Block>, u32, BlockRow)>,
    /// Branches taken since the index looked.
    pub(super) reorganisations: u32,
    /// How often the index was compared with the model.
    compared: u32,
    pub(super) counts: Counts,
}

/// Every so many comparisons all rows are compared, and not only those that the last blocks could change.
const ALL_COMPARED: u32 = 15;

impl<W: Way> Player<W> {
    pub(crate) fn new(way: W) -> Self {
        let prepared = Prepared::get();
        let directory = way.directory();
        let index = Index::open(&options(directory.path())).unwrap();
        way.complete(&index);
        Self {
            way,
            chain: prepared.chain.clone(),
            hostile: prepared.hostile.clone(),
            purse: &prepared.purse,
            planted: prepared.planted.clone(),
            payments: Vec::new(),
            indexed: Some(Indexed { index, directory }),
            model: prepared.model.clone(),
            stale: BTreeMap::new(),
            reorganisations: 0,
            compared: 0,
            counts: Counts::default(),
        }
    }

    /// Plays a whole history and returns the events that it counted.
    pub(crate) fn play(mut self, history: &[Step]) -> Counts {
        for step in history {
            for action in step {
                self.act(action);
            }
            self.look();
        }
        self.finish();
        self.counts
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Hostile { seed } => {
                self.hostile_on(self.chain.tip(), seed);
            }
            Action::Empty { blocks } => {
                for _ in 0..blocks {
                    self.mine(Vec::new());
                    self.counts.add("block, empty");
                }
            }
            Action::Pay { seed } => self.pay(seed),
            Action::Mature { seed } => self.spend_at_maturity(seed),
            Action::Repeat { which, spent } => self.repeat(which, spent),
            Action::Reorganise { depth, fate, seed } => self.reorganise(depth, fate, seed),
            Action::Shorten { depth } => self.shorten(depth),
            Action::Genesis { rounds } => self.back_to_genesis(rounds),
            Action::ThereAndBack { depth, seed } => self.there_and_back(depth, seed),
            Action::Flicker { times, seed } => {
                for time in 0..times {
                    self.branch(1 + time % 2, seed.wrapping_add(time.into()));
                }
            }
            Action::Behind => self.fall_behind(),
            Action::Restart => self.reopen("index closed and opened", |_| ()),
            Action::Abandon { depth, blocks, killed } => self.abandon(depth, blocks, killed),
        }
    }

    /// Lets the index follow the chain if there is somewhere to follow it to.
    pub(super) fn catch_up(&mut self) {
        if self.model.blocks.last().is_none_or(|block| block.hash != self.chain.tip()) {
            self.look();
        }
    }

    /// Lets the index follow the chain, and compares.
    pub(super) fn look(&mut self) {
        let active: Vec<_> = self.chain.active_blocks().cloned().collect();
        let both = self.model.blocks.iter().zip(&active);
        let common = both.take_while(|(known, block)| known.hash == block.block_hash()).count();
        let left: Vec<_> = self.model.blocks[common..].iter().map(|block| block.hash).collect();
        let snapshot = self.indexed.as_ref().unwrap().index.snapshot().unwrap();
        for (hash, height) in left.iter().zip(u32::try_from(common).unwrap()..) {
            let row = snapshot.block(height.into()).unwrap().unwrap();
            let block = self.chain.block(hash).unwrap();
            self.stale.insert(*hash, (Arc::clone(block), height, row));
        }
        drop(snapshot);

        self.way.follow(&mut self.indexed.as_mut().unwrap().index, &self.chain);

        let mut affected = BTreeSet::new();
        while self.model.blocks.len() > common {
            let height = u32::try_from(self.model.blocks.len() - 1).unwrap();
            affected.extend(self.model.affected_scripts(height).cloned());
            self.model.disconnect();
        }
        for block in &active[common..] {
            self.stale.remove(&block.block_hash());
            let height = u32::try_from(self.model.blocks.len()).unwrap();
            self.model.connect(block);
            affected.extend(self.model.affected_scripts(height).cloned());
        }
        if active.len() - common > 1 {
            self.counts.add("blocks, several between two looks");
        }
        if std::mem::take(&mut self.reorganisations) > 1 {
            self.counts.add("reorganisations, several between two looks");
        }
        self.compare(u32::try_from(common).unwrap(), &affected);
        let snapshot = self.indexed.as_ref().unwrap().index.snapshot().unwrap();
        for hash in &left {
            let Some((block, height, row)) = self.stale.get(hash) else { continue };
            assert_is_stale(&snapshot, block, *height, row);
        }
    }

    /// Compares what changed: blocks from this height on and these scripts. From time to time all is compared, and once
    /// for all what did not change.
    pub(super) fn compare(&mut self, height: u32, affected: &BTreeSet<ScriptBuf>) {
        let snapshot = self.indexed.as_ref().unwrap().index.snapshot().unwrap();
        self.compared += 1;
        if self.compared.is_multiple_of(ALL_COMPARED) {
            assert_agrees(&snapshot, &self.model);
        } else {
            assert_agrees_from(&snapshot, &self.model, height, affected);
        }
        self.way.compare(&self.model, affected);
    }

    /// Compares whole tables with those of indexes that came to this tip without a detour.
    fn finish(&mut self) {
        self.way.finish(&self.model);
        let indexed = self.indexed.as_ref().unwrap();
        let snapshot = indexed.index.snapshot().unwrap();
        assert_agrees(&snapshot, &self.model);
        for (block, height, row) in self.stale.values() {
            assert_is_stale(&snapshot, block, *height, row);
        }
        let mut stale: Vec<_> =
            self.stale.iter().map(|(hash, (_, height, _))| (Height::from(*height), *hash)).collect();
        stale.sort_by_key(|(height, hash)| (*height, bitcoin::hashes::Hash::to_byte_array(*hash)));
        assert_eq!(snapshot.stale_block_hashes().unwrap(), stale, "the stale blocks");
        let blocks: Vec<_> = self.chain.active_blocks().map(Arc::as_ref).collect();
        let rows = indexed.rows();
        let block_by_block = Prepared::get().block_by_block(&blocks);
        assert_eq!(rows, block_by_block.rows(), "rows after this history, and block by block");
        let mut at_once = Indexed::within(in_memory());
        at_once.connect_at_once(blocks.iter().copied(), blocks.len());
        assert_eq!(rows, at_once.rows(), "rows after this history, and in one batch");
    }
}
