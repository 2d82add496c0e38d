//! The errors that interrupt or end the loop.

use bitcoin::BlockHash;

use crate::chain::Height;
use crate::index::{DiskShortage, IndexError};
use crate::node::NodeError;

/// Why following the node failed.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The node does not answer, or cannot serve the index.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The index cannot store what the node sends.
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
    /// The node has only a part of the chain of the index, and no other block.
    #[error(
        "the node is at height {node} of the chain that the index has up to height {index}. \
         Wait until the node has caught up (its -reindex, or its first download, is under way?), or follow another \
         node; to go back with this one, remove the index and import again"
    )]
    NodeBehind {
        /// The height up to which the node agrees.
        node: Height,
        /// The height of the index.
        index: Height,
    },
    /// The node's chain lacks a block that was announced and that a crash removed from the index.
    #[error(
        "the node is at height {node} and does not have the block at height {announced}, which was announced before a \
         crash removed it from the index: no query is answered until the node has this block or another one at its \
         height, or considers it invalid, or until sync.lost_block_seconds have passed"
    )]
    Awaited {
        /// The height of the node.
        node: Height,
        /// The height of the block.
        announced: Height,
    },
    /// The disk of the index has too little space for the next blocks. What was imported so far is stored.
    #[error("{0}; the import goes on where it stopped when it is started again")]
    DiskShortage(DiskShortage),
    /// The setting asks to store the bytes of frozen blocks in a node that deletes them.
    #[error(
        "index.raw_transactions is `node`, but the node prunes and would delete the bytes of frozen blocks. Set it to `index`, \
         with which btcgraph stores copies of them, or follow a node that does not prune"
    )]
    NodePrunes,
    /// An empty index needs blocks that the node has deleted.
    #[error(
        "the index is empty and needs all blocks, and the node has pruned those below height {kept_from}. Import from a node \
         that has them; afterwards a node that prunes can be followed"
    )]
    BlocksPruned {
        /// The lowest height from which the node has all blocks.
        kept_from: Height,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for reading blocks: {0}. Raise the limit of threads for this user")]
    Threads(#[source] std::io::Error),
}

impl SyncError {
    /// Whether a retry may succeed: the node is unreachable, busy or behind the index, or its chain changed between
    /// requests; or a part of the index cannot be fetched now.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Node(NodeError::BlockNotFound { .. }) | Self::NodeBehind { .. } | Self::Awaited { .. } => true,
            Self::Node(error) => error.is_transient(),
            Self::Index(error) => error.is_transient(),
            Self::ForeignChain { .. }
            | Self::DiskShortage(_)
            | Self::NodePrunes
            | Self::BlocksPruned { .. }
            | Self::Threads(_) => false,
        }
    }

    /// Whether a part of the index that is not on this machine yet cannot be fetched now.
    pub(super) fn is_unfetched(&self) -> bool {
        matches!(self, Self::Index(IndexError::Unfetched(_)))
    }

    /// Whether the only cause is that the service stops.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Node(NodeError::Stopped))
    }
}
