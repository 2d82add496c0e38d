//! Selection of the transactions of the next block by ancestor feerate.
//!
//! As Core's `BlockAssembler::addPackageTxs` (`node/miner.cpp`) before cluster mempool: repeatedly, the transaction of
//! the highest ancestor feerate is added together with its ancestors that are not in the block yet, and their
//! descendants are evaluated anew, without them.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

use bitcoin::{Txid, Weight};

use super::super::chain::MAX_BLOCK_SIGOPS_COST;
use super::entry::{PackageSums, SimMempoolEntry};
use super::sim_mempool::SimMempool;

/// The signature operations that are reserved for the coinbase.
const COINBASE_SIGOPS_COST: usize = 400;
/// After this many transactions in a row that do not fit, the block counts as full.
const MAX_FAILURES: u32 = 1_000;

/// A transaction with fee and size of it and of its ancestors outside of the block. The greatest is selected first.
struct PackageCandidate {
    txid: Txid,
    with_ancestors: PackageSums,
    /// Fee and virtual size of the lower of its own feerate and that with its ancestors.
    fee: u64,
    vsize: u64,
}

impl PackageCandidate {
    fn new(entry: &SimMempoolEntry, with_ancestors: PackageSums) -> Self {
        let (own, all) = ((entry.fee.to_sat(), entry.vsize), (with_ancestors.fee.to_sat(), with_ancestors.vsize));
        let (fee, vsize) = if compare_rates(own, all) == Ordering::Less { own } else { all };
        PackageCandidate { txid: entry.txid, with_ancestors, fee, vsize }
    }
}

impl Ord for PackageCandidate {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_rates((self.fee, self.vsize), (other.fee, other.vsize)).then_with(|| other.txid.cmp(&self.txid))
    }
}

impl PartialOrd for PackageCandidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PackageCandidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PackageCandidate {}

/// Compares feerates given as fee and size.
fn compare_rates(left: (u64, u64), right: (u64, u64)) -> Ordering {
    (u128::from(left.0) * u128::from(right.1)).cmp(&(u128::from(right.0) * u128::from(left.1)))
}

impl SimMempool {
    /// The transactions of the best block of at most this weight without its coinbase, each after what it spends.
    #[must_use]
    pub fn select(&self, max_weight: Weight) -> Vec<Txid> {
        let mut heap: BinaryHeap<PackageCandidate> =
            self.entries.values().map(|entry| PackageCandidate::new(entry, entry.ancestors)).collect();
        // The sums of ancestors outside of the block, for transactions that have ancestors in the block.
        let mut left: HashMap<Txid, PackageSums> = HashMap::new();
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
            let mut affected = BTreeSet::new();
            for member in &package {
                for descendant in self.descendants(&member.txid) {
                    let Some(entry) = self.entries.get(&descendant).filter(|_| !taken.contains(&descendant)) else {
                        continue;
                    };
                    left.entry(descendant).or_insert(entry.ancestors).take(member.sums());
                    affected.insert(descendant);
                }
            }
            let affected = affected.iter().filter_map(|txid| Some((self.entries.get(txid)?, left.get(txid)?)));
            heap.extend(affected.map(|(entry, sums)| PackageCandidate::new(entry, *sums)));
            block.extend(package.iter().map(|entry| entry.txid));
        }
        block
    }

    /// A transaction after those of its ancestors that are not selected yet. Those with fewer ancestors come first, so
    /// that each comes after its parents.
    fn package(&self, entry: &SimMempoolEntry, taken: &HashSet<Txid>) -> Vec<&SimMempoolEntry> {
        let mut package: Vec<&SimMempoolEntry> = self
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
