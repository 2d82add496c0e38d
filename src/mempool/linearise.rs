//! The order in which a miner includes the transactions of a cluster, and the feerates at which it does.
//!
//! A cluster is a set of transactions that are connected by one spending another. Its order is that of Bitcoin Core's
//! `BlockAssembler::addPackageTxs` (`node/miner.cpp`, version 30): repeatedly the transaction with the best score is
//! selected together with its unselected ancestors. The score is the lower of its own feerate and that of this package.
//! The scores of the descendants are then updated without the package. Ties are broken by txid, as in Core
//! (`CompareTxMemPoolEntryByAncestorFee`, `txmempool.h`); sizes are the weights of policy, and comparisons exact.
//!
//! The order is then split into chunks: consecutive packages are merged while the later one has the higher feerate. So
//! the feerates of chunks fall, and the effective feerate of a transaction is that of its chunk.
//!
//! As in Core, selecting a package changes the scores of its descendants at once. A score that rises, because another
//! child paid for a cheap ancestor, is queued again; one that falls is requeued when it is popped. For n transactions with
//! a ancestors and d descendants each, the work is n × (a + d), and as many steps of the queue at most. The node's limits
//! keep a and d small for nearly all; a parent of thousands of children has many descendants once, and each of these few
//! ancestors.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bitcoin::Txid;

use super::FeeFraction;

/// A transaction of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) txid: Txid,
    /// In sat.
    pub(super) fee: u64,
    /// That by which nodes judge it, in weight units.
    pub(super) weight: u64,
    /// The number of its arrival.
    pub(super) sequence: u64,
    /// The indexes of its parents in the list of members.
    pub(super) parents: Vec<usize>,
}

/// Members that are selected together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    /// In sat.
    pub(super) fee: u64,
    /// In weight units.
    pub(super) weight: u64,
    /// The lowest number of arrival among the members.
    pub(super) first: u64,
    /// The indexes of the members, each after its ancestors.
    pub(super) members: Vec<usize>,
}

impl Package {
    pub(super) fn rate(&self) -> FeeFraction {
        FeeFraction::new(self.fee, self.weight)
    }
}

/// The chunks of a cluster in the order in which a miner includes them: by falling feerate and, for equal feerates, by
/// the lowest number of arrival.
pub(super) fn chunks(members: &[Member]) -> Vec<Package> {
    merge_rising(packages(members))
}

/// The chunks of a cluster in the order in which its members are given, each after its ancestors.
pub(super) fn chunks_in_order(members: &[Member]) -> Vec<Package> {
    let alone = |(place, member): (usize, &Member)| Package {
        fee: member.fee,
        weight: member.weight,
        first: member.sequence,
        members: vec![place],
    };
    merge_rising(members.iter().enumerate().map(alone))
}

/// Merges consecutive packages while the later one comes before the other.
fn merge_rising(packages: impl IntoIterator<Item = Package>) -> Vec<Package> {
    let mut chunks: Vec<Package> = Vec::new();
    for mut package in packages {
        while let Some(last) = chunks.pop_if(|last| !comes_before(last, &package)) {
            package = merged(last, package);
        }
        chunks.push(package);
    }
    chunks
}

/// Whether the order of all chunks of the mempool has one before the other. A chunk that precedes its ancestors' chunk
/// in this order must be merged with it.
fn comes_before(one: &Package, other: &Package) -> bool {
    (Reverse(one.rate()), one.first) < (Reverse(other.rate()), other.first)
}

fn merged(mut one: Package, other: Package) -> Package {
    one.fee = one.fee.saturating_add(other.fee);
    one.weight = one.weight.saturating_add(other.weight);
    one.first = one.first.min(other.first);
    one.members.extend(other.members);
    one
}

/// The score of a member: the lower of its own feerate and that with its unselected ancestors. The greatest is selected
/// first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    rate: FeeFraction,
    txid: Reverse<Txid>,
    place: usize,
}

/// A graph traversal that visits each member once.
struct Traversal {
    stamps: Vec<usize>,
    stamp: usize,
    stack: Vec<usize>,
}

impl Traversal {
    fn new(count: usize) -> Self {
        Self { stamps: vec![0; count], stamp: 0, stack: Vec::new() }
    }

    /// Visits every member that can be reached from `start` over `edges` through members that are `open`, without `start`.
    fn from(&mut self, start: usize, edges: &[Vec<usize>], open: impl Fn(usize) -> bool, mut visit: impl FnMut(usize)) {
        self.stamp += 1;
        self.stamps[start] = self.stamp;
        self.stack.push(start);
        while let Some(place) = self.stack.pop() {
            for &next in &edges[place] {
                if self.stamps[next] != self.stamp && open(next) {
                    self.stamps[next] = self.stamp;
                    visit(next);
                    self.stack.push(next);
                }
            }
        }
    }
}

/// The packages in the order of selection.
fn packages(members: &[Member]) -> Vec<Package> {
    let count = members.len();
    let parents: Vec<Vec<usize>> = members.iter().map(|member| member.parents.clone()).collect();
    let mut children = vec![Vec::new(); count];
    for (place, member) in members.iter().enumerate() {
        for &parent in &member.parents {
            children[parent].push(place);
        }
    }
    let mut traversal = Traversal::new(count);
    // with ancestors: fee and weight of those not selected yet, and their initial number
    let mut fees: Vec<u64> = members.iter().map(|member| member.fee).collect();
    let mut weights: Vec<u64> = members.iter().map(|member| member.weight).collect();
    let mut ancestors = vec![0_usize; count];
    for place in 0..count {
        let (mut fee, mut weight, mut number) = (fees[place], weights[place], 0);
        traversal.from(
            place,
            &parents,
            |_| true,
            |ancestor| {
                fee = fee.saturating_add(members[ancestor].fee);
                weight = weight.saturating_add(members[ancestor].weight);
                number += 1;
            },
        );
        (fees[place], weights[place], ancestors[place]) = (fee, weight, number);
    }
    let value = |place: usize, fee: u64, weight: u64| {
        let member = &members[place];
        let rate = FeeFraction::new(member.fee, member.weight).min(FeeFraction::new(fee, weight));
        Score { rate, txid: Reverse(member.txid), place }
    };
    let mut queue: BinaryHeap<Score> = (0..count).map(|place| value(place, fees[place], weights[place])).collect();
    let mut taken = vec![false; count];
    let mut changed_by = vec![usize::MAX; count]; // the number of the package that last changed it
    let mut packages = Vec::new();
    while let Some(best) = queue.pop() {
        if taken[best.place] {
            continue;
        }
        // for each member, one score in the queue is at least the true one
        let now = value(best.place, fees[best.place], weights[best.place]);
        if now.rate != best.rate {
            if now.rate < best.rate {
                queue.push(now);
            }
            continue;
        }
        let mut joined = vec![best.place];
        traversal.from(best.place, &parents, |place| !taken[place], |ancestor| joined.push(ancestor));
        joined.sort_unstable_by_key(|&place| (ancestors[place], members[place].txid));
        for &place in &joined {
            taken[place] = true;
        }
        let mut package = Package { fee: 0, weight: 0, first: u64::MAX, members: Vec::new() };
        let mut before: Vec<(usize, FeeFraction)> = Vec::new();
        for &place in &joined {
            let member = &members[place];
            package.fee = package.fee.saturating_add(member.fee);
            package.weight = package.weight.saturating_add(member.weight);
            package.first = package.first.min(member.sequence);
            traversal.from(
                place,
                &children,
                |_| true, // through the rest of the package, too
                |descendant| {
                    if taken[descendant] {
                        return;
                    }
                    if changed_by[descendant] != packages.len() {
                        changed_by[descendant] = packages.len();
                        before.push((descendant, value(descendant, fees[descendant], weights[descendant]).rate));
                    }
                    fees[descendant] = fees[descendant].saturating_sub(member.fee);
                    weights[descendant] = weights[descendant].saturating_sub(member.weight);
                },
            );
        }
        for (descendant, rate) in before {
            let now = value(descendant, fees[descendant], weights[descendant]);
            if now.rate > rate {
                queue.push(now);
            }
        }
        package.members = joined;
        packages.push(package);
    }
    packages
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::collections::BTreeSet;

    use bitcoin::hashes::Hash;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// Members that weigh one unit each, given by fee and parents; txids and arrivals in their order.
    fn cluster(members: &[(u64, &[usize])]) -> Vec<Member> {
        (0_u8..)
            .zip(members)
            .map(|(number, (fee, parents))| Member {
                txid: Txid::from_byte_array([number; 32]),
                fee: *fee,
                weight: 1,
                sequence: number.into(),
                parents: parents.to_vec(),
            })
            .collect()
    }

    fn order(members: &[Member]) -> Vec<Vec<usize>> {
        chunks(members).into_iter().map(|package| package.members).collect()
    }

    #[test]
    fn a_child_pays_for_its_parent() {
        assert_eq!(order(&cluster(&[(1, &[]), (9, &[0])])), [[0, 1]]);
    }

    #[test]
    fn a_parent_need_not_wait_for_a_child_that_pays_less() {
        assert_eq!(order(&cluster(&[(9, &[]), (1, &[0])])), [[0], [1]]);
    }

    #[test]
    fn a_child_gains_when_its_sibling_pays_for_the_parent() {
        // with the parent the last pays 5, and alone 10; the one before it pays 8 alone
        assert_eq!(order(&cluster(&[(0, &[]), (4, &[0]), (8, &[0]), (10, &[0])])), [vec![0, 3, 2], vec![1]]);
    }

    #[test]
    fn equal_chunks_in_order_of_arrival_are_not_merged() {
        let mut members = cluster(&[(5, &[]), (5, &[0])]);
        assert_eq!(order(&members), [[0], [1]]);
        members[0].sequence = 7; // as a parent that returned from a block
        assert_eq!(order(&members), [[0, 1]]);
    }

    #[test]
    fn many_children_of_one_parent_are_linearised_quickly() {
        let members: Vec<Member> = (0_u16..20_001)
            .map(|number| {
                let mut txid = [0; 32];
                txid[..2].copy_from_slice(&number.to_le_bytes());
                let parents = if number == 0 { Vec::new() } else { vec![0] };
                let sequence = u64::from(number);
                Member {
                    txid: Txid::from_byte_array(txid),
                    fee: u64::from(number) % 977,
                    weight: 400,
                    sequence,
                    parents,
                }
            })
            .collect();
        assert_eq!(chunks(&members).iter().map(|package| package.members.len()).sum::<usize>(), 20_001);
    }

    /// The selection by looking at all that is left each time.
    fn naive(members: &[Member]) -> Vec<Vec<usize>> {
        let ancestors = |place: usize, left: &BTreeSet<usize>| {
            let (mut found, mut waiting) = (BTreeSet::from([place]), vec![place]);
            while let Some(next) = waiting.pop() {
                waiting.extend(
                    members[next].parents.iter().filter(|parent| left.contains(parent) && found.insert(**parent)),
                );
            }
            found
        };
        let rate = |set: &BTreeSet<usize>| {
            let sum = |of: fn(&Member) -> u64| set.iter().map(|&place| of(&members[place])).sum();
            FeeFraction::new(sum(|member| member.fee), sum(|member| member.weight))
        };
        let all: BTreeSet<usize> = (0..members.len()).collect();
        let (mut left, mut order) = (all.clone(), Vec::new());
        while !left.is_empty() {
            let worth = |place: usize| rate(&ancestors(place, &left)).min(rate(&BTreeSet::from([place])));
            let better = |one: &usize, other: &usize| {
                worth(*one).cmp(&worth(*other)).then(members[*other].txid.cmp(&members[*one].txid))
            };
            let best = left.iter().copied().max_by(better).unwrap();
            let mut package: Vec<usize> = ancestors(best, &left).into_iter().collect();
            package.sort_by_key(|&place| (ancestors(place, &all).len(), members[place].txid));
            left.retain(|place| !package.contains(place));
            order.push(package);
        }
        order
    }

    fn members() -> impl Strategy<Value = Vec<Member>> {
        let member = (0_u64..30, 1_u64..5, any::<[u8; 1]>(), proptest::collection::vec(any::<Index>(), 0..3));
        (proptest::collection::vec(member, 1..14), any::<u64>()).prop_map(|(drawn, turn)| {
            let count = u64::try_from(drawn.len()).unwrap();
            (0..drawn.len())
                .map(|place| {
                    let (fee, weight, [high], parents) = &drawn[place];
                    let mut txid = [*high; 32];
                    txid[0] = u8::try_from(place).unwrap();
                    let parents: BTreeSet<usize> =
                        parents.iter().filter(|_| place > 0).map(|parent| parent.index(place)).collect();
                    let sequence = (u64::try_from(place).unwrap() * 5 + turn % count) % 17;
                    let parents = parents.into_iter().collect();
                    Member { txid: Txid::from_byte_array(txid), fee: *fee, weight: *weight, sequence, parents }
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn packages_equal_those_of_a_full_search_each_time(members in members()) {
            let taken: Vec<Vec<usize>> = packages(&members).into_iter().map(|package| package.members).collect();
            prop_assert_eq!(taken, naive(&members));
        }

        #[test]
        fn chunk_feerates_fall_and_ancestors_precede_descendants(members in members()) {
            let chunks = chunks(&members);
            prop_assert!(chunks.is_sorted_by(comes_before));
            let order: Vec<usize> = chunks.iter().flat_map(|package| package.members.clone()).collect();
            prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), members.len());
            for (at, &place) in order.iter().enumerate() {
                prop_assert!(members[place].parents.iter().all(|parent| order[..at].contains(parent)));
            }
        }

        #[test]
        fn a_chunk_pays_at_least_as_much_as_its_first_packages(members in members()) {
            for package in chunks(&members) {
                let (mut fee, mut weight) = (0, 0);
                for &place in &package.members {
                    fee += members[place].fee;
                    weight += members[place].weight;
                    let ends_here = packages(&members).iter().any(|package| package.members.last() == Some(&place));
                    prop_assert!(!ends_here || package.rate().cmp(&FeeFraction::new(fee, weight)) != Ordering::Less);
                }
            }
        }
    }
}
