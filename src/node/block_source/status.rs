//! How blocks are read, and why so.

use std::fmt;

use crate::node::node::Node;

/// How blocks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSourceKind {
    /// From the node's block files.
    BlockFiles,
    /// By REST, binary, over several connections.
    Rest,
    /// By RPC, as hexadecimal JSON.
    Rpc,
}

/// How blocks are read, and why so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSourceStatus {
    /// How.
    pub kind: BlockSourceKind,
    /// The directory of the block files, or why they are not read.
    pub(super) detail: String,
}

impl BlockSourceStatus {
    /// The source that is left when the block files cannot be read for this reason.
    pub(super) fn from_node(node: &Node, reason: String) -> Self {
        let kind = if node.supports_rest() { BlockSourceKind::Rest } else { BlockSourceKind::Rpc };
        Self { kind, detail: reason }
    }
}

impl fmt::Display for BlockSourceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            BlockSourceKind::BlockFiles => return write!(f, "block files in {}", self.detail),
            BlockSourceKind::Rest => "REST",
            BlockSourceKind::Rpc => "RPC, as the node serves no REST (rest=1)",
        };
        write!(f, "{name}: {}", self.detail)
    }
}
