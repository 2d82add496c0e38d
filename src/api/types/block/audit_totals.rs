use std::ops::Range;

use async_graphql::{Context, Object};

use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BigInt, int};
use crate::chain::Height;
use crate::chain::pools::PoolId;
use crate::view::{ComparedBlocks, ComparedTotals, View};

/// Rows of compared blocks that a range is taken to have: those of a day. Each is charged as it is read.
pub(crate) const AUDITS: usize = 144_usize.div_ceil(costs::ROWS_APART);

/// How blocks compare with the projected ones.
pub(crate) struct AuditTotals(ComparedTotals);

/// The blocks at these heights of the active chain that were compared.
///
/// Errors: QUERY_LIMIT_EXCEEDED for more rows than an answer may read.
pub(crate) fn compared_blocks(
    ctx: &Context<'_>,
    view: &View,
    heights: Range<Height>,
) -> Result<ComparedBlocks, ApiError> {
    let mut rows = 0_usize;
    view.compared_blocks(heights, || {
        rows = rows.saturating_add(1);
        if rows % costs::ROWS_APART == 1 { costs::spend(ctx, 1) } else { Ok(()) }
    })
}

impl AuditTotals {
    /// Of all these blocks.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) fn of(ctx: &Context<'_>, view: &View, compared: &ComparedBlocks) -> Result<Self, ApiError> {
        view.compared_totals(compared, || costs::spend(ctx, 1)).map(Self)
    }

    /// Of those of these blocks that are ascribed to a pool, or to none.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED, NOT_READY.
    pub(crate) fn of_miner(
        ctx: &Context<'_>,
        view: &View,
        compared: &ComparedBlocks,
        miner: Option<PoolId>,
    ) -> Result<Self, ApiError> {
        let count = |blocks| costs::spend(ctx, costs::rows_in_a_row(blocks).saturating_add(1));
        view.compared_totals_of(compared, miner, count).map(Self)
    }
}

impl FieldCacheability for AuditTotals {
    const UNTIL_NEXT_HEAD: &'static str = "blockCount averageMatchRate fees projectedFees";
}

/// How blocks compare with those that were projected of the mempool of this server right before they arrived: means and sums.
#[Object]
impl AuditTotals {
    /// The number of blocks that were compared: those with an `audit`.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.0.blocks)
    }

    /// The mean of `BlockAudit.matchRate` over these blocks, from 0 to 1; a block for which nothing but fresh transactions was
    /// projected counts as 1. Null if there are none.
    async fn average_match_rate(&self) -> Option<f64> {
        (self.0.blocks > 0).then(|| self.0.match_rates / f64::from(self.0.blocks))
    }

    /// The sum of the fees of these blocks, in satoshis.
    async fn fees(&self) -> BigInt {
        u128::from(self.0.fees).into()
    }

    /// The sum of `BlockAudit.totalProjectedFees` over these blocks, in satoshis: what they would have paid, had they been as
    /// projected.
    async fn projected_fees(&self) -> BigInt {
        u128::from(self.0.projected_fees).into()
    }
}
