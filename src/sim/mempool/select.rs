//! The transactions of the next block: the best by what they pay together with all that they stand on.
//!
//! As Core's `BlockAssembler::addPackageTxs` (`node/miner.cpp`) of the versions without clusters: again and again the
//! transaction of the highest feerate with ancestors is taken together with those ancestors that are not in the
//! block yet, and what stands on them is valued anew, without them.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use bitcoin::{Txid, Weight};

use super::super::chain::MAX_BLOCK_SIGOPS_COST;
use super::{Entry, Mempool, Sums};

/// What is kept free for the coinbase.
const COINBASE_SIGOPS_COST: usize = 400;
/// After so many transactions in a row that did not fit, the block counts as full.
const MAX_FAILURES: u32 = 1_000;

/// A transaction and what it and its ancestors outside of the block pay and weigh. The greatest is taken first.
struct Candidate {
    txid: Txid,
    with_ancestors: Sums,
    /// Fee and virtual size of the lower of its own feerate and that with its ancestors.
    fee: u64,
    vsize: u64,
}

impl Candidate {
    fn new(entry: &Entry, with_ancestors: Sums) -> Self {
        let (own, all) = ((entry.fee.to_sat(), entry.vsize), (with_ancestors.fee.to_sat(), with_ancestors.vsize));
        let (fee, vsize) = if compare_rates(own, all) == Ordering::Less { own } else { all };
        Candidate { txid: entry.txid, with_ancestors, fee, vsize }
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_rates((self.fee, self.vsize), (other.fee, other.vsize)).then_with(|| other.txid.cmp(&self.txid))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// Compares feerates given as fee and size.
fn compare_rates(left: (u64, u64), right: (u64, u64)) -> Ordering {
    (u128::from(left.0) * u128::from(right.1)).cmp(&(u128::from(right.0) * u128::from(left.1)))
}

impl Mempool {
    /// The transactions of the best block of at most this weight without its coinbase, each after what it spends.
    #[must_use]
    pub fn select(&self, max_weight: Weight) -> Vec<Txid> {
        let mut heap: BinaryHeap<Candidate> =
            self.entries.values().map(|entry| Candidate::new(entry, entry.ancestors)).collect();
        // What transactions outside of the block have for ancestors outside of the block, where that is not all.
        let mut left: HashMap<Txid, Sums> = HashMap::new();
        let mut taken = HashSet::new();
        let mut block = Vec::new();
        let (mut weight, mut sigops, mut failures) = (Weight::ZERO, 0, 0);
        while let Some(candidate) = heap.pop() {
            let Some(entry) = self.entries.get(&candidate.txid) else { continue };
            let current = left.get(&entry.txid).unwrap_or(&entry.ancestors);
            if taken.contains(&entry.txid) || *current != candidate.with_ancestors {
                continue;
            }
            let package = self.package(entry, &taken);
            let package_weight: Weight = package.iter().map(|entry| entry.weight).sum();
            let package_sigops: usize = package.iter().map(|entry| entry.sigops).sum();
            if weight + package_weight > max_weight
                || sigops + package_sigops > MAX_BLOCK_SIGOPS_COST - COINBASE_SIGOPS_COST
            {
                failures += 1;
                if failures > MAX_FAILURES {
                    break;
                }
                continue;
            }
            failures = 0;
            weight += package_weight;
            sigops += package_sigops;
            taken.extend(package.iter().map(|entry| entry.txid));
            let mut touched = BTreeSet::new();
            for member in &package {
                for descendant in self.descendants(&member.txid) {
                    let Some(entry) = self.entries.get(&descendant).filter(|_| !taken.contains(&descendant)) else {
                        continue;
                    };
                    left.entry(descendant).or_insert(entry.ancestors).take(member.sums());
                    touched.insert(descendant);
                }
            }
            let touched = touched.iter().filter_map(|txid| Some((self.entries.get(txid)?, left.get(txid)?)));
            heap.extend(touched.map(|(entry, sums)| Candidate::new(entry, *sums)));
            block.extend(package.iter().map(|entry| entry.txid));
        }
        block
    }

    /// A transaction after those of its ancestors that are not taken yet. What has fewer ancestors comes first, so that
    /// each comes after what it spends.
    fn package(&self, entry: &Entry, taken: &HashSet<Txid>) -> Vec<&Entry> {
        let mut package: Vec<&Entry> = self
            .ancestors(&entry.txid)
            .iter()
            .filter(|txid| !taken.contains(*txid))
            .filter_map(|txid| self.entries.get(txid))
            .chain(self.entries.get(&entry.txid))
            .collect();
        package.sort_unstable_by_key(|entry| (entry.ancestors.count, entry.txid));
        package
    }
}
