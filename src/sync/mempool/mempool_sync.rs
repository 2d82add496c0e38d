//! The state of the mempool's synchronisation between two steps.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bitcoin::Txid;

use super::departure::LastReorg;
use super::incoming::{FetchRequest, Incoming};
use super::last_list::LastList;
use super::load::LoadProgress;
use super::orphans::Orphans;
use super::persistence::{Persistence, PersistentMempool};
use super::queue::Queue;
use super::unresolved::Unresolved;
use crate::mempool::{Mempool, MempoolSnapshot};

/// The most transactions requested in one step, after which they are published and blocks are checked.
pub(super) const STEP_TRANSACTIONS: usize = 2_000;
/// The most transactions to fetch while the node does not answer; the next list has them, too.
const MAX_TO_FETCH: usize = 500_000;

/// The mempool while it is updated from the node.
pub(in crate::sync) struct MempoolSync<'a> {
    pub(super) mempool: &'a mut Mempool,
    /// The interval between lists while no signals arrive.
    pub(super) poll: Duration,
    /// The last list; `None` if one has to be requested next.
    pub(super) last_list: Option<LastList>,
    /// Whether signals were lost: what happened right before they resumed may be in neither the list nor the signals,
    /// so that another list is requested soon after.
    pub(super) signals_lost: bool,
    /// Signals with lower sequence numbers are included in the last list.
    pub(super) list_sequence: u64,
    pub(super) level: SyncLevel,
    /// Whether the node has loaded its persisted mempool.
    pub(super) is_node_loaded: bool,
    /// Transactions to request from the node.
    pub(super) to_fetch: Queue<FetchRequest>,
    /// The most of them to keep while the node does not answer.
    pub(super) max_to_fetch: usize,
    /// Transactions that spend outputs of unknown ones, or of ones that cannot be read now.
    pub(super) orphans: Orphans,
    /// How many the last request left out whose prevouts cannot be read: a warning says it once.
    pub(super) kept_out: usize,
    /// Transactions of the node that cannot be added.
    pub(super) unresolved: Unresolved,
    /// The last reorganisation.
    pub(super) last_reorg: Option<LastReorg>,
    /// Transactions that are no longer in the node's mempool, with the time of the signal, if a signal reported it.
    pub(super) removals: Queue<Option<Instant>>,
    /// First-seen times of transactions of disconnected blocks, until their outcome is known.
    pub(super) freed: &'a mut HashMap<Txid, u64>,
    /// When the node last reported on its mempool.
    pub(super) info_at: Option<Instant>,
    /// The progress of a long list.
    pub(super) load: Option<LoadProgress>,
    /// What is persisted.
    pub(super) persistence: &'a mut Persistence,
}

/// How the mempool compares to the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncLevel {
    /// No list was applied since the start, or since the node was away.
    Behind,
    /// A list was applied, and signals were lost since.
    WithGaps,
    /// A list was applied, and no signal was lost since.
    InSync,
}

impl<'a> MempoolSync<'a> {
    /// `poll` is the interval between lists while no signals arrive.
    pub(in crate::sync) fn new(persistent: &'a mut PersistentMempool, poll: Duration) -> Self {
        Self {
            mempool: &mut persistent.mempool,
            poll,
            last_list: None,
            signals_lost: false,
            list_sequence: 0,
            level: SyncLevel::Behind,
            is_node_loaded: true,
            to_fetch: Queue::default(),
            max_to_fetch: MAX_TO_FETCH,
            orphans: Orphans::default(),
            kept_out: 0,
            unresolved: Unresolved::default(),
            last_reorg: None,
            removals: Queue::default(),
            freed: &mut persistent.freed,
            info_at: None,
            load: None,
            persistence: &mut persistent.persistence,
        }
    }

    /// A snapshot of the mempool.
    pub(in crate::sync) fn snapshot(&mut self) -> MempoolSnapshot {
        self.mempool.snapshot()
    }

    /// Whether a block may affect this state.
    ///
    /// This includes an empty mempool: a first-seen time may be known of a transaction that is to be fetched, an
    /// orphan, departed, or of a disconnected block.
    pub(in crate::sync) fn is_affected_by_blocks(&self) -> bool {
        let is_pending = !(self.to_fetch.is_empty() && self.orphans.is_empty());
        !self.mempool.is_empty() || is_pending || !self.freed.is_empty() || self.mempool.has_departed()
    }

    /// Whether it was equal to the node's but for transactions that cannot be added, and no signal was lost since.
    pub(in crate::sync) fn is_in_sync(&self) -> bool {
        self.level == SyncLevel::InSync
    }

    /// Requests a list soon: without signals the mempool may have changed.
    pub(in crate::sync) fn mark_list_stale(&mut self) {
        if let Some(list) = &mut self.last_list {
            list.mark_stale();
        }
    }

    /// Requests a list in the next step: a message of the node may be lost.
    pub(in crate::sync) fn request_list(&mut self) {
        self.last_list = None;
    }

    /// Marks the mempool as behind: the node was away, or its answers are unusable.
    pub(in crate::sync) fn mark_behind(&mut self) {
        self.level = SyncLevel::Behind;
        if self.to_fetch.len() > self.max_to_fetch {
            self.to_fetch.clear();
        }
        self.request_list();
    }

    /// Requests transactions once more, with the times and causes that they have.
    pub(super) fn request_again(&mut self, those: Vec<Incoming>) {
        for Incoming { txid, cause, first_seen, .. } in those {
            self.to_fetch.push(txid, FetchRequest { cause, first_seen });
        }
    }
}
