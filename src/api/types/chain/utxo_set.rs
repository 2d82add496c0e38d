use std::sync::Arc;

use async_graphql::{Object, SimpleObject};

use crate::api::costs;
use crate::api::engine::{self as async_graphql, List};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Sats, UInt53, int};
use crate::api::types::enums::ScriptTypeEnum;
use crate::chain::{Height, ScriptType};
use crate::view::{BlockRow, unspent_by_type};

/// The UTXO set right after a block of the main chain.
pub(crate) struct UtxoSetObject {
    height: Height,
    last: Arc<BlockRow>,
}

/// The unspent outputs of one script type.
#[derive(Clone, Debug, SimpleObject)]
pub(crate) struct UtxoTypeCount {
    /// The script type.
    #[graphql(name = "type")]
    script_type: ScriptTypeEnum,
    /// The number of unspent outputs.
    unspent_count: UInt53,
    /// The sum of their values, in satoshis.
    total_value: Sats,
}

impl FieldCacheability for UtxoTypeCount {
    const IMMUTABLE: &'static str = "type unspentCount totalValue";
}

impl UtxoSetObject {
    /// That of a chain whose last block is this, at `height`.
    pub(super) fn after(height: Height, last: Arc<BlockRow>) -> Self {
        Self { height, last }
    }
}

impl FieldCacheability for UtxoSetObject {
    const IMMUTABLE: &'static str = "height unspentCount totalValue byType";
}

/// The UTXO set right after a block: all outputs that were created up to and including that block, not spent, and not
/// unspendable. The node's `gettxoutsetinfo` counts the same.
#[Object(name = "UtxoSet")]
impl UtxoSetObject {
    /// The height of the block.
    async fn height(&self) -> Result<i32, ApiError> {
        int(self.height.to_u32())
    }

    /// The number of unspent outputs.
    async fn unspent_count(&self) -> Result<UInt53, ApiError> {
        UInt53::new(self.last.running.utxo_count)
    }

    /// The sum of their values, in satoshis: `Supply.circulating`.
    async fn total_value(&self) -> Result<Sats, ApiError> {
        Sats::new(self.last.running.utxo_value)
    }

    /// The unspent outputs by script type. Types without any are omitted.
    #[graphql(complexity = "costs::list(ScriptType::ALL.len(), child_complexity)")]
    async fn by_type(&self) -> Result<List<UtxoTypeCount>, ApiError> {
        let mut found = Vec::new();
        for (script_type, unspent) in
            unspent_by_type(&self.last.running)?.into_iter().filter(|(_, unspent)| unspent.count > 0)
        {
            let value = Sats::of_sum(unspent.value);
            found.push(UtxoTypeCount {
                script_type: script_type.into(),
                unspent_count: UInt53::new(unspent.count)?,
                total_value: value.ok_or_else(|| ApiError::internal("unspent outputs exceed all coins"))?,
            });
        }
        Ok(found.into())
    }
}
