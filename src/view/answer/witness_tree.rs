//! The tree over the wtxids of a block, kept for an answer.

use bitcoin::TxMerkleNode;

use crate::chain::merkle::MerkleTree;

/// The tree over the wtxids of a block whose coinbase commits to it, and what leads from its root to the header.
pub(in crate::view) struct WitnessTree {
    pub(in crate::view) tree: MerkleTree,
    pub(in crate::view) root: TxMerkleNode,
    pub(in crate::view) reserved_value: [u8; 32],
    pub(in crate::view) commitment: [u8; 32],
    pub(in crate::view) coinbase: Vec<u8>,
    pub(in crate::view) coinbase_branch: Vec<TxMerkleNode>,
}
