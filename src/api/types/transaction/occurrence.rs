use std::sync::Arc;

use async_graphql::Object;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::int;
use crate::api::types::block::Block;
use crate::view::{self, View};

/// A block that holds a transaction.
pub(crate) struct TxOccurrence {
    view: Arc<View>,
    block: view::Block,
    index: u32,
}

impl TxOccurrence {
    pub(crate) fn new(view: &Arc<View>, (block, index): (view::Block, u32)) -> Self {
        Self { view: view.clone(), block, index }
    }
}

impl FieldCacheability for TxOccurrence {
    const UNTIL_NEXT_HEAD: &'static str = "block index isOnMainChain";
}

/// An occurrence of a transaction in a block: usually one block of the main chain; after reorgs also stale blocks; and
/// two main chain blocks for the early duplicate coinbases (BIP30).
#[Object]
impl TxOccurrence {
    /// The block that contains the transaction.
    async fn block(&self) -> Block {
        Block::new(&self.view, self.block.clone())
    }

    /// The index of the transaction in the block, from 0 for the coinbase.
    async fn index(&self) -> Result<i32, ApiError> {
        int(self.index)
    }

    /// Whether the block is on the main chain.
    async fn is_on_main_chain(&self) -> bool {
        self.block.is_main()
    }
}
