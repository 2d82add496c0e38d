//! The blocks that miners would make of the mempool without future arrivals.
//!
//! As Bitcoin Core's miner does (`BlockAssembler::addPackageTxs`, `node/miner.cpp`, version 30): chunk by chunk from
//! the best feerate down, a chunk that does not fit is deferred to the next block, and after 1,000 such in a row a
//! nearly full block is finished. A chunk fits by the size that policy takes it to have, which signature operations may raise, and
//! then takes its weight. The descendants of a deferred chunk are deferred, too. Unlike the miner, the projection does not count
//! towards the 80,000 signature operations of a block, and does not form new packages within the cluster of a deferred chunk.
//!
//! ```text
//!   chunks, best first ──► fits? ──► block 1 │ block 2 │ …
//!                            └─ no ─► deferred: first in line for the next block
//! ```

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bitcoin::Weight;

use super::feerate::FeeFraction;
use super::state::MempoolState;
use crate::chain::vsize;

/// The number of consecutive chunks that do not fit after which a nearly full block is finished
/// (`MAX_CONSECUTIVE_FAILURES`).
const MAX_FAILURES: u32 = 1_000;
/// The remaining weight of a nearly full block (`BLOCK_FULL_ENOUGH_WEIGHT_DELTA`).
const FULL_ENOUGH: u64 = 4_000;
/// The points of the distribution of feerates, in percent.
pub const PROJECTED_PERCENT: [u64; 7] = [0, 10, 25, 50, 75, 90, 100];
/// The index of the median in it.
const MEDIAN: usize = 3;

/// What happens to transactions beyond the requested blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remainder {
    /// They are omitted.
    Left,
    /// They are in the last block, which then exceeds the limit of a block.
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

/// The position of a transaction in the projected blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectedPlace {
    /// The number of projected blocks before its own.
    pub block: usize,
    /// The number of transactions before it in that block.
    pub position: usize,
    /// The vbytes of all transactions before it, in this block and earlier ones.
    pub vsize_ahead: u64,
}

/// A transaction in a projected block.
#[derive(Clone, Copy)]
struct Placed {
    sequence: u64,
    fee: u64,
    /// What it takes in a block, in weight units.
    weight: u64,
    /// That by which it is judged, and has to fit.
    policy_weight: u64,
    feerate: FeeFraction,
}

impl Placed {
    fn policy_vsize(&self) -> u64 {
        vsize(Weight::from_wu(self.policy_weight))
    }
}

/// All projected blocks of one state, or the first of them.
pub(super) struct Projection {
    placed: Vec<Placed>,
    /// The end of each block in `placed`.
    ends: Vec<usize>,
    blocks: Vec<Arc<ProjectedBlock>>,
    /// (number of arrival, index in `placed`, vbytes ahead), by number.
    by_sequence: Vec<(u64, usize, u64)>,
}

impl Projection {
    /// All blocks.
    pub(super) fn of(state: &MempoolState) -> Self {
        let (placed, ends) = pack(candidates(state), state.limits.block_weight, state.entries.len(), usize::MAX);
        Self::from_packed(placed, ends)
    }

    /// The first `most` blocks, without the remainder.
    pub(super) fn of_first(state: &MempoolState, most: usize) -> Self {
        let (placed, ends) = pack(candidates(state), state.limits.block_weight, 0, most);
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
                ahead = ahead.saturating_add(transaction.policy_vsize());
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
            // stable, so that equal ones stay after their ancestors
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

/// The summary of a block; its transactions are in order of falling feerates.
fn block_of(placed: &[Placed]) -> ProjectedBlock {
    let mut block = ProjectedBlock {
        weight: placed.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.weight)),
        vsize: placed.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.policy_vsize())),
        fees: placed.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.fee)),
        feerates: [FeeFraction::ZERO; PROJECTED_PERCENT.len()],
        sequences: placed.iter().map(|transaction| transaction.sequence).collect(),
    };
    // as Core's getblockstats does (`CalculatePercentilesByWeight`, `rpc/blockchain.cpp`), but by vbytes
    let mut wanted = PROJECTED_PERCENT.into_iter().zip(&mut block.feerates).peekable();
    let mut below = 0_u128;
    for transaction in placed.iter().rev() {
        below += u128::from(transaction.policy_vsize());
        while let Some((_, feerate)) =
            wanted.next_if(|(percent, _)| below * 100 >= u128::from(block.vsize) * u128::from(*percent))
        {
            *feerate = transaction.feerate;
        }
    }
    block
}

/// Transactions that are included or deferred together.
struct QueuedChunk {
    /// The lowest number of arrival in its cluster.
    cluster: u64,
    /// Its transactions, each after its ancestors.
    left: VecDeque<Placed>,
    /// The sums of theirs.
    weight: u64,
    policy_weight: u64,
}

impl QueuedChunk {
    fn of(cluster: u64, left: VecDeque<Placed>) -> Self {
        let sum = |weight: fn(&Placed) -> u64| left.iter().map(weight).fold(0, u64::saturating_add);
        let (weight, policy_weight) = (sum(|placed| placed.weight), sum(|placed| placed.policy_weight));
        Self { cluster, left, weight, policy_weight }
    }
}

/// The chunks of a state, best first. For equal feerates the lowest number of arrival is first, and `linearise` builds
/// chunks so that none precedes its ancestors.
fn candidates(state: &MempoolState) -> impl Iterator<Item = QueuedChunk> {
    state.by_effective.iter().filter_map(|(rank, weights)| {
        let Some(chunk) = state.chunks.get(&rank.sequence) else {
            let alone = Placed {
                sequence: rank.sequence,
                fee: rank.by.fee(),
                weight: weights.own.into(),
                policy_weight: weights.policy.into(),
                feerate: rank.by,
            };
            return Some(QueuedChunk::of(rank.sequence, VecDeque::from([alone])));
        };
        (chunk.first == rank.sequence).then(|| {
            let entries = chunk.sequences.iter().filter_map(|sequence| state.entries.get(sequence));
            let left = entries.map(|entry| Placed {
                sequence: entry.sequence,
                fee: entry.fee,
                weight: entry.weight,
                policy_weight: entry.policy_weight,
                feerate: chunk.feerate,
            });
            QueuedChunk::of(chunk.cluster, left.collect())
        })
    })
}

/// The transactions of the first `most` blocks of this weight, in order, and the end of each block. Allocates `count` of them
/// at once.
fn pack(
    mut fresh: impl Iterator<Item = QueuedChunk>,
    block_weight: u64,
    count: usize,
    most: usize,
) -> (Vec<Placed>, Vec<usize>) {
    let (mut placed, mut ends) = (Vec::with_capacity(count), Vec::new());
    let mut waiting: VecDeque<QueuedChunk> = VecDeque::new();
    loop {
        let start = placed.len();
        let (mut weight, mut failures) = (0_u64, 0_u32);
        let mut passed_over = VecDeque::new();
        let mut waiting_clusters = HashSet::new();
        while failures <= MAX_FAILURES || weight + FULL_ENOUGH <= block_weight {
            let Some(mut candidate) = waiting.pop_front().or_else(|| fresh.next()) else { break };
            let room = block_weight.saturating_sub(weight);
            if !waiting_clusters.contains(&candidate.cluster) {
                if candidate.policy_weight <= room {
                    weight = weight.saturating_add(candidate.weight);
                    placed.extend(candidate.left);
                    failures = 0;
                    continue;
                }
                if candidate.policy_weight > block_weight {
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

/// Moves as much as fits of a chunk larger than any block, from its front; at least one transaction into an empty block,
/// however large. Returns the weight moved.
fn fill(candidate: &mut QueuedChunk, room: u64, empty: bool, placed: &mut Vec<Placed>) -> u64 {
    let mut taken = 0_u64;
    while let Some(next) = candidate.left.front() {
        let first = empty && taken == 0;
        if !first && taken.saturating_add(next.policy_weight) > room {
            break;
        }
        taken = taken.saturating_add(next.weight);
        candidate.policy_weight = candidate.policy_weight.saturating_sub(next.policy_weight);
        placed.extend(candidate.left.pop_front());
    }
    candidate.weight = candidate.weight.saturating_sub(taken);
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mempool::limits::PROJECTED_BLOCK_WEIGHT;

    /// A chunk of this cluster with transactions of these thousands of weight units, and a feerate that falls with the
    /// number; they are numbered from ten times that on.
    fn candidate(cluster: u64, number: u64, weights: &[u64]) -> QueuedChunk {
        let feerate = FeeFraction::new(1_000 - number, 1);
        let left = (number * 10..).zip(weights).map(|(sequence, weight)| Placed {
            sequence,
            fee: 1,
            weight: weight * 1_000,
            policy_weight: weight * 1_000,
            feerate,
        });
        QueuedChunk::of(cluster, left.collect())
    }

    fn packed(candidates: Vec<QueuedChunk>) -> Vec<Vec<u64>> {
        packed_first(candidates, usize::MAX)
    }

    fn packed_first(candidates: Vec<QueuedChunk>, most: usize) -> Vec<Vec<u64>> {
        let (placed, ends) = pack(candidates.into_iter(), PROJECTED_BLOCK_WEIGHT, 0, most);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let blocks = starts.zip(&ends).map(|(start, end)| &placed[start..*end]);
        blocks.map(|block| block.iter().map(|placed| placed.sequence).collect()).collect()
    }

    #[test]
    fn smaller_chunks_fill_the_block_before_a_deferred_one() {
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
    fn a_smaller_limit_makes_more_blocks() {
        let chunks = vec![candidate(1, 1, &[20]), candidate(2, 2, &[9]), candidate(3, 3, &[8])];
        let (placed, ends) = pack(chunks.into_iter(), 28_000, 0, usize::MAX);
        let sequences: Vec<u64> = placed.iter().map(|placed| placed.sequence).collect();
        assert_eq!((sequences, ends), (vec![10, 30, 20], vec![2, 3]));
    }

    #[test]
    fn a_chunk_is_included_or_deferred_as_a_whole() {
        let blocks = packed(vec![candidate(1, 1, &[3_900]), candidate(2, 2, &[50, 50]), candidate(3, 3, &[50])]);
        assert_eq!(blocks, [vec![10, 30], vec![20, 21]]);
    }

    #[test]
    fn later_chunks_of_a_deferred_cluster_are_deferred() {
        let blocks = packed(vec![candidate(1, 1, &[3_900]), candidate(2, 2, &[100]), candidate(2, 3, &[50])]);
        assert_eq!(blocks, [vec![10], vec![20, 30]]);
    }

    #[test]
    fn a_chunk_larger_than_any_block_is_split_from_its_front() {
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
    fn a_nearly_full_block_is_finished_after_a_thousand_failures() {
        let full = |room: u64| {
            let mut candidates = vec![candidate(0, 0, &[3_992 - room])];
            candidates.extend((1..=1_001).map(|number| candidate(number, number / 2, &[100])));
            candidates.push(candidate(2_000, 900, &[1]));
            packed(candidates)[0].len()
        };
        assert_eq!(full(3), 1, "the nearly full block is finished");
        assert_eq!(full(5), 2, "there is room enough to go on looking");
    }

    proptest! {
        #[test]
        fn the_first_blocks_do_not_depend_on_the_number_requested(
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
            .map(|(rate, weight)| Placed {
                sequence: 1,
                fee: 7,
                weight,
                policy_weight: weight,
                feerate: FeeFraction::new(rate, 4),
            })
            .to_vec();
        let block = block_of(&placed);
        assert_eq!((block.weight, block.vsize, block.fees), (8_000, 2_001, 35));
        assert_eq!(block.feerates, [5, 30, 30, 40, 50, 50, 50].map(|rate| FeeFraction::new(rate, 4)));
        assert_eq!(block.median_feerate(), FeeFraction::new(40, 4));
    }

    #[test]
    fn places_count_blocks_transactions_and_vbytes() {
        let state = MempoolState::default();
        assert!(Projection::of(&state).blocks.is_empty());

        let (placed, ends) = pack(
            [candidate(1, 1, &[3_000]), candidate(2, 2, &[2_000]), candidate(3, 3, &[900])].into_iter(),
            PROJECTED_BLOCK_WEIGHT,
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
    fn the_last_block_can_contain_the_remainder() {
        let candidates = (1..=5).map(|number| candidate(number, number, &[2_000 + number % 2]));
        let (placed, ends) = pack(candidates, PROJECTED_BLOCK_WEIGHT, 5, usize::MAX);
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
