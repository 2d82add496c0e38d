//! Persists the mempool: writes its changes to the index periodically and at the end, and loads them at the start.
//!
//! ```text
//!   start ──► departures, transactions ──► entries that are valid on the current chain ──► the first list adds the rest
//!   round ──► changes since the last write, by the numbers of events and departures ──► commits
//! ```
//!
//! Nothing depends on these rows: what was not written before a crash is requested from the node again, without its
//! first-seen time where the node does not know it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bitcoin::Txid;
use tracing::{debug, info, warn};

use super::conflicts::correct_departures;
use super::incoming::{AddOutcome, Incoming};
use super::orphans::Orphans;
use super::{MempoolSync, now};
use crate::chain::Height;
use crate::index::{Index, IndexError, Observations, Snapshot, Tip};
use crate::mempool::{Departed, Entry, Mempool, MempoolLimits, MempoolSample, MempoolSnapshot};

/// The interval between writes.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// So many events are written before the interval has passed.
const DUE_EVENTS: u64 = 5_000;
/// The most events in one commit. A block that arrives meanwhile waits for the end of the commit. Departures are not counted, nor a
/// write of all rows.
pub(in crate::sync) const MAX_EVENTS: usize = 1_000;
/// One sample is taken in each minute.
const SAMPLE_INTERVAL: u64 = 60;

/// A transaction and its row; `None` if it left.
type MempoolRow = (Txid, Option<Vec<u8>>);

/// What is persisted of the mempool.
pub(super) struct Persistence {
    /// When everything was last written.
    written_at: Instant,
    /// The sequence number of the newest event whose effect is persisted.
    events: u64,
    /// The sequence number of the newest persisted departure.
    departed: u64,
    /// Departures below this number are persisted without their transaction.
    bare_below: u64,
    /// Persisted transactions that could not be loaded.
    rejected: Vec<Txid>,
    /// The minute of the newest sample.
    sampled: Option<u32>,
}

impl Default for Persistence {
    fn default() -> Self {
        Self { written_at: Instant::now(), events: 0, departed: 0, bare_below: 0, rejected: Vec::new(), sampled: None }
    }
}

/// A write to the index.
pub(in crate::sync) struct PendingWrite {
    pub(in crate::sync) observations: Observations,
    /// Whether the persisted rows are unknown, so that they have to be deleted first.
    pub(in crate::sync) clear_first: bool,
    /// Whether another write has to follow.
    pub(in crate::sync) has_more: bool,
}

/// A mempool and what is persisted of it. It does not implement `Clone`, since each index has only one.
#[derive(Default)]
pub struct PersistentMempool {
    pub(in crate::sync) mempool: Mempool,
    pub(super) persistence: Persistence,
    /// First-seen times of transactions of disconnected blocks whose outcome is not persisted.
    pub(in crate::sync) freed: HashMap<Txid, u64>,
}

impl PersistentMempool {
    /// Loads what an earlier run persisted in this index, as far as it is valid on the current chain. Invalid rows are
    /// skipped.
    ///
    /// Errors: the index cannot be read, or the bytes of what a transaction spends are not available.
    pub fn load(index: &Index, limits: MempoolLimits) -> Result<Self, IndexError> {
        Self::load_with(index, limits, false)
    }

    /// Loads it without transactions whose prevouts cannot be read now, and their descendants: the node's list has them, and their
    /// times are kept.
    ///
    /// Errors: the index cannot be read.
    pub fn load_readable(index: &Index, limits: MempoolLimits) -> Result<Self, IndexError> {
        Self::load_with(index, limits, true)
    }

    fn load_with(index: &Index, limits: MempoolLimits, omits_unreadable: bool) -> Result<Self, IndexError> {
        let mut loaded = Self { mempool: Mempool::new(limits), ..Self::default() };
        let chain = index.snapshot()?;
        if let Some(newest) = chain.reorgs(chain.kept_reorgs()?)?.next_back().transpose()? {
            loaded.freed.extend(newest.1.first_seen);
        }
        loaded.load_departures(&chain)?;
        loaded.load_transactions(&chain, omits_unreadable)?;
        let snapshot = loaded.snapshot();
        loaded.persistence.events = snapshot.sequence();
        loaded.persistence.bare_below = snapshot.departed_whole_from();
        if !snapshot.is_empty() {
            info!(transactions = snapshot.len(), "loaded the mempool of the last run");
        }
        Ok(loaded)
    }

    /// A snapshot of the mempool.
    pub fn snapshot(&mut self) -> MempoolSnapshot {
        self.mempool.snapshot()
    }

    fn load_departures(&mut self, chain: &Snapshot) -> Result<(), IndexError> {
        for row in chain.persisted_departed()? {
            let (number, row) = row?;
            self.persistence.departed = number;
            match Departed::decode(number, &row) {
                // it returned, and a block contains it
                Ok(departed) if !chain.positions(&departed.txid)?.is_empty() => {}
                Ok(departed) => self.mempool.load_departed([departed]),
                Err(error) => warn!(number, %error, "cannot read a persisted departure"),
            }
        }
        // also if the last of them were skipped
        self.mempool.number_departures_after(self.persistence.departed);
        let conflicts = correct_departures(&mut self.mempool, chain, now())?;
        if conflicts > 0 {
            info!(conflicts, "blocks that were connected without the mempool explain departures");
        }
        Ok(())
    }

    fn load_transactions(&mut self, chain: &Snapshot, omits_unreadable: bool) -> Result<(), IndexError> {
        let mut entries = Vec::new();
        for row in chain.persisted_mempool()? {
            let (txid, row) = row?;
            match Entry::decode(&row) {
                Ok(entry) if entry.txid == txid => entries.push(entry),
                Ok(_) => self.persistence.rejected.push(txid),
                Err(error) => {
                    warn!(%txid, %error, "cannot read a persisted transaction");
                    self.persistence.rejected.push(txid);
                }
            }
        }
        // in the order of arrival, in which most parents precede their children: not those that a disconnected block returned,
        // nor those of an earlier run than that of their children, since each run counts from 1
        entries.sort_unstable_by_key(|entry| entry.sequence);
        let (now, mut orphans, mut heights) = (now(), Orphans::default(), HashMap::new());
        for entry in entries {
            let mut next = vec![(entry.height, Incoming::from(entry))];
            while let Some((height, incoming)) = next.pop() {
                let (txid, first_seen) = (incoming.txid, incoming.first_seen);
                match incoming.add(&mut self.mempool, chain, height, now) {
                    Ok(AddOutcome::Added) => {
                        let waiting = orphans.take(&txid).into_iter();
                        next.extend(waiting.filter_map(|orphan| Some((heights.remove(&orphan.txid)?, orphan))));
                    }
                    Ok(AddOutcome::Orphan(parent)) => {
                        heights.insert(txid, height);
                        orphans.push(parent, incoming);
                    }
                    Ok(AddOutcome::Known | AddOutcome::Rejected) => self.persistence.rejected.push(txid),
                    Err(error) if omits_unreadable && error.is_transient() => {
                        debug!(%txid, %error, "a transaction of the last run is left to the node's list");
                        self.freed.insert(txid, first_seen);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if omits_unreadable {
            // their parents may be among those
            self.freed.extend(orphans.first_seen());
        } else {
            self.persistence.rejected.extend(orphans.txids());
        }
        Ok(())
    }
}

impl MempoolSync<'_> {
    /// Whether a write is due: the interval has passed, or [`DUE_EVENTS`] are pending.
    pub(in crate::sync) fn is_write_due(&self) -> bool {
        let unwritten = self.mempool.sequence().saturating_sub(self.persistence.events);
        self.persistence.written_at.elapsed() >= WRITE_INTERVAL || unwritten >= DUE_EVENTS
    }

    /// Takes the changes since the last write, which count as written from now on; `None` if there are none.
    ///
    /// A sample of the mempool has the height of `tip`, the newest block of the index.
    pub(in crate::sync) fn take_changes(&mut self, tip: Option<Tip>) -> Option<PendingWrite> {
        let snapshot = self.mempool.snapshot();
        let in_sync = self.is_in_sync();
        let persistence = &mut *self.persistence;
        let (mempool, clear_first) = persistence.changes(&snapshot);
        let departed = persistence.departures(&snapshot);
        let tip = tip.filter(|_| in_sync);
        let mempool_sample = tip.and_then(|tip| persistence.sample(&snapshot, tip.height, now()));
        let observations = Observations { mempool, departed, mempool_sample };
        let has_more = persistence.events < snapshot.sequence();
        if !has_more {
            persistence.written_at = Instant::now();
        }
        let nothing = observations == Observations::default() && !clear_first;
        (!nothing).then_some(PendingWrite { observations, clear_first, has_more })
    }
}

impl Persistence {
    /// The rows of the transactions in the next events, or all rows if not all events are available. Also returns
    /// whether these are all rows.
    fn changes(&mut self, snapshot: &MempoolSnapshot) -> (Vec<MempoolRow>, bool) {
        let Some(events) = snapshot.events_after(self.events) else {
            self.events = snapshot.sequence();
            self.rejected.clear();
            return (snapshot.by_arrival(..).map(|entry| (entry.txid, Some(entry.encode()))).collect(), true);
        };
        let mut changed: HashSet<Txid> = self.rejected.drain(..).collect();
        for event in events.take(MAX_EVENTS) {
            self.events = event.sequence;
            changed.insert(event.kind.txid());
        }
        let row = |txid| (txid, snapshot.get(&txid).map(|entry| entry.encode()));
        (changed.into_iter().map(row).collect(), false)
    }

    /// The departures that are not persisted yet, and those whose transaction was dropped since.
    fn departures(&mut self, snapshot: &MempoolSnapshot) -> Vec<(u64, Vec<u8>)> {
        let whole_from = snapshot.departed_whole_from();
        let new = snapshot.newest_departed(u64::MAX).take_while(|departed| departed.sequence > self.departed);
        let mut rows: Vec<_> = new.map(|departed| (departed.sequence, departed.encode())).collect();
        let written = (self.departed + 1).min(whole_from);
        let stripped = snapshot.newest_departed(written).take_while(|departed| departed.sequence >= self.bare_below);
        rows.extend(stripped.map(|departed| (departed.sequence, departed.encode())));
        self.departed = rows.first().map_or(self.departed, |(number, _)| self.departed.max(*number));
        self.bare_below = whole_from;
        rows
    }

    /// A sample, if this minute has none yet.
    fn sample(&mut self, snapshot: &MempoolSnapshot, tip: Height, now: u64) -> Option<(u32, Vec<u8>)> {
        let minute = u32::try_from(now / SAMPLE_INTERVAL).ok().filter(|minute| self.sampled != Some(*minute))?;
        self.sampled = Some(minute);
        Some((minute, MempoolSample::of(snapshot, tip, now).encode()))
    }
}
