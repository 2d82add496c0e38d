use async_graphql::SimpleObject;
use bitcoin::hashes::Hash;

use super::merkle_proof::MerkleProofObject;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hash256, Hex, int};
use crate::view;

/// A proof that a block contains a transaction with its witness, which a proof of its txid says nothing about (BIP141).
///
/// To verify it, compute `witnessRoot` from the wtxid, `merkleBranch` and `position` as for a `MerkleProof`; then the double
/// SHA-256 of the root and `reservedValue` must be `commitment`, an output script of the coinbase must be `6a24aa21a9ed` and
/// the commitment (the last such output counts), and `coinbaseProof` must prove the double SHA-256 of `coinbaseHex`, the txid
/// of the coinbase.
#[derive(Clone, Debug, SimpleObject)]
#[graphql(name = "WtxidProof")]
pub(crate) struct WtxidProofObject {
    /// The index of the transaction in the block, from 0 for the coinbase.
    position: i32,
    /// The sibling hashes on the path from the wtxid to the root, leaf level first, in display (reversed) byte order. The
    /// coinbase counts as 32 zero bytes. At most as many as the block has levels of pairs, 14 or fewer.
    #[graphql(complexity = "costs::list(costs::MERKLE_BRANCH, 0)")]
    merkle_branch: Vec<Hash256>,
    /// The merkle root over the wtxids of the block, in display (reversed) byte order.
    witness_root: Hash256,
    /// The 32 bytes in the witness of the coinbase that are hashed with the root.
    reserved_value: Hex,
    /// The commitment in the coinbase, in the byte order of the script.
    commitment: Hex,
    /// The coinbase, serialised without its witness.
    coinbase_hex: Hex,
    /// The proof that the block contains the coinbase.
    coinbase_proof: MerkleProofObject,
}

impl FieldCacheability for WtxidProofObject {
    const IMMUTABLE: &'static str =
        "position merkleBranch witnessRoot reservedValue commitment coinbaseHex coinbaseProof";
}

impl WtxidProofObject {
    pub(crate) fn new(proof: view::WtxidProof) -> Result<Self, ApiError> {
        Ok(Self {
            position: int(proof.index)?,
            merkle_branch: proof.branch.iter().map(|node| Hash256::new(node.to_byte_array())).collect(),
            witness_root: Hash256::new(proof.witness_root.to_byte_array()),
            reserved_value: Hex::new(proof.reserved_value),
            commitment: Hex::new(proof.commitment),
            coinbase_hex: Hex::new(proof.coinbase),
            coinbase_proof: MerkleProofObject::new(&proof.coinbase_proof)?,
        })
    }
}
