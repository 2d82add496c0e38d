//! The list of the node's mempool: when it is requested, and how its difference is applied.

use std::time::{Duration, Instant};

use bitcoin::Txid;
use tracing::debug;

use super::clock::now;
use super::incoming::FetchRequest;
use super::last_list::LastList;
use super::load::LoadProgress;
use super::mempool_sync::{MempoolSync, STEP_TRANSACTIONS, SyncLevel};
use crate::index::Snapshot;
use crate::mempool::{Cause, NodeMempool};
use crate::node::{MempoolInfo, MempoolList, Node, NodeError};

/// The interval between lists while signals arrive.
const LIST_INTERVAL: Duration = Duration::from_secs(30);

/// A list as a sorted vector, which needs no further memory.
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

impl MempoolSync<'_> {
    /// Whether to request a list; `has_signals` is whether signals arrive.
    pub(super) fn is_list_due(&self, has_signals: bool) -> bool {
        let usual = if has_signals { LIST_INTERVAL } else { self.poll };
        self.last_list.as_ref().is_none_or(|listed| listed.at.elapsed() >= listed.valid_for(usual))
    }

    /// Requests the list and records the difference. Returns false if the node has another tip: a transaction that is
    /// not in its list may be in that block, and its descendants must not leave with it.
    ///
    /// While the node loads its mempool, a transaction that is not in its list may still be added: nothing is removed.
    pub(super) fn list(&mut self, node: &Node, chain: &Snapshot) -> Result<bool, NodeError> {
        let requested = Instant::now();
        let MempoolList { txids, mempool_sequence, status } = node.mempool_list()?;
        if chain.tip().is_none_or(|tip| tip.hash != status.tip) {
            return Ok(false);
        }
        self.record_info(&status.info);
        let unknown: Vec<_> = txids.iter().filter(|txid| self.mempool.get(txid).is_none()).copied().collect();
        let listed = SortedTxids::of(txids);
        self.orphans.retain(|txid| listed.contains(txid));
        self.unresolved.retain(|txid| listed.contains(txid) && self.mempool.get(txid).is_none());
        for txid in self.orphans.txids() {
            if self.orphans.waits_for_failed(&txid) {
                continue;
            }
            // its parents should be known since the previous list
            self.unresolved.record_failure(txid);
            if self.unresolved.is_skipped(&txid) {
                self.orphans.remove(&txid);
            }
        }
        let failed = self.orphans.take_failed();
        self.request_again(failed);
        self.removals.clear();
        if status.info.loaded {
            let known = self.mempool.snapshot();
            for removed in known.by_arrival(..).filter(|entry| !listed.contains(&entry.txid)) {
                // it left before this list, so that there is no signal to wait for
                self.removals.push(removed.txid, None);
            }
        }
        let cause = if self.level == SyncLevel::Behind { Cause::Loaded } else { Cause::New };
        let now = now();
        for txid in unknown {
            if !self.orphans.contains(&txid) && !self.unresolved.is_skipped(&txid) {
                self.to_fetch.push(txid, FetchRequest { cause, first_seen: now });
            }
        }
        self.list_sequence = mempool_sequence;
        let repeat_soon = std::mem::take(&mut self.signals_lost) || !status.info.loaded;
        self.last_list = Some(LastList { at: Instant::now(), took: requested.elapsed(), repeat_soon, is_stale: false });
        debug!(
            listed = listed.0.len(),
            to_fetch = self.to_fetch.len(),
            removals = self.removals.len(),
            "listed the mempool"
        );
        if self.to_fetch.len() > STEP_TRANSACTIONS {
            self.load = Some(LoadProgress::start(self.to_fetch.len()));
        }
        Ok(true)
    }

    /// Records the node's report on its mempool.
    pub(super) fn record_info(&mut self, info: &MempoolInfo) {
        self.info_at = Some(Instant::now());
        let reported = node_mempool_of(info);
        if self.mempool.snapshot().node() != reported {
            self.mempool.set_node(reported);
        }
        self.is_node_loaded = info.loaded;
        if !info.loaded {
            self.level = SyncLevel::Behind;
        }
    }
}

/// The node's report on its mempool, in the units of this server.
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
