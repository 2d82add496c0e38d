use std::sync::Arc;

use async_graphql::Object;

use super::script_type_count::ScriptTypeCount;
use crate::api::costs;
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Sats, int, int_of};
use crate::api::types::spend::figures::in_coin_days;
use crate::chain::ScriptType;
use crate::view::{self, BlockRange, IndexError, View};

/// What a block moves.
pub(crate) struct BlockStats {
    view: Arc<View>,
    block: Arc<view::Block>,
}

impl BlockStats {
    pub(crate) fn of(view: &Arc<View>, block: &Arc<view::Block>) -> Self {
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
                    output_count: int_of(count)?,
                    total_value: Sats::of_sum(value),
                });
            }
        }
        Ok(Some(created))
    }
}

impl FieldCacheability for BlockStats {
    const IMMUTABLE: &'static str = "inputCount outputCount totalInputValue totalOutputValue segwitTxCount segwitSize \
        segwitWeight taprootOutputCount opReturnCount opReturnBytes utxoDelta coinDaysDestroyed outputsByType";
}

/// Totals of the inputs, outputs and sizes of a block.
#[Object]
impl BlockStats {
    /// The number of inputs, without the coinbase input.
    async fn input_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.inputs)
    }

    /// The number of outputs, including coinbase outputs and unspendable outputs.
    async fn output_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.outputs)
    }

    /// The sum of the outputs that the block spends, in satoshis. Null above 2^53 - 1, as for `totalOutputValue`.
    async fn total_input_value(&self) -> Option<Sats> {
        Sats::of_sum(self.block.row.input_value)
    }

    /// The sum of the outputs that the block creates, in satoshis, including coinbase outputs. Null above 2^53 - 1, four
    /// times all coins there can be: only a block that moves the same coins through many transactions exceeds it.
    async fn total_output_value(&self) -> Option<Sats> {
        Sats::of_sum(self.block.row.output_value)
    }

    /// The number of transactions with a witness, without the coinbase.
    async fn segwit_tx_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.segwit_transactions)
    }

    /// The size of the transactions with a witness, in bytes, without the coinbase.
    async fn segwit_size(&self) -> Result<i32, ApiError> {
        int(self.block.row.segwit_size)
    }

    /// The weight of the transactions with a witness, in weight units, without the coinbase.
    async fn segwit_weight(&self) -> Result<i32, ApiError> {
        int(self.block.row.segwit_weight)
    }

    /// The number of P2TR outputs.
    async fn taproot_output_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.taproot_outputs)
    }

    /// The number of outputs whose script starts with OP_RETURN.
    async fn op_return_count(&self) -> Result<i32, ApiError> {
        int(self.block.row.op_return_outputs)
    }

    /// The total size of the scripts that start with OP_RETURN, in bytes.
    async fn op_return_bytes(&self) -> Result<i32, ApiError> {
        int(self.block.row.op_return_bytes)
    }

    /// The change in the number of outputs in the UTXO set; negative if it shrank. Unspendable outputs are not counted.
    /// Null for a stale block whose previous block is no longer stored.
    async fn utxo_delta(&self) -> Option<Result<i32, ApiError>> {
        self.utxos_added().transpose()
    }

    /// Coin days destroyed: the sum over the spent outputs of their value in bitcoin times their age in days. Ages are
    /// differences of median time past.
    async fn coin_days_destroyed(&self) -> Option<f64> {
        Some(in_coin_days(self.block.row.coin_age))
    }

    /// The outputs that the block creates, by script type, including coinbase outputs and unspendable outputs. Types
    /// without outputs are omitted. Null for a stale block whose previous block is no longer stored.
    #[graphql(complexity = "costs::list(ScriptType::ALL.len(), child_complexity)")]
    async fn outputs_by_type(&self) -> Option<Result<List<ScriptTypeCount>, ApiError>> {
        Some(self.created_by_type().transpose()?.map(List))
    }
}
