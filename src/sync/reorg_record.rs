//! The record of one reorganisation: begun, grown, and closed with an outcome or without.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bitcoin::Txid;

use super::error::SyncError;
use super::mempool::now;
use crate::index::{IndexError, Reorg, ReorgOutcome, Snapshot, Tip, Update};

/// How long a record waits for the node's mempool before it is closed without an outcome.
const OUTCOME_TIMEOUT: Duration = Duration::from_mins(10);
/// The most first-seen times in a record: those of the newest transactions.
const MAX_FIRST_SEEN: usize = 1_000_000;

/// The record of a reorganisation that is not closed.
pub(super) struct Record {
    number: u64,
    pub(super) reorg: Reorg,
    /// First-seen times of earlier records that were not closed.
    inherited: Vec<(Txid, u64)>,
    /// When it was last stored.
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
    pub(super) fn open(chain: &Snapshot) -> Result<Option<Self>, IndexError> {
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
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
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
