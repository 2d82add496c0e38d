//! The order in which a miner takes the transactions of a cluster, and the feerates at which it does.
//!
//! A cluster is a set of transactions that are connected by one spending another. Its order is that of Bitcoin Core's
//! `BlockAssembler::addPackageTxs` (`node/miner.cpp`, version 30): again and again the transaction with the best
//! feerate is taken together with those ancestors that are not taken yet, where its feerate is the lower of its own and
//! that of this package. What stands on them is then valued anew, without them. Equal ones go by txid, as in Core
//! (`CompareTxMemPoolEntryByAncestorFee`, `txmempool.h`); sizes are weights, and comparisons exact.
//!
//! The order is then cut into chunks: packages that a miner would rather take together, because the later one pays
//! more, become one. So chunks follow one another with falling feerates, and the feerate of its chunk is what a
//! transaction effectively offers.
//!
//! As in Core, a package that is taken changes the values of what stands on it at once. A value that rises, because an
//! ancestor that pays little is paid for by another's child, is queued again; one that falls is met in time and put
//! back. For n transactions with a ancestors and d descendants each, the work is n × (a + d), and as many steps of the
//! queue at most. The node's limits keep a and d small for nearly all; a parent of thousands of children has many
//! descendants once, and each of these few ancestors.

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
    /// In weight units.
    pub(super) weight: u64,
    /// The number of its arrival.
    pub(super) sequence: u64,
    /// The places of its parents in the list of members.
    pub(super) parents: Vec<usize>,
}

/// Members that are taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// In sat.
    pub(super) fee: u64,
    /// In weight units.
    pub(super) weight: u64,
    /// The lowest number of arrival among the members.
    pub(super) first: u64,
    /// The places of the members, each behind its ancestors.
    pub(super) members: Vec<usize>,
}

impl Piece {
    pub(super) fn rate(&self) -> FeeFraction {
        FeeFraction::new(self.fee, self.weight)
    }
}

/// The chunks of a cluster in the order in which they are taken: by falling feerate and, where that is equal, by the
/// lowest number of arrival.
pub(super) fn chunks(members: &[Member]) -> Vec<Piece> {
    let mut chunks: Vec<Piece> = Vec::new();
    for mut piece in packages(members) {
        while let Some(last) = chunks.pop_if(|last| !comes_before(last, &piece)) {
            piece = merged(last, piece);
        }
        chunks.push(piece);
    }
    chunks
}

/// Whether the order of all chunks of the mempool puts one before the other. If it puts a chunk before another that
/// stands below it, the two have to become one.
fn comes_before(one: &Piece, other: &Piece) -> bool {
    (Reverse(one.rate()), one.first) < (Reverse(other.rate()), other.first)
}

fn merged(mut one: Piece, other: Piece) -> Piece {
    one.fee = one.fee.saturating_add(other.fee);
    one.weight = one.weight.saturating_add(other.weight);
    one.first = one.first.min(other.first);
    one.members.extend(other.members);
    one
}

/// What a member is worth: the lower of its own feerate and that with those of its ancestors that are not taken. The
/// greatest is taken first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Value {
    rate: FeeFraction,
    txid: Reverse<Txid>,
    place: usize,
}

/// A walk that meets each member once.
struct Walk {
    stamps: Vec<usize>,
    stamp: usize,
    stack: Vec<usize>,
}

impl Walk {
    fn new(count: usize) -> Self {
        Self { stamps: vec![0; count], stamp: 0, stack: Vec::new() }
    }

    /// All that can be reached from `start` over `edges`, without `start`, led on only by what is `open`.
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

/// The packages in the order in which they are taken.
fn packages(members: &[Member]) -> Vec<Piece> {
    let count = members.len();
    let parents: Vec<Vec<usize>> = members.iter().map(|member| member.parents.clone()).collect();
    let mut children = vec![Vec::new(); count];
    for (place, member) in members.iter().enumerate() {
        for &parent in &member.parents {
            children[parent].push(place);
        }
    }
    let mut walk = Walk::new(count);
    // with ancestors: fee and weight of those not taken yet, and how many there were at first
    let mut fees: Vec<u64> = members.iter().map(|member| member.fee).collect();
    let mut weights: Vec<u64> = members.iter().map(|member| member.weight).collect();
    let mut ancestors = vec![0_usize; count];
    for place in 0..count {
        let (mut fee, mut weight, mut number) = (fees[place], weights[place], 0);
        walk.from(
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
        Value { rate, txid: Reverse(member.txid), place }
    };
    let mut queue: BinaryHeap<Value> = (0..count).map(|place| value(place, fees[place], weights[place])).collect();
    let mut taken = vec![false; count];
    let mut touched = vec![usize::MAX; count]; // the number of the package that last changed it
    let mut packages = Vec::new();
    while let Some(best) = queue.pop() {
        if taken[best.place] {
            continue;
        }
        // One value in the queue is never below the true one.
        let now = value(best.place, fees[best.place], weights[best.place]);
        if now.rate != best.rate {
            if now.rate < best.rate {
                queue.push(now);
            }
            continue;
        }
        let mut package = vec![best.place];
        walk.from(best.place, &parents, |place| !taken[place], |ancestor| package.push(ancestor));
        package.sort_unstable_by_key(|&place| (ancestors[place], members[place].txid));
        for &place in &package {
            taken[place] = true;
        }
        let mut piece = Piece { fee: 0, weight: 0, first: u64::MAX, members: Vec::new() };
        let mut before: Vec<(usize, FeeFraction)> = Vec::new();
        for &place in &package {
            let member = &members[place];
            piece.fee = piece.fee.saturating_add(member.fee);
            piece.weight = piece.weight.saturating_add(member.weight);
            piece.first = piece.first.min(member.sequence);
            walk.from(
                place,
                &children,
                |_| true, // through the rest of the package, too
                |descendant| {
                    if taken[descendant] {
                        return;
                    }
                    if touched[descendant] != packages.len() {
                        touched[descendant] = packages.len();
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
        piece.members = package;
        packages.push(piece);
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
        chunks(members).into_iter().map(|piece| piece.members).collect()
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
    fn of_two_children_each_is_worth_more_once_the_other_has_paid_for_the_parent() {
        // with the parent the last pays 5, and alone 10; the one before it pays 8 alone
        assert_eq!(order(&cluster(&[(0, &[]), (4, &[0]), (8, &[0]), (10, &[0])])), [vec![0, 3, 2], vec![1]]);
    }

    #[test]
    fn equal_chunks_stay_apart_if_their_arrival_keeps_them_in_order() {
        let mut members = cluster(&[(5, &[]), (5, &[0])]);
        assert_eq!(order(&members), [[0], [1]]);
        members[0].sequence = 7; // as a parent that returned from a block
        assert_eq!(order(&members), [[0, 1]]);
    }

    #[test]
    fn many_children_of_one_parent_are_put_in_order_at_once() {
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
        assert_eq!(chunks(&members).iter().map(|piece| piece.members.len()).sum::<usize>(), 20_001);
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
        fn packages_are_taken_as_if_the_best_were_looked_for_each_time(members in members()) {
            let taken: Vec<Vec<usize>> = packages(&members).into_iter().map(|piece| piece.members).collect();
            prop_assert_eq!(taken, naive(&members));
        }

        #[test]
        fn chunks_fall_and_keep_everything_behind_its_ancestors(members in members()) {
            let chunks = chunks(&members);
            prop_assert!(chunks.is_sorted_by(comes_before));
            let order: Vec<usize> = chunks.iter().flat_map(|piece| piece.members.clone()).collect();
            prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), members.len());
            for (at, &place) in order.iter().enumerate() {
                prop_assert!(members[place].parents.iter().all(|parent| order[..at].contains(parent)));
            }
        }

        #[test]
        fn a_chunk_is_never_worth_less_than_a_package_that_it_starts_with(members in members()) {
            for piece in chunks(&members) {
                let (mut fee, mut weight) = (0, 0);
                for &place in &piece.members {
                    fee += members[place].fee;
                    weight += members[place].weight;
                    let ends_here = packages(&members).iter().any(|package| package.members.last() == Some(&place));
                    prop_assert!(!ends_here || piece.rate().cmp(&FeeFraction::new(fee, weight)) != Ordering::Less);
                }
            }
        }
    }
}
