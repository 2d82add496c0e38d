use async_graphql::SimpleObject;

use crate::api::engine as async_graphql;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Sats;
use crate::api::types::enums::ScriptTypeEnum;

/// The number and total value of the outputs of one script type.
#[derive(Clone, Debug, SimpleObject)]
pub(crate) struct ScriptTypeCount {
    /// The script type.
    #[graphql(name = "type")]
    pub(crate) script_type: ScriptTypeEnum,
    /// The number of outputs.
    pub(crate) output_count: i32,
    /// The sum of their values, in satoshis. Null above 2^53 - 1, as for `BlockStats.totalOutputValue`.
    pub(crate) total_value: Option<Sats>,
}

impl FieldCacheability for ScriptTypeCount {
    const IMMUTABLE: &'static str = "type outputCount totalValue";
}
