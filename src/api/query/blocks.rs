//! Blocks.

use async_graphql::{Context, Object};

use super::super::block::Block;
use super::super::block_at::height_of;
use super::super::error::ApiError;
use super::super::scalars::BlockHash;
use super::Root;

/// Finds blocks.
pub(super) struct BlockQuery(pub(super) Root);

impl BlockQuery {
    fn find(&self, ctx: &Context<'_>, hash: Option<BlockHash>, height: Option<i32>) -> Result<Option<Block>, ApiError> {
        let view = self.0.view(ctx)?;
        let found = match (hash, height) {
            (Some(hash), None) => view.block(hash.0)?,
            (None, Some(height)) => view.block_at(height_of("height", height)?)?,
            _ => return Err(ApiError::bad_user_input("give hash or height, exactly one of them")),
        };
        Ok(found.map(|block| Block::new(&view, block)))
    }
}

#[Object]
impl BlockQuery {
    /// The newest block of the main chain.
    async fn tip(&self, ctx: &Context<'_>) -> Option<Result<Block, ApiError>> {
        Some(self.0.view(ctx).and_then(|view| Ok(Block::new(&view, view.tip_block()?))))
    }

    /// A block by its hash, on the main chain or stale, or by its height on the main chain. Give exactly one of the
    /// two. Null for a hash that is not known, and for a height above the tip.
    async fn block(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The hash of the block.")] hash: Option<BlockHash>,
        #[graphql(desc = "The height of the block on the main chain, from 0.")] height: Option<i32>,
    ) -> Option<Result<Block, ApiError>> {
        self.find(ctx, hash, height).transpose()
    }
}
