use std::sync::Arc;

use async_graphql::Object;

use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::scalars::{DateTime, Sats, Txid, int_of};
use crate::view::{Replacement, View};

/// How many transactions one is taken to have replaced before they are known.
pub(crate) const REPLACED: usize = 2;

/// A transaction among those that replaced each other.
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

    /// When the transaction was first seen. Null once it is in a block.
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

    /// The transactions that it replaced, oldest departure first.
    #[graphql(complexity = "costs::list(REPLACED, child_complexity)")]
    async fn replaced_nodes(&self) -> Result<Vec<RbfNode>, ApiError> {
        let replaced = self.view.replaced(&self.txid)?;
        replaced.iter().map(|departed| RbfNode::find(&self.view, departed.txid)).collect()
    }
}
