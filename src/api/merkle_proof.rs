use async_graphql::SimpleObject;
use bitcoin::TxMerkleNode;
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;

use super::block_header::merkle_root;
use super::error::ApiError;
use super::scalars::{BlockHash, Hex, int};
use crate::view;

/// That a block holds a transaction, for whoever has only the headers of the chain (BIP37 calls it a merkle branch).
///
/// To check it: begin with the txid, and for each hash of `branch` put it behind what there is if the lowest bit of
/// `position` is 0, in front of it if that is 1, hash both twice with SHA-256, and drop the bit. All hashes are meant in
/// the byte order of the protocol; here they are written reversed. What remains must be `root`, which stands in the header.
#[derive(Clone, Debug, SimpleObject)]
pub(super) struct MerkleProof {
    /// The hash of the block.
    block_hash: BlockHash,
    /// The height of the block.
    height: i32,
    /// The place of the transaction in the block, 0 for the coinbase.
    position: i32,
    /// The hashes that are paired with it on the way to the root, in display (reversed) byte order, those next to the
    /// transaction first. Empty if it is the only one of its block.
    branch: Vec<Hex>,
    /// The merkle root in the header, in display (reversed) byte order.
    root: Hex,
    /// The 80 bytes of the header.
    header_hex: Hex,
}

impl MerkleProof {
    pub(super) fn new(proof: &view::MerkleProof) -> Result<Self, ApiError> {
        Ok(Self {
            block_hash: BlockHash(proof.block.row.hash),
            height: int(proof.block.height.to_u32())?,
            position: int(proof.index)?,
            branch: proof.branch.iter().map(displayed).collect(),
            root: merkle_root(&proof.block.row.header),
            header_hex: Hex::new(serialize(&proof.block.row.header)),
        })
    }
}

fn displayed(node: &TxMerkleNode) -> Hex {
    let mut bytes = node.to_byte_array();
    bytes.reverse();
    Hex::new(bytes)
}
