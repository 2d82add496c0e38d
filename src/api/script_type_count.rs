use async_graphql::SimpleObject;

use super::enums::ScriptType;
use super::scalars::{BigInt, UInt53};

/// How many outputs of one script type there are, and what they hold.
#[derive(Clone, Debug, SimpleObject)]
pub(super) struct ScriptTypeCount {
    /// The script type.
    #[graphql(name = "type")]
    pub(super) script_type: ScriptType,
    /// How many outputs.
    pub(super) count: UInt53,
    /// The sum of their values, in satoshis. It has no upper bound, because the same coins can be paid on many times.
    pub(super) value: BigInt,
}
