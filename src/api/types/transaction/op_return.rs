use async_graphql::SimpleObject;

use crate::api::costs;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Hex;

/// The data of an OP_RETURN output.
#[derive(Clone, Debug, PartialEq, Eq, SimpleObject)]
pub(crate) struct OpReturn {
    /// The bytes after the OP_RETURN opcode as they are in the script, including push opcodes.
    payload: Hex,
    /// The data of each push, up to the end of the script or the first truncated push.
    #[graphql(complexity = "costs::few(child_complexity)")]
    pushes: Vec<Hex>,
    /// The data of all pushes, concatenated: what `opReturns(prefix:)` looks at.
    data: Hex,
    /// `data` as text. Null if it is not valid UTF-8, or if there are no pushes. The
    /// author of the transaction controls it: display it as text, never as markup.
    utf8: Option<String>,
}

impl FieldCacheability for OpReturn {
    const IMMUTABLE: &'static str = "payload pushes data utf8";
}

impl OpReturn {
    pub(crate) fn new(payload: &[u8], pushes: &[&[u8]]) -> Self {
        Self {
            payload: Hex::new(payload),
            pushes: pushes.iter().map(|push| Hex::new(*push)).collect(),
            data: Hex::new(pushes.concat()),
            utf8: String::from_utf8(pushes.concat()).ok().filter(|text| !text.is_empty()),
        }
    }
}
