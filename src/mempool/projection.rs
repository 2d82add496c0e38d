//! The blocks that miners would make of the mempool if nothing else came.
//!
//! As Bitcoin Core's miner does (`BlockAssembler::addPackageTxs`, `node/miner.cpp`, version 30): chunk by chunk from
//! the best feerate down, a chunk that no longer fits waits for the next block, and after 1,000 such in a row a block
//! that is nearly full is left. What stands above a chunk that waits, waits with it. Unlike the miner it does not look
//! at signature operations, and does not make new packages out of those of a waiting cluster that do not stand on what
//! waits.
//!
//! ```text
//!   chunks, best first ──► fits? ──► block 1 │ block 2 │ …
//!                            └─ no ─► waits, before all others, for the next block
//! ```

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bitcoin::Weight;

use super::feerate::FeeFraction;
use super::state::State;
use crate::chain::vsize;

/// What the transactions of a block may weigh, in weight units: Core's `-blockmaxweight` of 4,000,000 less the 8,000
/// that it reserves for header and coinbase (`DEFAULT_BLOCK_RESERVED_WEIGHT`, `policy/policy.h`).
pub const PROJECTED_BLOCK_WEIGHT: u64 = 3_992_000;
/// After so many chunks in a row that did not fit, a block may be left (`MAX_CONSECUTIVE_FAILURES`).
const MAX_FAILURES: u32 = 1_000;
/// If it has no more than this much room (`BLOCK_FULL_ENOUGH_WEIGHT_DELTA`).
const FULL_ENOUGH: u64 = 4_000;
/// The points of the distribution of feerates, in percent.
pub const PROJECTED_PERCENT: [u64; 7] = [0, 10, 25, 50, 75, 90, 100];
/// Where the median stands in it.
const MEDIAN: usize = 3;

/// What becomes of that for which the blocks asked for have no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remainder {
    /// It is in none of them.
    Left,
    /// It is in the last one, which then is larger than a block can be.
    InLast,
}

/// A block that miners would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectedBlock {
    /// The weight of its transactions, in weight units.
    pub weight: u64,
    /// Their virtual sizes, each rounded up, in vbytes.
    pub vsize: u64,
    /// Their fees, in sat.
    pub fees: u64,
    /// Their effective feerates at [`PROJECTED_PERCENT`] of the vbytes, from the lowest to the highest.
    pub feerates: [FeeFraction; PROJECTED_PERCENT.len()],
    /// The numbers of arrival of its transactions, in order.
    pub sequences: Box<[u64]>,
}

impl ProjectedBlock {
    /// Half of its vbytes pay at least this.
    #[must_use]
    pub fn median_feerate(&self) -> FeeFraction {
        self.feerates[MEDIAN]
    }
}

/// Where a transaction stands among the projected blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectedPlace {
    /// How many projected blocks come before its own.
    pub block: usize,
    /// How many transactions come before it in that block.
    pub position: usize,
    /// The vbytes of all transactions that come before it, in this block and those before.
    pub vsize_ahead: u64,
}

/// A transaction that has its place.
#[derive(Clone, Copy)]
struct Placed {
    sequence: u64,
    fee: u64,
    weight: u64,
    feerate: FeeFraction,
}

impl Placed {
    fn vsize(&self) -> u64 {
        vsize(Weight::from_wu(self.weight))
    }
}

/// The first projected blocks of one state, or all.
pub(super) struct Projection {
    placed: Vec<Placed>,
    /// Where each block ends in `placed`.
    ends: Vec<usize>,
    blocks: Vec<Arc<ProjectedBlock>>,
    /// (number of arrival, place in `placed`, vbytes ahead), by number.
    by_sequence: Vec<(u64, usize, u64)>,
}

impl Projection {
    /// All blocks.
    pub(super) fn of(state: &State) -> Self {
        let (placed, ends) = pack(candidates(state), state.entries.len(), usize::MAX);
        Self::from_packed(placed, ends)
    }

    /// The first `most`, and nothing of what they have no room for.
    pub(super) fn of_first(state: &State, most: usize) -> Self {
        let (placed, ends) = pack(candidates(state), 0, most);
        Self::from_packed(placed, ends)
    }

    fn from_packed(placed: Vec<Placed>, ends: Vec<usize>) -> Self {
        let mut start = 0;
        let mut blocks = Vec::with_capacity(ends.len());
        for &end in &ends {
            blocks.push(Arc::new(block_of(placed.get(start..end).unwrap_or_default())));
            start = end;
        }
        let mut ahead = 0_u64;
        let mut by_sequence: Vec<_> = (0..)
            .zip(&placed)
            .map(|(place, transaction)| {
                let before = ahead;
                ahead = ahead.saturating_add(transaction.vsize());
                (transaction.sequence, place, before)
            })
            .collect();
        by_sequence.sort_unstable();
        Self { placed, ends, blocks, by_sequence }
    }

    /// The first `limit` blocks.
    pub(super) fn blocks(&self, limit: usize, remainder: Remainder) -> Vec<Arc<ProjectedBlock>> {
        let mut blocks: Vec<_> = self.blocks.iter().take(limit).cloned().collect();
        if remainder == Remainder::InLast && limit < self.blocks.len() && blocks.pop().is_some() {
            let start = limit.checked_sub(2).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
            let mut rest = self.placed.get(start..).unwrap_or_default().to_vec();
            // stable, so that of equal ones each stays behind its ancestors
            rest.sort_by_key(|transaction| Reverse(transaction.feerate));
            blocks.push(Arc::new(block_of(&rest)));
        }
        blocks
    }

    pub(super) fn place(&self, sequence: u64) -> Option<ProjectedPlace> {
        let at = self.by_sequence.binary_search_by_key(&sequence, |(sequence, ..)| *sequence).ok()?;
        let (_, place, vsize_ahead) = *self.by_sequence.get(at)?;
        let block = self.ends.partition_point(|end| *end <= place);
        let start = block.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        Some(ProjectedPlace { block, position: place - start, vsize_ahead })
    }
}

/// What transactions add up to; they are in order of falling feerates.
fn block_of(placed: &[Placed]) -> ProjectedBlock {
    let mut block = ProjectedBlock {
        weight: placed.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.weight)),
        vsize: placed.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.vsize())),
        fees: placed.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.fee)),
        feerates: [FeeFraction::ZERO; PROJECTED_PERCENT.len()],
        sequences: placed.iter().map(|transaction| transaction.sequence).collect(),
    };
    // as Core's getblockstats does (`CalculatePercentilesByWeight`, `rpc/blockchain.cpp`), but by vbytes
    let mut wanted = PROJECTED_PERCENT.into_iter().zip(&mut block.feerates).peekable();
    let mut below = 0_u128;
    for transaction in placed.iter().rev() {
        below += u128::from(transaction.vsize());
        while let Some((_, feerate)) =
            wanted.next_if(|(percent, _)| below * 100 >= u128::from(block.vsize) * u128::from(*percent))
        {
            *feerate = transaction.feerate;
        }
    }
    block
}

/// What is taken as one, or waits as one.
struct Candidate {
    /// The lowest number of arrival in its cluster.
    cluster: u64,
    /// What there is to take, each behind its ancestors.
    left: VecDeque<Placed>,
    weight: u64,
}

impl Candidate {
    fn of(cluster: u64, left: VecDeque<Placed>) -> Self {
        let weight = left.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.weight));
        Self { cluster, left, weight }
    }
}

/// The candidates of a state, best first. Of equal feerates the one with the lowest number of arrival comes first, and
/// chunks are made so that this never puts one before what it stands on.
fn candidates(state: &State) -> impl Iterator<Item = Candidate> {
    state.by_effective.iter().filter_map(|(rank, weight)| {
        let Some(chunk) = state.chunks.get(&rank.sequence) else {
            let (fee, weight) = (rank.by.fee(), u64::from(*weight));
            let alone = Placed { sequence: rank.sequence, fee, weight, feerate: rank.by };
            return Some(Candidate::of(rank.sequence, VecDeque::from([alone])));
        };
        (chunk.first == rank.sequence).then(|| {
            let entries = chunk.sequences.iter().filter_map(|sequence| state.entries.get(sequence));
            let left = entries.map(|entry| Placed {
                sequence: entry.sequence,
                fee: entry.fee,
                weight: entry.weight,
                feerate: chunk.feerate,
            });
            Candidate::of(chunk.cluster, left.collect())
        })
    })
}

/// The transactions of the first `most` blocks, for `count` of which there is room at once, in the order of the blocks; and
/// where each block ends.
fn pack(mut fresh: impl Iterator<Item = Candidate>, count: usize, most: usize) -> (Vec<Placed>, Vec<usize>) {
    let (mut placed, mut ends) = (Vec::with_capacity(count), Vec::new());
    let mut waiting: VecDeque<Candidate> = VecDeque::new();
    loop {
        let start = placed.len();
        let (mut weight, mut failures) = (0_u64, 0_u32);
        let mut passed_over = VecDeque::new();
        let mut waiting_clusters = HashSet::new();
        while failures <= MAX_FAILURES || weight + FULL_ENOUGH <= PROJECTED_BLOCK_WEIGHT {
            let Some(mut candidate) = waiting.pop_front().or_else(|| fresh.next()) else { break };
            let room = PROJECTED_BLOCK_WEIGHT.saturating_sub(weight);
            if !waiting_clusters.contains(&candidate.cluster) {
                if candidate.weight <= room {
                    weight = weight.saturating_add(candidate.weight);
                    placed.extend(candidate.left);
                    failures = 0;
                    continue;
                }
                if candidate.weight > PROJECTED_BLOCK_WEIGHT {
                    weight = weight.saturating_add(fill(&mut candidate, room, placed.len() == start, &mut placed));
                    if candidate.left.is_empty() {
                        continue;
                    }
                }
            }
            failures += 1;
            waiting_clusters.insert(candidate.cluster);
            passed_over.push_back(candidate);
        }
        if placed.len() == start {
            return (placed, ends);
        }
        ends.push(placed.len());
        if ends.len() >= most {
            return (placed, ends);
        }
        passed_over.append(&mut waiting);
        waiting = passed_over;
    }
}

/// Takes from a chunk that no block has room for as much as fits, from its front; into an empty block at least one
/// transaction, however large. Tells the weight taken.
fn fill(candidate: &mut Candidate, room: u64, empty: bool, placed: &mut Vec<Placed>) -> u64 {
    let mut taken = 0_u64;
    while let Some(next) = candidate.left.front() {
        let first = empty && taken == 0;
        if !first && taken.saturating_add(next.weight) > room {
            break;
        }
        taken = taken.saturating_add(next.weight);
        placed.extend(candidate.left.pop_front());
    }
    candidate.weight = candidate.weight.saturating_sub(taken);
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A chunk of this cluster with transactions of these thousands of weight units, and a feerate that falls with the
    /// number; they are numbered from ten times that on.
    fn candidate(cluster: u64, number: u64, weights: &[u64]) -> Candidate {
        let feerate = FeeFraction::new(1_000 - number, 1);
        let left = (number * 10..).zip(weights).map(|(sequence, weight)| Placed {
            sequence,
            fee: 1,
            weight: weight * 1_000,
            feerate,
        });
        Candidate::of(cluster, left.collect())
    }

    fn packed(candidates: Vec<Candidate>) -> Vec<Vec<u64>> {
        packed_first(candidates, usize::MAX)
    }

    fn packed_first(candidates: Vec<Candidate>, most: usize) -> Vec<Vec<u64>> {
        let (placed, ends) = pack(candidates.into_iter(), 0, most);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let blocks = starts.zip(&ends).map(|(start, end)| &placed[start..*end]);
        blocks.map(|block| block.iter().map(|placed| placed.sequence).collect()).collect()
    }

    #[test]
    fn what_does_not_fit_waits_while_smaller_ones_fill_the_block() {
        let blocks = packed(vec![
            candidate(1, 1, &[3_000]),
            candidate(2, 2, &[2_000]),
            candidate(3, 3, &[900]),
            candidate(4, 4, &[1_000]),
        ]);
        assert_eq!(blocks, [[10, 30], [20, 40]]);
    }

    #[test]
    fn a_block_is_filled_to_the_last_weight_unit() {
        assert_eq!(packed(vec![candidate(1, 1, &[3_000]), candidate(2, 2, &[992])]), [[10, 20]]);
        assert_eq!(packed(vec![candidate(1, 1, &[3_000]), candidate(2, 2, &[993])]), [[10], [20]]);
    }

    #[test]
    fn a_chunk_is_taken_whole_or_waits_whole() {
        let blocks = packed(vec![candidate(1, 1, &[3_900]), candidate(2, 2, &[50, 50]), candidate(3, 3, &[50])]);
        assert_eq!(blocks, [vec![10, 30], vec![20, 21]]);
    }

    #[test]
    fn what_may_stand_on_a_chunk_that_waits_waits_with_it() {
        let blocks = packed(vec![candidate(1, 1, &[3_900]), candidate(2, 2, &[100]), candidate(2, 3, &[50])]);
        assert_eq!(blocks, [vec![10], vec![20, 30]]);
    }

    #[test]
    fn a_chunk_larger_than_any_block_is_taken_from_its_front() {
        let blocks =
            packed(vec![candidate(1, 1, &[1_000]), candidate(2, 2, &[2_000, 1_500, 1_000]), candidate(3, 3, &[900])]);
        assert_eq!(blocks, [vec![10, 20, 30], vec![21, 22]]);
    }

    #[test]
    fn a_transaction_larger_than_any_block_has_one_for_itself() {
        let blocks = packed(vec![candidate(1, 1, &[1_000]), candidate(2, 2, &[3_999]), candidate(3, 3, &[1])]);
        assert_eq!(blocks, [vec![10, 30], vec![20]]);
    }

    #[test]
    fn a_nearly_full_block_is_left_after_a_thousand_failures() {
        let full = |room: u64| {
            let mut candidates = vec![candidate(0, 0, &[3_992 - room])];
            candidates.extend((1..=1_001).map(|number| candidate(number, number / 2, &[100])));
            candidates.push(candidate(2_000, 900, &[1]));
            packed(candidates)[0].len()
        };
        assert_eq!(full(3), 1, "given up");
        assert_eq!(full(5), 2, "there is room enough to go on looking");
    }

    proptest! {
        #[test]
        fn the_first_blocks_are_the_same_whether_those_behind_them_are_asked_for_or_not(
            chunks in prop::collection::vec((0_u64..20, prop::collection::vec(1_u64..2_500, 1..4)), 0..30),
            most in 1_usize..5,
        ) {
            let candidates = || {
                (0..).zip(&chunks).map(|(number, (cluster, weights))| candidate(*cluster, number, weights)).collect()
            };
            let all = packed(candidates());
            prop_assert_eq!(packed_first(candidates(), most), &all[..most.min(all.len())]);
        }
    }

    #[test]
    fn a_block_has_the_feerates_of_its_vbytes() {
        let placed: Vec<Placed> = [(50, 4_000), (40, 1_600), (30, 2_000), (10, 399), (5, 1)]
            .map(|(rate, weight)| Placed { sequence: 1, fee: 7, weight, feerate: FeeFraction::new(rate, 4) })
            .to_vec();
        let block = block_of(&placed);
        assert_eq!((block.weight, block.vsize, block.fees), (8_000, 2_001, 35));
        assert_eq!(block.feerates, [5, 30, 30, 40, 50, 50, 50].map(|rate| FeeFraction::new(rate, 4)));
        assert_eq!(block.median_feerate(), FeeFraction::new(40, 4));
    }

    #[test]
    fn places_count_blocks_transactions_and_vbytes() {
        let state = State::default();
        assert!(Projection::of(&state).blocks.is_empty());

        let (placed, ends) = pack(
            [candidate(1, 1, &[3_000]), candidate(2, 2, &[2_000]), candidate(3, 3, &[900])].into_iter(),
            3,
            usize::MAX,
        );
        let projection = Projection::from_packed(placed, ends);
        let place = |block, position, vsize_ahead| Some(ProjectedPlace { block, position, vsize_ahead });
        assert_eq!(projection.place(10), place(0, 0, 0));
        assert_eq!(projection.place(30), place(0, 1, 750_000));
        assert_eq!(projection.place(20), place(1, 0, 975_000));
        assert_eq!(projection.place(40), None);
    }

    #[test]
    fn the_last_block_can_hold_all_the_rest() {
        let (placed, ends) =
            pack((1..=5).map(|number| candidate(number, number, &[2_000 + number % 2])), 5, usize::MAX);
        let projection = Projection::from_packed(placed, ends);
        let blocks = |limit, remainder| -> Vec<Vec<u64>> {
            projection.blocks(limit, remainder).iter().map(|block| block.sequences.to_vec()).collect()
        };
        assert_eq!(blocks(9, Remainder::InLast), [[10], [20], [30], [40], [50]]);
        assert_eq!(blocks(2, Remainder::Left), [[10], [20]]);
        assert_eq!(blocks(2, Remainder::InLast), [vec![10], vec![20, 30, 40, 50]]);
        assert_eq!(blocks(1, Remainder::InLast), [[10, 20, 30, 40, 50]]);
        assert_eq!(blocks(0, Remainder::InLast), [[0_u64; 0]; 0]);
    }
}
