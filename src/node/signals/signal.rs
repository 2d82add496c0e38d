//! A signal of the node.

use std::time::SystemTime;

use bitcoin::{BlockHash, Txid};

/// Something that happened at the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeSignal {
    /// A block was connected to the active chain. The signals of its conflicts in the mempool precede it; the
    /// transactions that it confirms have no signal.
    BlockConnected(BlockHash),
    /// A block was disconnected from the active chain. The signals of its effects on the mempool follow it.
    BlockDisconnected(BlockHash),
    /// A transaction entered the mempool.
    Added {
        /// The transaction.
        txid: Txid,
        /// The number of this change of the mempool, to compare with [`Node::mempool_list`](crate::node::Node::mempool_list).
        mempool_sequence: u64,
    },
    /// A transaction left the mempool without being confirmed.
    Removed {
        /// The transaction.
        txid: Txid,
        /// The number of this change of the mempool.
        mempool_sequence: u64,
    },
    /// Signals may be missing: the connection is new, messages are missing, or the queue overflowed. Request the
    /// current state from the node and continue from it.
    Lost,
}

impl NodeSignal {
    /// Whether the active chain of the node may be another since.
    #[must_use]
    pub fn may_change_chain(&self) -> bool {
        matches!(self, NodeSignal::BlockConnected(_) | NodeSignal::BlockDisconnected(_) | NodeSignal::Lost)
    }
}

/// A signal and the time of its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// The signal.
    pub signal: NodeSignal,
    /// When this machine received it, however late it is drained.
    pub at: SystemTime,
}
