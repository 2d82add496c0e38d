use std::sync::Arc;

use async_graphql::{Context, ID, Object, SimpleObject};

use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::pagination::global_id::reorg_id;
use crate::api::pagination::page::list_size;
use crate::api::scalars::{BlockHash, DateTime, Txid, int, int_of};
use crate::api::types::block::Block;
use crate::view::{self, View};

/// How many blocks or transactions are returned by default.
const SHOWN: i32 = 25;
/// Bytes of a hash or txid.
const HASH: usize = 32;

/// A change of the main chain, and the view it was found in.
#[derive(Clone)]
pub(crate) struct Reorg {
    view: Arc<View>,
    reorg: Arc<view::Reorg>,
}

impl Reorg {
    /// As an object. It counts as read.
    pub(crate) fn new(view: &Arc<View>, reorg: view::Reorg) -> Result<Self, ApiError> {
        let outcome = reorg.outcome.as_ref();
        let died = outcome.into_iter().flat_map(|outcome| &outcome.died);
        let died: usize = died.map(|dead| dead.conflicting.len().saturating_add(2)).sum();
        let returned = outcome.map_or(0, |outcome| outcome.returned.len());
        let hashes = reorg.disconnected.len() + reorg.connected.len() + returned + died;
        view.count(hashes.saturating_mul(HASH))?;
        Ok(Self { view: view.clone(), reorg: Arc::new(reorg) })
    }

    /// What was found, if anything.
    pub(crate) fn maybe(
        view: &Arc<View>,
        found: Result<Option<view::Reorg>, view::IndexError>,
    ) -> Option<Result<Self, ApiError>> {
        found.map_err(ApiError::from).transpose().map(|found| Self::new(view, found?))
    }

    fn blocks(
        &self,
        ctx: &Context<'_>,
        hashes: &[bitcoin::BlockHash],
        first: Option<i32>,
    ) -> Result<Vec<Option<Block>>, ApiError> {
        let count = list_size(limits(ctx)?, first.unwrap_or(SHOWN))?;
        let found = hashes.iter().take(count).map(|hash| self.view.block(*hash));
        found.map(|found| Ok(found?.map(|block| Block::new(&self.view, block)))).collect()
    }

    fn dead(&self, ctx: &Context<'_>, first: Option<i32>) -> Result<Vec<ConflictedTransaction>, ApiError> {
        let count = list_size(limits(ctx)?, first.unwrap_or(SHOWN))?;
        let dead = |dead: &view::DeadTransaction| ConflictedTransaction {
            txid: Txid(dead.txid),
            was_in: BlockHash(dead.block),
            conflicting_txids: dead.conflicting.iter().copied().map(Txid).collect(),
        };
        Ok(self.died().iter().take(count).map(dead).collect())
    }

    /// What is known to be unconfirmed again.
    fn returned(&self) -> &[bitcoin::Txid] {
        self.reorg.outcome.as_ref().map_or(&[], |outcome| &outcome.returned)
    }

    /// What is known to have died.
    fn died(&self) -> &[view::DeadTransaction] {
        self.reorg.outcome.as_ref().map_or(&[], |outcome| &outcome.died)
    }
}

/// How many there are, as a number of the schema.
fn count(items: usize) -> Result<i32, ApiError> {
    int_of(u64::try_from(items).unwrap_or(u64::MAX))
}

/// A reorg: a change of the main chain in which blocks left it, as followed by this server. It knows only reorgs that
/// it followed; a new server knows none. The newest 1,000 are stored by default. The effects on transactions are as of
/// that time and complete if `isComplete` is true.
#[Object]
impl Reorg {
    /// `Reorg:` followed by the hash of the new tip. If a later reorg leads to the same tip, that reorg receives the
    /// id. The id changes while a very deep reorg is still in progress.
    pub(crate) async fn id(&self) -> ID {
        reorg_id(self.reorg.new_tip()).into()
    }

    /// When this server followed the reorg.
    async fn at(&self) -> DateTime {
        DateTime::from_seconds(self.reorg.at)
    }

    /// The number of blocks that left the main chain.
    async fn depth(&self) -> Result<i32, ApiError> {
        count(self.reorg.disconnected.len())
    }

    /// The height of the newest block that both branches share.
    async fn fork_height(&self) -> Result<i32, ApiError> {
        int(self.reorg.fork.height.to_u32())
    }

    /// The hash of the newest block that both branches share.
    async fn fork_hash(&self) -> BlockHash {
        BlockHash(self.reorg.fork.hash)
    }

    /// The blocks that left the main chain, highest first. Null for a block that is no longer stored.
    #[graphql(complexity = "costs::list(first.unwrap_or(SHOWN), child_complexity)")]
    async fn disconnected(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, at most `server.limits.pageSize`.", default_with = "Some(SHOWN)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<Option<Block>>, ApiError>> {
        Some(self.blocks(ctx, &self.reorg.disconnected, first))
    }

    /// Whether the effects on the transactions of all disconnected blocks are known. If false, `returnedToMempool`,
    /// `conflicted` and their counts are incomplete or empty: the Bitcoin node has not yet reported its mempool, which
    /// usually takes seconds; or did not report it within ten minutes; or there were too many disconnected blocks to
    /// store.
    async fn is_complete(&self) -> bool {
        self.reorg.outcome.as_ref().is_some_and(|outcome| outcome.is_whole)
    }

    /// The number of blocks that first replaced the disconnected ones, at least up to the height of the old tip; more
    /// may have followed since. Fewer if this server stopped while they arrived.
    async fn connected_count(&self) -> Result<i32, ApiError> {
        count(self.reorg.connected.len())
    }

    /// The blocks that first replaced the disconnected ones, lowest first. Empty if the chain only became shorter. Null
    /// for a block that also left the main chain and is no longer stored.
    #[graphql(complexity = "costs::list(first.unwrap_or(SHOWN), child_complexity)")]
    async fn connected(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, at most `server.limits.pageSize`.", default_with = "Some(SHOWN)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<Option<Block>>, ApiError>> {
        Some(self.blocks(ctx, &self.reorg.connected, first))
    }

    /// The number of transactions of the disconnected blocks that were unconfirmed after the reorg, as far as known.
    async fn returned_count(&self) -> Result<i32, ApiError> {
        count(self.returned().len())
    }

    /// The transactions of the disconnected blocks that were unconfirmed after the reorg, in chain order.
    #[graphql(complexity = "costs::list(first.unwrap_or(SHOWN), child_complexity.max(1))")]
    async fn returned_to_mempool(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, at most `server.limits.pageSize`.", default_with = "Some(SHOWN)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<Txid>, ApiError>> {
        let size = limits(ctx).and_then(|limits| list_size(limits, first.unwrap_or(SHOWN)));
        Some(size.map(|count| self.returned().iter().take(count).copied().map(Txid).collect()))
    }

    /// The number of confirmed transactions that the reorg made invalid, as far as known.
    async fn conflicted_count(&self) -> Result<i32, ApiError> {
        count(self.died().len())
    }

    /// The confirmed payments that the reorg made invalid: transactions of the disconnected blocks that were neither on
    /// the main chain nor in the mempool after it, in chain order. Coinbases, which become invalid with their block,
    /// are not listed.
    #[graphql(complexity = "costs::list(first.unwrap_or(SHOWN), child_complexity)")]
    async fn conflicted(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, at most `server.limits.pageSize`.", default_with = "Some(SHOWN)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<ConflictedTransaction>, ApiError>> {
        Some(self.dead(ctx, first))
    }
}

/// A confirmed transaction that a reorg made invalid.
#[derive(Clone, SimpleObject)]
pub(crate) struct ConflictedTransaction {
    /// The txid of the transaction.
    txid: Txid,
    /// The hash of the block that contained it.
    was_in: BlockHash,
    /// The txids of the transactions, on the main chain or in the mempool, that spend the same outputs after the reorg.
    /// Empty if those outputs themselves disappeared or are no longer mature, or if the node did not return the
    /// transaction to its mempool.
    conflicting_txids: Vec<Txid>,
}
