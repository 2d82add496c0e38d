//! The merkle tree over a block's transactions: its root, and the branch that proves one transaction to it.
//!
//! Each level pairs its hashes in order; a last one without a partner is paired with itself (Core
//! `consensus/merkle.cpp`). That is why a list that repeats its tail has the same root as the list itself, so the
//! number of transactions does not follow from the root alone.

use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{TxMerkleNode, Txid};

/// The merkle root of a block's transactions, by their txids or wtxids in block order. `None` if there are no transactions.
#[must_use]
pub fn root<H: Copy + Into<sha256d::Hash>>(txids: &[H]) -> Option<TxMerkleNode> {
    let mut level = leaves(txids);
    while level.len() > 1 {
        level = level_above(&level);
    }
    level.first().copied()
}

/// The merkle tree over a block's transactions, for the branches of many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MerkleTree {
    /// The leaves first. The last level has one hash, the root; without transactions there are no levels.
    levels: Vec<Vec<TxMerkleNode>>,
}

impl MerkleTree {
    /// The tree over these txids or wtxids in block order.
    #[must_use]
    pub fn of<H: Copy + Into<sha256d::Hash>>(txids: &[H]) -> Self {
        let mut levels = Vec::new();
        let mut level = leaves(txids);
        while level.len() > 1 {
            let above = level_above(&level);
            levels.push(std::mem::replace(&mut level, above));
        }
        if !level.is_empty() {
            levels.push(level);
        }
        Self { levels }
    }

    /// The root, `None` without transactions.
    #[must_use]
    pub fn root(&self) -> Option<TxMerkleNode> {
        self.levels.last()?.first().copied()
    }

    /// The merkle branch of the transaction at `position` in the block: the partner of its hash on each level, leaves
    /// first. Empty for the only transaction of a block, `None` if there is no such position.
    #[must_use]
    pub fn branch(&self, position: usize) -> Option<Vec<TxMerkleNode>> {
        let (leaves, mut position) = (self.levels.first()?, position);
        if position >= leaves.len() {
            return None;
        }
        let (_, below_root) = self.levels.split_last()?;
        let partner = |level: &Vec<TxMerkleNode>| {
            let partner = level.get(position ^ 1).or_else(|| level.get(position)).copied();
            position /= 2;
            partner
        };
        below_root.iter().map(partner).collect()
    }

    /// The partial merkle tree that proves the transaction at `position` (BIP37), serialised: the number of transactions, the
    /// hashes on the way to it and the flags of the nodes that are visited, from the root down and the left first. `None` if
    /// there is no such position.
    #[must_use]
    pub fn partial(&self, position: usize) -> Option<Vec<u8>> {
        let count = self.levels.first()?.len();
        let (mut hashes, mut flags) = (Vec::new(), Vec::new());
        if position >= count {
            return None;
        }
        let mut waiting = vec![(self.levels.len() - 1, 0)];
        while let Some((level, at)) = waiting.pop() {
            let leads_there = position >> level == at;
            flags.push(leads_there);
            if level == 0 || !leads_there {
                hashes.push(*self.levels.get(level)?.get(at)?);
                continue;
            }
            let below = self.levels.get(level - 1)?.len();
            let children = [2 * at + 1, 2 * at].into_iter().filter(|child| *child < below);
            waiting.extend(children.map(|child| (level - 1, child)));
        }
        let flags: Vec<u8> =
            flags.chunks(8).map(|bits| bits.iter().rfold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect();
        Some([serialize(&u32::try_from(count).ok()?), serialize(&hashes), serialize(&flags)].concat())
    }
}

/// The merkle root that a branch leads to from the transaction at `position` in the block.
///
/// `None` if the branch cannot be one of that position: it is too short to reach it, or the hash would be its own
/// partner from the right, which claims one of the repetitions at the end of a level for a transaction.
#[must_use]
pub fn root_from_branch(txid: Txid, position: usize, branch: &[TxMerkleNode]) -> Option<TxMerkleNode> {
    let (mut node, mut position) = (TxMerkleNode::from_raw_hash(txid.to_raw_hash()), position);
    for partner in branch {
        let is_right = position % 2 == 1;
        if is_right && *partner == node {
            return None;
        }
        node = if is_right { parent(*partner, node) } else { parent(node, *partner) };
        position /= 2;
    }
    (position == 0).then_some(node)
}

fn leaves<H: Copy + Into<sha256d::Hash>>(txids: &[H]) -> Vec<TxMerkleNode> {
    txids.iter().map(|txid| TxMerkleNode::from_raw_hash((*txid).into())).collect()
}

fn level_above(level: &[TxMerkleNode]) -> Vec<TxMerkleNode> {
    level.chunks(2).map(|pair| parent(pair[0], *pair.get(1).unwrap_or(&pair[0]))).collect()
}

fn parent(left: TxMerkleNode, right: TxMerkleNode) -> TxMerkleNode {
    let mut children = [0; 64];
    children[..32].copy_from_slice(left.as_byte_array());
    children[32..].copy_from_slice(right.as_byte_array());
    TxMerkleNode::hash(&children)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::network;
    use crate::chain::test_data::shared_data;

    fn txids(count: u32) -> Vec<Txid> {
        (0..count).map(|number| Txid::hash(&number.to_be_bytes())).collect()
    }

    #[test]
    fn no_transactions_have_no_root() {
        assert_eq!(root::<Txid>(&[]), None);
        assert_eq!((MerkleTree::of::<Txid>(&[]).root(), MerkleTree::of::<Txid>(&[]).branch(0)), (None, None));
    }

    #[test]
    fn the_root_of_one_transaction_is_its_txid() {
        for block in network::ALL.map(network::genesis_block) {
            let coinbase = block.txdata[0].compute_txid();
            assert_eq!(root(&[coinbase]), Some(block.header.merkle_root));
            assert_eq!(MerkleTree::of(&[coinbase]).branch(0), Some(vec![]));
            assert_eq!(root_from_branch(coinbase, 0, &[]), Some(block.header.merkle_root));
        }
    }

    #[test]
    fn a_hash_without_partner_is_its_own() {
        let [one, two, three] = txids(3).try_into().unwrap();
        assert_eq!(root(&[one, two, three]), root(&[one, two, three, three]));
        assert_ne!(root(&[one, two, three]), root(&[one, two]));
    }

    #[test]
    fn the_repetition_at_the_end_of_a_level_proves_no_transaction() {
        let three = txids(3);
        let of_third = MerkleTree::of(&three).branch(2).unwrap();
        assert_eq!(root_from_branch(three[2], 2, &of_third), root(&three));
        assert_eq!(root_from_branch(three[2], 3, &of_third), None);
    }

    #[test]
    fn a_branch_too_short_for_its_position_leads_nowhere() {
        let four = txids(4);
        let of_last = MerkleTree::of(&four).branch(3).unwrap();
        assert_eq!(root_from_branch(four[3], 3, &of_last[..1]), None);
        assert_eq!(root_from_branch(four[3], 7, &of_last), None);
        assert_eq!(MerkleTree::of(&four).branch(4), None);
    }

    #[test]
    fn real_blocks_have_the_roots_their_headers_name() {
        let name = "real_blocks_have_the_roots_their_headers_name";
        for chain in ["mainnet-0-4521", "signet-0-120", "regtest-kernel-0-206"] {
            let Some(blocks) = shared_data::chain(chain, name) else { return };
            for block in blocks {
                let txids: Vec<Txid> = block.txdata.iter().map(bitcoin::Transaction::compute_txid).collect();
                assert_eq!(root(&txids), Some(block.header.merkle_root), "{}", block.block_hash());
            }
        }
    }

    #[test]
    fn every_transaction_of_a_real_block_is_proved_by_its_branch() {
        for name in shared_data::FULL_BLOCKS {
            let Some(mut block) =
                shared_data::full_block(name, "every_transaction_of_a_real_block_is_proved_by_its_branch")
            else {
                return;
            };
            let txids: Vec<Txid> = block.transactions.iter().map(bitcoin::Transaction::compute_txid).collect();
            block.header.merkle_root = root(&txids).unwrap();
            assert_eq!(block.header.block_hash(), block.hash, "only the right root gives the block its hash");
            let tree = MerkleTree::of(&txids);
            for (position, txid) in txids.iter().enumerate() {
                let branch = tree.branch(position).unwrap();
                assert_eq!(root_from_branch(*txid, position, &branch), root(&txids), "{position} of {name}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_branch_leads_to_the_root_from_its_own_position_only(
            count in 1_u32..70, at: prop::sample::Index, other: prop::sample::Index,
        ) {
            let txids = txids(count);
            let (at, other) = (at.index(txids.len()), other.index(txids.len()));
            let tree = MerkleTree::of(&txids);
            prop_assert_eq!(tree.root(), root(&txids));
            let branch = tree.branch(at).unwrap();
            let leads_there = |txid, position| root_from_branch(txid, position, &branch) == root(&txids);
            prop_assert!(leads_there(txids[at], at));
            prop_assert_eq!(leads_there(txids[other], at), other == at);
            prop_assert_eq!(leads_there(txids[at], other), other == at);
        }

        #[test]
        fn the_partial_tree_is_the_one_that_rust_bitcoin_builds(count in 1_u32..70, at: prop::sample::Index) {
            let txids = txids(count);
            let at = at.index(txids.len());
            let matches: Vec<bool> = (0..txids.len()).map(|place| place == at).collect();
            let theirs = bitcoin::merkle_tree::PartialMerkleTree::from_txids(&txids, &matches);
            let tree = MerkleTree::of(&txids);
            prop_assert_eq!(tree.partial(at), Some(serialize(&theirs)));
            prop_assert_eq!(tree.partial(txids.len()), None);
        }

        #[test]
        fn the_root_is_the_one_that_rust_bitcoin_computes(count in 1_u32..70) {
            let txids = txids(count);
            let theirs = bitcoin::merkle_tree::calculate_root(txids.iter().copied());
            prop_assert_eq!(root(&txids).map(TxMerkleNode::to_raw_hash), theirs.map(Txid::to_raw_hash));
        }
    }
}
