//! Writes the changes of the mempool to the index, periodically and at the end.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bitcoin::Txid;

use super::clock::now;
use super::mempool_sync::MempoolSync;
use super::persistence::Persistence;
use crate::chain::Height;
use crate::index::{Observations, Tip};
use crate::mempool::{MempoolSample, MempoolSnapshot};

/// The interval between writes.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// With so many events a write is due before the interval has passed.
const DUE_EVENTS: u64 = 5_000;
/// The most events in one commit. A block that arrives meanwhile waits for the end of the commit. Departures are not counted, nor a
/// write of all rows.
pub(in crate::sync) const MAX_EVENTS: usize = 1_000;
/// One sample is taken in each minute.
const SAMPLE_INTERVAL: u64 = 60;

/// A transaction and its row; `None` if it left.
type MempoolRow = (Txid, Option<Vec<u8>>);

/// A write to the index.
pub(in crate::sync) struct PendingWrite {
    pub(in crate::sync) observations: Observations,
    /// Whether the persisted rows are unknown, so that they have to be deleted first.
    pub(in crate::sync) clear_first: bool,
    /// Whether another write has to follow.
    pub(in crate::sync) has_more: bool,
}

impl MempoolSync<'_> {
    /// Whether a write is due: the interval has passed, or [`DUE_EVENTS`] are pending.
    pub(in crate::sync) fn is_write_due(&self) -> bool {
        let unwritten = self.mempool.sequence().saturating_sub(self.persistence.events);
        self.persistence.written_at.elapsed() >= WRITE_INTERVAL || unwritten >= DUE_EVENTS
    }

    /// Takes the changes since the last write, which count as persisted from now on; `None` if there are none.
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
