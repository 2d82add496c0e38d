//! Transactions that a client brings, to be looked at and not sent.

use std::collections::HashSet;
use std::sync::Arc;

use async_graphql::{Context, Object};

use super::root::QueryRoot;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Hex;
use crate::api::types::transaction::{AcceptResult, DecodedTransaction, Submission, check_package, max_feerate};

/// Tells what transactions are and what would become of them.
pub(crate) struct DryRunQuery(pub(crate) QueryRoot);

impl DryRunQuery {
    fn decode(&self, ctx: &Context<'_>, hex: Hex) -> Result<DecodedTransaction, ApiError> {
        let view = self.0.view(ctx)?;
        let read = Submission::read(hex);
        let brought =
            read.map_err(|why| ApiError::bad_argument("hex", format!("does not decode as a transaction: {why}")))?;
        DecodedTransaction::new(&view, brought)
    }

    async fn test(
        &self,
        ctx: &Context<'_>,
        hexes: Vec<Hex>,
        max_fee_rate: Option<f64>,
    ) -> Result<Vec<AcceptResult>, ApiError> {
        check_package(hexes.len())?;
        let max = max_feerate(max_fee_rate)?;
        costs::spend(ctx, costs::NODE)?;
        let view = self.0.view(ctx)?;
        let mut brought = Vec::with_capacity(hexes.len());
        for (index, hex) in hexes.into_iter().enumerate() {
            let no_transaction = |why| {
                ApiError::bad_argument(format!("hexes[{index}]"), format!("does not decode as a transaction: {why}"))
            };
            let read = Submission::read(hex).map_err(no_transaction)?;
            view.count(read.raw.len())?;
            brought.push(read);
        }
        let hexes = brought.iter().map(Submission::to_hex).collect();
        let tested = view.node_client().test_transactions(hexes, max).await;
        let tested = tested.map_err(|error| ApiError::node_unavailable(&error))?;
        let tested = tested.map_err(|refusal| {
            ApiError::bad_argument("hexes", format!("cannot be tested by the Bitcoin node: {}", refusal.message))
        })?;
        let among: Arc<HashSet<_>> = Arc::new(brought.iter().map(|brought| brought.txid).collect());
        let pairs = tested.into_iter().zip(&brought);
        pairs.map(|(tested, brought)| AcceptResult::new(tested, brought, &view, &among)).collect()
    }
}

impl FieldCacheability for DryRunQuery {
    const NEVER: &'static str = "decodeTransaction testTransactions";
}

#[Object]
impl DryRunQuery {
    /// Decodes a transaction and looks up the outputs that it spends, whether the server knows the transaction or not.
    /// Nothing is submitted, and the node is not asked. BAD_USER_INPUT if the bytes do not decode as a transaction.
    /// Example: `{ decodeTransaction(hex:
    /// "0200000001169e1e83e930853391bc6f35f605c6754cfead57cf8387639d3b4096c54f18f40000000000ffffffff0100ca9a3b00000000015100000000")
    /// { isResolved transaction { txid fee vsize } } }`.
    async fn decode_transaction(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The serialised transaction, with or without witnesses.")] hex: Hex,
    ) -> Option<Result<DecodedTransaction, ApiError>> {
        Some(self.decode(ctx, hex))
    }

    /// Tests whether the node would accept transactions now, without submitting them: one transaction, or several that
    /// may spend each other. Returns one result per transaction, in the given order. In a list of several, the test
    /// stops at the first rejection. BAD_USER_INPUT if any entry does not decode as a transaction; NODE_UNAVAILABLE if
    /// the node does not respond.
    /// Example: `{ testTransactions(hexes:
    /// ["0200000001169e1e83e930853391bc6f35f605c6754cfead57cf8387639d3b4096c54f18f40000000000ffffffff0100ca9a3b00000000015100000000"])
    /// { allowed reject { code details } } }`.
    #[graphql(complexity = "costs::list(hexes.len(), child_complexity.saturating_add(1)).saturating_add(costs::NODE)")]
    async fn test_transactions(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "The serialised transactions, parents before children; at most `server.limits.requests.packageTransactions` of them."
        )]
        hexes: Vec<Hex>,
        #[graphql(
            desc = "The highest feerate that any of the transactions may pay, in sat/vB. 0 for no limit. If not given, \
                    the node's default: 10,000."
        )]
        max_fee_rate: Option<f64>,
    ) -> Option<Result<Vec<AcceptResult>, ApiError>> {
        Some(self.test(ctx, hexes, max_fee_rate).await)
    }
}
