use async_graphql::SimpleObject;

use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BigInt, UInt53};
use crate::api::types::enums::ScriptTypeEnum;
use crate::view::BlockRange;

/// The outputs of one script type that a range of blocks created and spent. The UTXO set has `createdCount` minus
/// `spentCount` minus `unspendableCount` more of them after the range than before it.
#[derive(Clone, Debug, SimpleObject)]
pub(crate) struct ScriptTypeTotals {
    /// The script type.
    #[graphql(name = "type")]
    script_type: ScriptTypeEnum,
    /// The number of outputs created, including unspendable ones.
    created_count: UInt53,
    /// The sum of their values, in satoshis.
    created_value: BigInt,
    /// The number of outputs spent.
    spent_count: UInt53,
    /// The sum of their values, in satoshis.
    spent_value: BigInt,
    /// The number of outputs that can never be spent: those whose script starts with OP_RETURN or is longer than 10,000
    /// bytes, and the genesis coinbase, where they are created; and unspent outputs that a later transaction with the same
    /// txid overwrote (BIP30), where that happened.
    unspendable_count: UInt53,
    /// The sum of their values, in satoshis.
    unspendable_value: BigInt,
}

impl FieldCacheability for ScriptTypeTotals {
    const IMMUTABLE: &'static str =
        "type createdCount createdValue spentCount spentValue unspendableCount unspendableValue";
}

impl ScriptTypeTotals {
    /// Those of the types that the blocks create, spend or make unspendable.
    pub(super) fn of(range: &BlockRange) -> Result<Vec<Self>, ApiError> {
        let mut found = Vec::new();
        for (script_type, totals) in range.by_type()? {
            let (created, spent, unspendable) = (totals.created, totals.spent, totals.unspendable);
            if created.count == 0 && spent.count == 0 && unspendable.count == 0 {
                continue;
            }
            found.push(Self {
                script_type: script_type.into(),
                created_count: UInt53::new(created.count)?,
                created_value: created.value.into(),
                spent_count: UInt53::new(spent.count)?,
                spent_value: spent.value.into(),
                unspendable_count: UInt53::new(unspendable.count)?,
                unspendable_value: unspendable.value.into(),
            });
        }
        Ok(found)
    }
}
