//! The server, the progress of its index, the node behind it; and objects by their ids.

use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use bitcoin::Txid;

use super::root::{LookedUp, QueryRoot};
use crate::api::allowance::find_transaction;
use crate::api::context::{ServingContext, limits};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::global_id::{GlobalId, SERVER_ID, Variant};
use crate::api::types::block::Block;
use crate::api::types::chain::{Chain, ChainTipObject, DifficultyEpochObject, Reorg, SnapshotObject};
use crate::api::types::ledger::{Address, Script};
use crate::api::types::mempool::Mempool;
use crate::api::types::miner::Miner;
use crate::api::types::node::{BitcoinNode, SyncProgress};
use crate::api::types::node_interface::NodeInterface;
use crate::api::types::server::ServerInfo;
use crate::api::types::transaction::{Output, Transaction};
use crate::view::{self, View};

/// How many branches the node is taken to know, to estimate what its answer costs.
const BRANCHES: usize = 100;

/// Tells of the server, and finds things by their ids.
pub(crate) struct OperationsQuery {
    root: QueryRoot,
    serving: Arc<ServingContext>,
}

impl OperationsQuery {
    pub(crate) fn new(root: QueryRoot, serving: Arc<ServingContext>) -> Self {
        Self { root, serving }
    }

    fn this_server(&self, ctx: &Context<'_>) -> Result<ServerInfo, ApiError> {
        Ok(ServerInfo::new(&self.serving, self.root.pinned(ctx)?))
    }

    async fn tips(&self, ctx: &Context<'_>) -> Result<Vec<ChainTipObject>, ApiError> {
        costs::spend(ctx, costs::NODE)?;
        let view = self.root.view(ctx)?;
        let tips = view.node_client().chain_tips().await.map_err(|error| ApiError::node_unavailable(&error))?;
        Ok(tips.iter().map(|tip| ChainTipObject::new(&view, tip.clone())).collect())
    }

    /// Errors: BAD_USER_INPUT if it is no id; NOT_READY while the index is not ready, unless it is the server.
    fn find(&self, ctx: &Context<'_>, argument: &str, id: &str) -> Result<Option<NodeInterface>, ApiError> {
        if id == SERVER_ID {
            return Ok(Some(NodeInterface::Server(self.this_server(ctx)?)));
        }
        let view = self.root.view(ctx)?;
        match GlobalId::parse(argument, id, view.network())? {
            GlobalId::Block(hash) => Ok(view.block(hash)?.map(|block| NodeInterface::Block(Block::new(&view, block)))),
            GlobalId::Transaction(txid, variant) => {
                let found = find_variant(&view, txid, variant)?;
                Ok(found.map(|transaction| NodeInterface::Transaction(Transaction::new(&view, transaction))))
            }
            GlobalId::Output(outpoint, variant) => {
                let found = find_variant(&view, outpoint.txid, variant)?;
                Ok(found
                    .and_then(|transaction| Output::of(&view, &Arc::new(transaction), outpoint.vout))
                    .map(NodeInterface::Output))
            }
            GlobalId::Address(address) => {
                Address::parse(&view, argument, &address).map(NodeInterface::Address).map(Some)
            }
            GlobalId::Reorg(new_tip) => {
                Reorg::maybe(&view, view.reorg_to(new_tip)).transpose().map(|found| found.map(NodeInterface::Reorg))
            }
            GlobalId::Script(hash) => {
                Ok(Some(Script::with_hash(&view, hash)?).filter(Script::is_known).map(NodeInterface::Script))
            }
            GlobalId::ScriptHash(hash) => {
                let found = Script::with_hash(&view, hash)?;
                Ok((!found.is_known()).then_some(NodeInterface::Script(found)))
            }
            GlobalId::DifficultyEpoch(first) => {
                Ok(DifficultyEpochObject::beginning_with(&view, first)?.map(NodeInterface::DifficultyEpoch))
            }
            // sets are not stored
            GlobalId::AddressSet(_) | GlobalId::DescriptorAccount(_) => Ok(None),
            GlobalId::Miner(slug) => Ok(Miner::find(&view, &slug).map(NodeInterface::Miner)),
            GlobalId::Chain => Ok(Some(NodeInterface::Chain(Chain::new(view)))),
            GlobalId::Mempool => Ok(Some(NodeInterface::Mempool(Mempool::new(view)))),
            GlobalId::Server => Ok(Some(NodeInterface::Server(self.this_server(ctx)?))),
        }
    }

    fn find_all(&self, ctx: &Context<'_>, ids: &[ID]) -> Result<LookedUp<NodeInterface>, ApiError> {
        limits(ctx)?.check_ids("ids", ids.len())?;
        let find = |(place, id): (usize, &ID)| self.find(ctx, &format!("ids[{place}]"), id).transpose();
        Ok(ids.iter().enumerate().map(find).collect())
    }
}

/// The transaction with this txid, or a variant of it. `None` for bytes that a client submitted, which are not stored.
fn find_variant(view: &View, txid: Txid, variant: Variant) -> Result<Option<view::Transaction>, ApiError> {
    find_transaction(view, |view| match variant {
        Variant::Newest => view.transaction(&txid),
        Variant::ReplacedIn(block) => view.replaced_transaction(&txid, block),
        Variant::Submitted(_) => Ok(None),
    })
}

impl FieldCacheability for OperationsQuery {
    const IMMUTABLE_IF_FOUND: &'static str = "node nodes";
    const UNTIL_NEXT_TIP: &'static str = "snapshot";
    const NEVER: &'static str = "sync server bitcoinNode chainTips";
}

#[Object]
impl OperationsQuery {
    /// An object of any type by its id. Null if no object has this id. BAD_USER_INPUT if the text is not a valid id.
    /// Example: `{ node(id: "Chain:main") { id ... on Chain { network } } }`.
    async fn node(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The id, exactly as returned by this API.")] id: ID,
    ) -> Option<Result<NodeInterface, ApiError>> {
        self.find(ctx, "id", &id).transpose()
    }

    /// Several objects by their ids: one entry per id, in the given order, each as in `node`. At most
    /// `server.limits.pages.idsPerList`.
    /// Example: `{ nodes(ids: ["Chain:main", "Mempool:main"]) { __typename id } }`.
    #[graphql(complexity = "costs::list(ids.len(), child_complexity.saturating_add(1))")]
    async fn nodes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The ids, exactly as returned by this API.")] ids: Vec<ID>,
    ) -> Option<Result<LookedUp<NodeInterface>, ApiError>> {
        Some(self.find_all(ctx, &ids))
    }

    /// The state of the chain that this answer uses.
    /// Example: `{ snapshot { height hash cursor isInSync } }`.
    async fn snapshot(&self, ctx: &Context<'_>) -> Option<Result<SnapshotObject, ApiError>> {
        Some(self.root.view(ctx).map(SnapshotObject::new))
    }

    /// The progress of indexing. Available even before any block is indexed.
    /// Example: `{ sync { phase indexedHeight targetHeight isReady } }`.
    async fn sync(&self, ctx: &Context<'_>) -> Result<SyncProgress, ApiError> {
        Ok(SyncProgress::new(self.root.pinned(ctx)?))
    }

    /// This server. Available even before any block is indexed.
    /// Example: `{ server { softwareVersion features { name enabled } limits { pages { pageSize } } } }`.
    async fn server(&self, ctx: &Context<'_>) -> Result<ServerInfo, ApiError> {
        self.this_server(ctx)
    }

    /// The Bitcoin node that this server follows, queried now. Available even before any block is indexed, and while
    /// the node is unreachable.
    /// Example: `{ bitcoinNode { isReachable softwareVersion height } }`.
    #[graphql(complexity = "costs::more(costs::NODE, child_complexity)")]
    async fn bitcoin_node(&self, ctx: &Context<'_>) -> Option<Result<BitcoinNode, ApiError>> {
        let ask = match costs::spend(ctx, costs::NODE).and_then(|()| self.root.pinned(ctx)) {
            Ok(pinned) => pinned.ask,
            Err(error) => return Some(Err(error)),
        };
        Some(BitcoinNode::ask(&ask).await)
    }

    /// The tips of all branches of the block tree that the Bitcoin node knows, including its main chain, queried now: one for
    /// each branch. NODE_UNAVAILABLE if the node does not respond.
    /// Example: `{ chainTips { height hash status branchLength } }`.
    #[graphql(complexity = "costs::list(BRANCHES, child_complexity).saturating_add(costs::NODE)")]
    async fn chain_tips(&self, ctx: &Context<'_>) -> Option<Result<Vec<ChainTipObject>, ApiError>> {
        Some(self.tips(ctx).await)
    }
}
