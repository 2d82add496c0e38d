//! What a simulated node knows: its tree of blocks.

use std::sync::Arc;

use bitcoin::Block;

use super::{ChainError, SimChain, Template};

/// The state of a simulated node.
#[derive(Clone, Debug)]
pub struct World {
    chain: SimChain,
}

impl World {
    /// A node that has this chain.
    #[must_use]
    pub fn new(chain: SimChain) -> Self {
        World { chain }
    }

    /// The tree of blocks and the active chain in it.
    #[must_use]
    pub fn chain(&self) -> &SimChain {
        &self.chain
    }

    /// The chain, to mine on it by hand.
    pub fn chain_mut(&mut self) -> &mut SimChain {
        &mut self.chain
    }

    /// Mines a block as the template says.
    pub fn mine_template(&mut self, template: Template) -> Result<Arc<Block>, ChainError> {
        self.chain.mine_template(template)
    }
}
