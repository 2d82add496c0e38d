use std::collections::BTreeMap;
use std::ops::Range;

use async_graphql::{Context, Object};

use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::scalars::int;
use crate::chain::Height;
use crate::chain::pools::PoolId;
use crate::view::View;

/// Rows of compared blocks that a range is taken to have: those of a day. Each is charged as it is read.
pub(crate) const AUDITS: usize = 144_usize.div_ceil(costs::ROWS_APART);

/// How blocks compare with the projected ones.
#[derive(Default)]
pub(crate) struct AuditTotals {
    blocks: u32,
    /// The sum of their match rates.
    match_rates: f64,
}

/// The match rates of the blocks at these heights of the active chain that were compared.
///
/// Errors: QUERY_LIMIT_EXCEEDED for more rows than an answer may read.
pub(crate) fn match_rates(
    ctx: &Context<'_>,
    view: &View,
    heights: Range<Height>,
) -> Result<BTreeMap<Height, f64>, ApiError> {
    let mut rows = 0_usize;
    view.match_rates(heights, || {
        rows = rows.saturating_add(1);
        if rows % costs::ROWS_APART == 1 { costs::spend(ctx, 1) } else { Ok(()) }
    })
}

impl AuditTotals {
    /// Of all these blocks.
    pub(crate) fn of(match_rates: &BTreeMap<Height, f64>) -> Self {
        let mut totals = Self::default();
        for rate in match_rates.values() {
            totals.add(*rate);
        }
        totals
    }

    /// Of those of these blocks that are ascribed to a pool, or to none.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED, NOT_READY.
    pub(crate) fn of_miner(
        ctx: &Context<'_>,
        view: &View,
        match_rates: &BTreeMap<Height, f64>,
        miner: Option<PoolId>,
    ) -> Result<Self, ApiError> {
        costs::spend(ctx, costs::rows_in_a_row(u32::try_from(match_rates.len()).unwrap_or(u32::MAX)))?;
        let mut totals = Self::default();
        for (height, rate) in match_rates {
            if view.is_block_of(miner, *height)? {
                totals.add(*rate);
            }
        }
        Ok(totals)
    }

    fn add(&mut self, match_rate: f64) {
        self.blocks = self.blocks.saturating_add(1);
        self.match_rates += match_rate;
    }
}

/// How blocks compare with those that were projected of the mempool of this server right before they arrived, on average.
#[Object]
impl AuditTotals {
    /// The number of blocks that were compared: those with an `audit`.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.blocks)
    }

    /// The mean of `BlockAudit.matchRate` over these blocks, from 0 to 1; a block for which nothing but fresh transactions was
    /// projected counts as 1. Null if there are none.
    async fn average_match_rate(&self) -> Option<f64> {
        (self.blocks > 0).then(|| self.match_rates / f64::from(self.blocks))
    }
}
