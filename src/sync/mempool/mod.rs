//! Keeps the mempool equal to the node's.
//!
//! ```text
//!   list of the node's mempool ── difference ──┬─► removals ─► departure.rs, reason ──► remove
//!            list.rs                           │
//!   signals: added, removed ───────────────────┼─► to_fetch ─► incoming.rs, prevouts.rs ──► add (replaces conflicts)
//!                                              │                │ unknown parent
//!   disconnected and connected blocks ─────────┘                └─► orphans.rs ─► unresolved.rs, after some tries
//!            chain_change.rs
//!
//!   index ── start ──► persistence.rs ──► add             periodically, and at the end ──► persistence.rs ──► index
//! ```
//!
//! The node decides what is in its mempool, and signals report the changes. Whenever a signal may have been lost, and
//! periodically, the whole list is requested and its difference applied. Orphans, which spend outputs of unknown
//! transactions, wait for their parents. The next step repeats what a failure interrupted.
//!
//! The list contains only txids. A transaction that leaves and returns with another witness, and so with the same txid,
//! is noticed by its two signals. While signals are lost or disabled it is not noticed, and the mempool keeps the first
//! witness until the transaction leaves.

mod block_state;
mod chain_change;
mod conflicts;
mod departure;
mod incoming;
mod list;
mod load;
mod lock_times;
mod orphans;
mod persistence;
mod prevouts;
mod queue;
#[cfg(test)]
pub(super) mod tests;
mod unresolved;

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use bitcoin::Txid;
use tracing::{info, warn};

use super::error::SyncError;
use crate::chain::Height;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{Cause, Departure, Mempool, MempoolSnapshot};
use crate::node::{Node, NodeSignal, ReceivedSignal};
use departure::{LastReorg, departures};
use incoming::{AddOutcome, FetchRequest, Incoming};
use list::LastList;
use load::LoadProgress;
use orphans::Orphans;
#[cfg(test)]
pub(in crate::sync) use persistence::MAX_EVENTS;
use persistence::Persistence;
pub use persistence::PersistentMempool;
use queue::Queue;
use unresolved::Unresolved;

pub(super) use block_state::PreBlockState;

/// The interval between requests for the node's report on its mempool.
const INFO_INTERVAL: Duration = Duration::from_secs(5);
/// The most transactions requested in one step, after which they are published and blocks are checked.
const STEP_TRANSACTIONS: usize = 2_000;
/// The most bytes of transactions requested in one step.
const STEP_BYTES: usize = 16 << 20;
/// How long a step requests transactions: what they spend may have to be fetched, if the index was joined lazily.
const STEP_TIME: Duration = Duration::from_secs(2);
/// Transactions in one request.
const BATCH: usize = 100;
/// The most transactions to fetch while the node does not answer; the next list has them, too.
const MAX_TO_FETCH: usize = 500_000;
/// How long a removal waits for the transaction that may have caused it, since their signals may arrive in two steps. A
/// later transaction corrects the reason.
const REMOVAL_DELAY: Duration = Duration::from_millis(15);

/// The mempool while it is updated from the node.
pub(super) struct MempoolSync<'a> {
    mempool: &'a mut Mempool,
    /// The interval between lists while no signals arrive.
    poll: Duration,
    /// The last list; `None` if one has to be requested next.
    last_list: Option<LastList>,
    /// Whether signals were lost: what happened right before they resumed may be in neither the list nor the signals,
    /// so that another list is requested soon after.
    signals_lost: bool,
    /// Signals with lower sequence numbers are included in the last list.
    list_sequence: u64,
    level: SyncLevel,
    /// Whether the node has loaded its persisted mempool.
    is_node_loaded: bool,
    /// Transactions to request from the node.
    to_fetch: Queue<FetchRequest>,
    /// The most of them to keep while the node does not answer.
    max_to_fetch: usize,
    /// Transactions that spend outputs of unknown ones, or of ones that cannot be read now.
    orphans: Orphans,
    /// How many the last request left out whose prevouts cannot be read: a warning says it once.
    kept_out: usize,
    /// Transactions of the node that cannot be added.
    unresolved: Unresolved,
    /// The last reorganisation.
    last_reorg: Option<LastReorg>,
    /// Transactions that are no longer in the node's mempool, with the time of the signal, if a signal reported it.
    removals: Queue<Option<Instant>>,
    /// First-seen times of transactions of disconnected blocks, until their outcome is known.
    freed: &'a mut HashMap<Txid, u64>,
    /// When the node last reported on its mempool.
    info_at: Option<Instant>,
    /// The progress of a long list.
    load: Option<LoadProgress>,
    /// What is persisted.
    persistence: &'a mut Persistence,
}

/// How the mempool compares to the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncLevel {
    /// No list was applied since the start, or since the node was away.
    Behind,
    /// A list was applied, and signals were lost since.
    WithGaps,
    /// A list was applied, and no signal was lost since.
    InSync,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// Nothing remains to do.
    Done,
    /// There is more to do at once.
    Unfinished,
    /// There is more to do in a few milliseconds.
    RemovalsDelayed,
    /// The node's tip differs from that of the mempool.
    OtherTip,
}

impl<'a> MempoolSync<'a> {
    /// `poll` is the interval between lists while no signals arrive.
    pub(super) fn new(persistent: &'a mut PersistentMempool, poll: Duration) -> Self {
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
    pub(super) fn snapshot(&mut self) -> MempoolSnapshot {
        self.mempool.snapshot()
    }

    /// Whether a block may affect this state.
    ///
    /// This includes an empty mempool: a first-seen time may be known of a transaction that is to be fetched, an
    /// orphan, departed, or of a disconnected block.
    pub(super) fn is_affected_by_blocks(&self) -> bool {
        let is_pending = !(self.to_fetch.is_empty() && self.orphans.is_empty());
        !self.mempool.is_empty() || is_pending || !self.freed.is_empty() || self.mempool.has_departed()
    }

    /// Whether it was equal to the node's but for transactions that cannot be added, and no signal was lost since.
    pub(super) fn is_in_sync(&self) -> bool {
        self.level == SyncLevel::InSync
    }

    /// Requests a list soon: without signals the mempool may have changed.
    pub(super) fn mark_list_stale(&mut self) {
        if let Some(list) = &mut self.last_list {
            list.mark_stale();
        }
    }

    /// Requests a list in the next step: a message of the node may be lost.
    pub(super) fn request_list(&mut self) {
        self.last_list = None;
    }

    /// Marks the mempool as behind: the node was away, or its answers are unusable.
    pub(super) fn mark_behind(&mut self) {
        self.level = SyncLevel::Behind;
        if self.to_fetch.len() > self.max_to_fetch {
            self.to_fetch.clear();
        }
        self.request_list();
    }

    /// Runs one step towards the node's mempool. `chain` is the chain of the mempool, `has_signals` whether signals
    /// arrive; they are complete up to `received`.
    ///
    /// Errors: those of the node, after which a list is requested; those of the index.
    pub(super) fn step(
        &mut self,
        node: &Node,
        chain: &Snapshot,
        signals: Vec<ReceivedSignal>,
        received: Instant,
        has_signals: bool,
    ) -> Result<StepOutcome, SyncError> {
        self.apply_signals(signals);
        let result = self.try_step(node, chain, received, has_signals);
        if result.is_err() {
            self.request_list();
        }
        result
    }

    fn try_step(
        &mut self,
        node: &Node,
        chain: &Snapshot,
        received: Instant,
        has_signals: bool,
    ) -> Result<StepOutcome, SyncError> {
        let now = now();
        self.fetch(node, chain, now)?;
        // a list has nothing new on transactions that are being fetched
        if self.to_fetch.is_empty() && self.is_list_due(has_signals) && !self.list(node, chain)? {
            return Ok(StepOutcome::OtherTip);
        }
        if !self.to_fetch.is_empty() {
            return Ok(StepOutcome::Unfinished);
        }
        if self.info_at.is_none_or(|requested| requested.elapsed() >= INFO_INTERVAL) {
            self.record_info(&node.mempool_info()?);
            if !self.is_node_loaded {
                // it was restarted after the last list
                self.request_list();
                return Ok(StepOutcome::Unfinished);
            }
        }
        let outcome = self.apply_removals(node, chain, received, now)?;
        if outcome != StepOutcome::Done {
            return Ok(outcome);
        }
        if !self.is_node_loaded {
            return Ok(StepOutcome::Done);
        }
        if self.level == SyncLevel::Behind {
            info!(
                transactions = self.mempool.len(),
                orphans = self.orphans.len(),
                "the mempool is equal to the node's"
            );
        }
        self.level = SyncLevel::InSync;
        if let Some(last_reorg) = &mut self.last_reorg {
            last_reorg.is_unverified = false;
        }
        Ok(StepOutcome::Done)
    }

    /// Records arrivals and removals.
    fn apply_signals(&mut self, signals: Vec<ReceivedSignal>) {
        let cause = if self.is_node_loaded { Cause::New } else { Cause::Loaded };
        for ReceivedSignal { signal, at } in signals {
            match signal {
                NodeSignal::Added { txid, mempool_sequence } if mempool_sequence >= self.list_sequence => {
                    // a transaction that is removed and added again may have another witness
                    let is_back = self.removals.remove(&txid).is_some();
                    self.unresolved.reset(&txid);
                    if is_back || (self.mempool.get(&txid).is_none() && !self.orphans.contains(&txid)) {
                        self.to_fetch.push(txid, FetchRequest { cause, first_seen: seconds(at) });
                    }
                }
                NodeSignal::Removed { txid, mempool_sequence } if mempool_sequence >= self.list_sequence => {
                    self.to_fetch.remove(&txid);
                    self.orphans.remove(&txid);
                    self.unresolved.reset(&txid);
                    if self.mempool.get(&txid).is_some() {
                        self.removals.push(txid, Some(Instant::now()));
                    }
                }
                NodeSignal::Lost => {
                    self.signals_lost = true;
                    if self.level == SyncLevel::InSync {
                        self.level = SyncLevel::WithGaps;
                    }
                    self.request_list();
                }
                // the loop looks for blocks itself
                _ => {}
            }
        }
    }

    /// Requests queued transactions, as many as one step publishes, and adds them.
    fn fetch(&mut self, node: &Node, chain: &Snapshot, now: u64) -> Result<(), SyncError> {
        let height = chain.tip().map_or(Height::GENESIS, |tip| tip.height);
        let (mut requested, mut bytes, mut kept_out, begun) = (0, 0_usize, Vec::new(), Instant::now());
        while !self.to_fetch.is_empty()
            && requested < STEP_TRANSACTIONS
            && bytes < STEP_BYTES
            && begun.elapsed() < STEP_TIME
            && !node.stop().is_raised()
        {
            let batch = self.to_fetch.take_first(BATCH);
            requested += batch.len();
            let txids: Vec<_> = batch.iter().map(|(txid, _)| *txid).collect();
            let fetched = Incoming::fetch(node, batch.clone()).inspect_err(|_| {
                // these times are known nowhere else
                for (txid, note) in batch {
                    self.to_fetch.push(txid, note);
                }
            })?;
            for mut incoming in fetched {
                bytes = bytes.saturating_add(incoming.size());
                if let Some(earlier) = self.freed.get(&incoming.txid) {
                    incoming.first_seen = incoming.first_seen.min(*earlier);
                }
                kept_out.extend(self.add_with_orphans(chain, height, incoming, now)?);
            }
            for txid in txids {
                if self.mempool.get(&txid).is_none() && !self.orphans.waits_for_failed(&txid) {
                    self.unresolved.record_failure(txid);
                }
            }
        }
        let transactions = kept_out.len();
        if let Some(error) = kept_out.first()
            && self.kept_out != transactions
        {
            warn!(%error, transactions, "transactions of the node's mempool cannot be added; the next list tries again");
        }
        // most steps request nothing
        if requested > 0 {
            self.kept_out = transactions;
        }
        self.load = self.load.take().and_then(|load| load.advance(self.to_fetch.len()));
        Ok(())
    }

    /// Requests transactions once more, with the times and causes that they have.
    fn request_again(&mut self, those: Vec<Incoming>) {
        for Incoming { txid, cause, first_seen, .. } in those {
            self.to_fetch.push(txid, FetchRequest { cause, first_seen });
        }
    }

    /// Adds a transaction and its orphans. Returns the errors of the index that kept some out for now.
    fn add_with_orphans(
        &mut self,
        chain: &Snapshot,
        height: Height,
        incoming: Incoming,
        now: u64,
    ) -> Result<Vec<IndexError>, IndexError> {
        let (mut next, mut kept_out) = (vec![incoming], Vec::new());
        while let Some(incoming) = next.pop() {
            let txid = incoming.txid;
            if self.mempool.get(&txid).is_some_and(|entry| entry.wtxid != incoming.wtxid) {
                self.mempool.remove(&txid, Departure::Unknown, now);
                // its descendants left with it, and may be in the node's mempool
                self.request_list();
            }
            let outcome = match incoming.add(self.mempool, chain, height, now) {
                Ok(outcome) => outcome,
                Err(error) if error.is_transient() => {
                    kept_out.push(error);
                    self.orphans.push_failed(incoming);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match outcome {
                AddOutcome::Added => next.extend(self.orphans.take(&txid)),
                // a rejected one counts as unresolved
                AddOutcome::Known | AddOutcome::Rejected => {}
                AddOutcome::Orphan(parent) => self.orphans.push(parent, incoming),
            }
        }
        Ok(kept_out)
    }

    /// Removes what left the node's mempool, except removals whose cause may still arrive. Nothing is removed while the
    /// node has another tip, as its blocks explain the removals.
    fn apply_removals(
        &mut self,
        node: &Node,
        chain: &Snapshot,
        received: Instant,
        now: u64,
    ) -> Result<StepOutcome, SyncError> {
        let is_due = |since: &Option<Instant>| {
            since.is_none_or(|since| received.saturating_duration_since(since) >= REMOVAL_DELAY)
        };
        let due: Vec<Txid> = self.removals.iter().filter(|(_, since)| is_due(since)).map(|(txid, _)| *txid).collect();
        if !due.is_empty() {
            let status = node.mempool_status()?;
            if chain.tip().is_none_or(|tip| tip.hash != status.tip) {
                return Ok(StepOutcome::OtherTip);
            }
            self.record_info(&status.info);
            if !status.info.loaded {
                // it was restarted, and what it will load is not known yet
                self.removals.clear();
                self.mark_behind();
                return Ok(StepOutcome::Unfinished);
            }
            for (txid, departure) in departures(&self.mempool.snapshot(), &due, now, chain, self.last_reorg.as_ref())? {
                self.mempool.remove(&txid, departure, now);
            }
            for txid in &due {
                self.removals.remove(txid);
            }
        }
        Ok(if self.removals.is_empty() { StepOutcome::Done } else { StepOutcome::RemovalsDelayed })
    }
}

/// Seconds since 1970.
fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The current time in seconds since 1970.
pub(super) fn now() -> u64 {
    seconds(SystemTime::now())
}
