use std::sync::Arc;

use async_graphql::Object;

use super::error::ApiError;
use super::scalars::{BigInt, UInt53, int};
use super::script_type_count::ScriptTypeCount;
use crate::chain::ScriptType;
use crate::chain::float::to_f64;
use crate::view::{self, BlockRange, IndexError, View};

const SECONDS_A_DAY: f64 = 86_400.0;
const SAT_A_BITCOIN: f64 = 100_000_000.0;

/// What a block moves.
pub(super) struct BlockStats {
    view: Arc<View>,
    block: Arc<view::Block>,
}

impl BlockStats {
    pub(super) fn of(view: &Arc<View>, block: &Arc<view::Block>) -> Self {
        Self { view: view.clone(), block: block.clone() }
    }

    /// The block as a range of one, to compare its running totals with those in front of it; `None` if the block that it
    /// stands on is not kept.
    fn alone(&self) -> Result<Option<BlockRange>, IndexError> {
        self.view.range_of_one(&self.block)
    }

    fn utxos_added(&self) -> Result<Option<i32>, ApiError> {
        let Some(alone) = self.alone()? else { return Ok(None) };
        let delta = i32::try_from(alone.utxo_delta()?);
        delta.map(Some).map_err(|_| ApiError::internal("a block has more outputs than fit into it"))
    }

    fn created_by_type(&self) -> Result<Option<Vec<ScriptTypeCount>>, ApiError> {
        let Some(alone) = self.alone()? else { return Ok(None) };
        let mut created = Vec::new();
        for script_type in ScriptType::ALL {
            let count = alone.sum(|running| running.types[script_type.index()].created.count)?;
            let value = alone.sum(|running| running.types[script_type.index()].created.value)?;
            if count > 0 {
                created.push(ScriptTypeCount {
                    script_type: script_type.into(),
                    count: UInt53::new(count)?,
                    value: BigInt::from(value),
                });
            }
        }
        Ok(Some(created))
    }
}

/// Inputs, outputs and sizes of a block, added up. What sums the values of many outputs is a BigInt: the same coins can
/// be paid on from transaction to transaction within a block, so that no amount of coins bounds the sum.
#[Object]
impl BlockStats {
    /// How many inputs its transactions have, the coinbase's not counted.
    async fn input_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.inputs)
    }

    /// How many outputs its transactions have, the coinbase's and those that can never be spent among them.
    async fn output_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.outputs)
    }

    /// The sum of the outputs that it spends, in satoshis.
    async fn input_value(&self) -> BigInt {
        self.block.row.input_value.into()
    }

    /// The sum of the outputs that it creates, in satoshis, the coinbase's among them.
    async fn output_value(&self) -> BigInt {
        self.block.row.output_value.into()
    }

    /// How many of its transactions have a witness, the coinbase not counted.
    async fn segwit_tx_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.segwit_transactions)
    }

    /// The size of the transactions with a witness, in bytes, the coinbase not counted.
    async fn segwit_size(&self) -> Result<i32, ApiError> {
        int(self.block.row.segwit_size)
    }

    /// The weight of the transactions with a witness, in weight units, the coinbase not counted.
    async fn segwit_weight(&self) -> Result<i32, ApiError> {
        int(self.block.row.segwit_weight)
    }

    /// How many of its outputs are P2TR.
    async fn taproot_output_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.taproot_outputs)
    }

    /// How many of its outputs have a script that starts with OP_RETURN.
    async fn op_return_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.op_return_outputs)
    }

    /// The size of these scripts, in bytes.
    async fn op_return_bytes(&self) -> Result<i32, ApiError> {
        int(self.block.row.op_return_bytes)
    }

    /// By how many outputs the UTXO set grew; negative if it shrank. Outputs that can never be spent do not enter it.
    /// Null for a stale block whose previous block is not kept.
    async fn utxo_delta(&self) -> Option<Result<i32, ApiError>> {
        self.utxos_added().transpose()
    }

    /// The age of the coins that it spends, in bitcoin times days: how long each had rested, by median time past.
    async fn coin_days_destroyed(&self) -> Option<f64> {
        Some(to_f64(self.block.row.coin_age) / SAT_A_BITCOIN / SECONDS_A_DAY)
    }

    /// The outputs that it creates by their script type, the coinbase's and those that can never be spent among them;
    /// types that it creates none of are left out. Null for a stale block whose previous block is not kept.
    async fn outputs_by_type(&self) -> Option<Result<Vec<ScriptTypeCount>, ApiError>> {
        self.created_by_type().transpose()
    }
}
