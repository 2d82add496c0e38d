//! The record of a reorganisation, stored while the index follows it.
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

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::debug;

use super::error::SyncError;
use super::reorg_record::Record;
use super::sync_loop::SyncLoop;
use crate::index::Snapshot;

/// The longest time for writing the mempool before the outcome.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

impl SyncLoop<'_> {
    /// Resumes the record that an earlier run did not close: the first list determines the outcome.
    pub(super) fn resume_record(&mut self) -> Result<(), SyncError> {
        if let Some(chain) = self.chain.as_ref().filter(|_| self.mempool_sync.is_some()) {
            self.record = Record::open(chain)?;
        }
        Ok(())
    }

    /// Writes the mempool, which is equal to the node's, and then the outcome of the last reorganisation. Returns
    /// whether the outcome was stored, and has to be published.
    ///
    /// The record keeps the first-seen times until all of the mempool is persisted: if that takes longer, the record is
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
        // the record stays until its outcome is stored, or overdue
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

    /// Closes a record without an outcome if the node's mempool did not become available. Writes the mempool first,
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
