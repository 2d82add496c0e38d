use std::sync::Arc;

use async_graphql::Object;

use super::super::costs;
use super::super::error::ApiError;
use super::super::scalars::{DateTime, Sats, Txid, int_of};
use crate::view::{Replacement, View};

/// How many transactions one is taken to have replaced before they are known.
pub(in crate::api) const REPLACED: usize = 2;

/// A transaction among those that replaced each other.
pub(in crate::api) struct RbfNode {
    view: Arc<View>,
    txid: bitcoin::Txid,
    known: Replacement,
}

impl RbfNode {
    pub(in crate::api) fn find(view: &Arc<View>, txid: bitcoin::Txid) -> Result<Self, ApiError> {
        Ok(Self { view: view.clone(), txid, known: view.replacement(&txid)? })
    }
}

/// A transaction that replaced others, or was replaced, and those that it replaced: a tree whose root was not replaced
/// itself. It tells also of transactions whose bytes are not kept any more. Replaced are those that spend an output that
/// the newer one spends; what stood on them left with them, and is not told here.
#[Object]
impl RbfNode {
    /// The txid of the transaction.
    async fn txid(&self) -> Txid {
        Txid(self.txid)
    }

    /// What it pays, or would have paid, in satoshis; null where that is not known any more.
    async fn fee(&self) -> Option<Result<Sats, ApiError>> {
        self.known.fee.map(Sats::new)
    }

    /// Its virtual size in vbytes; null where that is not known any more.
    async fn vsize(&self) -> Option<Result<i32, ApiError>> {
        self.known.vsize.map(int_of)
    }

    /// When it was first seen. Null once it is in a block.
    async fn seen_at(&self) -> Option<DateTime> {
        self.known.first_seen.map(DateTime::from_seconds)
    }

    /// Whether it replaced, itself, a transaction none of whose inputs signalled that it may be replaced (BIP125). False
    /// as well where the bytes of what it replaced are not kept any more.
    async fn full_rbf(&self) -> Result<bool, ApiError> {
        Ok(self.view.replaced_without_signal(&self.txid)?)
    }

    /// Whether a block of the main chain holds it.
    async fn mined(&self) -> bool {
        self.known.is_confirmed
    }

    /// What it replaced, the oldest departure first.
    #[graphql(complexity = "costs::list(REPLACED, child_complexity)")]
    async fn replaces(&self) -> Result<Vec<RbfNode>, ApiError> {
        let replaced = self.view.replaced(&self.txid)?;
        replaced.iter().map(|departed| RbfNode::find(&self.view, departed.txid)).collect()
    }
}
