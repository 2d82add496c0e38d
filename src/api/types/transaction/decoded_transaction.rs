use std::sync::Arc;

use async_graphql::Object;
use bitcoin::{Amount, OutPoint};

use super::outpoint::OutPointObject;
use super::submitted::Submission;
use super::transaction::Transaction;
use crate::api::allowance::find_transaction;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::types::enums::TxState;
use crate::view::{self, View};

/// A transaction whose bytes a client submitted.
pub(crate) struct DecodedTransaction {
    view: Arc<View>,
    transaction: Arc<view::Transaction>,
    missing: Vec<OutPoint>,
}

impl DecodedTransaction {
    /// Errors: BAD_USER_INPUT, if it pays more than all coins there can be; QUERY_LIMIT_EXCEEDED, if what it spends has
    /// more bytes than an answer may read.
    pub(crate) fn new(view: &Arc<View>, brought: Submission) -> Result<Self, ApiError> {
        let Submission { parts, raw, .. } = brought;
        let paid = parts.output.iter().try_fold(Amount::ZERO, |sum, output| sum.checked_add(output.value));
        if paid.is_none_or(|paid| paid > Amount::MAX_MONEY) {
            let fault = "does not decode as a transaction: its outputs exceed the coin supply";
            return Err(ApiError::bad_argument("hex", fault));
        }
        let missing = view.unknown_inputs(&parts)?;
        view.count(raw.len())?;
        let parts = Arc::unwrap_or_clone(parts);
        let transaction = find_transaction(view, |view| view.submitted(parts, raw).map(Some))?;
        let transaction = transaction.ok_or_else(|| ApiError::internal("the decoded transaction is missing"))?;
        Ok(Self { view: view.clone(), transaction: Arc::new(transaction), missing })
    }
}

impl FieldCacheability for DecodedTransaction {
    const NEVER: &'static str = "transaction isResolved missingInputs alreadyKnown";
}

/// A transaction decoded from the given bytes, in the context of this server's chain and mempool. Nothing is submitted.
#[Object]
impl DecodedTransaction {
    /// The transaction, with the witnesses as given. If this server knows a transaction with its txid, `state`, `block` and
    /// related fields describe that one; otherwise `state` is UNKNOWN. Unless the known one has the same bytes, its id and
    /// those of its outputs end in `+` and its wtxid. Its inputs are looked up as for any other transaction: `fee` is null if an input is not known, and if the outputs exceed the inputs.
    async fn transaction(&self) -> Transaction {
        Transaction::new(&self.view, self.transaction.clone())
    }

    /// Whether the main chain or the mempool contains every output that the transaction spends, whether already spent
    /// or not.
    async fn is_resolved(&self) -> bool {
        self.missing.is_empty()
    }

    /// The outputs that the transaction spends and that neither the main chain nor the mempool contains, in input order. For
    /// the other outputs, `spendStatus` reports whether they are spent. At most as many as the transaction has inputs.
    #[graphql(complexity = "costs::few(child_complexity)")]
    async fn missing_inputs(&self) -> Result<Vec<OutPointObject>, ApiError> {
        OutPointObject::all(&self.missing)
    }

    /// The state of the transaction, if this server already knows it. Null if it does not.
    async fn already_known(&self) -> Option<TxState> {
        (!self.transaction.is_foreign).then(|| self.transaction.state().into())
    }
}
