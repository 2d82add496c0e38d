use std::sync::Arc;

use async_graphql::{Context, ID, Object, OutputType, SimpleObject};

use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::{Connection, Edge};
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::reorg_id;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::{BlockHash, DateTime, Txid, UInt53, int, int_of};
use crate::api::types::block::Block;
use crate::api::types::enums::SortOrder;
use crate::chain::Height;
use crate::view::{self, View};

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

    /// A page of one of its lists. A cursor is valid while the effects on transactions are as they were: until then a list
    /// may change in front of it.
    fn page<T, N: OutputType + Clone>(
        &self,
        ctx: &Context<'_>,
        args: &PageArgs,
        (name, items): (&'static str, &[T]),
        node: impl Fn(usize, &T) -> Result<N, ApiError>,
    ) -> Result<Connection<N>, ApiError>
    where
        Edge<N>: OutputType,
    {
        let is_whole = self.reorg.outcome.as_ref().map(|outcome| outcome.is_whole);
        let scope =
            Scope::new(name, reorg_id(self.reorg.new_tip())).filtered(format!("{} {is_whole:?}", self.reorg.at));
        let count = UInt53::count(items.len())?;
        let page = args.read(&scope, &self.view, limits(ctx)?)?.of(0..count.to_u64(), SortOrder::Asc);
        Connection::new(
            &scope,
            page,
            Some(count),
            // what happened stays so, whatever happens to the chain
            |_| Ok(None),
            |position, ()| {
                let found = usize::try_from(position).ok().and_then(|index| Some((index, items.get(index)?)));
                let (index, item) = found.ok_or_else(|| ApiError::internal("a page reaches beyond its list"))?;
                node(index, item)
            },
        )
    }

    fn block(&self, height: Height, hash: bitcoin::BlockHash) -> ReorgBlock {
        ReorgBlock { view: self.view.clone(), height, hash }
    }

    /// The blocks that left, the highest first.
    fn disconnected_page(&self, ctx: &Context<'_>, args: &PageArgs) -> Result<Connection<ReorgBlock>, ApiError> {
        let hashes = &self.reorg.disconnected;
        self.page(ctx, args, ("disconnected", hashes), |index, hash| {
            Ok(self.block(self.above_fork(hashes.len().saturating_sub(index))?, *hash))
        })
    }

    /// The blocks that replaced them, the lowest first.
    fn connected_page(&self, ctx: &Context<'_>, args: &PageArgs) -> Result<Connection<ReorgBlock>, ApiError> {
        self.page(ctx, args, ("connected", &self.reorg.connected), |index, hash| {
            Ok(self.block(self.above_fork(index.saturating_add(1))?, *hash))
        })
    }

    /// The height so many blocks above the fork.
    fn above_fork(&self, blocks: usize) -> Result<Height, ApiError> {
        let height = u32::try_from(blocks).ok().and_then(|blocks| self.reorg.fork.height.to_u32().checked_add(blocks));
        height.map(Height::from).ok_or_else(|| ApiError::internal("a branch exceeds all heights"))
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

impl FieldCacheability for Reorg {
    const UNTIL_NEXT_HEAD: &'static str =
        "id observedAt depth forkHeight forkHash disconnected isComplete connected returnedToMempool conflicted";
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
    async fn observed_at(&self) -> DateTime {
        DateTime::from_seconds(self.reorg.at)
    }

    /// The number of blocks that left the main chain.
    async fn depth(&self) -> Result<i32, ApiError> {
        int_of(self.reorg.disconnected.len())
    }

    /// The height of the newest block that both branches share.
    async fn fork_height(&self) -> Result<i32, ApiError> {
        int(self.reorg.fork.height.to_u32())
    }

    /// The hash of the newest block that both branches share.
    async fn fork_hash(&self) -> BlockHash {
        BlockHash(self.reorg.fork.hash)
    }

    /// The blocks that left the main chain, highest first.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn disconnected(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<ReorgBlock>, ApiError>> {
        Some(self.disconnected_page(ctx, &PageArgs { first, after, last, before }))
    }

    /// The blocks that first replaced the disconnected ones, lowest first: at least up to the height of the old tip; more may
    /// have followed since. Empty if the chain only became shorter, and incomplete if this server stopped while they arrived.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn connected(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<ReorgBlock>, ApiError>> {
        Some(self.connected_page(ctx, &PageArgs { first, after, last, before }))
    }

    /// Whether the effects on the transactions of all disconnected blocks are known. If false, `returnedToMempool`
    /// and `conflicted` are incomplete or empty: the Bitcoin node has not yet reported its mempool, which
    /// usually takes seconds; or did not report it within ten minutes; or there were too many disconnected blocks to
    /// store.
    async fn is_complete(&self) -> bool {
        self.reorg.outcome.as_ref().is_some_and(|outcome| outcome.is_whole)
    }

    /// The transactions of the disconnected blocks that were unconfirmed after the reorg, in chain order, as far as known.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn returned_to_mempool(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<Txid>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(self.page(ctx, &args, ("returnedToMempool", self.returned()), |_, txid| Ok(Txid(*txid))))
    }

    /// The confirmed payments that the reorg made invalid: transactions of the disconnected blocks that were neither on
    /// the main chain nor in the mempool after it, in chain order, as far as known. Coinbases, which become invalid with
    /// their block, are not listed.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn conflicted(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<ConflictedTransaction>, ApiError>> {
        let args = PageArgs { first, after, last, before };
        Some(self.page(ctx, &args, ("conflicted", self.died()), |_, dead| Ok(ConflictedTransaction::from(dead))))
    }
}

/// A block of a reorg, which this server may no longer store.
#[derive(Clone)]
pub(crate) struct ReorgBlock {
    view: Arc<View>,
    height: Height,
    hash: bitcoin::BlockHash,
}

impl FieldCacheability for ReorgBlock {
    const IMMUTABLE: &'static str = "hash height";
    const UNTIL_NEXT_HEAD: &'static str = "block";
}

/// A block that left the main chain in a reorg, or joined it.
#[Object]
impl ReorgBlock {
    /// The hash of the block.
    async fn hash(&self) -> BlockHash {
        BlockHash(self.hash)
    }

    /// The height of the block on its branch.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.height.to_u32())
    }

    /// The block. Null if it is stale and no longer stored.
    async fn block(&self) -> Option<Result<Block, ApiError>> {
        Block::maybe(&self.view, self.view.block(self.hash))
    }
}

/// A confirmed transaction that a reorg made invalid.
#[derive(Clone, SimpleObject)]
pub(crate) struct ConflictedTransaction {
    /// The txid of the transaction.
    txid: Txid,
    /// The hash of the block that contained it.
    disconnected_block_hash: BlockHash,
    /// The txids of the transactions, on the main chain or in the mempool, that spend the same outputs after the reorg: at
    /// most one for each input. Empty if those outputs themselves disappeared or are no longer mature, or if the node did
    /// not return the transaction to its mempool.
    #[graphql(complexity = "costs::few(child_complexity)")]
    conflicting_txids: Vec<Txid>,
}

impl FieldCacheability for ConflictedTransaction {
    const UNTIL_NEXT_HEAD: &'static str = "txid disconnectedBlockHash conflictingTxids";
}

impl From<&view::DeadTransaction> for ConflictedTransaction {
    fn from(dead: &view::DeadTransaction) -> Self {
        Self {
            txid: Txid(dead.txid),
            disconnected_block_hash: BlockHash(dead.block),
            conflicting_txids: dead.conflicting.iter().copied().map(Txid).collect(),
        }
    }
}
