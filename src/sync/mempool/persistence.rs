//! What is persisted of the mempool, and how it is loaded at the start.
//!
//! ```text
//!   start ──► departures, transactions ──► entries that are valid on the current chain ──► the first list adds the rest
//!   round ──► changes since the last write, by the numbers of events and departures (`writes.rs`) ──► commits
//! ```
//!
//! Nothing depends on these rows: what a crash loses is requested from the node again, without its
//! first-seen time where the node does not know it.

use std::collections::HashMap;
use std::time::Instant;

use bitcoin::Txid;
use tracing::{debug, info, warn};

use super::clock::now;
use super::conflicts::correct_departures;
use super::incoming::{AddOutcome, Incoming};
use super::orphans::Orphans;
use crate::index::{Index, IndexError, Snapshot};
use crate::mempool::{Departed, Entry, Mempool, MempoolLimits, MempoolSnapshot};

/// What is persisted of the mempool.
pub(super) struct Persistence {
    /// When all was last persisted.
    pub(super) written_at: Instant,
    /// The sequence number of the newest event whose effect is persisted.
    pub(super) events: u64,
    /// The sequence number of the newest persisted departure.
    pub(super) departed: u64,
    /// Departures below this number are persisted without their transaction.
    pub(super) bare_below: u64,
    /// Persisted transactions that could not be loaded.
    pub(super) rejected: Vec<Txid>,
    /// The minute of the newest sample.
    pub(super) sampled: Option<u32>,
}

impl Default for Persistence {
    fn default() -> Self {
        Self { written_at: Instant::now(), events: 0, departed: 0, bare_below: 0, rejected: Vec::new(), sampled: None }
    }
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
