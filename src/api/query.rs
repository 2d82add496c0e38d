use std::sync::Arc;

use async_graphql::{Context, Object};

use super::address::Address;
use super::block::Block;
use super::error::ApiError;
use super::request::pinned_view;
use super::scalars::{BlockHash, Txid};
use super::transaction::Transaction;
use crate::chain::Height;
use crate::view::{Published, View};

/// The root of all queries.
pub(super) struct Query {
    published: Published,
}

impl Query {
    pub(super) fn new(published: Published) -> Self {
        Self { published }
    }

    fn view(&self, ctx: &Context<'_>) -> Result<Arc<View>, ApiError> {
        pinned_view(ctx, &self.published)
    }

    fn find_block(
        &self,
        ctx: &Context<'_>,
        hash: Option<BlockHash>,
        height: Option<i32>,
    ) -> Option<Result<Block, ApiError>> {
        let view = match self.view(ctx) {
            Ok(view) => view,
            Err(error) => return Some(Err(error)),
        };
        match (hash, height) {
            (Some(hash), None) => Block::maybe(&view, view.block(hash.0)),
            (None, Some(height)) => match u32::try_from(height) {
                Ok(height) => Block::maybe(&view, view.block_at(Height::from(height))),
                Err(_) => Some(Err(ApiError::bad_user_input(format!(
                    "height is {height}, and the first block is at height 0"
                )))),
            },
            _ => Some(Err(ApiError::bad_user_input("give hash or height, exactly one of them"))),
        }
    }

    fn find_transaction(&self, ctx: &Context<'_>, txid: Option<Txid>) -> Result<Option<Transaction>, ApiError> {
        let view = self.view(ctx)?;
        let txid = txid.ok_or_else(|| ApiError::bad_user_input("give a txid"))?;
        let found = Transaction::read(&view, |view| view.transaction(&txid.0))?;
        Ok(found.map(|transaction| Transaction::new(&view, transaction)))
    }
}

/// What can be asked. All fields of one request are answered from one state of the chain.
#[Object]
impl Query {
    /// The newest block of the main chain.
    async fn tip(&self, ctx: &Context<'_>) -> Option<Result<Block, ApiError>> {
        Some(self.view(ctx).and_then(|view| Ok(Block::new(&view, view.tip_block()?))))
    }

    /// A block by its hash, on the main chain or stale, or by its height on the main chain. Give exactly one of the
    /// two. Null for a hash that is not known, and for a height above the tip.
    async fn block(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The hash of the block.")] hash: Option<BlockHash>,
        #[graphql(desc = "The height of the block on the main chain, from 0.")] height: Option<i32>,
    ) -> Option<Result<Block, ApiError>> {
        self.find_block(ctx, hash, height)
    }

    /// A transaction by its txid. Null for one that is in no block that this server knows.
    async fn transaction(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The txid of the transaction.")] txid: Option<Txid>,
    ) -> Option<Result<Transaction, ApiError>> {
        self.find_transaction(ctx, txid).transpose()
    }

    /// An address. Every valid address of the network has an answer, also one that was never used; a text that is none
    /// is BAD_USER_INPUT.
    async fn address(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The address: base58, bech32 or bech32m, of this server's network.")] address: String,
    ) -> Option<Result<Address, ApiError>> {
        Some(self.view(ctx).and_then(|view| Address::parse(&view, &address)))
    }
}
