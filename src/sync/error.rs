//! What ends the loop.

use bitcoin::BlockHash;

use crate::chain::Height;
use crate::index::IndexError;
use crate::node::NodeError;

/// Why following the node came to an end.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The node does not answer, or cannot serve the index.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The index cannot take what the node says.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The node's chain has another first block.
    #[error(
        "the node's chain begins with {found}, the index with {expected}: follow the node that the index was made from"
    )]
    ForeignChain {
        /// The node's genesis block.
        found: BlockHash,
        /// The genesis block of the index.
        expected: BlockHash,
    },
    /// The node has only a part of the chain that the index holds, and no other block.
    #[error(
        "the node is at height {node} of the very chain that the index holds up to height {index}, and far behind it. \
         Wait until the node has caught up (its -reindex, or its first download, is under way?), or follow another \
         node; to go back with this one, remove the index and import again"
    )]
    NodeBehind {
        /// The height up to which the node agrees.
        node: Height,
        /// The height of the index.
        index: Height,
    },
    /// The node's chain lacks a block that was announced, and that a crash took out of the index.
    #[error(
        "the node is at height {node}, and has not yet the block at height {announced} that was announced before a crash \
         took it out of the index: nothing is answered until the node has it, or another there, or holds it for invalid, or \
         sync.lost_block_seconds are over"
    )]
    Awaited {
        /// The height of the node.
        node: Height,
        /// The height of the block.
        announced: Height,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for reading blocks: {0}. Raise the limit of threads for this user")]
    Threads(#[source] std::io::Error),
}

impl SyncError {
    /// Whether waiting may help: the node is away or busy or far behind, or its chain moved while it was read.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Node(NodeError::BlockNotFound { .. })
            | Self::Index(IndexError::NotOnTip { .. })
            | Self::NodeBehind { .. }
            | Self::Awaited { .. } => true,
            Self::Node(error) => error.is_transient(),
            Self::Index(_) | Self::ForeignChain { .. } | Self::Threads(_) => false,
        }
    }

    /// Whether this only says that the service is stopping.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Node(NodeError::Stopped))
    }
}
