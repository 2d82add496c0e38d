use std::sync::Arc;

use async_graphql::{Context, Object};

use super::range_stats::rate;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::scalars::{BigInt, Sats, UInt53, int};
use crate::chain::difficulty::difficulty;
use crate::view::{BlockRange, Span, View};

const DAY: u32 = 86_400;
const STALE_BLOCK_DAYS: u32 = 30;

/// The main figures of the chain at the tip.
pub(crate) struct ChainSummary {
    view: Arc<View>,
    /// The blocks of the last day.
    day: BlockRange,
}

impl ChainSummary {
    pub(crate) fn of(view: &Arc<View>) -> Result<Self, ApiError> {
        let day = view.range(view.first_height_within(DAY)?, view.tip().height)?;
        Ok(Self { view: view.clone(), day })
    }

    fn average_fee(&self) -> Result<Option<Sats>, ApiError> {
        let transactions = self.day.sum(|running| running.transactions)?;
        let paying = transactions.saturating_sub(self.day.blocks().into());
        self.day.sum(|running| running.fees)?.checked_div(paying).map(Sats::new).transpose()
    }
}

/// The key figures of the chain at its tip. Time windows use median time past: the last 24 hours are the blocks whose
/// median time past is less than 24 hours before that of the tip, and always include the tip.
#[Object]
impl ChainSummary {
    /// The number of blocks on the main chain, genesis block included.
    async fn blocks(&self) -> Result<i32, ApiError> {
        int(self.view.tip().height.next().to_u32())
    }

    /// The number of transactions, coinbases included.
    async fn transactions(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.day.last.running.transactions)
    }

    /// The number of outputs created.
    async fn outputs(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.day.last.running.outputs)
    }

    /// The total size of the blocks, in bytes.
    async fn size_bytes(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.day.last.running.size)
    }

    /// The difficulty of the tip.
    async fn difficulty(&self) -> f64 {
        difficulty(self.day.last.header.bits)
    }

    /// The hashrate estimated from the blocks of the last 24 hours, in hashes per second. Null if no time passed, as on
    /// a chain that has just begun.
    #[graphql(name = "hashrate24h")]
    async fn hashrate_24h(&self) -> Option<Result<f64, ApiError>> {
        rate(&self.day, Span::hashrate)
    }

    /// The number of blocks in the last 24 hours.
    #[graphql(name = "blocks24h")]
    async fn blocks_24h(&self) -> Result<i32, ApiError> {
        int(self.day.blocks())
    }

    /// The number of transactions in the blocks of the last 24 hours, coinbases included.
    #[graphql(name = "transactions24h")]
    async fn transactions_24h(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.day.sum(|running| running.transactions)?)
    }

    /// The sum of the outputs created in the last 24 hours, in satoshis. The sum is unbounded because the same coins
    /// can move many times.
    #[graphql(name = "outputValue24h")]
    async fn output_value_24h(&self) -> Result<BigInt, ApiError> {
        Ok(self.day.sum(|running| running.output_value)?.into())
    }

    /// The mean fee of the transactions of the last 24 hours without coinbases, in satoshis, rounded down. Null if
    /// there are none.
    #[graphql(name = "averageFee24h")]
    async fn average_fee_24h(&self) -> Option<Result<Sats, ApiError>> {
        self.average_fee().transpose()
    }

    /// The sum of the subsidies of the last 24 hours, in satoshis, whether claimed or not.
    #[graphql(name = "subsidy24h")]
    async fn subsidy_24h(&self) -> Result<Sats, ApiError> {
        Sats::new(self.day.sum(|running| running.subsidy)?)
    }

    /// The mean time between blocks in the last 24 hours, in seconds. Null if no time passed.
    #[graphql(name = "averageBlockInterval24h")]
    async fn average_block_interval_24h(&self) -> Option<Result<f64, ApiError>> {
        rate(&self.day, Span::seconds_per_block)
    }

    /// The number of stale blocks that the server knows at the heights of the main chain's last 30 days. It knows only
    /// those that it saw disconnected, and stores only the highest.
    #[graphql(name = "staleBlocks30d", complexity = "costs::STALE_MONTH")]
    async fn stale_blocks_30d(&self, ctx: &Context<'_>) -> Result<i32, ApiError> {
        costs::spend(ctx, costs::STALE_MONTH)?;
        let first = self.view.first_height_within(STALE_BLOCK_DAYS * DAY)?;
        int(self.view.stale_blocks_from(first)?)
    }
}
