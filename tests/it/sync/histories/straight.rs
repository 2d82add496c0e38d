//! The index fed with blocks by hand, without a node between.

use std::collections::BTreeSet;

use bitcoin::consensus::serialize;
use bitcoin::{BlockHash, ScriptBuf};
use btcgraph::index::Index;
use btcgraph::sim::SimChain;

use super::player::Way;
use crate::support::model::Model;

/// Disconnects and connects what lies between the tip of the index and that of the chain, in one commit.
pub(crate) struct Straight;

impl Way for Straight {
    fn follow(&mut self, index: &mut Index, chain: &SimChain) {
        let mut update = index.update().unwrap();
        let way = chain.path(&update.tip().unwrap().hash, &chain.tip()).unwrap();
        for hash in &way.disconnected {
            assert_eq!(update.disconnect().unwrap().unwrap().hash, *hash);
        }
        let parser = update.parser();
        let parse = |hash: &BlockHash| parser.parse(*hash, serialize(chain.block(hash).unwrap().as_ref())).unwrap();
        update.connect(&way.connected.iter().map(parse).collect::<Vec<_>>()).unwrap();
        update.commit().unwrap();
    }

    fn refuse(&mut self, _: &mut Index, _: &SimChain) {}

    fn let_go(&mut self) {}

    fn compare(&mut self, _: &Model, _: &BTreeSet<ScriptBuf>) {}

    fn finish(&mut self, _: &Model) {}
}
