//! The effective feerate of a transaction, in the mempool or in its block.

use async_graphql::Context;

use super::transaction::Transaction;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::types::block::{effective_rates, mined_feerates};
use crate::view::{FeeFraction, MinedCluster};

impl Transaction {
    /// In sat/vB; `None` for a coinbase, and for what is neither in the mempool nor on the main chain.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for a cluster that takes more to read and to order than an answer may.
    pub(super) fn effective_feerate(&self, ctx: &Context<'_>) -> Result<Option<f64>, ApiError> {
        if self.transaction.unconfirmed.is_some() {
            let found = self.view.mempool().effective_feerate(&self.transaction.txid);
            return Ok(found.map(FeeFraction::to_sat_per_vb));
        }
        let Some(place) = self.transaction.place.filter(|place| !place.is_coinbase()) else { return Ok(None) };
        let block = self.view.main_block(place.height)?;
        if self.view.mined_feerates(&block.row.hash).is_none() {
            let count = |parts: usize, bytes: usize| {
                // its own row, and one for each part
                costs::spend(ctx, parts.saturating_add(1).div_ceil(costs::ROWS_APART))?;
                Ok::<_, ApiError>(self.view.count(bytes)?)
            };
            if let Some(MinedCluster::Found(cluster, place)) = self.view.mined_cluster(&self.transaction, count)? {
                return Ok(effective_rates(ctx, &cluster)?.get(place).map(|feerate| feerate.to_sat_per_vb()));
            }
        }
        let Some(feerates) = mined_feerates(ctx, &self.view, &block)? else { return Ok(None) };
        let behind_coinbase = usize::try_from(place.index).ok().and_then(|index| index.checked_sub(1));
        let own = behind_coinbase.and_then(|place| feerates.effective.get(place));
        Ok(own.map(|feerate| feerate.to_sat_per_vb()))
    }
}
