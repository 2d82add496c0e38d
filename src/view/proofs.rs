//! Proofs that a block of the active chain contains a transaction: by its txid, and by its wtxid.

use std::sync::Arc;

use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{Script, Transaction, TxMerkleNode, Wtxid};

use super::answer::WitnessTree;
use super::{Block, View};
use crate::chain::coinbase;
use crate::chain::merkle::MerkleTree;
use crate::chain::raw::{RawBlock, RawTransaction};
use crate::index::IndexError;

/// Bytes of the value in the witness of a coinbase that is hashed into the commitment (BIP141).
const RESERVED_BYTES: usize = 32;

/// A proof that a block of the active chain contains a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MerkleProof {
    /// The block.
    pub block: Block,
    /// The index of the transaction in it.
    pub index: u32,
    /// The sibling hash on each level, leaves first.
    pub branch: Vec<TxMerkleNode>,
}

/// A proof that a block of the active chain contains a transaction with its witness (BIP141): from its wtxid to the commitment
/// in the coinbase, and from the coinbase to the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WtxidProof {
    /// The index of the transaction in the block.
    pub index: u32,
    /// The sibling hash on each level of the tree of wtxids, leaves first.
    pub branch: Vec<TxMerkleNode>,
    /// The root of the tree of wtxids.
    pub witness_root: TxMerkleNode,
    /// The value in the witness of the coinbase that is hashed with the root.
    pub reserved_value: [u8; RESERVED_BYTES],
    /// The double SHA-256 of root and reserved value, which an output of the coinbase contains.
    pub commitment: [u8; 32],
    /// The coinbase, serialised without its witness.
    pub coinbase: Vec<u8>,
    /// The proof that the block contains the coinbase.
    pub coinbase_proof: MerkleProof,
}

impl View {
    /// The proof that a block contains the transaction with this index. `count` is called before the txids of the block are read,
    /// once for an answer.
    ///
    /// Errors: those of the index and of `count`.
    pub fn merkle_proof<E: From<IndexError>>(
        &self,
        block: Block,
        index: u32,
        count: impl FnOnce() -> Result<(), E>,
    ) -> Result<MerkleProof, E> {
        let tree = self.txid_tree(&block, count)?;
        let branch = at(index, |index| tree.branch(index)).ok_or_else(|| missing(&block, index))?;
        Ok(MerkleProof { block, index, branch })
    }

    /// The same proof in the serialisation of `merkleblock` messages (BIP37), which Core's `gettxoutproof` returns.
    ///
    /// Errors: as of [`View::merkle_proof`].
    pub fn merkle_block<E: From<IndexError>>(
        &self,
        block: &Block,
        index: u32,
        count: impl FnOnce() -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        let tree = self.txid_tree(block, count)?;
        let partial = at(index, |index| tree.partial(index)).ok_or_else(|| missing(block, index))?;
        Ok([serialize(&block.row.header), partial].concat())
    }

    fn txid_tree<E: From<IndexError>>(
        &self,
        block: &Block,
        count: impl FnOnce() -> Result<(), E>,
    ) -> Result<Arc<MerkleTree>, E> {
        self.txid_trees.get_or(block.row.hash, || {
            count()?;
            Ok(MerkleTree::of(&self.txids(block)?))
        })
    }

    /// The proof that a block contains the transaction with this index and its witness. `None` if the coinbase of the block
    /// commits to no witnesses, as before segwit. `count` is called before the transactions of the block are read, once for an answer.
    ///
    /// Errors: those of the index and of `count`.
    pub fn wtxid_proof<E: From<IndexError>>(
        &self,
        block: Block,
        index: u32,
        count: impl FnOnce() -> Result<(), E>,
    ) -> Result<Option<WtxidProof>, E> {
        let read = || {
            count()?;
            Ok::<_, E>(self.witness_tree(&block)?)
        };
        let kept = self.witness_trees.get_or(block.row.hash, read)?;
        let Some(witnesses) = kept.as_ref() else { return Ok(None) };
        let branch = at(index, |index| witnesses.tree.branch(index)).ok_or_else(|| missing(&block, index))?;
        let coinbase_proof = MerkleProof { block, index: 0, branch: witnesses.coinbase_branch.clone() };
        let WitnessTree { root: witness_root, reserved_value, commitment, ref coinbase, .. } = *witnesses;
        let coinbase = coinbase.clone();
        Ok(Some(WtxidProof { index, branch, witness_root, reserved_value, commitment, coinbase, coinbase_proof }))
    }

    /// `None` if the coinbase commits to no witnesses.
    fn witness_tree(&self, block: &Block) -> Result<Option<WitnessTree>, IndexError> {
        let raw = self.raw_block(block)?;
        let parsed = RawBlock::parse(&raw).map_err(|error| {
            IndexError::corrupt("transactions", format!("block {} is no block: {error}", block.row.hash))
        })?;
        let Some((first, rest)) = parsed.transactions.split_first() else { return Err(missing(block, 0)) };
        let outputs = first.outputs().map(|output| Script::from_bytes(output.script_pubkey));
        let Some(commitment) = coinbase::witness_commitment(outputs) else { return Ok(None) };
        let Some([reserved]) = first.witnesses().next().and_then(|items| <[&[u8]; 1]>::try_from(items).ok()) else {
            return Ok(None);
        };
        let Ok(reserved_value) = <[u8; RESERVED_BYTES]>::try_from(reserved) else { return Ok(None) };
        // the coinbase, which contains the root, counts as zeros
        let wtxids: Vec<Wtxid> =
            std::iter::once(Wtxid::all_zeros()).chain(rest.iter().map(RawTransaction::wtxid)).collect();
        let tree = MerkleTree::of(&wtxids);
        let Some(root) = tree.root() else { return Ok(None) };
        let committed = sha256d::Hash::hash(&[*root.as_byte_array(), reserved_value].concat());
        if committed.as_byte_array() != commitment.as_byte_array() {
            // before segwit an output may look like a commitment
            return Ok(None);
        }
        let coinbase: Transaction = bitcoin::consensus::deserialize(first.bytes()).map_err(|error| {
            IndexError::corrupt("transactions", format!("the coinbase of {}: {error}", block.row.hash))
        })?;
        let coinbase = without_witness(coinbase);
        let txids = MerkleTree::of(&self.txids(block)?);
        let coinbase_branch = txids.branch(0).ok_or_else(|| missing(block, 0))?;
        let commitment = commitment.to_byte_array();
        Ok(Some(WitnessTree { tree, root, reserved_value, commitment, coinbase, coinbase_branch }))
    }
}

fn at<T>(index: u32, of: impl FnOnce(usize) -> Option<T>) -> Option<T> {
    usize::try_from(index).ok().and_then(of)
}

fn without_witness(mut transaction: Transaction) -> Vec<u8> {
    for input in &mut transaction.input {
        input.witness.clear();
    }
    serialize(&transaction)
}

fn missing(block: &Block, index: u32) -> IndexError {
    IndexError::corrupt("transactions", format!("block {} has no transaction {index}", block.row.hash))
}
