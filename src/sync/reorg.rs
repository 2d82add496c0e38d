//! The record of a reorganisation, written while the index follows it.
//!
//! ```text
//!   commit that disconnects blocks ──► new record: fork, disconnected and connected blocks, first-seen times
//!   later commits, until the chain is as high as before ──► the record grows
//!   the next list of the node's mempool ──► commit of the mempool ──► the outcome of the transactions in the record
//! ```
//!
//! The first two are part of the commits that change the chain, so that a crash never leaves a changed chain without a
//! record. After a crash before the third the next run resumes the record. The first-seen times leave the record in a
//! commit after that of the mempool, or move into the record of the next reorganisation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bitcoin::Txid;
use tracing::debug;

use super::error::SyncError;
use super::follow::SyncLoop;
use super::mempool::now;
use crate::index::{IndexError, Reorg, ReorgOutcome, Snapshot, Tip, Update};

/// How long a record waits for the node's mempool before it is closed without an outcome.
const OUTCOME_TIMEOUT: Duration = Duration::from_mins(10);
/// The longest time for writing the mempool before the outcome.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// The most first-seen times in a record: those of the newest transactions.
const MAX_FIRST_SEEN: usize = 1_000_000;

/// The record of a reorganisation that is not closed.
pub(super) struct Record {
    number: u64,
    pub(super) reorg: Reorg,
    /// First-seen times of earlier records that were not closed.
    inherited: Vec<(Txid, u64)>,
    /// When it was last written.
    written_at: Instant,
}

/// What a commit changes, relative to the published chain.
pub(super) struct ReorgChange<'w> {
    /// The newest block of both chains; `None` if they share no block.
    pub(super) fork: Option<Tip>,
    /// Disconnected blocks, the highest first.
    pub(super) disconnected: &'w [Tip],
    /// Connected blocks, the lowest first.
    pub(super) connected: &'w [Tip],
    /// First-seen times of transactions of the disconnected blocks that are in no connected block.
    pub(super) first_seen: &'w BTreeMap<Txid, u64>,
}

impl Record {
    /// The newest record of the index, if it is not closed.
    fn open(chain: &Snapshot) -> Result<Option<Self>, IndexError> {
        let newest = chain.reorgs(chain.kept_reorgs()?)?.next_back().transpose()?;
        let open = newest.filter(|(_, reorg)| reorg.outcome.is_none());
        Ok(open.map(|(number, reorg)| Self { number, reorg, inherited: Vec::new(), written_at: Instant::now() }))
    }

    /// Writes a change that disconnects blocks into the commit that makes it: as a new record, or into the record of an
    /// earlier commit of the same change. An open record of another reorganisation is closed without an outcome.
    pub(super) fn write_change(
        record: &mut Option<Self>,
        is_same: bool,
        update: &mut Update<'_>,
        change: &ReorgChange<'_>,
    ) -> Result<(), IndexError> {
        let Some(fork) = change.fork else { return Ok(()) };
        let inherited = match record {
            Some(before) if is_same => std::mem::take(&mut before.inherited),
            Some(before) => std::mem::take(&mut before.reorg.first_seen),
            None => Vec::new(),
        };
        let hashes = |tips: &[Tip]| tips.iter().map(|tip| tip.hash).collect();
        let reorg = Reorg {
            at: now(),
            fork,
            disconnected: hashes(change.disconnected),
            connected: hashes(change.connected),
            outcome: None,
            first_seen: merge_first_seen(change.first_seen, &inherited),
        };
        let number = match record.take() {
            Some(before) if is_same => {
                update.amend_reorg(before.number, &reorg)?;
                before.number
            }
            before => {
                if let Some(before) = before {
                    before.abandon(update)?;
                }
                update.record_reorg(&reorg)?
            }
        };
        *record = Some(Self { number, reorg, inherited, written_at: Instant::now() });
        Ok(())
    }

    /// Adds connected blocks to the record until the chain is as high as before.
    pub(super) fn grow(&mut self, update: &mut Update<'_>, new_blocks: &[Tip]) -> Result<(), IndexError> {
        let Reorg { fork, connected, disconnected, .. } = &self.reorg;
        let next = connected.iter().fold(fork.height.next(), |height, _| height.next());
        // the new blocks do not extend it if the chain was followed without the mempool for a while
        let are_next = new_blocks.first().is_some_and(|first| first.height == next);
        if are_next && connected.len() < disconnected.len() {
            self.reorg.connected.extend(new_blocks.iter().map(|tip| tip.hash));
            update.amend_reorg(self.number, &self.reorg)?;
            self.written_at = Instant::now();
        }
        Ok(())
    }

    /// Writes the outcome of the transactions.
    pub(super) fn finish(&self, update: &mut Update<'_>, outcome: ReorgOutcome) -> Result<(), IndexError> {
        let Reorg { at, fork, disconnected, connected, .. } = &self.reorg;
        let (disconnected, connected) = (disconnected.clone(), connected.clone());
        let reorg =
            Reorg { at: *at, fork: *fork, disconnected, connected, outcome: Some(outcome), first_seen: Vec::new() };
        update.amend_reorg(self.number, &reorg)
    }

    /// Closes the record without an outcome.
    pub(super) fn abandon(&self, update: &mut Update<'_>) -> Result<(), IndexError> {
        self.finish(update, ReorgOutcome::default())
    }

    /// Whether the wait for the node's mempool is over.
    fn is_overdue(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.written_at) >= OUTCOME_TIMEOUT
    }
}

/// Both lists, the first where both have a transaction, up to the bound of a record.
fn merge_first_seen(first_seen: &BTreeMap<Txid, u64>, inherited: &[(Txid, u64)]) -> Vec<(Txid, u64)> {
    let others = inherited.iter().filter(|(txid, _)| !first_seen.contains_key(txid)).copied();
    first_seen.iter().map(|(txid, seconds)| (*txid, *seconds)).chain(others).take(MAX_FIRST_SEEN).collect()
}

/// The first-seen times of the transactions above a fork.
pub(super) fn first_seen_above(chain: &Snapshot, fork: Tip) -> Result<BTreeMap<Txid, u64>, SyncError> {
    Ok(chain.first_seen_above(fork.height)?.take(MAX_FIRST_SEEN).collect::<Result<_, _>>()?)
}

impl SyncLoop<'_> {
    /// Resumes the record that an earlier run did not close: the first list determines the outcome.
    pub(super) fn resume_record(&mut self) -> Result<(), SyncError> {
        if let Some(chain) = self.chain.as_ref().filter(|_| self.mempool_sync.is_some()) {
            self.record = Record::open(chain)?;
        }
        Ok(())
    }

    /// Writes the mempool, which is equal to the node's, and then the outcome of the last reorganisation. Returns
    /// whether the outcome was written, and has to be published.
    ///
    /// The record keeps the first-seen times until the whole mempool is written: if that takes longer, the record is
    /// closed later.
    pub(super) fn finish_reorg(&mut self, chain: &Snapshot) -> Result<bool, SyncError> {
        self.finish_reorg_within(chain, WRITE_TIMEOUT)
    }

    /// [`Self::finish_reorg`] with a bound on the time for writing the mempool, at least one commit.
    fn finish_reorg_within(&mut self, chain: &Snapshot, timeout: Duration) -> Result<bool, SyncError> {
        if self.record.is_none() || !self.write_changes(Instant::now() + timeout)?.is_all {
            return Ok(false);
        }
        let (Some(record), Some(mempool_sync)) = (&self.record, &mut self.mempool_sync) else { return Ok(false) };
        // the record stays until its outcome is written, or overdue
        let outcome = match mempool_sync.outcome(chain, &record.reorg.left().collect::<Vec<_>>()) {
            Ok(outcome) => outcome,
            Err(error) if error.is_transient() => {
                debug!(%error, "the outcome of a reorganisation cannot be read yet");
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let mut update = self.follow.index.update()?;
        record.finish(&mut update, outcome)?;
        update.commit_non_durable()?;
        self.record = None;
        self.follow.index.flush_soon()?;
        mempool_sync.set_freed_first_seen(&[]);
        Ok(true)
    }

    /// Writes and publishes the outcome of the last reorganisation, as the mempool is equal to the node's.
    pub(super) fn publish_outcome(&mut self) -> Result<(), SyncError> {
        let Some(chain) = self.chain.clone().filter(|_| self.record.is_some()) else { return Ok(()) };
        if self.finish_reorg(&chain)? { self.reannounce() } else { Ok(()) }
    }

    /// Closes a record without an outcome if the node's mempool did not become available. The mempool is written first,
    /// as the record loses its first-seen times.
    pub(super) fn close_overdue_record(&mut self, now: Instant) -> Result<(), SyncError> {
        let is_overdue = self.record.as_ref().is_some_and(|record| record.is_overdue(now));
        if !is_overdue || !self.write_changes(Instant::now() + WRITE_TIMEOUT)?.is_all {
            return Ok(());
        }
        let Some(record) = &self.record else { return Ok(()) };
        let mut update = self.follow.index.update()?;
        record.abandon(&mut update)?;
        update.commit_non_durable()?;
        self.record = None;
        self.follow.index.flush_soon()?;
        if let Some(mempool_sync) = &mut self.mempool_sync {
            mempool_sync.set_freed_first_seen(&[]);
        }
        self.reannounce()
    }

    /// Publishes the same chain with newly committed rows.
    pub(super) fn reannounce(&mut self) -> Result<(), SyncError> {
        let chain = Arc::new(self.follow.index.snapshot()?);
        self.announce(&chain, Vec::new());
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::sync) mod tests;
