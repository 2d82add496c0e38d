use async_graphql::SimpleObject;
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;

use super::block_header::merkle_root;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{BlockHash, Hash256, Hex, int};
use crate::view;

/// A proof that a block contains a transaction, verifiable with only the headers of the chain (BIP37 calls it a merkle
/// branch).
///
/// To verify it, start with the txid. For each hash of `merkleBranch`, append the hash to the current value if the lowest bit
/// of `position` is 0, or prepend it if the bit is 1; replace the value by the double SHA-256 of the result, and drop
/// the bit. The result must equal `root`, which is in the header. Hash in protocol byte order; the hashes here are
/// displayed reversed.
#[derive(Clone, Debug, SimpleObject)]
#[graphql(name = "MerkleProof")]
pub(crate) struct MerkleProofObject {
    /// The hash of the block.
    block_hash: BlockHash,
    /// The height of the block.
    height: i32,
    /// The index of the transaction in the block, from 0 for the coinbase.
    position: i32,
    /// The sibling hashes on the path from the txid to the root, leaf level first, in display (reversed) byte order.
    /// Empty if the transaction is the only one in its block. At most as many as the block has levels of pairs, 14 or fewer.
    #[graphql(complexity = "costs::list(costs::MERKLE_BRANCH, 0)")]
    merkle_branch: Vec<Hash256>,
    /// The merkle root of the header, in display (reversed) byte order.
    root: Hash256,
    /// The 80 bytes of the header.
    header_hex: Hex,
}

impl FieldCacheability for MerkleProofObject {
    const IMMUTABLE: &'static str = "blockHash height position merkleBranch root headerHex";
}

impl MerkleProofObject {
    pub(crate) fn new(proof: &view::MerkleProof) -> Result<Self, ApiError> {
        Ok(Self {
            block_hash: BlockHash(proof.block.row.hash),
            height: int(proof.block.height.to_u32())?,
            position: int(proof.index)?,
            merkle_branch: proof.branch.iter().map(|node| Hash256::new(node.to_byte_array())).collect(),
            root: merkle_root(&proof.block.row.header),
            header_hex: Hex::new(serialize(&proof.block.row.header)),
        })
    }
}
