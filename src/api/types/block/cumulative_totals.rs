use async_graphql::Object;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BigInt, UInt53};
use crate::view::ChainTotals;

/// Totals of a chain up to and including a block.
pub(crate) struct CumulativeTotals(ChainTotals);

impl CumulativeTotals {
    pub(crate) fn of(running: &ChainTotals) -> Self {
        Self(running.clone())
    }
}

impl FieldCacheability for CumulativeTotals {
    const IMMUTABLE: &'static str =
        "txCount inputCount outputCount outputValue fees subsidy unspendable size weight utxoCount";
}

/// Totals of a chain from the genesis block up to and including a block. For a stale block, the totals of its own
/// chain.
#[Object]
impl CumulativeTotals {
    /// The number of transactions, coinbases included.
    async fn tx_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.transactions)
    }

    /// The number of inputs, without coinbase inputs.
    async fn input_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.inputs)
    }

    /// The number of outputs created, including unspendable ones.
    async fn output_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.outputs)
    }

    /// The sum of all outputs, in satoshis. The sum is unbounded because the same coins can move many times.
    async fn output_value(&self) -> BigInt {
        self.0.output_value.into()
    }

    /// The sum of all fees, in satoshis. The sum is unbounded because a miner can spend claimed fees as a fee again.
    async fn fees(&self) -> BigInt {
        u128::from(self.0.fees).into()
    }

    /// The sum of all subsidies, in satoshis, whether claimed or not.
    async fn subsidy(&self) -> BigInt {
        u128::from(self.0.subsidy).into()
    }

    /// The coins that can never be spent, in satoshis. `Chain.supply` lists them by reason.
    async fn unspendable(&self) -> Result<BigInt, ApiError> {
        let unspendable = self.0.unspendable.total();
        let unspendable =
            unspendable.ok_or_else(|| ApiError::internal("the unspendable coins exceed the coin supply"))?;
        Ok(u128::from(unspendable).into())
    }

    /// The total size of the blocks, in bytes, witnesses included.
    async fn size(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.size)
    }

    /// The total weight of the blocks, in weight units.
    async fn weight(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.weight)
    }

    /// The number of unspent outputs right after the block.
    async fn utxo_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.utxo_count)
    }
}
