//! The chain and the mempool, each as a whole.

use async_graphql::{Context, Object};

use super::root::QueryRoot;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::types::chain::Chain;
use crate::api::types::mempool::Mempool;

/// Finds the chain and the mempool.
pub(crate) struct ChainQuery(pub(crate) QueryRoot);

impl FieldCacheability for ChainQuery {
    const IMMUTABLE: &'static str = "chain mempool";
}

#[Object]
impl ChainQuery {
    /// The main chain as a whole: key figures, coin supply, and totals over ranges of blocks. NOT_READY before the first
    /// block is indexed, which leaves the other fields of the answer as they are.
    /// Example: `{ chain { summary { blockCount difficulty } supply { circulating } } }`.
    async fn chain(&self, ctx: &Context<'_>) -> Option<Result<Chain, ApiError>> {
        Some(self.0.view(ctx).map(Chain::new))
    }

    /// The unconfirmed transactions. NOT_READY before the first block is indexed.
    /// Example: `{ mempool { stats { txCount totalVsize totalFees } transactions(first: 10) { nodes { txid feeRate } } }
    /// }`.
    async fn mempool(&self, ctx: &Context<'_>) -> Option<Result<Mempool, ApiError>> {
        Some(self.0.view(ctx).map(Mempool::new))
    }
}
