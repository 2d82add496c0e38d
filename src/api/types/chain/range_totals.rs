use async_graphql::Object;

use super::script_type_totals::ScriptTypeTotals;
use crate::api::costs;
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BigInt, DateTime, Hex, Int53, Sats, UInt53, int};
use crate::api::types::spend::figures::in_coin_days;
use crate::chain::ScriptType;
use crate::chain::difficulty::difficulty_of_work;
use crate::chain::float::to_f64;
use crate::view::{BlockRange, ChainTotals, Span};

/// The sums over a range of blocks.
pub(crate) struct RangeTotals(pub(crate) BlockRange);

impl RangeTotals {
    fn counter(&self, total: impl Fn(&ChainTotals) -> u64) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.sum(total)?)
    }

    fn mean_fee(&self) -> Result<Option<Sats>, ApiError> {
        let paying = self.0.sum(|running| running.transactions)?.saturating_sub(self.0.blocks().into());
        self.0.sum(|running| running.fees)?.checked_div(paying).map(Sats::new).transpose()
    }
}

/// A rate over the time that a range took; nothing if no time passed.
fn rate(range: &BlockRange, of: impl Fn(&Span) -> f64) -> Option<Result<f64, ApiError>> {
    let span = range.span().map_err(ApiError::from).transpose()?;
    Some(span.map(|span| of(&span)))
}

impl FieldCacheability for RangeTotals {
    const IMMUTABLE: &'static str = "fromHeight toHeight startedAt endedAt blockCount txCount inputCount outputCount \
        outputValue fees subsidy size weight chainwork difficultySum averageInterval hashrate txPerSecond utxoDelta \
        emptyBlockCount averageFee averageFeeRate inputValue segwitTxCount segwitSize segwitWeight taprootOutputCount \
        opReturnCount opReturnBytes coinDaysDestroyed totalsByType averageFeeRatePercentiles";
}

/// Totals of a range of main chain blocks. Rates use the time from the median time past of the block before the range
/// to that of the last block. The genesis block was not mined when its header says, on some networks years before block 1: a
/// range that starts at either is timed from block 1, which then does not count as found in that time.
#[Object]
impl RangeTotals {
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
    async fn started_at(&self) -> DateTime {
        DateTime::from_unix(self.0.started_at)
    }

    /// The median time past of the last block.
    async fn ended_at(&self) -> DateTime {
        DateTime::from_unix(self.0.last.median_time)
    }

    /// The number of blocks.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.0.blocks())
    }

    /// The number of transactions, coinbases included.
    async fn tx_count(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.transactions)
    }

    /// The number of inputs, without coinbase inputs.
    async fn input_count(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.inputs)
    }

    /// The number of outputs created, including unspendable ones.
    async fn output_count(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.outputs)
    }

    /// The sum of the outputs created, in satoshis. The sum is unbounded because the same coins can move many times.
    async fn output_value(&self) -> Result<BigInt, ApiError> {
        Ok(self.0.sum(|running| running.output_value)?.into())
    }

    /// The sum of the fees, in satoshis. The sum is unbounded because a miner can spend claimed fees as a fee again.
    async fn fees(&self) -> Result<BigInt, ApiError> {
        Ok(u128::from(self.0.sum(|running| running.fees)?).into())
    }

    /// The mean fee of the transactions without coinbases, in satoshis, rounded down. Null if there are none.
    async fn average_fee(&self) -> Option<Result<Sats, ApiError>> {
        self.mean_fee().transpose()
    }

    /// The sum of the subsidies, in satoshis, whether claimed or not.
    async fn subsidy(&self) -> Result<BigInt, ApiError> {
        Ok(u128::from(self.0.sum(|running| running.subsidy)?).into())
    }

    /// The total size of the blocks, in bytes.
    async fn size(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.size)
    }

    /// The total weight of the blocks, in weight units.
    async fn weight(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.weight)
    }

    /// The expected number of hashes to find these blocks: 256 bits, big-endian.
    async fn chainwork(&self) -> Result<Hex, ApiError> {
        Ok(Hex::new(self.0.work()?.to_be_bytes()))
    }

    /// The sum of the blocks' difficulties, computed from their chainwork.
    async fn difficulty_sum(&self) -> Result<f64, ApiError> {
        Ok(difficulty_of_work(self.0.work()?))
    }

    /// The mean time between blocks, in seconds. Null if no time passed.
    async fn average_interval(&self) -> Option<Result<f64, ApiError>> {
        rate(&self.0, Span::seconds_per_block)
    }

    /// The hashrate estimated from these blocks, in hashes per second: their work, by the time between the median times past of
    /// their ends (BIP113), which never goes back. `getnetworkhashps` of a node takes the timestamps of the headers, so its figure
    /// differs, most for few blocks. Null if no time passed.
    async fn hashrate(&self) -> Option<Result<f64, ApiError>> {
        rate(&self.0, Span::hashrate)
    }

    /// Transactions per second, coinbases included. Null if no time passed.
    async fn tx_per_second(&self) -> Option<Result<f64, ApiError>> {
        rate(&self.0, Span::transactions_per_second)
    }

    /// The change in the number of outputs in the UTXO set; negative if it shrank.
    async fn utxo_delta(&self) -> Result<Int53, ApiError> {
        Int53::new(self.0.utxo_delta()?)
    }

    /// The sum of the outputs spent, in satoshis. The sum is unbounded because the same coins can move many times.
    async fn input_value(&self) -> Result<BigInt, ApiError> {
        Ok(self.0.sum(|running| running.input_value)?.into())
    }

    /// The number of transactions with a witness, without coinbases.
    async fn segwit_tx_count(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.segwit_transactions)
    }

    /// The total size of the transactions with a witness, in bytes, without coinbases.
    async fn segwit_size(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.segwit_size)
    }

    /// The total weight of the transactions with a witness, in weight units, without coinbases.
    async fn segwit_weight(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.segwit_weight)
    }

    /// The number of P2TR outputs created.
    async fn taproot_output_count(&self) -> Result<UInt53, ApiError> {
        self.counter(ChainTotals::taproot_outputs)
    }

    /// The number of outputs created whose script starts with OP_RETURN.
    async fn op_return_count(&self) -> Result<UInt53, ApiError> {
        self.counter(ChainTotals::op_return_outputs)
    }

    /// The total size of the scripts that start with OP_RETURN, in bytes.
    async fn op_return_bytes(&self) -> Result<UInt53, ApiError> {
        self.counter(|running| running.op_return_bytes)
    }

    /// Coin days destroyed: the sum over the spent outputs of their value in bitcoin times their age in days. Ages are
    /// differences of median time past.
    async fn coin_days_destroyed(&self) -> Result<f64, ApiError> {
        Ok(in_coin_days(self.0.sum(|running| running.coin_age)?))
    }

    /// The outputs created and spent by script type. Types without any are omitted.
    #[graphql(complexity = "costs::list(ScriptType::ALL.len(), child_complexity)")]
    async fn totals_by_type(&self) -> Result<List<ScriptTypeTotals>, ApiError> {
        ScriptTypeTotals::of(&self.0).map(List)
    }

    /// The means over the blocks of `Block.feeStats.feeRatePercentiles`: of the feerates at 0, 10, 25, 50, 75, 90 and 100
    /// percent of the weight of each block, in sat/vB. Each block counts once, whatever its weight, and blocks with only a
    /// coinbase do not count; so these are not the percentiles of all transactions together. Null if all blocks have only a
    /// coinbase.
    #[graphql(complexity = "costs::list(costs::PERCENTILES, 0)")]
    async fn average_fee_rate_percentiles(&self) -> Option<Result<List<f64>, ApiError>> {
        let means = self.0.mean_feerate_quantiles().map_err(ApiError::from).transpose()?;
        Some(means.map(|means| means.map(|sat_per_kvb| sat_per_kvb / 1_000.0).to_vec().into()))
    }

    /// The number of blocks with only a coinbase.
    async fn empty_block_count(&self) -> Result<i32, ApiError> {
        int(self.0.sum(|running| running.empty_blocks)?)
    }

    /// The sum of the fees divided by the size of the transactions that pay them, in sat/vB, not rounded, as
    /// `BlockFeeStats.averageFeeRate` of one block. The size is a quarter of the weight of all transactions except coinbases.
    /// Null if all blocks have only a coinbase.
    async fn average_fee_rate(&self) -> Option<Result<f64, ApiError>> {
        let sums = || Ok((self.0.sum(|running| running.fees)?, self.0.sum(|running| running.paying_weight)?));
        match sums() {
            Ok((_, 0)) => None,
            Ok((fees, weight)) => Some(Ok(to_f64(fees) * 4.0 / to_f64(weight))),
            Err(error) => Some(Err(error)),
        }
    }
}
