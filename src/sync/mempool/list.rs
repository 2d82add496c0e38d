//! The whole list: when it is asked for, and the difference to what is known.

use std::time::{Duration, Instant};

use bitcoin::Txid;
use tracing::debug;

use super::incoming::FetchRequest;
use super::load::LoadProgress;
use super::{MempoolSync, STEP_TRANSACTIONS, Unconfirmed, now};
use crate::index::Snapshot;
use crate::mempool::{Cause, NodeMempool};
use crate::node::{MempoolInfo, MempoolList, Node, NodeError};

/// The whole list is asked for this often while signals come.
const RECONCILE: Duration = Duration::from_secs(30);
/// The list is asked for again so long after signals were lost, or while the node has not read all of its mempool.
const SOON: Duration = Duration::from_secs(1);
/// A list is good for at least as many times as long as it took.
const WORTH: u32 = 10;

/// The last list.
pub(super) struct LastList {
    at: Instant,
    took: Duration,
    /// Whether another is wanted soon.
    repeat_soon: bool,
    /// Whether the next is wanted as soon as this one was worth its while.
    is_stale: bool,
}

impl LastList {
    /// Somebody says that there is something to see.
    pub(super) fn mark_stale(&mut self) {
        self.is_stale = true;
    }

    /// How long it is good for; `usual` is how often a list is asked for.
    fn good_for(&self, usual: Duration) -> Duration {
        let wanted = match self {
            Self { is_stale: true, .. } => Duration::ZERO,
            Self { repeat_soon: true, .. } => usual.min(SOON),
            _ => usual,
        };
        wanted.max(self.took.saturating_mul(WORTH))
    }
}

/// What is in a list, in the memory of the list.
struct SortedTxids(Vec<Txid>);

impl SortedTxids {
    fn of(mut txids: Vec<Txid>) -> Self {
        txids.sort_unstable();
        Self(txids)
    }

    fn contains(&self, txid: &Txid) -> bool {
        self.0.binary_search(txid).is_ok()
    }
}

impl Unconfirmed<'_> {
    /// Whether the list is to be asked for; `told` is whether signals come.
    pub(super) fn is_list_due(&self, has_signals: bool) -> bool {
        let usual = if has_signals { RECONCILE } else { self.poll };
        self.last_list.as_ref().is_none_or(|listed| listed.at.elapsed() >= listed.good_for(usual))
    }

    /// Asks for the whole list and notes the difference. False if the node stands on another block by now: what is not
    /// in its list may be in that block, and what stands on it must not leave with it.
    ///
    /// While the node has not read all of its mempool, what is not in its list may still come: nothing leaves for it.
    pub(super) fn list(&mut self, node: &Node, chain: &Snapshot) -> Result<bool, NodeError> {
        let asked = Instant::now();
        let MempoolList { txids, mempool_sequence, status: standing } = node.mempool_list()?;
        if chain.tip().is_none_or(|tip| tip.hash != standing.tip) {
            return Ok(false);
        }
        self.record_info(&standing.info);
        let unknown: Vec<_> = txids.iter().filter(|txid| self.mempool.get(txid).is_none()).copied().collect();
        let there = SortedTxids::of(txids);
        self.orphans.retain(|txid| there.contains(txid));
        self.unresolved.retain(|txid| there.contains(txid) && self.mempool.get(txid).is_none());
        for txid in self.orphans.txids() {
            // the list before knew all that it spends
            self.unresolved.record_failure(txid);
            if self.unresolved.is_skipped(&txid) {
                self.orphans.remove(&txid);
            }
        }
        self.removals.clear();
        if standing.info.loaded {
            let known = self.mempool.snapshot();
            for gone in known.by_arrival(..).filter(|entry| !there.contains(&entry.txid)) {
                // since the list before, so that there is nothing to wait for
                self.removals.push(gone.txid, None);
            }
        }
        let cause = if self.sync == MempoolSync::Behind { Cause::Loaded } else { Cause::New };
        let received = now();
        for txid in unknown {
            if !self.orphans.contains(&txid) && !self.unresolved.is_skipped(&txid) {
                self.to_fetch.push(txid, FetchRequest { cause, first_seen: received });
            }
        }
        self.list_sequence = mempool_sequence;
        let repeat_soon = std::mem::take(&mut self.signals_lost) || !standing.info.loaded;
        self.last_list = Some(LastList { at: Instant::now(), took: asked.elapsed(), repeat_soon, is_stale: false });
        debug!(
            listed = there.0.len(),
            wanted = self.to_fetch.len(),
            leaving = self.removals.len(),
            "listed the mempool"
        );
        if self.to_fetch.len() > STEP_TRANSACTIONS {
            self.load = Some(LoadProgress::start(self.to_fetch.len()));
        }
        Ok(true)
    }

    /// Notes what the node says of its mempool.
    pub(super) fn record_info(&mut self, info: &MempoolInfo) {
        self.info_at = Some(Instant::now());
        let said = node_mempool_of(info);
        if self.mempool.snapshot().node() != said {
            self.mempool.set_node(said);
        }
        self.is_node_loaded = info.loaded;
        if !info.loaded {
            self.sync = MempoolSync::Behind;
        }
    }
}

/// What the node says of its own mempool, in this server's units.
fn node_mempool_of(info: &MempoolInfo) -> NodeMempool {
    NodeMempool {
        min_fee_rate: info.min_fee.to_sat_per_vb(),
        min_relay_fee_rate: info.min_relay.to_sat_per_vb(),
        incremental_fee_rate: info.incremental.to_sat_per_vb(),
        max_memory: info.max_usage,
        memory_usage: info.usage,
        loaded: info.loaded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_good_for_ten_times_as_long_as_it_took_even_if_it_is_doubted() {
        let listed = |took, repeat_soon, is_stale| {
            let listed = LastList { at: Instant::now(), took: Duration::from_millis(took), repeat_soon, is_stale };
            [100, 30_000].map(|usual| listed.good_for(Duration::from_millis(usual)).as_millis())
        };
        assert_eq!(listed(5, false, false), [100, 30_000]);
        assert_eq!(listed(5, true, false), [100, 1_000]);
        assert_eq!(listed(5, false, true), [50, 50]);
        assert_eq!(listed(5_000, true, true), [50_000, 50_000]);
    }
}
