use std::sync::Arc;

use async_graphql::{Context, Object};

use super::block_summary::read_contents;
use super::effective_rates::effective_rates;
use crate::api::costs;
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::scalars::Sats;
use crate::chain::Feerate;
use crate::chain::float::to_f64;
use crate::view::{self, QUANTILES, View};

/// Where the middle of a distribution stands.
const MIDDLE: usize = QUANTILES / 2;

/// The fees of a block.
pub(crate) struct BlockFeeStats {
    view: Arc<View>,
    block: Arc<view::Block>,
}

impl BlockFeeStats {
    pub(crate) fn of(view: &Arc<View>, block: &Arc<view::Block>) -> Self {
        Self { view: view.clone(), block: block.clone() }
    }
}

/// The median fee of the transactions of a block but its coinbase, in satoshis.
pub(crate) fn median_fee(row: &view::BlockRow) -> u64 {
    row.fee_quantiles[MIDDLE]
}

fn sat_per_vb(sat_per_kvb: u64) -> f64 {
    Feerate::from_sat_per_kvb(sat_per_kvb).to_sat_per_vb()
}

/// The fees of a block's transactions, without the coinbase. Each transaction counts with its own fee and size, not as
/// a package with the parents that it pays for. All values are 0 in a block with only a coinbase.
#[Object]
impl BlockFeeStats {
    /// The sum of the fees, in satoshis.
    async fn total_fees(&self) -> Result<Sats, ApiError> {
        Sats::new(self.block.row.fees)
    }

    /// The mean fee per transaction, in satoshis, rounded down.
    async fn average_fee(&self) -> Result<Sats, ApiError> {
        let paying = self.block.row.transactions.saturating_sub(1);
        Sats::new(self.block.row.fees.checked_div(paying.into()).unwrap_or(0))
    }

    /// The median fee per transaction, in satoshis. For an even number of transactions, the mean of the two middle
    /// fees, rounded down.
    async fn median_fee(&self) -> Result<Sats, ApiError> {
        Sats::new(median_fee(&self.block.row))
    }

    /// The lowest fee, in satoshis.
    async fn min_fee(&self) -> Result<Sats, ApiError> {
        Sats::new(self.block.row.fee_quantiles[0])
    }

    /// The highest fee, in satoshis.
    async fn max_fee(&self) -> Result<Sats, ApiError> {
        Sats::new(self.block.row.fee_quantiles[QUANTILES - 1])
    }

    /// The median feerate by weight, in sat/vB: half of the weight pays at most this. Rounded down to a thousandth.
    async fn median_fee_rate(&self) -> f64 {
        sat_per_vb(self.block.row.feerate_quantiles[MIDDLE])
    }

    /// The sum of the fees divided by the size of the transactions that pay them, in sat/vB, not rounded. The size is a
    /// quarter of the weight of all transactions except the coinbase.
    async fn average_fee_rate(&self) -> Result<f64, ApiError> {
        if self.block.row.transactions <= 1 {
            return Ok(0.0);
        }
        let coinbase = self.view.coinbase(&self.block)?;
        self.view.count(coinbase.len())?;
        let weight = self.block.paying_weight(&coinbase)?;
        Ok(to_f64(self.block.row.fees) * 4.0 / to_f64(weight))
    }

    /// The effective feerates at 0, 10, 25, 50, 75, 90 and 100 percent of the weight, in sat/vB, as `feeRatePercentiles`, but each
    /// transaction counts with the package with which a miner includes it, where one transaction of the block pays for others.
    /// Rounded down to a thousandth. Null for a stale block.
    #[graphql(complexity = "costs::contents(costs::column())")]
    async fn effective_fee_rate_percentiles(&self, ctx: &Context<'_>) -> Result<Option<List<f64>>, ApiError> {
        let Some(contents) = read_contents(ctx, &self.view, &self.block)? else { return Ok(None) };
        let effective = effective_rates(ctx, &contents)?;
        Ok(Some(contents.quantiles(&effective).map(sat_per_vb).to_vec().into()))
    }

    /// The feerates at 0, 10, 25, 50, 75, 90 and 100 percent of the weight, in sat/vB: that share of the weight pays at
    /// most this feerate. Rounded down to a thousandth.
    #[graphql(complexity = "costs::list(costs::PERCENTILES, 0)")]
    async fn fee_rate_percentiles(&self) -> List<f64> {
        self.block.row.feerate_quantiles.map(sat_per_vb).to_vec().into()
    }
}
