//! Transactions and their outputs.

use async_graphql::{Context, Object};

use super::super::error::ApiError;
use super::super::scalars::Txid;
use super::super::transaction::Transaction;
use super::Root;

/// Finds transactions.
pub(super) struct TransactionQuery(pub(super) Root);

impl TransactionQuery {
    fn find(&self, ctx: &Context<'_>, txid: Option<Txid>) -> Result<Option<Transaction>, ApiError> {
        let view = self.0.view(ctx)?;
        let txid = txid.ok_or_else(|| ApiError::bad_user_input("give a txid"))?;
        let found = Transaction::read(&view, |view| view.transaction(&txid.0))?;
        Ok(found.map(|transaction| Transaction::new(&view, transaction)))
    }
}

#[Object]
impl TransactionQuery {
    /// A transaction by its txid. Null for one that is in no block that this server knows.
    async fn transaction(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The txid of the transaction.")] txid: Option<Txid>,
    ) -> Option<Result<Transaction, ApiError>> {
        self.find(ctx, txid).transpose()
    }
}
