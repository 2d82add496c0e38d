//! One step towards the node's mempool: applies signals, requests transactions or the list, and removes what left.

use std::time::{Duration, Instant};

use bitcoin::Txid;
use tracing::{info, warn};

use super::super::error::SyncError;
use super::clock::{now, seconds};
use super::departure::departures;
use super::incoming::{AddOutcome, FetchRequest, Incoming};
use super::mempool_sync::{MempoolSync, STEP_TRANSACTIONS, SyncLevel};
use crate::chain::Height;
use crate::index::{IndexError, Snapshot};
use crate::mempool::{Cause, Departure};
use crate::node::{Node, NodeSignal, ReceivedSignal};

/// The interval between requests for the node's report on its mempool.
const INFO_INTERVAL: Duration = Duration::from_secs(5);
/// The most bytes of transactions requested in one step.
const STEP_BYTES: usize = 16 << 20;
/// How long a step requests transactions: what they spend may have to be fetched, if the index was joined lazily.
const STEP_TIME: Duration = Duration::from_secs(2);
/// Transactions in one request.
const BATCH: usize = 100;
/// How long a removal waits for the transaction that may have caused it, since their signals may arrive in two steps. A
/// later transaction corrects the reason.
const REMOVAL_DELAY: Duration = Duration::from_millis(15);

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sync) enum StepOutcome {
    /// Nothing remains to do.
    Done,
    /// There is more to do at once.
    Unfinished,
    /// There is more to do in a few milliseconds.
    RemovalsDelayed,
    /// The node's tip differs from that of the mempool.
    OtherTip,
}

impl MempoolSync<'_> {
    /// Runs one step towards the node's mempool. `chain` is the chain of the mempool, `has_signals` whether signals
    /// arrive; they are complete up to `received`.
    ///
    /// Errors: those of the node, after which a list is requested; those of the index.
    pub(in crate::sync) fn step(
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
