//! Brings the effective feerates up to date: finds the clusters that changes have touched, and puts only these in order
//! again.
//!
//! It is done once for all changes before a snapshot is taken, so a block that touches a cluster a hundred times costs
//! one new order of it. A cluster of n transactions costs n look-ups and what `linearise` says; most have one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::entry::Entry;
use super::feerate::{FeeFraction, Rank};
use super::linearise::{self, Member};
use super::state::{Chunk, State};

impl State {
    /// Puts the clusters of these transactions, given by number of arrival, in order. Those that are gone are passed
    /// over.
    pub(super) fn settle(&mut self, touched: &BTreeSet<u64>) {
        let mut done = BTreeSet::new();
        for sequence in touched {
            let Some(entry) = self.entries.get(sequence).cloned() else { continue };
            if done.contains(sequence) {
                continue;
            }
            let cluster = self.cluster_of(&entry);
            if cluster.len() == 1 {
                self.settle_alone(&entry);
                continue;
            }
            self.settle_cluster(&cluster);
            done.extend(cluster.into_keys());
        }
    }

    /// All that is connected to an entry, itself included, with its parents.
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

    fn settle_alone(&mut self, entry: &Entry) {
        let before = self.effective_rank(entry);
        self.chunks.remove(&entry.sequence);
        self.move_rank(before, self.effective_rank(entry), entry.weight);
    }

    fn settle_cluster(&mut self, cluster: &BTreeMap<u64, (Arc<Entry>, Vec<u64>)>) {
        let places: HashMap<u64, usize> = cluster.keys().copied().zip(0..).collect();
        let members: Vec<Member> = cluster
            .values()
            .map(|(entry, parents)| Member {
                txid: entry.txid,
                fee: entry.fee,
                weight: entry.weight,
                sequence: entry.sequence,
                parents: parents.iter().filter_map(|parent| places.get(parent).copied()).collect(),
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
                    continue; // and so its rank is the same
                }
                let before = self.effective_rank(entry);
                self.chunks.insert(*sequence, Arc::clone(&chunk));
                self.move_rank(before, self.effective_rank(entry), entry.weight);
            }
        }
    }

    fn move_rank(&mut self, before: Rank<FeeFraction>, after: Rank<FeeFraction>, weight: u64) {
        // Equal ranks may be of other fractions, and the newest is to be kept.
        self.by_effective.remove(&before);
        self.by_effective.insert(after, u32::try_from(weight).unwrap_or(u32::MAX));
    }
}
