//! What is written down of a reorganisation while it is followed.
//!
//! ```text
//!   commit with blocks that left ──► a record: fork, blocks that left, that joined; first seen of what they freed
//!   each later commit of the same reorganisation, until it is as high as before ──► the record grows
//!   the node's next list of its mempool ──► the mempool is written, and the record says what became of transactions
//! ```
//!
//! The first two are part of the commits that change the chain, so that no end of the process leaves the chain changed and
//! the change unsaid. If it ends before the third, the next run goes on with the record. The first-seen times leave the
//! record in a commit after that of the mempool, or with another reorganisation pass into its record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bitcoin::Txid;

use super::error::SyncError;
use super::follow::SyncLoop;
use super::mempool::now;
use crate::index::{IndexError, Reorg, ReorgOutcome, Snapshot, Tip, Update};

/// How long the node's mempool is waited for before a record stays without what became of transactions.
const OUTCOME_TIMEOUT: Duration = Duration::from_mins(10);
/// The mempool is written for so long at most before what became of transactions is.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// First-seen times that a record holds at most: those of the newest transactions.
const MAX_FIRST_SEEN: usize = 1_000_000;

/// The record of a reorganisation that is not finished.
pub(super) struct Record {
    number: u64,
    pub(super) reorg: Reorg,
    /// What it keeps of records before it that were not finished: when transactions were first seen.
    kept: Vec<(Txid, u64)>,
    /// When it was written last.
    written: Instant,
}

/// What a commit changes of the chain, seen from the chain that was published last.
pub(super) struct ReorgChange<'w> {
    /// The newest block of both chains; `None` if not even the first is.
    pub(super) fork: Option<Tip>,
    /// Blocks that leave, the highest first.
    pub(super) disconnected: &'w [Tip],
    /// Blocks that join, the lowest first.
    pub(super) connected: &'w [Tip],
    /// When transactions of those that leave were first seen which those that join do not hold.
    pub(super) first_seen: &'w BTreeMap<Txid, u64>,
}

impl Record {
    /// The newest record of this chain's index, if it is not finished.
    fn unfinished(chain: &Snapshot) -> Result<Option<Self>, IndexError> {
        let newest = chain.reorgs(chain.kept_reorgs()?)?.next_back().transpose()?;
        let unfinished = newest.filter(|(_, reorg)| reorg.outcome.is_none());
        Ok(unfinished.map(|(number, reorg)| Self { number, reorg, kept: Vec::new(), written: Instant::now() }))
    }

    /// Writes a change in which blocks leave into the commit that makes it: anew, or as more of what an earlier commit
    /// of the same change wrote. A record of another reorganisation that was not finished stays so.
    pub(super) fn note(
        record: &mut Option<Self>,
        is_same: bool,
        update: &mut Update<'_>,
        change: &ReorgChange<'_>,
    ) -> Result<(), IndexError> {
        let Some(fork) = change.fork else { return Ok(()) };
        let kept = match record {
            Some(before) if is_same => std::mem::take(&mut before.kept),
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
            first_seen: merge_first_seen(change.first_seen, &kept),
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
        *record = Some(Self { number, reorg, kept, written: Instant::now() });
        Ok(())
    }

    /// Notes blocks that join behind those that did, as long as the chain is not as high as it was.
    pub(super) fn grow(&mut self, update: &mut Update<'_>, new_blocks: &[Tip]) -> Result<(), IndexError> {
        let Reorg { fork, connected, disconnected, .. } = &self.reorg;
        let next = connected.iter().fold(fork.height.next(), |height, _| height.next());
        // they are not behind those that did if the chain was followed for a while without the mempool
        let are_next = new_blocks.first().is_some_and(|first| first.height == next);
        if are_next && connected.len() < disconnected.len() {
            self.reorg.connected.extend(new_blocks.iter().map(|tip| tip.hash));
            update.amend_reorg(self.number, &self.reorg)?;
            self.written = Instant::now();
        }
        Ok(())
    }

    /// Notes what became of the transactions.
    pub(super) fn finish(mut self, update: &mut Update<'_>, outcome: ReorgOutcome) -> Result<(), IndexError> {
        self.reorg.outcome = Some(outcome);
        self.reorg.first_seen = Vec::new();
        update.amend_reorg(self.number, &self.reorg)
    }

    /// Notes that what became of the transactions will not be known.
    pub(super) fn abandon(self, update: &mut Update<'_>) -> Result<(), IndexError> {
        self.finish(update, ReorgOutcome::default())
    }

    /// Whether the node's mempool was waited for long enough by now.
    fn is_overdue(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.written) >= OUTCOME_TIMEOUT
    }
}

/// The first, and of the second what the first does not have, as many as a record holds.
fn merge_first_seen(first_seen: &BTreeMap<Txid, u64>, kept: &[(Txid, u64)]) -> Vec<(Txid, u64)> {
    let others = kept.iter().filter(|(txid, _)| !first_seen.contains_key(txid)).copied();
    first_seen.iter().map(|(txid, seconds)| (*txid, *seconds)).chain(others).take(MAX_FIRST_SEEN).collect()
}

/// When the transactions above a fork were first seen.
pub(super) fn first_seen_above(chain: &Snapshot, fork: Tip) -> Result<BTreeMap<Txid, u64>, SyncError> {
    Ok(chain.first_seen_above(fork.height)?.take(MAX_FIRST_SEEN).collect::<Result<_, _>>()?)
}

impl SyncLoop<'_> {
    /// Goes on with the record that an earlier run did not finish: what became of the transactions is known after the first
    /// list, as it would have been then.
    pub(super) fn resume_record(&mut self) -> Result<(), SyncError> {
        if let Some(chain) = self.chain.as_ref().filter(|_| self.unconfirmed.is_some()) {
            self.record = Record::unfinished(chain)?;
        }
        Ok(())
    }

    /// The mempool is the node's, in step with its chain: writes it down, then what became of the transactions of the blocks
    /// that left last. Whether that is done, and to be told.
    ///
    /// The record keeps the first-seen times until the whole mempool is written: if that takes longer, the record is
    /// finished later.
    pub(super) fn finish_reorg(&mut self, chain: &Snapshot) -> Result<bool, SyncError> {
        self.finish_reorg_within(chain, WRITE_TIMEOUT)
    }

    /// The same, where writing the mempool may take so long, or one commit.
    fn finish_reorg_within(&mut self, chain: &Snapshot, patience: Duration) -> Result<bool, SyncError> {
        if self.record.is_none() || !self.write_changes(Instant::now() + patience)?.is_all {
            return Ok(false);
        }
        let (Some(record), Some(unconfirmed)) = (self.record.take(), &mut self.unconfirmed) else { return Ok(false) };
        let outcome = unconfirmed.outcome(chain, &record.reorg.left().collect::<Vec<_>>())?;
        let mut update = self.follow.index.update()?;
        record.finish(&mut update, outcome)?;
        update.commit_non_durable()?;
        self.follow.index.flush_soon()?;
        unconfirmed.set_freed_first_seen(&[]);
        Ok(true)
    }

    /// The mempool is the node's: what became of the transactions of the blocks that left last is known now, and told.
    pub(super) fn publish_outcome(&mut self) -> Result<(), SyncError> {
        let Some(chain) = self.chain.clone().filter(|_| self.record.is_some()) else { return Ok(()) };
        if self.finish_reorg(&chain)? { self.reannounce() } else { Ok(()) }
    }

    /// Leaves a record without what became of the transactions, if the node does not tell what is in its mempool. What is
    /// known of it is written down first, as the record does not keep the first-seen times any longer.
    pub(super) fn close_overdue_record(&mut self, now: Instant) -> Result<(), SyncError> {
        let is_overdue = self.record.as_ref().is_some_and(|record| record.is_overdue(now));
        if !is_overdue || !self.write_changes(Instant::now() + WRITE_TIMEOUT)?.is_all {
            return Ok(());
        }
        let Some(record) = self.record.take() else { return Ok(()) };
        let mut update = self.follow.index.update()?;
        record.abandon(&mut update)?;
        update.commit_non_durable()?;
        self.follow.index.flush_soon()?;
        if let Some(unconfirmed) = &mut self.unconfirmed {
            unconfirmed.set_freed_first_seen(&[]);
        }
        self.reannounce()
    }

    /// The chain is the same, and there is more to be read of it.
    pub(super) fn reannounce(&mut self) -> Result<(), SyncError> {
        let chain = Arc::new(self.follow.index.snapshot()?);
        self.announce(&chain, Vec::new());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
