//! An index whose older blocks are frozen, fed with blocks without a node between.

use std::collections::BTreeSet;
use std::sync::Arc;

use bitcoin::{Block, ScriptBuf};
use btcgraph::index::Index;
use btcgraph::sim::SimChain;
use tempfile::TempDir;

use super::player::Way;
use super::prepared::Prepared;
use super::straight::Straight;
use crate::support::frozen::{BlockBytes, frozen};
use crate::support::model::Model;

/// As [`Straight`], with generations up to these heights.
pub(crate) struct AcrossCut {
    ends: &'static [u32],
}

impl AcrossCut {
    pub(crate) fn at(ends: &'static [u32]) -> Self {
        Self { ends }
    }

    fn blocks() -> Vec<&'static Block> {
        Prepared::get().chain.active_blocks().map(Arc::as_ref).collect()
    }
}

impl Way for AcrossCut {
    fn directory(&self) -> TempDir {
        let blocks = Self::blocks();
        let mut indexed = frozen(&blocks, self.ends);
        let live = usize::try_from(self.ends.last().unwrap() + 1).unwrap();
        indexed.connect(blocks[live..].iter().copied(), 10);
        indexed.directory
    }

    fn complete(&self, index: &Index) {
        index.set_raw_blocks(Arc::new(BlockBytes::of(Self::blocks())));
    }

    fn follow(&mut self, index: &mut Index, chain: &SimChain) {
        Straight.follow(index, chain);
    }

    fn refuse(&mut self, _: &mut Index, _: &SimChain) {}

    fn let_go(&mut self) {}

    fn compare(&mut self, _: &Model, _: &BTreeSet<ScriptBuf>) {}

    fn finish(&mut self, _: &Model) {}
}
