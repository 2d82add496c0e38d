//! The effective feerates of the transactions of a block, and which of them stand ahead of better-paying ones.
//!
//! A block has clusters as the mempool has: transactions that spend one another. Each is ordered and split into chunks in the
//! same way ([`linearise`](super::linearise)), from the block alone: what the mempool contained then does not matter.

use bitcoin::Txid;

use super::FeeFraction;
use super::linearise::{Member, chunks, chunks_in_order};
use crate::chain::wide;

/// The most steps of ordering one cluster: spends that lead from a transaction to an ancestor, followed for each transaction. One of
/// 64 transactions, which nodes relay at most (Bitcoin Core, `policy/policy.h`, version 31), takes fewer, however many of them spend
/// each other; old blocks have larger ones.
const MOST_STEPS: u64 = 200_000;

/// A transaction of a block that pays a fee, as miners order it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinedTransaction {
    /// Its txid.
    pub txid: Txid,
    /// Its fee in sat.
    pub fee: u64,
    /// The weight by which it is ordered ([`policy_weight`](crate::chain::policy_weight)), in weight units.
    pub policy_weight: u64,
    /// The transactions of the block that it spends, by their places in the list; each precedes it.
    pub parents: Vec<usize>,
}

/// The transactions of a block without the coinbase, and their clusters.
pub struct MinedClusters<'t> {
    transactions: &'t [MinedTransaction],
    clusters: Vec<Cluster>,
}

/// Several transactions that are connected.
struct Cluster {
    /// Their places, in block order.
    members: Vec<usize>,
    /// The steps of ordering them; `None` beyond [`MOST_STEPS`].
    steps: Option<u64>,
}

impl<'t> MinedClusters<'t> {
    /// Finds the clusters of these transactions, which are in block order.
    #[must_use]
    pub fn of(transactions: &'t [MinedTransaction]) -> Self {
        // a forest in which each tree is a cluster, and its root the first member
        let mut roots: Vec<usize> = (0..transactions.len()).collect();
        for (place, transaction) in transactions.iter().enumerate() {
            for parent in &transaction.parents {
                let (one, other) = (root(&mut roots, place), root(&mut roots, *parent));
                roots[one.max(other)] = one.min(other);
            }
        }
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); transactions.len()];
        for place in 0..transactions.len() {
            let root = root(&mut roots, place);
            members[root].push(place);
        }
        let clusters = members.into_iter().filter(|members| members.len() > 1);
        let mut seen = vec![0; transactions.len()];
        let counted = |members: Vec<usize>| {
            let steps = steps(transactions, &members, &mut seen);
            Cluster { members, steps }
        };
        Self { transactions, clusters: clusters.map(counted).collect() }
    }

    /// The steps of ordering all clusters, which are most of the work of [`feerates`](Self::feerates).
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.clusters.iter().map(|cluster| cluster.steps.unwrap_or(wide(cluster.members.len()))).sum()
    }

    /// The effective feerate of each transaction: that of its chunk. A cluster that takes too many steps to order has the order
    /// of the block, which is that of a miner who orders as we do.
    #[must_use]
    pub fn feerates(&self) -> Vec<FeeFraction> {
        let own = |transaction: &MinedTransaction| FeeFraction::new(transaction.fee, transaction.policy_weight);
        let mut feerates: Vec<_> = self.transactions.iter().map(own).collect();
        for cluster in &self.clusters {
            let places = &cluster.members;
            let within = |parent: &usize| places.binary_search(parent).ok();
            let members = places.iter().filter_map(|place| {
                let transaction = self.transactions.get(*place)?;
                let MinedTransaction { txid, fee, policy_weight, parents } = transaction;
                let parents = parents.iter().filter_map(within).collect();
                Some(Member { txid: *txid, fee: *fee, weight: *policy_weight, sequence: wide(*place), parents })
            });
            let members: Vec<_> = members.collect();
            for chunk in if cluster.steps.is_none() { chunks_in_order(&members) } else { chunks(&members) } {
                for place in chunk.members.iter().filter_map(|member| places.get(*member)) {
                    if let Some(feerate) = feerates.get_mut(*place) {
                        *feerate = chunk.rate();
                    }
                }
            }
        }
        feerates
    }
}

/// The spends that lead from these transactions to their ancestors, followed for each of them; `None` beyond [`MOST_STEPS`]. `seen`
/// has, for each transaction of the block, one more than the place of the last member that led to it, and 0 at first.
fn steps(transactions: &[MinedTransaction], members: &[usize], seen: &mut [usize]) -> Option<u64> {
    let (mut steps, mut waiting) = (0_u64, Vec::new());
    for place in members {
        waiting.push(*place);
        while let Some(next) = waiting.pop() {
            for parent in transactions.get(next).map(|transaction| transaction.parents.as_slice()).unwrap_or_default() {
                steps += 1;
                if steps > MOST_STEPS {
                    return None;
                }
                if seen[*parent] != place + 1 {
                    seen[*parent] = place + 1;
                    waiting.push(*parent);
                }
            }
        }
    }
    Some(steps)
}

/// The root of the tree with this place, which becomes flat on the way.
fn root(roots: &mut [usize], place: usize) -> usize {
    let mut at = place;
    while roots[at] != at {
        roots[at] = roots[roots[at]];
        at = roots[at];
    }
    at
}

/// The places of feerates that stand ahead of higher ones, in a list that falls but for few.
///
/// The longest part of the list that never rises is taken for its order. A feerate outside of that part stands ahead if the
/// next one behind it that belongs to the part is higher.
#[must_use]
pub fn ahead_of_better(feerates: &[FeeFraction]) -> Vec<usize> {
    // for each length, the place of the highest feerate that a part of this length can end with
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(feerates.len());
    for (place, feerate) in feerates.iter().enumerate() {
        let length = ends.partition_point(|end| feerates[*end] >= *feerate);
        before.push(length.checked_sub(1).map(|length| ends[length]));
        if length == ends.len() { ends.push(place) } else { ends[length] = place }
    }
    let mut in_order = vec![false; feerates.len()];
    let mut at = ends.last().copied();
    while let Some(place) = at {
        in_order[place] = true;
        at = before[place];
    }
    let (mut next, mut ahead) = (None, Vec::new());
    for place in (0..feerates.len()).rev() {
        if in_order[place] {
            next = Some(feerates[place]);
        } else if next.is_some_and(|next| next > feerates[place]) {
            ahead.push(place);
        }
    }
    ahead.reverse();
    ahead
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    fn transaction(number: u8, fee: u64, parents: &[usize]) -> MinedTransaction {
        MinedTransaction {
            txid: Txid::from_byte_array([number; 32]),
            fee,
            policy_weight: 400,
            parents: parents.to_vec(),
        }
    }

    fn feerates(transactions: &[MinedTransaction]) -> Vec<f64> {
        MinedClusters::of(transactions).feerates().into_iter().map(FeeFraction::to_sat_per_vb).collect()
    }

    #[test]
    fn a_child_pays_for_its_parents_and_no_parent_for_a_child() {
        // alone; a cheap parent of a dear child; a dear parent of a cheap child
        let block = [
            transaction(1, 500, &[]),
            transaction(2, 100, &[]),
            transaction(3, 700, &[1]),
            transaction(4, 900, &[]),
            transaction(5, 200, &[3]),
        ];
        assert_eq!(feerates(&block), [5.0, 4.0, 4.0, 9.0, 2.0]);
    }

    #[test]
    fn clusters_that_a_later_transaction_connects_are_one() {
        // two parents of one child, which pays for both
        let block =
            [transaction(1, 100, &[]), transaction(2, 200, &[]), transaction(3, 900, &[0, 1]), transaction(4, 1, &[2])];
        assert_eq!(feerates(&block), [4.0, 4.0, 4.0, 0.01]);
        assert_eq!(MinedClusters::of(&block).steps(), 2 + 3);
        assert_eq!(MinedClusters::of(&block[..2]).steps(), 0);
        assert_eq!(feerates(&[]), Vec::<f64>::new());
    }

    fn numbered(number: usize, fee: u64, parents: &[usize]) -> MinedTransaction {
        let mut txid = [7; 32];
        txid[..8].copy_from_slice(&number.to_be_bytes());
        MinedTransaction { txid: Txid::from_byte_array(txid), fee, policy_weight: 400, parents: parents.to_vec() }
    }

    #[test]
    fn the_last_of_a_thousand_children_may_pay_for_the_parent() {
        let fee = |number| if number == 1_000 { 49_900 } else { 500 };
        let children = (1..=1_000).map(|number| numbered(number, fee(number), &[0]));
        let block: Vec<_> = std::iter::once(numbered(0, 100, &[])).chain(children).collect();
        assert_eq!(MinedClusters::of(&block).steps(), 1_000);
        let mut expected = vec![5.0; 1_001];
        (expected[0], expected[1_000]) = (250.0, 250.0);
        assert_eq!(feerates(&block), expected);
    }

    #[test]
    fn a_cluster_that_is_too_large_to_order_has_the_order_of_the_block() {
        // each spends the one in front of it, so that there is no other order
        for (count, is_ordered) in [(600, true), (700, false)] {
            let fee = |number: usize| u64::try_from(number * 7_919 % 1_009).unwrap();
            let parent = |number: usize| number.checked_sub(1).into_iter().collect::<Vec<_>>();
            let block: Vec<_> = (0..count).map(|number| numbered(number, fee(number), &parent(number))).collect();
            let clusters = MinedClusters::of(&block);
            assert_eq!(clusters.clusters[0].steps.is_some(), is_ordered);
            let steps = if is_ordered { count * (count - 1) / 2 } else { count };
            assert_eq!(clusters.steps(), wide(steps));
            let found = clusters.feerates();
            assert!(found.is_sorted_by(|one, other| one >= other), "the feerates of chunks fall");
            for chunk in block.iter().zip(&found).collect::<Vec<_>>().chunk_by(|one, other| one.1 == other.1) {
                let paid: Vec<_> = chunk.iter().map(|(transaction, _)| transaction.fee).collect();
                let mean = |part: &[u64]| FeeFraction::new(part.iter().sum(), 400 * wide(part.len()));
                assert_eq!(mean(&paid), *chunk[0].1);
                assert!((1..paid.len()).all(|end| mean(&paid[..end]) <= mean(&paid)), "no beginning pays more");
            }
        }
    }

    #[test]
    fn what_stands_ahead_of_better_paying_ones_is_found() {
        let ahead = |feerates: &[u64]| {
            let feerates: Vec<_> = feerates.iter().map(|fee| FeeFraction::new(*fee, 4)).collect();
            ahead_of_better(&feerates)
        };
        for (feerates, expected) in [
            (&[][..], &[][..]),
            (&[5], &[]),
            (&[9, 8, 8, 5, 1], &[]),
            (&[9, 1, 8, 5], &[1]),
            (&[1, 9, 8, 2, 5, 4], &[0, 3]),
            // one that pays more than those around it was not put ahead of anything
            (&[9, 8, 20, 7, 6], &[]),
            (&[9, 8, 3, 2, 7, 6, 5], &[2, 3]),
        ] {
            assert_eq!(ahead(feerates), expected, "{feerates:?}");
        }
    }
}
