use std::sync::Arc;

use async_graphql::{Context, Object};

use super::block_summary::read_contents;
use super::effective_rates::mined_feerates_of;
use crate::api::costs;
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Sats;
use crate::chain::Feerate;
use crate::chain::float::to_f64;
use crate::view::{self, QUANTILES, STORED_PERCENTS, Share, View};

/// Where the middle of a distribution stands.
const MIDDLE: usize = QUANTILES / 2;

/// The most percents of one list: whole ones, from 0 to 100.
const MOST_PERCENTS: usize = 101;

/// The fees of a block.
pub(crate) struct BlockFeeStats {
    view: Arc<View>,
    block: Arc<view::Block>,
}

impl BlockFeeStats {
    pub(crate) fn of(view: &Arc<View>, block: &Arc<view::Block>) -> Self {
        Self { view: view.clone(), block: block.clone() }
    }

    /// Percentiles that the row does not have; `None` for a stale block.
    fn read_percentiles(
        &self,
        ctx: &Context<'_>,
        percents: Option<Vec<f64>>,
        is_weighted: bool,
        is_effective: bool,
    ) -> Result<Option<List<f64>>, ApiError> {
        let percents = percents.unwrap_or_else(|| STORED_PERCENTS.map(f64::from).to_vec());
        if percents.len() > MOST_PERCENTS {
            let fault = format!("has {} items, at most {MOST_PERCENTS} are allowed", percents.len());
            return Err(ApiError::bad_argument("percents", fault));
        }
        let shares = percents.iter().enumerate().map(|(place, percent)| {
            Share::of_percent(*percent).ok_or_else(|| {
                ApiError::bad_argument(format!("percents[{place}]"), format!("is {percent}, and it must be 0 to 100"))
            })
        });
        let shares: Vec<_> = shares.collect::<Result<_, _>>()?;
        let Some(contents) = read_contents(ctx, &self.view, &self.block)? else { return Ok(None) };
        costs::spend(ctx, shares.len())?;
        let found = if is_effective {
            let feerates = mined_feerates_of(ctx, &self.view, self.block.row.hash, &contents)?;
            contents.feerates_at(&shares, &feerates.effective, is_weighted)
        } else {
            contents.feerates_at(&shares, &contents.own_feerates(), is_weighted)
        };
        Ok(Some(found.into_iter().map(sat_per_vb).collect::<Vec<_>>().into()))
    }
}

/// The median fee of the transactions of a block but its coinbase, in satoshis.
pub(crate) fn median_fee(row: &view::BlockRow) -> u64 {
    row.fee_quantiles[MIDDLE]
}

fn sat_per_vb(sat_per_kvb: u64) -> f64 {
    Feerate::from_sat_per_kvb(sat_per_kvb).to_sat_per_vb()
}

/// Whether the figures are those of the block's row.
fn are_stored(percents: Option<&Vec<f64>>, weighted: Option<bool>, effective: Option<bool>) -> bool {
    percents.is_none() && weighted != Some(false) && effective != Some(true)
}

/// What percentiles cost at most.
fn percentiles_cost(percents: Option<&Vec<f64>>, weighted: Option<bool>, effective: Option<bool>) -> usize {
    let list = costs::list(percents.map_or(costs::PERCENTILES, |percents| percents.len().min(MOST_PERCENTS)), 0);
    if are_stored(percents, weighted, effective) { list } else { costs::contents(costs::column().saturating_add(list)) }
}

impl FieldCacheability for BlockFeeStats {
    const IMMUTABLE: &'static str =
        "totalFees averageFee medianFee minFee maxFee medianFeeRate averageFeeRate feeRatePercentiles";
}

/// The fees of a block's transactions, without the coinbase. Each transaction counts with its own fee and size, and not as
/// a package with the parents that it pays for, unless `effective` is set. All values are 0 in a block with only a coinbase.
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

    /// The feerates at these percents of the weight, or of the number of transactions, in sat/vB: that share pays at most this
    /// feerate. Rounded down to a thousandth. Without arguments the figures are stored, also those of a stale block; with any,
    /// the block is read, and the field is null for a stale one.
    #[graphql(complexity = "percentiles_cost(percents.as_ref(), weighted, effective)")]
    async fn fee_rate_percentiles(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The percents, 0 to 100, at most 101 of them. 0, 10, 25, 50, 75, 90 and 100 if not given.")]
        percents: Option<Vec<f64>>,
        #[graphql(
            desc = "Whether they are percents of the weight, as in the node's `getblockstats`, or of the number of transactions.",
            default_with = "Some(true)"
        )]
        weighted: Option<bool>,
        #[graphql(
            desc = "Whether each transaction counts with the package with which a miner includes it, where one transaction of the \
                    block pays for others, by the sizes by which miners order transactions (`adjustedVsize`).",
            default_with = "Some(false)"
        )]
        effective: Option<bool>,
    ) -> Option<Result<List<f64>, ApiError>> {
        if are_stored(percents.as_ref(), weighted, effective) {
            return Some(Ok(self.block.row.feerate_quantiles.map(sat_per_vb).to_vec().into()));
        }
        self.read_percentiles(ctx, percents, weighted.unwrap_or(true), effective.unwrap_or_default()).transpose()
    }
}
