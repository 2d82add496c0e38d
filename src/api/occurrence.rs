use std::sync::Arc;

use async_graphql::Object;

use super::block::Block;
use super::error::ApiError;
use super::scalars::int;
use crate::view::{self, View};

/// A block that holds a transaction.
pub(super) struct TxOccurrence {
    view: Arc<View>,
    block: view::Block,
    index: u32,
}

impl TxOccurrence {
    pub(super) fn new(view: &Arc<View>, (block, index): (view::Block, u32)) -> Self {
        Self { view: view.clone(), block, index }
    }
}

/// A place where a transaction stands: usually one block of the main chain, after reorganisations also stale ones, and two
/// blocks of the main chain for the early coinbases that were repeated (BIP30).
#[Object]
impl TxOccurrence {
    /// The block that holds it.
    async fn block(&self) -> Block {
        Block::new(&self.view, self.block.clone())
    }

    /// Its place in that block, 0 for the coinbase.
    async fn index(&self) -> Result<i32, ApiError> {
        int(self.index)
    }

    /// Whether that block is part of the main chain.
    async fn on_main_chain(&self) -> bool {
        self.block.is_main()
    }
}
