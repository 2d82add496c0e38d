use std::sync::Arc;

use async_graphql::Object;

use super::block::Block;
use super::enums::ChainTipStatus;
use super::error::ApiError;
use super::scalars::{BlockHash, int};
use crate::view::{self, View};

/// The end of a branch of the block tree.
pub(super) struct ChainTip {
    view: Arc<View>,
    tip: view::ChainTip,
}

impl ChainTip {
    pub(super) fn new(view: &Arc<View>, tip: view::ChainTip) -> Self {
        Self { view: view.clone(), tip }
    }
}

/// The last block of a branch of the block tree, as the Bitcoin node knows it.
#[Object]
impl ChainTip {
    /// The hash of the block.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.tip.hash)
    }

    /// The height of the block in its branch.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.tip.height.to_u32())
    }

    /// How many blocks the branch has that are not part of the node's main chain; 0 for the main chain itself.
    async fn branch_length(&self) -> Result<i32, ApiError> {
        int(self.tip.branch_length)
    }

    /// What the node knows of the branch; null if it says something that this version has no name for.
    async fn status(&self) -> Option<ChainTipStatus> {
        ChainTipStatus::of(self.tip.status)
    }

    /// The block; null if the index does not know it: it was never part of the chain that the index followed, is not
    /// indexed yet, or is no longer kept.
    async fn block(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.view.block(self.tip.hash))
    }
}
