use std::sync::Arc;

use async_graphql::{Context, Object};

use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::{DateTime, Sats, Txid, int_of};
use crate::api::types::enums::SortOrder;
use crate::view::{Replacement, View};

/// How many transactions one is taken to have replaced before they are known.
pub(crate) const REPLACED: usize = 2;

/// A transaction among those that replaced each other.
#[derive(Clone)]
pub(crate) struct RbfNode {
    view: Arc<View>,
    txid: bitcoin::Txid,
    known: Replacement,
}

impl RbfNode {
    pub(crate) fn find(view: &Arc<View>, txid: bitcoin::Txid) -> Result<Self, ApiError> {
        Ok(Self { view: view.clone(), txid, known: view.replacement(&txid)? })
    }
}

impl FieldCacheability for RbfNode {
    const UNTIL_NEXT_HEAD: &'static str = "txid fee vsize seenAt isFullRbf isMined replacedNodes";
}

/// A node in a tree of replacements: a transaction and those that it replaced. The root was not replaced itself. The
/// tree includes transactions whose bytes the server no longer stores. A transaction is replaced by one that spends the
/// same output; its descendants leave with it but are not listed.
#[Object]
impl RbfNode {
    /// The txid of the transaction.
    async fn txid(&self) -> Txid {
        Txid(self.txid)
    }

    /// The fee, in satoshis. Null if it is no longer known.
    async fn fee(&self) -> Option<Result<Sats, ApiError>> {
        self.known.fee.map(Sats::new)
    }

    /// The virtual size, in vbytes. Null if it is no longer known.
    async fn vsize(&self) -> Option<Result<i32, ApiError>> {
        self.known.vsize.map(int_of)
    }

    /// When the transaction was first seen unconfirmed. Null if that is no longer stored.
    async fn seen_at(&self) -> Option<DateTime> {
        self.known.first_seen.map(DateTime::from_seconds)
    }

    /// Whether the transaction directly replaced one that did not signal replaceability in any input (BIP125). Also
    /// false if the server no longer stores the bytes of what it replaced.
    async fn is_full_rbf(&self) -> Result<bool, ApiError> {
        Ok(self.view.replaced_without_signal(&self.txid)?)
    }

    /// Whether the transaction is in a block of the main chain.
    async fn is_mined(&self) -> bool {
        self.known.is_confirmed
    }

    /// The transactions that it replaced, oldest departure first. Each spent an output that the transaction spends,
    /// so there are about as many as it has inputs at most.
    #[graphql(complexity = "costs::list(REPLACED, child_complexity)")]
    async fn replaced_nodes(&self) -> Result<Vec<RbfNode>, ApiError> {
        let replaced = self.view.replaced(&self.txid)?;
        replaced.iter().map(|departed| RbfNode::find(&self.view, departed.txid)).collect()
    }
}

/// A page of the trees of replacements, the newest first. The place of a tree is the number of the first departure that its
/// root caused, so no cursor becomes invalid: one whose tree is no longer stored continues where the tree was.
pub(super) fn page(
    view: &Arc<View>,
    ctx: &Context<'_>,
    args: &PageArgs,
    full_rbf_only: bool,
) -> Result<Connection<RbfNode>, ApiError> {
    let scope = Scope::new("replacements", crate::api::pagination::global_id::MEMPOOL_ID.to_owned())
        .filtered(full_rbf_only.to_string());
    let limits = limits(ctx)?;
    let request = args.read(&scope, view, limits)?;
    let walk = request.walk(0..u64::MAX, SortOrder::Desc);
    let roots = view.mempool().replacing(walk.positions);
    let row = |(position, txid): (u64, bitcoin::Txid)| {
        let is_listed = view.is_replacement_root(&txid)? && (!full_rbf_only || view.replaced_without_signal(&txid)?);
        Ok::<_, ApiError>((position, is_listed.then_some(txid)))
    };
    let enough = |read| read >= limits.scan_rows;
    let page = if walk.ascending {
        request.page(enough, costs::charged_rows(ctx, Some(costs::ROWS_APART), roots.rev().map(row)))
    } else {
        request.page(enough, costs::charged_rows(ctx, Some(costs::ROWS_APART), roots.map(row)))
    };
    Connection::new(&scope, page?, None, |_| Ok(None), |_, txid| RbfNode::find(view, txid))
}
