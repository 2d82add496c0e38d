use std::sync::Arc;

use async_graphql::Object;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BlockHash, int};
use crate::api::types::block::Block;
use crate::api::types::enums::ChainTipStatusEnum;
use crate::view::{self, View};

/// The end of a branch of the block tree.
pub(crate) struct ChainTipObject {
    view: Arc<View>,
    tip: view::ChainTip,
}

impl ChainTipObject {
    pub(crate) fn new(view: &Arc<View>, tip: view::ChainTip) -> Self {
        Self { view: view.clone(), tip }
    }
}

impl FieldCacheability for ChainTipObject {
    const NEVER: &'static str = "hash height branchLength status block";
}

/// The last block of a branch of the block tree, as reported by the Bitcoin node.
#[Object(name = "ChainTip")]
impl ChainTipObject {
    /// The hash of the block.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.tip.hash)
    }

    /// The height of the block in its branch.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.tip.height.to_u32())
    }

    /// The number of blocks of the branch that are not on the node's main chain. 0 for the main chain itself.
    async fn branch_length(&self) -> Result<i32, ApiError> {
        int(self.tip.branch_length)
    }

    /// The validation status of the branch. Null if the node reports a status that this version does not know.
    async fn status(&self) -> Option<ChainTipStatusEnum> {
        ChainTipStatusEnum::of(self.tip.status)
    }

    /// The block. Null if the index does not contain it: it was never on the chain that the index followed, is not
    /// indexed yet, or is no longer stored.
    async fn block(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.view.block(self.tip.hash))
    }
}
