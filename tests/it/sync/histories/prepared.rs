//! Where histories begin: a chain with coins that can be spent, and an index of it as a file to copy.

use std::fs;
use std::sync::{Arc, OnceLock};

use bitcoin::{Amount, Block, BlockHash};
use btcgraph::sim::{Hostile, Reward, SimChain, Template};
use tempfile::TempDir;

use super::purse::{Purse, planted_owners};
use crate::support::indexed::{Indexed, in_memory, options};
use crate::support::model::Model;

/// Coinbases that may come again, in the first blocks of the chain: a block each.
const PLANTED: u32 = 30;
/// Blocks behind the genesis block. All planted coinbases have matured.
const BLOCKS: u32 = PLANTED + 101;

/// The last of them, which histories may leave for others.
const BRANCHES: usize = 50;

/// What a history begins with.
pub(crate) struct Prepared {
    pub(crate) chain: SimChain,
    /// The same with but its first blocks.
    pub(crate) beginning: SimChain,
    pub(crate) hostile: Hostile,
    pub(crate) purse: Purse,
    /// The blocks whose coinbases may come again.
    pub(crate) planted: Vec<BlockHash>,
    pub(crate) model: Model,
    /// The index of the whole chain, as a file.
    index: Vec<u8>,
    /// The same of its older blocks, which few histories leave.
    trunk: (BlockHash, Vec<u8>),
}

impl Prepared {
    /// The same for all histories of a run, so that it is made once.
    pub(crate) fn get() -> &'static Self {
        static PREPARED: OnceLock<Prepared> = OnceLock::new();
        PREPARED.get_or_init(Self::make)
    }

    fn make() -> Self {
        let (mut chain, mut hostile) = (SimChain::new(77), Hostile::new(77));
        let (mut planted, mut beginning) = (Vec::new(), chain.clone());
        for number in 0..PLANTED {
            let outputs = planted_owners(number).map(|owner| owner.output(Amount::from_sat(10_000_001)));
            let reward = Some(Reward::exactly(outputs.to_vec()));
            planted.push(chain.mine_template(Template { reward, ..Template::default() }).unwrap().block_hash());
            if number == 2 {
                beginning = chain.clone();
            }
        }
        while chain.height().to_u32() < BLOCKS {
            hostile.mine(&mut chain).unwrap();
        }
        let blocks: Vec<&Block> = chain.active_blocks().map(Arc::as_ref).collect();
        let model = Model::of(blocks.iter().copied());
        let file = |blocks: &[&Block]| {
            let mut indexed = Indexed::within(in_memory());
            indexed.connect(blocks.iter().copied(), 1);
            let Indexed { index, directory } = indexed;
            drop(index);
            fs::read(options(directory.path()).path).unwrap()
        };
        let trunk = &blocks[..blocks.len() - BRANCHES];
        let trunk = (trunk[trunk.len() - 1].block_hash(), file(trunk));
        let index = file(&blocks);
        Self { purse: Purse::new(PLANTED), planted, model, index, trunk, chain, beginning, hostile }
    }

    /// An index of these blocks that came to be block by block, without a detour.
    pub(crate) fn block_by_block(&self, blocks: &[&Block]) -> Indexed {
        let known = blocks.iter().position(|block| block.block_hash() == self.trunk.0).map_or(0, |at| at + 1);
        let directory = in_memory();
        if known > 0 {
            fs::write(options(directory.path()).path, &self.trunk.1).unwrap();
        }
        let mut indexed = Indexed::within(directory);
        indexed.connect_at_once(blocks[known..].iter().copied(), 1);
        indexed
    }

    /// A copy of the index, to be opened with [`options`].
    pub(crate) fn index(&self) -> TempDir {
        let directory = in_memory();
        fs::write(options(directory.path()).path, &self.index).unwrap();
        directory
    }
}
