//! What a history does to the index: it is closed and opened, and its updates end in the middle.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use bitcoin::Block;
use bitcoin::consensus::serialize;
use btcgraph::index::Index;

use super::player::{Player, Way};
use crate::support::indexed::{Indexed, options};

impl<W: Way> Player<W> {
    /// Closes the index, and opens it again after `meanwhile`.
    pub(super) fn reopen(&mut self, event: &'static str, meanwhile: impl FnOnce(&std::path::Path)) {
        self.way.let_go();
        let Indexed { index, directory } = self.indexed.take().unwrap();
        drop(index);
        meanwhile(directory.path());
        let index = Index::open(&options(directory.path())).unwrap();
        self.way.complete(&index);
        self.indexed = Some(Indexed { index, directory });
        self.counts.add(event);
    }

    /// Goes a part of the way to the chain's tip, or down and up again, and drops it all.
    pub(super) fn abandon(&mut self, depth: usize, blocks: usize, killed: bool) {
        let Some(tip) = self.model.blocks.last().map(|block| block.hash) else { return };
        let way = self.chain.path(&tip, &self.chain.tip()).unwrap();
        let down = way.disconnected.len().max(depth).min(self.model.blocks.len() - 1);
        // what joins stands on the blocks that are left
        let left: BTreeSet<_> =
            self.model.blocks.iter().take(self.model.blocks.len() - down).map(|block| block.hash).collect();
        let joining = self.chain.active_blocks().filter(|block| !left.contains(&block.block_hash()));
        let joining: Vec<_> = joining.take(blocks).cloned().collect();
        let indexed = self.indexed.as_mut().unwrap();
        let path = options(indexed.directory.path()).path;
        let copy = path.with_extension("crashed");
        {
            let mut update = indexed.index.update().unwrap();
            for _ in 0..down {
                update.disconnect().unwrap().unwrap();
            }
            let parser = update.parser();
            let parse = |block: &Arc<Block>| parser.parse(block.block_hash(), serialize(block.as_ref())).unwrap();
            update.connect(&joining.iter().map(parse).collect::<Vec<_>>()).unwrap();
            if killed {
                fs::copy(&path, &copy).unwrap();
            }
        }
        self.counts.add("update abandoned");
        if killed {
            self.reopen("index killed in the middle of an update", |_| fs::rename(&copy, &path).unwrap());
        }
        let height = u32::try_from(self.model.blocks.len()).unwrap();
        self.compare(height, &BTreeSet::new());
    }
}
