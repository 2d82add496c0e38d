//! Chains of blocks that are valid and unusual.

use std::sync::Arc;

use bitcoin::Block;
use btcgraph::sim::{Hostile, SimChain};

/// The blocks of a chain with repeated coinbases (BIP30) of which some outputs were spent before, and at its top so many
/// hostile blocks.
pub(crate) fn repeated_coinbases(seed: u64, hostile_blocks: usize) -> Vec<Arc<Block>> {
    let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
    for spent in 0..=3 {
        hostile.repeat_coinbase(&mut chain, spent).unwrap();
        hostile.mine(&mut chain).unwrap();
    }
    let (twice, _) = hostile.repeat_coinbase(&mut chain, 1).unwrap();
    chain.mine_duplicate_coinbase(&twice, Vec::new()).unwrap();
    for _ in 0..hostile_blocks {
        hostile.mine(&mut chain).unwrap();
    }
    chain.active_blocks().cloned().collect()
}
