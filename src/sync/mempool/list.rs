//! The whole list: when it is asked for, and the difference to what is known.

use std::time::{Duration, Instant};

use bitcoin::Txid;
use tracing::debug;

use super::incoming::Wanted;
use super::load::Load;
use super::{Nearness, TURN, Unconfirmed, now};
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
pub(super) struct Listed {
    at: Instant,
    took: Duration,
    /// Whether another is wanted soon.
    again: bool,
    /// Whether the next is wanted as soon as this one was worth its while.
    doubted: bool,
}

impl Listed {
    /// Somebody says that there is something to see.
    pub(super) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// How long it is good for; `usual` is how often a list is asked for.
    fn good_for(&self, usual: Duration) -> Duration {
        let wanted = match self {
            Self { doubted: true, .. } => Duration::ZERO,
            Self { again: true, .. } => usual.min(SOON),
            _ => usual,
        };
        wanted.max(self.took.saturating_mul(WORTH))
    }
}

/// What is in a list, in the memory of the list.
struct Sorted(Vec<Txid>);

impl Sorted {
    fn of(mut txids: Vec<Txid>) -> Self {
        txids.sort_unstable();
        Self(txids)
    }

    fn holds(&self, txid: &Txid) -> bool {
        self.0.binary_search(txid).is_ok()
    }
}

impl Unconfirmed<'_> {
    /// Whether the list is to be asked for; `told` is whether signals come.
    pub(super) fn is_list_due(&self, told: bool) -> bool {
        let usual = if told { RECONCILE } else { self.poll };
        self.listed.as_ref().is_none_or(|listed| listed.at.elapsed() >= listed.good_for(usual))
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
        self.note_info(&standing.info);
        let unknown: Vec<_> = txids.iter().filter(|txid| self.mempool.get(txid).is_none()).copied().collect();
        let there = Sorted::of(txids);
        self.waiting.keep(|txid| there.holds(txid));
        self.missed.keep(|txid| there.holds(txid) && self.mempool.get(txid).is_none());
        for txid in self.waiting.txids() {
            // the list before knew all that it spends
            self.missed.note(txid);
            if self.missed.is_left_out(&txid) {
                self.waiting.remove(&txid);
            }
        }
        self.leaving.clear();
        if standing.info.loaded {
            let known = self.mempool.snapshot();
            for gone in known.by_arrival(..).filter(|entry| !there.holds(&entry.txid)) {
                // since the list before, so that there is nothing to wait for
                self.leaving.push(gone.txid, None);
            }
        }
        let cause = if self.nearness == Nearness::Behind { Cause::Loaded } else { Cause::New };
        let heard = now();
        for txid in unknown {
            if !self.waiting.contains(&txid) && !self.missed.is_left_out(&txid) {
                self.wanted.push(txid, Wanted { cause, heard });
            }
        }
        self.listed_up_to = mempool_sequence;
        let again = std::mem::take(&mut self.lost) || !standing.info.loaded;
        self.listed = Some(Listed { at: Instant::now(), took: asked.elapsed(), again, doubted: false });
        debug!(listed = there.0.len(), wanted = self.wanted.len(), leaving = self.leaving.len(), "listed the mempool");
        if self.wanted.len() > TURN {
            self.load = Some(Load::start(self.wanted.len()));
        }
        Ok(true)
    }

    /// Notes what the node says of its mempool.
    pub(super) fn note_info(&mut self, info: &MempoolInfo) {
        self.asked = Some(Instant::now());
        let said = said_by(info);
        if self.mempool.snapshot().node() != said {
            self.mempool.set_node(said);
        }
        self.is_read = info.loaded;
        if !info.loaded {
            self.nearness = Nearness::Behind;
        }
    }
}

/// What the node says of its own mempool, in this server's units.
fn said_by(info: &MempoolInfo) -> NodeMempool {
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
        let listed = |took, again, doubted| {
            let listed = Listed { at: Instant::now(), took: Duration::from_millis(took), again, doubted };
            [100, 30_000].map(|usual| listed.good_for(Duration::from_millis(usual)).as_millis())
        };
        assert_eq!(listed(5, false, false), [100, 30_000]);
        assert_eq!(listed(5, true, false), [100, 1_000]);
        assert_eq!(listed(5, false, true), [50, 50]);
        assert_eq!(listed(5_000, true, true), [50_000, 50_000]);
    }
}
