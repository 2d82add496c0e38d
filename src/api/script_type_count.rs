use async_graphql::SimpleObject;

use super::enums::ScriptType;
use super::scalars::{BigInt, UInt53};

/// The number and total value of the outputs of one script type.
#[derive(Clone, Debug, SimpleObject)]
pub(super) struct ScriptTypeCount {
    /// The script type.
    #[graphql(name = "type")]
    pub(super) script_type: ScriptType,
    /// The number of outputs.
    pub(super) count: UInt53,
    /// The sum of their values, in satoshis. The sum is unbounded because the same coins can move many times.
    pub(super) value: BigInt,
}
