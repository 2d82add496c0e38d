use async_graphql::Object;

use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BigInt, int};
use crate::view::MinerTotals;

/// The totals of a miner's blocks.
pub(crate) struct MinerTotalsObject(pub(crate) MinerTotals);

impl FieldCacheability for MinerTotalsObject {
    const UNTIL_NEXT_HEAD: &'static str = "blockCount emptyBlockCount fees reward";
}

/// Totals over main chain blocks that are ascribed to a mining pool, or to none.
#[Object(name = "MinerTotals")]
impl MinerTotalsObject {
    /// The number of blocks.
    async fn block_count(&self) -> Result<i32, ApiError> {
        int(self.0.blocks)
    }

    /// The number of blocks with only a coinbase.
    async fn empty_block_count(&self) -> Result<i32, ApiError> {
        int(self.0.empty_blocks)
    }

    /// The sum of the fees of the transactions in the blocks, in satoshis.
    async fn fees(&self) -> BigInt {
        u128::from(self.0.fees).into()
    }

    /// The sum of the coinbase outputs of the blocks, in satoshis: what the miner claimed of subsidies and fees.
    async fn reward(&self) -> BigInt {
        u128::from(self.0.reward).into()
    }
}
