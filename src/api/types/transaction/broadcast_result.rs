use std::sync::Arc;

use async_graphql::Object;

use super::broadcast_outcome::BroadcastOutcome;
use super::reject_info::RejectInfo;
use super::submitted::Submission;
use super::transaction::Transaction;
use crate::api::allowance::find_transaction;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Txid, Wtxid};
use crate::view::{Refusal, View};

/// What became of a transaction, and the state of the server after it.
pub(crate) struct BroadcastResult {
    pub(crate) outcome: BroadcastOutcome,
    ids: Option<(bitcoin::Txid, bitcoin::Wtxid)>,
    view: Option<Arc<View>>,
    replaced: Vec<bitcoin::Txid>,
    reject: Option<RejectInfo>,
}

impl BroadcastResult {
    fn new(outcome: BroadcastOutcome, brought: &Submission, view: Option<&Arc<View>>) -> Self {
        let ids = Some((brought.txid, brought.wtxid));
        Self { outcome, ids, view: view.cloned(), replaced: Vec::new(), reject: None }
    }

    /// It is where it was to go, and these left the mempool for it. Without a view there are no details.
    pub(crate) fn success(
        outcome: BroadcastOutcome,
        brought: &Submission,
        view: Option<&Arc<View>>,
        replaced: Vec<bitcoin::Txid>,
    ) -> Self {
        Self { replaced, ..Self::new(outcome, brought, view) }
    }

    /// It was refused, and nothing more is known of it.
    pub(crate) fn rejected_unread(brought: &Submission, refusal: Refusal) -> Self {
        let reject = Some(RejectInfo::unread(refusal));
        Self { reject, ..Self::new(BroadcastOutcome::Rejected, brought, None) }
    }

    /// It was refused.
    pub(crate) fn rejected(brought: &Submission, view: &Arc<View>, reject: RejectInfo) -> Self {
        Self { reject: Some(reject), ..Self::new(BroadcastOutcome::Rejected, brought, Some(view)) }
    }

    /// The bytes are no transaction.
    pub(crate) fn not_decoded(why: &str) -> Self {
        let reject = Some(RejectInfo::not_decoded(why));
        Self { outcome: BroadcastOutcome::Rejected, ids: None, view: None, replaced: Vec::new(), reject }
    }

    /// It was not sent, because of others that came with it.
    pub(crate) fn not_tried(brought: &Submission, reason: &str) -> Self {
        let reject = Some(RejectInfo::not_tried(reason));
        Self { reject, ..Self::new(BroadcastOutcome::Rejected, brought, None) }
    }

    /// The outcome is unknown.
    pub(crate) fn unknown(brought: &Submission) -> Self {
        Self::new(BroadcastOutcome::NodeUnreachable, brought, None)
    }

    fn find(&self) -> Result<Option<Transaction>, ApiError> {
        let (Some((txid, _)), Some(view)) = (self.ids, &self.view) else { return Ok(None) };
        // else it would be an older copy, as it left once
        if self.outcome == BroadcastOutcome::Rejected || !view.contains(&txid)? {
            return Ok(None);
        }
        let found = find_transaction(view, |view| view.transaction(&txid))?;
        Ok(found.map(|transaction| Transaction::new(view, transaction)))
    }
}

impl FieldCacheability for BroadcastResult {
    const NEVER: &'static str = "outcome txid wtxid transaction replaced reject";
}

/// The result of submitting a transaction.
#[Object]
impl BroadcastResult {
    /// The outcome of the submission.
    async fn outcome(&self) -> BroadcastOutcome {
        self.outcome
    }

    /// The txid of the transaction. Null if the bytes do not decode as a transaction.
    async fn txid(&self) -> Option<Txid> {
        self.ids.map(|(txid, _)| Txid(txid))
    }

    /// The wtxid of the transaction, with the witnesses as submitted. Null if the bytes do not decode as a transaction.
    async fn wtxid(&self) -> Option<Wtxid> {
        self.ids.map(|(_, wtxid)| Wtxid(wtxid))
    }

    /// The transaction with its position in the mempool, read after the node accepted it. Null if the transaction is
    /// neither in the mempool nor in a block, if this server does not see it within 1.5 seconds after the node accepts
    /// it, and if the server cannot read its index: the outcome is known nevertheless.
    async fn transaction(&self) -> Option<Result<Transaction, ApiError>> {
        self.find().transpose()
    }

    /// The txids of the transactions that left the mempool because of this one: those that spend the same outputs, and their
    /// descendants. Empty unless the outcome is ACCEPTED. As many as the node allows: some hundred.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn replaced(&self) -> Vec<Txid> {
        self.replaced.iter().copied().map(Txid).collect()
    }

    /// Why the transaction was rejected. Null unless the outcome is REJECTED.
    async fn reject(&self) -> Option<RejectInfo> {
        self.reject.clone()
    }
}
