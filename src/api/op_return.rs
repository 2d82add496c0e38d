use async_graphql::SimpleObject;

use super::scalars::Hex;

/// What an OP_RETURN output carries.
#[derive(Clone, Debug, PartialEq, Eq, SimpleObject)]
pub(super) struct OpReturn {
    /// The bytes behind the opcode OP_RETURN as they stand in the script, opcodes of pushes among them.
    payload: Hex,
    /// The data of each push, up to where the script ends or is cut short.
    pushes: Vec<Hex>,
    /// The data of all pushes together, as text; null if it is not valid UTF-8, or nothing is pushed. Whoever made the
    /// transaction wrote it: show it as text, never as markup.
    utf8: Option<String>,
}

impl OpReturn {
    pub(super) fn new(payload: &[u8], pushes: &[&[u8]]) -> Self {
        Self {
            payload: Hex::new(payload),
            pushes: pushes.iter().map(|push| Hex::new(*push)).collect(),
            utf8: String::from_utf8(pushes.concat()).ok().filter(|text| !text.is_empty()),
        }
    }
}
