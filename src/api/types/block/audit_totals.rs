use std::ops::Range;

use async_graphql::{Context, Object};

use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::scalars::int;
use crate::chain::Height;
use crate::chain::pools::PoolId;
use crate::view::{AuditTotals, View};

/// Rows of compared blocks that a range is taken to have: those of a day. Each is charged as it is read.
pub(crate) const AUDITS: usize = 144_usize.div_ceil(costs::ROWS_APART);

/// How the blocks of a range compare with the projected ones.
pub(crate) struct AuditTotalsObject(AuditTotals);

impl AuditTotalsObject {
    /// Over the blocks at these heights of the active chain; with a miner only over those of this pool, or of none.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED for more rows than an answer may read; NOT_READY with a miner.
    pub(crate) fn of(
        ctx: &Context<'_>,
        view: &View,
        heights: Range<Height>,
        miner: Option<Option<PoolId>>,
    ) -> Result<Self, ApiError> {
        let mut rows = 0_usize;
        let count = |bytes| {
            rows = rows.saturating_add(1);
            if rows % costs::ROWS_APART == 1 {
                costs::spend(ctx, 1)?;
            }
            Ok::<_, ApiError>(view.count(bytes)?)
        };
        let is_meant = |height| Ok(miner.map_or(Ok(true), |miner| view.is_block_of(miner, height))?);
        view.audit_totals(heights, is_meant, count).map(Self)
    }
}

/// How blocks compare with those that were projected of the mempool of this server right before they arrived, on average.
#[Object(name = "AuditTotals")]
impl AuditTotalsObject {
    /// The number of blocks that were compared: those with an `audit`.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.0.blocks)
    }

    /// The mean of `BlockAudit.matchRate` over these blocks, from 0 to 1. Null if there are none.
    async fn average_match_rate(&self) -> Option<f64> {
        (self.0.blocks > 0).then(|| self.0.match_rates / f64::from(self.0.blocks))
    }
}
