use async_graphql::Object;

use super::error::ApiError;
use super::scalars::{BigInt, Sats, UInt53};
use crate::view::Running;

/// Totals of a chain up to and including a block.
pub(super) struct CumulativeStats(Running);

impl CumulativeStats {
    pub(super) fn of(running: &Running) -> Self {
        Self(running.clone())
    }
}

/// Totals of a chain from the genesis block up to and including a block; those of a stale block are of its own chain.
#[Object]
impl CumulativeStats {
    /// How many transactions there are, coinbases among them.
    async fn tx_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.transactions)
    }

    /// How many inputs there are, those of coinbases not counted.
    async fn input_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.inputs)
    }

    /// How many outputs were created, those that can never be spent among them.
    async fn output_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.outputs)
    }

    /// The sum of all outputs, in satoshis. It has no upper bound, because coins are paid on again and again.
    async fn output_value(&self) -> BigInt {
        self.0.output_value.into()
    }

    /// The sum of all fees, in satoshis. It has no upper bound, because a miner can pay as a fee what was a fee before.
    async fn fees(&self) -> BigInt {
        u128::from(self.0.fees).into()
    }

    /// The sum of all subsidies, in satoshis, claimed or not.
    async fn subsidy(&self) -> Result<Sats, ApiError> {
        Sats::new(self.0.subsidy)
    }

    /// The coins that can never be spent, in satoshis; `Chain.supply` tells them apart.
    async fn unspendable(&self) -> Result<Sats, ApiError> {
        let unspendable = self.0.unspendable.total();
        Sats::new(unspendable.ok_or_else(|| ApiError::internal("more coins cannot be spent than there can be"))?)
    }

    /// The size of all blocks, in bytes, witnesses included.
    async fn size(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.size)
    }

    /// The weight of all blocks, in weight units.
    async fn weight(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.weight)
    }

    /// How many outputs are unspent right after the block.
    async fn utxo_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.0.utxo_count)
    }
}
