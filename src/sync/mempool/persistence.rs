//! What of the mempool outlives the process: written into the index every so often and at the end, taken up at the start.
//!
//! ```text
//!   start ──► departures, transactions ──► as they are possible on the chain now ──► the first list makes up the rest
//!   turn  ──► what changed since the last writing, by the numbers of events and departures ──► one commit
//! ```
//!
//! Nothing depends on it: what was not written when the process ended is asked of the node repeat_soon, without its first-seen
//! time where the node does not know that.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bitcoin::Txid;
use tracing::{info, warn};

use super::conflicts::correct_departures;
use super::incoming::{AddOutcome, Incoming};
use super::{Unconfirmed, now};
use crate::index::{Index, IndexError, Observations, Snapshot};
use crate::mempool::{Departed, Entry, Mempool, MempoolLimits, MempoolSample, MempoolSnapshot};

/// What changed is written this often.
const WRITE: Duration = Duration::from_secs(10);
/// Events that one commit writes at most.
const EVENTS: usize = 5_000;
/// A sample is taken in each minute.
const MINUTE: u64 = 60;

/// A transaction and how it is written; nothing if it is no longer there.
type MempoolRow = (Txid, Option<Vec<u8>>);

/// Up to where the mempool is written down.
pub(super) struct Persistence {
    /// When all of it was written.
    written: Instant,
    /// The number of the newest event whose effect is written.
    events: u64,
    /// The number of the newest departure that is written.
    departed: u64,
    /// Departures below this number are written without their transaction.
    bare: u64,
    /// Transactions that are written, and were not taken up.
    rejected: Vec<Txid>,
    /// The minute of the newest sample.
    sampled: Option<u32>,
}

impl Default for Persistence {
    fn default() -> Self {
        Self { written: Instant::now(), events: 0, departed: 0, bare: 0, rejected: Vec::new(), sampled: None }
    }
}

/// What is to be written now.
pub(in crate::sync) struct PendingWrite {
    pub(in crate::sync) observations: Observations,
    /// Whether what is written is not known any more, so that it has to be forgotten first.
    pub(in crate::sync) clear_first: bool,
    /// Whether there is more to be written after it.
    pub(in crate::sync) has_more: bool,
}

/// A mempool with what was written down of it, to be followed on from there. There is one, as there is one of its kind.
#[derive(Default)]
pub struct PersistentMempool {
    pub(in crate::sync) mempool: Mempool,
    pub(super) persistence: Persistence,
    /// When transactions of blocks that left were first seen, if it was not written down what became of them.
    pub(in crate::sync) freed: HashMap<Txid, u64>,
}

impl PersistentMempool {
    /// Takes up what an earlier run wrote into this index, as far as it is possible on its chain. Rows that say nothing are
    /// passed over.
    ///
    /// Errors: the index cannot be read.
    pub fn load(index: &Index, limits: MempoolLimits) -> Result<Self, IndexError> {
        let mut kept = Self { mempool: Mempool::new(limits), ..Self::default() };
        let chain = index.snapshot()?;
        if let Some(newest) = chain.reorgs(chain.kept_reorgs()?)?.next_back().transpose()? {
            kept.freed.extend(newest.1.first_seen);
        }
        kept.load_departures(&chain)?;
        kept.load_transactions(&chain)?;
        let snapshot = kept.snapshot();
        kept.persistence.events = snapshot.sequence();
        kept.persistence.bare = snapshot.departed_whole_from();
        if !snapshot.is_empty() {
            info!(transactions = snapshot.len(), "took up the mempool of the last run");
        }
        Ok(kept)
    }

    /// The mempool as it is.
    pub fn snapshot(&mut self) -> MempoolSnapshot {
        self.mempool.snapshot()
    }

    fn load_departures(&mut self, chain: &Snapshot) -> Result<(), IndexError> {
        for row in chain.persisted_departed()? {
            let (number, row) = row?;
            self.persistence.departed = number;
            match Departed::decode(number, &row) {
                // it came back, and into a block
                Ok(departed) if !chain.positions(&departed.txid)?.is_empty() => {}
                Ok(departed) => self.mempool.resume_departed([departed]),
                Err(error) => warn!(number, %error, "a departure that was written down cannot be read"),
            }
        }
        // also where the last of them were passed over
        self.mempool.resume_departures_after(self.persistence.departed);
        let conflicts = correct_departures(&mut self.mempool, chain, now())?;
        if conflicts > 0 {
            info!(conflicts, "blocks that were connected without the mempool explain departures");
        }
        Ok(())
    }

    fn load_transactions(&mut self, chain: &Snapshot) -> Result<(), IndexError> {
        let mut entries = Vec::new();
        for row in chain.persisted_mempool()? {
            let (txid, row) = row?;
            match Entry::decode(&row) {
                Ok(entry) if entry.txid == txid => entries.push(entry),
                Ok(_) => self.persistence.rejected.push(txid),
                Err(error) => {
                    warn!(%txid, %error, "a transaction that was written down cannot be read");
                    self.persistence.rejected.push(txid);
                }
            }
        }
        // as they arrived: parents come first
        entries.sort_unstable_by_key(|entry| entry.sequence);
        let now = now();
        for entry in entries {
            let (txid, height) = (entry.txid, entry.height);
            if !matches!(Incoming::from(entry).add(&mut self.mempool, chain, height, now)?, AddOutcome::Added) {
                self.persistence.rejected.push(txid);
            }
        }
        Ok(())
    }
}

impl Unconfirmed<'_> {
    /// Whether it is time to write repeat_soon, or as much has changed as one commit writes: a list that is on its way in would
    /// else be written all at once.
    pub(in crate::sync) fn is_write_due(&self) -> bool {
        let unwritten = self.mempool.sequence().saturating_sub(self.persistence.events);
        self.persistence.written.elapsed() >= WRITE
            || usize::try_from(unwritten).is_ok_and(|unwritten| unwritten >= EVENTS)
    }

    /// What changed since the last writing and counts as written from now on, `None` if nothing did.
    pub(in crate::sync) fn take_changes(&mut self) -> Option<PendingWrite> {
        let snapshot = self.mempool.snapshot();
        let in_sync = self.is_in_sync();
        let persistence = &mut *self.persistence;
        let (mempool, clear_first) = persistence.changes(&snapshot);
        let departed = persistence.departures(&snapshot);
        let mempool_sample = if in_sync { persistence.sample(&snapshot, now()) } else { None };
        let observations = Observations { mempool, departed, mempool_sample };
        let has_more = persistence.events < snapshot.sequence();
        if !has_more {
            persistence.written = Instant::now();
        }
        let nothing = observations == Observations::default() && !clear_first;
        (!nothing).then_some(PendingWrite { observations, clear_first, has_more })
    }
}

impl Persistence {
    /// What became of the transactions that the next events speak of; or all there are, if not all events are remembered.
    /// With it whether it is all.
    fn changes(&mut self, snapshot: &MempoolSnapshot) -> (Vec<MempoolRow>, bool) {
        let Some(events) = snapshot.events_after(self.events) else {
            self.events = snapshot.sequence();
            self.rejected.clear();
            return (snapshot.by_arrival(..).map(|entry| (entry.txid, Some(entry.encode()))).collect(), true);
        };
        let mut touched: HashSet<Txid> = self.rejected.drain(..).collect();
        for event in events.take(EVENTS) {
            self.events = event.sequence;
            touched.insert(event.kind.txid());
        }
        let row = |txid| (txid, snapshot.get(&txid).map(|entry| entry.encode()));
        (touched.into_iter().map(row).collect(), false)
    }

    /// The departures that are not written yet, and those that lost their transaction since they were.
    fn departures(&mut self, snapshot: &MempoolSnapshot) -> Vec<(u64, Vec<u8>)> {
        let whole_from = snapshot.departed_whole_from();
        let new = snapshot.newest_departed(u64::MAX).take_while(|departed| departed.sequence > self.departed);
        let mut rows: Vec<_> = new.map(|departed| (departed.sequence, departed.encode())).collect();
        let written = (self.departed + 1).min(whole_from);
        let bare = snapshot.newest_departed(written).take_while(|departed| departed.sequence >= self.bare);
        rows.extend(bare.map(|departed| (departed.sequence, departed.encode())));
        self.departed = rows.first().map_or(self.departed, |(number, _)| self.departed.max(*number));
        self.bare = whole_from;
        rows
    }

    /// A sample, if none was taken in this minute yet.
    fn sample(&mut self, snapshot: &MempoolSnapshot, now: u64) -> Option<(u32, Vec<u8>)> {
        let minute = u32::try_from(now / MINUTE).ok().filter(|minute| self.sampled != Some(*minute))?;
        self.sampled = Some(minute);
        Some((minute, MempoolSample::of(snapshot, now).encode()))
    }
}
