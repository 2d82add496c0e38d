use async_graphql::SimpleObject;

use crate::api::scalars::{BigInt, UInt53};
use crate::api::types::enums::ScriptTypeEnum;

/// The number and total value of the outputs of one script type.
#[derive(Clone, Debug, SimpleObject)]
pub(crate) struct ScriptTypeCount {
    /// The script type.
    #[graphql(name = "type")]
    pub(crate) script_type: ScriptTypeEnum,
    /// The number of outputs.
    pub(crate) count: UInt53,
    /// The sum of their values, in satoshis. The sum is unbounded because the same coins can move many times.
    pub(crate) value: BigInt,
}
