use std::sync::Arc;

use async_graphql::Object;
use bitcoin::{Amount, OutPoint};

use super::brought::Brought;
use super::enums::TxState;
use super::error::ApiError;
use super::transaction::Transaction;
use crate::view::{self, View};

/// A transaction of which a client brought the bytes.
pub(super) struct DecodedTransaction {
    view: Arc<View>,
    transaction: Arc<view::Transaction>,
    missing: Vec<OutPoint>,
}

impl DecodedTransaction {
    /// Errors: BAD_USER_INPUT, if it pays more than all coins there can be; QUERY_LIMIT_EXCEEDED, if what it spends has
    /// more bytes than an answer may read.
    pub(super) fn new(view: &Arc<View>, brought: Brought) -> Result<Self, ApiError> {
        let Brought { parts, raw, .. } = brought;
        let paid = parts.output.iter().try_fold(Amount::ZERO, |sum, output| sum.checked_add(output.value));
        if paid.is_none_or(|paid| paid > Amount::MAX_MONEY) {
            return Err(ApiError::bad_user_input("hex is no transaction: it pays more than all coins there can be"));
        }
        let missing = view.unknown_inputs(&parts)?;
        view.count(raw.len())?;
        let parts = Arc::unwrap_or_clone(parts);
        let transaction = Transaction::read(view, |view| view.offered(parts, raw).map(Some))?;
        let transaction = transaction.ok_or_else(|| ApiError::internal("what was brought is gone"))?;
        Ok(Self { view: view.clone(), transaction: Arc::new(transaction), missing })
    }
}

/// A transaction as the bytes that were brought say it, seen from the chain and mempool of this server. Nothing is sent.
#[Object]
impl DecodedTransaction {
    /// The transaction, with the witnesses that were brought. Where it is known here, `state`, `block` and the like tell so;
    /// else its `state` is UNKNOWN, and `node(id:)` does not find it. What it spends is looked up as for any other, so that
    /// `fee` is told where all of that is known; it is null as well if it pays more than it spends.
    async fn transaction(&self) -> Transaction {
        Transaction::new(&self.view, self.transaction.clone())
    }

    /// Whether the main chain or the mempool has every output that it spends, spent or not.
    async fn all_inputs_known(&self) -> bool {
        self.missing.is_empty()
    }

    /// The outputs that it spends and that neither the main chain nor the mempool has, as `txid:vout` in the order of its
    /// inputs. Whether the others are spent, their `spendStatus` tells.
    async fn missing_inputs(&self) -> Vec<String> {
        self.missing.iter().map(ToString::to_string).collect()
    }

    /// Where the transaction is, if this server knows it already; null if it does not.
    async fn already_known(&self) -> Option<TxState> {
        (!self.transaction.is_foreign).then(|| self.transaction.state().into())
    }
}
