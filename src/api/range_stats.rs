use async_graphql::Object;

use super::error::ApiError;
use super::scalars::{BigInt, DateTime, Hex, Int53, Sats, UInt53, int};
use crate::chain::difficulty::difficulty_of_work;
use crate::chain::float::to_f64;
use crate::view::{BlockRange, Running, Span};

/// The sums over a range of blocks.
pub(super) struct RangeStats(pub(super) BlockRange);

impl RangeStats {
    fn counter(&self, total: impl Fn(&Running) -> u64) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.sum(total)?)
    }
}

/// A rate over the time that a range took; nothing if no time passed.
pub(super) fn rate(range: &BlockRange, of: impl Fn(&Span) -> f64) -> Option<Result<f64, ApiError>> {
    let span = range.span().map_err(ApiError::from).transpose()?;
    Some(span.map(|span| of(&span)))
}

/// What a range of blocks of the main chain comes to. Rates are by the time between the median time past of the block
/// in front of the range and that of its last block; in front of the genesis block there is none, so a range that begins
/// there is timed from it on, and it does not count as found in that time.
#[Object]
impl RangeStats {
    /// The height of the first block.
    #[graphql(name = "fromHeight")]
    async fn first_height(&self) -> Result<i32, ApiError> {
        int(self.0.from.to_u32())
    }

    /// The height of the last block.
    #[graphql(name = "toHeight")]
    async fn last_height(&self) -> Result<i32, ApiError> {
        int(self.0.to.to_u32())
    }

    /// The median time past of the first block.
    #[graphql(name = "fromTime")]
    async fn first_time(&self) -> DateTime {
        DateTime::from_unix(self.0.first.median_time)
    }

    /// The median time past of the last block.
    #[graphql(name = "toTime")]
    async fn last_time(&self) -> DateTime {
        DateTime::from_unix(self.0.last.median_time)
    }

    /// How many blocks there are.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.0.blocks())
    }

    /// How many transactions they hold, coinbases among them.
    async fn tx_count(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.transactions)
    }

    /// How many inputs their transactions have, those of coinbases not counted.
    async fn input_count(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.inputs)
    }

    /// How many outputs they create, those that can never be spent among them.
    async fn output_count(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.outputs)
    }

    /// The sum of these outputs, in satoshis. It has no upper bound, because coins are paid on again and again.
    async fn output_value(&self) -> Result<BigInt, ApiError> {
        Ok(self.0.sum(|running| running.output_value)?.into())
    }

    /// The sum of the fees, in satoshis. It has no upper bound, because a miner can pay as a fee what was a fee before.
    async fn fees(&self) -> Result<BigInt, ApiError> {
        Ok(u128::from(self.0.sum(|running| running.fees)?).into())
    }

    /// The sum of the subsidies, in satoshis, claimed or not.
    async fn subsidy(&self) -> Result<Sats, ApiError> {
        Sats::new(self.0.sum(|running| running.subsidy)?)
    }

    /// The size of the blocks, in bytes.
    async fn size(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.size)
    }

    /// The weight of the blocks, in weight units.
    async fn weight(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.weight)
    }

    /// The expected number of hashes to find these blocks; 256 bits, big-endian.
    async fn chainwork(&self) -> Result<Hex, ApiError> {
        Ok(Hex::new(self.0.work()?.to_be_bytes()))
    }

    /// The sum of the difficulties of these blocks, from their chainwork.
    async fn difficulty_sum(&self) -> Result<f64, ApiError> {
        Ok(difficulty_of_work(self.0.work()?))
    }

    /// The mean time from block to block, in seconds. Null if no time passed.
    async fn average_interval(&self) -> Option<Result<f64, ApiError>> {
        rate(&self.0, Span::seconds_per_block)
    }

    /// How many hashes a second it took to find these blocks in their time. Null if no time passed.
    async fn hashrate(&self) -> Option<Result<f64, ApiError>> {
        rate(&self.0, Span::hashrate)
    }

    /// Transactions a second, coinbases among them. Null if no time passed.
    async fn tps(&self) -> Option<Result<f64, ApiError>> {
        rate(&self.0, Span::transactions_per_second)
    }

    /// By how many outputs the UTXO set grew; negative if it shrank.
    async fn utxo_delta(&self) -> Result<Int53, ApiError> {
        Int53::new(self.0.utxo_delta()?)
    }

    /// How many of the blocks hold nothing but a coinbase.
    async fn empty_blocks(&self) -> Result<i32, ApiError> {
        int(self.0.sum(|running| running.empty_blocks)?)
    }

    /// The sum of the fees divided by the size of the blocks, in satoshis per vbyte: a quarter of their whole weight,
    /// headers and coinbases included. So it is a little lower than the averages of the blocks, which leave these out.
    async fn average_fee_rate(&self) -> Result<f64, ApiError> {
        let (fees, weight) = (self.0.sum(|running| running.fees)?, self.0.sum(|running| running.weight)?);
        // no block is without weight
        Ok(to_f64(fees) * 4.0 / to_f64(weight.max(1)))
    }
}
