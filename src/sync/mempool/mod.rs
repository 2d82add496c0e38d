//! Keeps the mempool equal to the node's.
//!
//! ```text
//!   list of the node's mempool ── difference ──┬─► leaving ─► leaving.rs, why ──► remove
//!            list.rs                           │
//!   signals: came, went ───────────────────────┼─► wanted ──► incoming.rs, prevouts.rs ──► add (replaces what it
//!                                              │                │ parent unknown            conflicts with)
//!   blocks that left, blocks that joined ──────┘                └─► waiting.rs ─► unresolved.rs, in the end
//!            chain_change.rs
//!
//!   index ── start ──► persistence.rs ──► add             every so often, and at the end ──► persistence.rs ──► index
//! ```
//!
//! The node decides what is in its mempool, and signals say what changes. Whenever one may have been lost, and every so
//! often, the whole list is asked for and the difference made up. Transactions that spend what is not known yet wait for
//! it. What a failure leaves undone is done at the next turn.
//!
//! The list has txids only. A transaction that leaves and comes again with another witness, and so with the same txid, is
//! noticed by the signals of both; while signals are lost or not sent it is not, and stands here with its first witness
//! until it leaves.

mod chain_change;
mod conflicts;
mod departure;
mod first_seen;
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
use tracing::info;

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
use persistence::Persistence;
pub use persistence::PersistentMempool;
use queue::Queue;
use unresolved::Unresolved;

pub(super) use first_seen::PreBlockState;

/// What the node says of its own mempool is asked for this often.
const INFO_INTERVAL: Duration = Duration::from_secs(5);
/// Transactions asked of the node in one turn, after which they are published and blocks are looked for again.
const STEP_TRANSACTIONS: usize = 2_000;
/// The same, by what they take in bytes.
const STEP_BYTES: usize = 16 << 20;
/// As many of them are asked for at once.
const BATCH: usize = 100;
/// While the node gives nothing, so many are remembered at most as told by signals; the list has them too.
const MAX_TO_FETCH: usize = 500_000;
/// What goes may be going for what comes, and the signals of both may come in two turns: this long it is waited for. What
/// comes later corrects why the other went.
const REMOVAL_DELAY: Duration = Duration::from_millis(15);

/// The mempool on its way to be the node's.
pub(super) struct Unconfirmed<'a> {
    mempool: &'a mut Mempool,
    /// How often the list is asked for while no signals come.
    poll: Duration,
    /// The last list; `None` if it has to be asked for next.
    last_list: Option<LastList>,
    /// Whether signals were lost since: what happened right before they came again may be in neither, so that the list
    /// is asked for once more soon after.
    signals_lost: bool,
    /// Numbers below this are of what the last list knew already.
    list_sequence: u64,
    sync: MempoolSync,
    /// Whether the node has read all that it had in its mempool before it was started.
    is_node_loaded: bool,
    /// Transactions of the node that are to be asked for.
    to_fetch: Queue<FetchRequest>,
    /// So many of them are remembered at most while the node gives nothing.
    max_to_fetch: usize,
    /// Transactions that spend outputs of one that is not known yet.
    orphans: Orphans,
    /// Transactions of the node that cannot be made sense of.
    unresolved: Unresolved,
    /// The reorganisation that was followed last.
    reorged: Option<LastReorg>,
    /// Transactions that are no longer in the node's mempool, and since when that is known where it was told just now.
    removals: Queue<Option<Instant>>,
    /// When transactions of blocks that left were first seen, until it is known what became of them.
    freed: &'a mut HashMap<Txid, u64>,
    /// When the node last told about its own mempool.
    info_at: Option<Instant>,
    /// The list that is on its way in, if it is long.
    load: Option<LoadProgress>,
    /// What of it is written down.
    persistence: &'a mut Persistence,
}

/// How near the mempool is to the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MempoolSync {
    /// No list was made up for since the start, or since the node was away.
    Behind,
    /// One was, and signals were lost since.
    WithGaps,
    /// One was, and nothing was lost since.
    InSync,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// Everything that is known of is done.
    Done,
    /// There is more to do at once.
    Unfinished,
    /// There is more to do in a few milliseconds.
    RemovalsDelayed,
    /// The node's chain is not the one that the mempool stands on.
    OtherTip,
}

impl<'a> Unconfirmed<'a> {
    /// `poll` is how often the list is asked for while no signals come.
    pub(super) fn new(kept: &'a mut PersistentMempool, poll: Duration) -> Self {
        Self {
            mempool: &mut kept.mempool,
            poll,
            last_list: None,
            signals_lost: false,
            list_sequence: 0,
            sync: MempoolSync::Behind,
            is_node_loaded: true,
            to_fetch: Queue::default(),
            max_to_fetch: MAX_TO_FETCH,
            orphans: Orphans::default(),
            unresolved: Unresolved::default(),
            reorged: None,
            removals: Queue::default(),
            freed: &mut kept.freed,
            info_at: None,
            load: None,
            persistence: &mut kept.persistence,
        }
    }

    /// The mempool as it is.
    pub(super) fn snapshot(&mut self) -> MempoolSnapshot {
        self.mempool.snapshot()
    }

    /// Whether there is anything that a block could concern.
    ///
    /// Also while the mempool is empty: when a transaction was first seen may be known of one that is on its way, that left,
    /// or that a block held which left.
    pub(super) fn is_affected_by_blocks(&self) -> bool {
        let is_on_its_way = !(self.to_fetch.is_empty() && self.orphans.is_empty());
        !self.mempool.is_empty() || is_on_its_way || !self.freed.is_empty() || self.mempool.has_departed()
    }

    /// Whether it was once equal to the node's, and followed since without a gap.
    pub(super) fn is_in_sync(&self) -> bool {
        self.sync == MempoolSync::InSync
    }

    /// Without signals, the mempool may be another by now.
    pub(super) fn mark_list_stale(&mut self) {
        if let Some(listed) = &mut self.last_list {
            listed.mark_stale();
        }
    }

    /// Something that the node told may have been missed: the list is asked for next.
    pub(super) fn request_list(&mut self) {
        self.last_list = None;
    }

    /// The node was away, or what it says of its mempool cannot be used.
    pub(super) fn mark_behind(&mut self) {
        self.sync = MempoolSync::Behind;
        if self.to_fetch.len() > self.max_to_fetch {
            self.to_fetch.clear();
        }
        self.request_list();
    }

    /// Goes a step towards the node's mempool. `chain` is the chain that the mempool stands on, `told` whether signals
    /// come at this time; of these there are all up to the moment `heard`.
    ///
    /// Errors: the node's, after which there will be a list; the index's.
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
        // a list says nothing new of what is on its way
        if self.to_fetch.is_empty() && self.is_list_due(has_signals) && !self.list(node, chain)? {
            return Ok(StepOutcome::OtherTip);
        }
        if !self.to_fetch.is_empty() {
            return Ok(StepOutcome::Unfinished);
        }
        if self.info_at.is_none_or(|asked| asked.elapsed() >= INFO_INTERVAL) {
            self.record_info(&node.mempool_info()?);
            if !self.is_node_loaded {
                // it was started anew since the last list
                self.request_list();
                return Ok(StepOutcome::Unfinished);
            }
        }
        let left = self.apply_removals(node, chain, received, now)?;
        if left != StepOutcome::Done {
            return Ok(left);
        }
        if !self.is_node_loaded {
            return Ok(StepOutcome::Done);
        }
        if self.sync == MempoolSync::Behind {
            info!(transactions = self.mempool.len(), waiting = self.orphans.len(), "the mempool is the node's");
        }
        self.sync = MempoolSync::InSync;
        if let Some(reorged) = &mut self.reorged {
            reorged.is_unverified = false;
        }
        Ok(StepOutcome::Done)
    }

    /// Notes what comes and what goes.
    fn apply_signals(&mut self, signals: Vec<ReceivedSignal>) {
        let cause = if self.is_node_loaded { Cause::New } else { Cause::Loaded };
        for ReceivedSignal { signal, at } in signals {
            match signal {
                NodeSignal::Added { txid, mempool_sequence } if mempool_sequence >= self.list_sequence => {
                    // what goes and comes at once may come with another witness
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
                    if self.sync == MempoolSync::InSync {
                        self.sync = MempoolSync::WithGaps;
                    }
                    self.request_list();
                }
                // the loop above looks for blocks itself
                _ => {}
            }
        }
    }

    /// Asks for what is wanted, as much of it as is published at once, and takes it in.
    fn fetch(&mut self, node: &Node, chain: &Snapshot, now: u64) -> Result<(), SyncError> {
        let height = chain.tip().map_or(Height::GENESIS, |tip| tip.height);
        let (mut asked, mut bytes) = (0, 0_usize);
        while !self.to_fetch.is_empty() && asked < STEP_TRANSACTIONS && bytes < STEP_BYTES && !node.stop().is_raised() {
            let wanted = self.to_fetch.take_first(BATCH);
            asked += wanted.len();
            let txids: Vec<_> = wanted.iter().map(|(txid, _)| *txid).collect();
            let fetched = Incoming::fetch(node, wanted.clone()).inspect_err(|_| {
                // when they were heard of is known nowhere else
                for (txid, note) in wanted {
                    self.to_fetch.push(txid, note);
                }
            })?;
            for mut incoming in fetched {
                bytes = bytes.saturating_add(incoming.size());
                if let Some(earlier) = self.freed.get(&incoming.txid) {
                    incoming.first_seen = incoming.first_seen.min(*earlier);
                }
                self.add_with_orphans(chain, height, incoming, now)?;
            }
            for txid in txids.into_iter().filter(|txid| self.mempool.get(txid).is_none()) {
                self.unresolved.record_failure(txid);
            }
        }
        self.load = self.load.take().and_then(|load| load.advance(self.to_fetch.len()));
        Ok(())
    }

    /// Adds a transaction, and what waited for it.
    fn add_with_orphans(
        &mut self,
        chain: &Snapshot,
        height: Height,
        incoming: Incoming,
        now: u64,
    ) -> Result<(), IndexError> {
        let mut next = vec![incoming];
        while let Some(incoming) = next.pop() {
            let txid = incoming.txid;
            if self.mempool.get(&txid).is_some_and(|entry| entry.wtxid != incoming.wtxid) {
                self.mempool.remove(&txid, Departure::Unknown, now);
                // what stood on it left with it, and may be there in the node's
                self.request_list();
            }
            match incoming.add(self.mempool, chain, height, now)? {
                AddOutcome::Added => next.extend(self.orphans.take(&txid)),
                // one that is refused counts as missed
                AddOutcome::Known | AddOutcome::Rejected => {}
                AddOutcome::Orphan(parent) => self.orphans.push(parent, incoming),
            }
        }
        Ok(())
    }

    /// Removes what left the node's mempool, but for what was told just now, for what it may have left for. Nothing leaves
    /// while the node stands on another block: what it holds tells why.
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
            let standing = node.mempool_status()?;
            if chain.tip().is_none_or(|tip| tip.hash != standing.tip) {
                return Ok(StepOutcome::OtherTip);
            }
            self.record_info(&standing.info);
            if !standing.info.loaded {
                // it was started anew, and what it will read is not known yet
                self.removals.clear();
                self.mark_behind();
                return Ok(StepOutcome::Unfinished);
            }
            for (txid, departure) in departures(&self.mempool.snapshot(), &due, now, chain, self.reorged.as_ref())? {
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

/// Seconds since 1970, until now.
pub(super) fn now() -> u64 {
    seconds(SystemTime::now())
}
