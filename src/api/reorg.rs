use std::sync::Arc;

use async_graphql::{Context, ID, Object, SimpleObject};

use super::block::Block;
use super::costs;
use super::error::ApiError;
use super::node::reorg_id;
use super::page::list_size;
use super::request::limits;
use super::scalars::{BlockHash, DateTime, Txid, int, int_of};
use crate::view::{self, View};

/// How many blocks or transactions are told if nothing else is asked for.
const SHOWN: i32 = 25;
/// Bytes of a hash or txid.
const HASH: usize = 32;

/// A change of the main chain, and the view it is told from.
#[derive(Clone)]
pub(super) struct Reorg {
    view: Arc<View>,
    reorg: Arc<view::Reorg>,
}

impl Reorg {
    /// As an object. It counts as read.
    pub(super) fn new(view: &Arc<View>, reorg: view::Reorg) -> Result<Self, ApiError> {
        let outcome = reorg.outcome.as_ref();
        let died = outcome.into_iter().flat_map(|outcome| &outcome.died);
        let died: usize = died.map(|dead| dead.conflicting.len().saturating_add(2)).sum();
        let returned = outcome.map_or(0, |outcome| outcome.returned.len());
        let hashes = reorg.disconnected.len() + reorg.connected.len() + returned + died;
        view.count(hashes.saturating_mul(HASH))?;
        Ok(Self { view: view.clone(), reorg: Arc::new(reorg) })
    }

    /// What was found, if anything.
    pub(super) fn maybe(
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

/// A change of the main chain in which blocks left it, as this server followed it. It knows of no others, and a new server
/// of none; the newest 1,000 are kept unless the settings say otherwise. What it did to transactions is told as it was at
/// that time, as far as `isComplete` says.
#[Object]
impl Reorg {
    /// `Reorg:<new tip hash>`. Should the chain ever come back to the same block by another reorganisation, that one has
    /// the id from then on. The id changes while a very deep reorganisation is still under way.
    pub(super) async fn id(&self) -> ID {
        reorg_id(self.reorg.new_tip()).into()
    }

    /// When this server followed it.
    async fn at(&self) -> DateTime {
        DateTime::from_seconds(self.reorg.at)
    }

    /// How many blocks left the main chain.
    async fn depth(&self) -> Result<i32, ApiError> {
        count(self.reorg.disconnected.len())
    }

    /// The height of the newest block that both branches have.
    async fn fork_height(&self) -> Result<i32, ApiError> {
        int(self.reorg.fork.height.to_u32())
    }

    /// The hash of that block.
    async fn fork_hash(&self) -> BlockHash {
        BlockHash(self.reorg.fork.hash)
    }

    /// The blocks that left the main chain, the highest first. Null stands for one that is not kept any more.
    #[graphql(complexity = "costs::list(first.unwrap_or(SHOWN), child_complexity)")]
    async fn disconnected(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "At most this many, no more than a page may have.", default_with = "Some(SHOWN)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<Option<Block>>, ApiError>> {
        Some(self.blocks(ctx, &self.reorg.disconnected, first))
    }

    /// Whether it is known what became of the transactions of all blocks that left. If not, `returnedToMempool`,
    /// `conflicted` and their counts tell less than there was, maybe nothing: the Bitcoin node has not said yet what is in
    /// its mempool, which it mostly does within seconds; or it did not within ten minutes; or some of these blocks were too
    /// many to be kept.
    async fn is_complete(&self) -> bool {
        self.reorg.outcome.as_ref().is_some_and(|outcome| outcome.is_whole)
    }

    /// How many blocks took their place at first, at least up to the height of the newest block before; more may have
    /// followed since. Less if this server ended while they came.
    async fn connected_count(&self) -> Result<i32, ApiError> {
        count(self.reorg.connected.len())
    }

    /// The blocks that took their place at first, the lowest first; none if the chain only became shorter. Null stands for
    /// one that left as well and is not kept any more.
    #[graphql(complexity = "costs::list(first.unwrap_or(SHOWN), child_complexity)")]
    async fn connected(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "At most this many, no more than a page may have.", default_with = "Some(SHOWN)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<Option<Block>>, ApiError>> {
        Some(self.blocks(ctx, &self.reorg.connected, first))
    }

    /// How many transactions of the blocks that left were unconfirmed again after it, as far as that is known.
    async fn returned_count(&self) -> Result<i32, ApiError> {
        count(self.returned().len())
    }

    /// Transactions of the blocks that left which were unconfirmed again after it, in the order of the chain.
    #[graphql(complexity = "costs::list(first.unwrap_or(SHOWN), child_complexity.max(1))")]
    async fn returned_to_mempool(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "At most this many, no more than a page may have.", default_with = "Some(SHOWN)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<Txid>, ApiError>> {
        let size = limits(ctx).and_then(|limits| list_size(limits, first.unwrap_or(SHOWN)));
        Some(size.map(|count| self.returned().iter().take(count).copied().map(Txid).collect()))
    }

    /// How many confirmed transactions it made impossible, as far as that is known.
    async fn conflicted_count(&self) -> Result<i32, ApiError> {
        count(self.died().len())
    }

    /// Payments that were confirmed and died: transactions of the blocks that left which were neither in the chain nor in
    /// the mempool after it, in the order of the chain. Coinbases, which die with their block, are not listed.
    #[graphql(complexity = "costs::list(first.unwrap_or(SHOWN), child_complexity)")]
    async fn conflicted(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "At most this many, no more than a page may have.", default_with = "Some(SHOWN)")]
        first: Option<i32>,
    ) -> Option<Result<Vec<ConflictedTransaction>, ApiError>> {
        Some(self.dead(ctx, first))
    }
}

/// A confirmed transaction that a reorganisation made impossible.
#[derive(Clone, SimpleObject)]
pub(super) struct ConflictedTransaction {
    /// Its txid.
    txid: Txid,
    /// The hash of the block that held it.
    was_in: BlockHash,
    /// The transactions, in the chain or in the mempool, that spent after the reorganisation what it had spent. None if
    /// what it spent was itself gone, or not mature any more, or the node did not take it back.
    conflicting_txids: Vec<Txid>,
}
