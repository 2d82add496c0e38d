//! Updates the effective feerates: finds the clusters that changed and linearises only these again.
//!
//! This happens once for all changes, before a snapshot: a block that changes a cluster a hundred times causes one
//! linearisation. A cluster of n transactions costs n look-ups and the cost of `linearise`; most clusters have one
//! transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::entry::Entry;
use super::feerate::{FeeFraction, Rank};
use super::linearise::{self, Member};
use super::state::{Chunk, MempoolState, Weights};

impl MempoolState {
    /// Linearises the clusters of these transactions, given by number of arrival. Skips removed transactions.
    pub(super) fn update_clusters(&mut self, changed: &BTreeSet<u64>) {
        let mut done = BTreeSet::new();
        for sequence in changed {
            let Some(entry) = self.entries.get(sequence).cloned() else { continue };
            if done.contains(sequence) {
                continue;
            }
            let cluster = self.cluster_of(&entry);
            if cluster.len() == 1 {
                self.update_single(&entry);
                continue;
            }
            self.relinearise(&cluster);
            done.extend(cluster.into_keys());
        }
    }

    /// The cluster of an entry, itself included: each member with the numbers of its parents.
    fn cluster_of(&self, entry: &Arc<Entry>) -> BTreeMap<u64, (Arc<Entry>, Vec<u64>)> {
        let mut cluster = BTreeMap::new();
        let mut waiting = vec![Arc::clone(entry)];
        while let Some(entry) = waiting.pop() {
            if cluster.contains_key(&entry.sequence) {
                continue;
            }
            let parents = self.parents_of(&entry);
            let sequences = parents.keys().copied().collect();
            let around = parents.into_values().chain(self.children_of(&entry.txid).into_values());
            waiting.extend(around.filter(|other| !cluster.contains_key(&other.sequence)));
            cluster.insert(entry.sequence, (entry, sequences));
        }
        cluster
    }

    fn update_single(&mut self, entry: &Entry) {
        let before = self.effective_rank(entry);
        self.remove_chunk(entry.sequence);
        self.move_rank(before, self.effective_rank(entry), entry);
    }

    fn relinearise(&mut self, cluster: &BTreeMap<u64, (Arc<Entry>, Vec<u64>)>) {
        let positions: HashMap<u64, usize> = cluster.keys().copied().zip(0..).collect();
        let members: Vec<Member> = cluster
            .values()
            .map(|(entry, parents)| Member {
                txid: entry.txid,
                fee: entry.fee,
                weight: entry.policy_weight,
                sequence: entry.sequence,
                parents: parents.iter().filter_map(|parent| positions.get(parent).copied()).collect(),
            })
            .collect();
        let first = cluster.keys().next().copied().unwrap_or_default();
        for piece in linearise::chunks(&members) {
            let sequences = piece.members.iter().filter_map(|&place| members.get(place)).map(|member| member.sequence);
            let sequences = sequences.collect();
            let chunk = Arc::new(Chunk { feerate: piece.rate(), cluster: first, first: piece.first, sequences });
            for sequence in &chunk.sequences {
                let Some((entry, _)) = cluster.get(sequence) else { continue };
                if self.chunks.get(sequence).is_some_and(|before| *before == chunk) {
                    continue; // the rank is unchanged, too
                }
                let before = self.effective_rank(entry);
                self.chunks.insert(*sequence, Arc::clone(&chunk));
                self.move_rank(before, self.effective_rank(entry), entry);
            }
        }
    }

    fn move_rank(&mut self, before: Rank<FeeFraction>, after: Rank<FeeFraction>, entry: &Entry) {
        // equal ranks may have different fractions: keep the newest
        self.by_effective.remove(&before);
        self.by_effective.insert(after, Weights::of(entry));
    }
}
