//! The witness commitment of a block (BIP141). Its merkle root covers all of a block but the witnesses.

use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{Wtxid, merkle_tree};

use super::block::{BlockTransaction, ParsedBlock};
use crate::chain::raw::RawTransaction;

/// Whether the coinbase commits to all witnesses of the block (BIP141). The merkle root does not cover them, so that
/// this alone finds a damaged one. A block without witnesses needs no commitment.
pub(super) fn witnesses_are_committed(block: &ParsedBlock) -> bool {
    if !block.transactions.iter().any(|transaction| transaction.facts.has_witness) {
        return true;
    }
    let raw = |transaction: &BlockTransaction| RawTransaction::parse_whole(block.raw(transaction)).ok();
    let transactions: Option<Vec<_>> = block.transactions.iter().map(raw).collect();
    transactions.is_some_and(|transactions| commits_to_witnesses(&transactions))
}

/// Whether the coinbase, which is the first of a block's transactions, commits to all their witnesses.
pub(super) fn commits_to_witnesses(transactions: &[RawTransaction<'_>]) -> bool {
    let Some((coinbase, others)) = transactions.split_first() else { return false };
    let commitment =
        coinbase.outputs().map(|output| output.script_pubkey).filter(|script| is_commitment(script)).last();
    let (Some(commitment), [Some(reserved)]) =
        (commitment, &*coinbase.witnesses().map(|stack| one_item(&stack)).collect::<Vec<_>>())
    else {
        return false;
    };
    // the coinbase, whose own witness is the reserved value, counts as zero
    let wtxids = std::iter::once(Wtxid::all_zeros()).chain(others.iter().map(RawTransaction::wtxid));
    let root = merkle_tree::calculate_root(wtxids.map(Wtxid::to_raw_hash));
    root.is_some_and(|root| {
        let hash = sha256d::Hash::hash(&[*root.as_byte_array(), **reserved].concat());
        commitment[6..38] == hash.as_byte_array()[..]
    })
}

/// OP_RETURN, a push of 36 bytes, and the four bytes that a commitment begins with (BIP141).
fn is_commitment(script_pubkey: &[u8]) -> bool {
    script_pubkey.len() >= 38 && script_pubkey.starts_with(&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed])
}

/// The only item of a witness, if it is one of 32 bytes.
fn one_item<'w>(stack: &[&'w [u8]]) -> Option<&'w [u8; 32]> {
    if let [item] = *stack { item.try_into().ok() } else { None }
}
