//! The effective feerate of a transaction, in the mempool or in its block.

use async_graphql::Context;

use super::transaction::Transaction;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::types::block::effective_rates;
use crate::view;

impl Transaction {
    /// In sat/vB; `None` for a coinbase, and for what is neither in the mempool nor on the main chain.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for a cluster that takes more to read and to order than an answer may.
    pub(super) fn effective_feerate(&self, ctx: &Context<'_>) -> Result<Option<f64>, ApiError> {
        if self.transaction.unconfirmed.is_some() {
            let found = self.view.mempool().effective_feerate(&self.transaction.txid);
            return Ok(found.map(|feerate| feerate.to_sat_per_vb()));
        }
        let count = |member: &view::Transaction| {
            // its own row, and one for each part
            let rows = member.parts.input.len().saturating_add(member.parts.output.len()).saturating_add(1);
            costs::spend(ctx, rows.div_ceil(costs::ROWS_APART))?;
            Ok::<_, ApiError>(self.view.count(member.raw.len())?)
        };
        let Some((cluster, place)) = self.view.mined_cluster(&self.transaction, count)? else { return Ok(None) };
        Ok(effective_rates(ctx, &cluster)?.get(place).map(|feerate| feerate.to_sat_per_vb()))
    }
}
