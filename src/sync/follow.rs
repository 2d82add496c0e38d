//! The loop: disconnects to the fork point, connects up to the node's tip, updates the mempool, publishes.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tracing::{error, warn};

use super::background::Retry;
use super::error::SyncError;
use super::mempool::{MempoolSync, StepOutcome};
use super::pause::{FIRST_PAUSE, pause_after};
use super::prefetch::Prefetcher;
use super::sync_loop::{Follow, MempoolBackoff, RoundOutcome, SyncLoop, Until};
use crate::index::{Patience, Snapshot};
use crate::live::{ChainEvent, Event};
use crate::node::{NodeError, NodeSignal, ReceivedSignal, Signals};
use crate::view::{Head, SyncState};

/// The pause while removals from the mempool are delayed.
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);
/// The longest time of the final write, without the commit that is under way.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// The most signals that wait while blocks are connected; more of them count as lost.
const MAX_SIGNALS: usize = 200_000;

/// Follows the node until the stop flag is raised. Publishes the state of the index and the mempool before the first
/// request to the node, unless a crash removed an announced block. Persists the mempool at the end, if the disk has
/// enough space.
///
/// Errors: [`SyncError`]; with [`Until::Stopped`] only errors that no retry solves.
pub fn run(follow: Follow<'_>) -> Result<(), SyncError> {
    Patience::ENDLESS.scope(|| follow_node(follow))
}

fn follow_node(follow: Follow<'_>) -> Result<(), SyncError> {
    let mut following = SyncLoop::new(follow);
    following.publish_chain()?;
    following.resume_record()?;
    // the prefetcher predicts the next block from the mempool
    following.prefetcher = following.mempool_sync.is_some().then(|| {
        let Follow { published, index, .. } = &following.follow;
        Prefetcher::start(published, index.cache_bytes())
    });
    let ended = run_rounds(&mut following);
    // the first error of the disk is the cause of the later ones, and is reported in `ended` or here
    let flushed = following.follow.index.flush();
    let written = following.write_final_changes();
    match flushed {
        Err(error) if !(error.is_aftermath() && ended.is_err()) => return Err(error.into()),
        _ => ended.and(written)?,
    }
    Ok(following.follow.index.flush()?)
}

/// Runs rounds with pauses between them until the stop flag is raised or an error is permanent.
fn run_rounds(following: &mut SyncLoop<'_>) -> Result<(), SyncError> {
    let mut failures = 0;
    loop {
        let outcome = match following.prepare_round() {
            Ok(true) => following.round(),
            Ok(false) => return Ok(()),
            // what is missing is waited for, as in a round
            Err(error) if error.is_unfetched() => Err(error),
            Err(error) => return Err(error),
        };
        let is_in_sync = matches!(outcome, Ok(RoundOutcome::InSync | RoundOutcome::ChainMoving));
        let pause = match outcome {
            Ok(RoundOutcome::InSync) if following.follow.until == Until::CaughtUp => {
                following.forget_failures();
                following.freeze_to_the_end()?;
                return following.derive_to_the_end();
            }
            Ok(outcome) => {
                failures = 0;
                match outcome {
                    RoundOutcome::Progressed => Duration::ZERO,
                    RoundOutcome::RemovalsDelayed => REMOVAL_PAUSE,
                    RoundOutcome::InSync | RoundOutcome::ChainMoving if following.is_work_postponed => {
                        following.announcing_left().min(following.follow.poll)
                    }
                    RoundOutcome::InSync | RoundOutcome::ChainMoving => following.follow.poll,
                }
            }
            Err(error) if error.is_stop() => return Ok(()),
            // bytes of a frozen block, say, which the node was asked for when the service stopped
            Err(error) if error.is_transient() && following.follow.node.stop().is_raised() => return Ok(()),
            Err(error) if error.is_transient() && following.follow.until == Until::Stopped => {
                following.handle_node_failure();
                let pause = match following.withheld {
                    // every query fails until the block is there, so the node is polled at the normal interval
                    Some(withheld) => pause_after(failures).min(following.follow.poll).min(withheld.remaining()),
                    None => pause_after(failures),
                };
                failures += 1;
                if following.is_new_cause(&error) {
                    warn!(%error, again_in = ?pause, "following the node is interrupted");
                }
                // signals may wake the loop at any time, and do not mean that the next try succeeds
                if following.follow.node.stop().sleep(FIRST_PAUSE).is_err() {
                    return Ok(());
                }
                pause.saturating_sub(FIRST_PAUSE)
            }
            Err(error) => {
                error!(%error, "following the node ended");
                return Err(error);
            }
        };
        if !following.pause(pause)? {
            return Ok(());
        }
        if is_in_sync {
            following.mark_mempool_stale();
        }
    }
}

/// The error, if only the mempool is affected: the node answers, but refuses this request or returns an unusable
/// answer.
fn mempool_only_failure(error: &SyncError) -> Option<&NodeError> {
    match error {
        SyncError::Node(NodeError::Stopped) => None,
        SyncError::Node(error @ NodeError::TimedOut { .. }) => Some(error),
        SyncError::Node(error) => (!error.is_transient()).then_some(error),
        _ => None,
    }
}

/// What a write of the mempool contained.
pub(super) struct WriteSummary {
    /// Whether it contained a new sample.
    is_sampled: bool,
    /// Whether nothing remains to write.
    pub(super) is_all: bool,
}

impl SyncLoop<'_> {
    /// Looks for blocks, if there is a reason to, and then updates the mempool. Branches come last.
    fn round(&mut self) -> Result<RoundOutcome, SyncError> {
        let received = self.receive_signals();
        let due = self.tip_checked.is_none_or(|checked| checked.elapsed() >= self.follow.poll);
        if due || !self.has_signals() || self.signals.iter().any(|received| received.signal.may_change_chain()) {
            match self.sync_chain()? {
                RoundOutcome::InSync => self.tip_checked = Some(Instant::now()),
                outcome => {
                    self.tip_checked = None;
                    return Ok(outcome);
                }
            }
        }
        let outcome = self.sync_mempool(received)?;
        if matches!(outcome, RoundOutcome::InSync) {
            self.store_branches_when_due()?;
        }
        Ok(outcome)
    }

    /// Takes the received signals. Returns the moment up to which they are complete.
    fn receive_signals(&mut self) -> Instant {
        let now = Instant::now();
        let signals = self.follow.signals.map(Signals::drain).unwrap_or_default();
        if signals.first().is_some_and(|signal| signal.signal == NodeSignal::Lost) {
            // the next list replaces the signals before the loss
            self.retain_arrivals();
            self.follow.published.change_state(|state| SyncState { mempool_in_sync: false, ..state });
        }
        self.signals.extend(signals);
        if self.signals.len() > MAX_SIGNALS {
            self.signals = vec![ReceivedSignal { signal: NodeSignal::Lost, at: SystemTime::now() }];
        }
        now
    }

    /// Discards all signals but arrivals: the next list replaces the others, but has no times of arrival.
    fn retain_arrivals(&mut self) {
        self.signals.retain(|signal| matches!(signal.signal, NodeSignal::Added { .. }));
    }

    /// Whether the node publishes messages to this process.
    fn has_signals(&self) -> bool {
        self.follow.signals.is_some_and(Signals::is_connected)
    }

    /// Updates the mempool from the node. `received` is the moment up to which the signals are complete.
    fn sync_mempool(&mut self, received: Instant) -> Result<RoundOutcome, SyncError> {
        if self.mempool_backoff.as_ref().is_some_and(|backoff| backoff.until > received) {
            self.retain_arrivals();
            return Ok(RoundOutcome::InSync);
        }
        let (signals, has_signals) = (std::mem::take(&mut self.signals), self.has_signals());
        let (Some(mempool_sync), Some(chain)) = (&mut self.mempool_sync, &self.chain) else {
            return Ok(RoundOutcome::InSync);
        };
        let before = mempool_sync.snapshot();
        let result = mempool_sync.step(self.follow.node, chain, signals, received, has_signals);
        // also after an error: the changes before it are valid
        let after = mempool_sync.snapshot();
        let unusable = result.as_ref().err().and_then(mempool_only_failure);
        if let Some(error) = unusable {
            mempool_sync.mark_behind();
            let failures = self.mempool_backoff.as_ref().map_or(0, |backoff| backoff.failures);
            let again_in = pause_after(failures);
            warn!(%error, ?again_in, "requests for the node's mempool fail; only blocks are followed");
            self.mempool_backoff =
                Some(MempoolBackoff { until: Instant::now() + again_in, failures: failures.saturating_add(1) });
        }
        let (mempool_in_sync, is_unusable) = (mempool_sync.is_in_sync(), unusable.is_some());
        if !after.is_same(&before) {
            let chain = Arc::clone(chain);
            self.announce(&chain, Vec::new());
        }
        self.follow.published.change_state(|state| SyncState { mempool_in_sync, ..state });
        if is_unusable {
            return Ok(RoundOutcome::InSync);
        }
        Ok(match result? {
            StepOutcome::Done => {
                self.mempool_backoff = None;
                if mempool_in_sync {
                    self.publish_outcome()?;
                }
                RoundOutcome::InSync
            }
            StepOutcome::Unfinished => RoundOutcome::Progressed,
            StepOutcome::OtherTip => {
                self.tip_checked = None;
                RoundOutcome::Progressed
            }
            StepOutcome::RemovalsDelayed => RoundOutcome::RemovalsDelayed,
        })
    }

    /// The loop has paused at the tip, until it was woken or for an interval: without signals the mempool may have changed.
    fn mark_mempool_stale(&mut self) {
        if !self.has_signals()
            && let Some(mempool_sync) = &mut self.mempool_sync
        {
            mempool_sync.mark_list_stale();
        }
    }

    /// The node failed: all that it reported is requested again when it answers.
    pub(super) fn handle_node_failure(&mut self) {
        self.tip_checked = None;
        self.retain_arrivals();
        if let Some(mempool_sync) = &mut self.mempool_sync {
            mempool_sync.mark_behind();
        }
        self.follow.published.change_state(SyncState::without_node);
    }

    /// What failed in the background is tried again at once.
    fn forget_failures(&mut self) {
        self.freezer.retry = Retry::default();
        self.merger.forget_failures();
        self.raw_mover.retry = Retry::default();
        self.deriver.retry = Retry::default();
    }

    /// Shows the withheld index when the wait for the lost block is over.
    pub(super) fn release_when_due(&mut self) -> Result<(), SyncError> {
        if self.abandon_when_due()? { self.reannounce() } else { Ok(()) }
    }

    /// Persists the last changes of the mempool, if the disk has space. Otherwise the newest data that the node does
    /// not have is lost: times of arrival, and departures.
    fn write_final_changes(&mut self) -> Result<(), SyncError> {
        if self.follow.index.required_space().is_free() {
            self.write_mempool(Instant::now() + FINAL_WRITE_TIMEOUT)
        } else {
            Ok(())
        }
    }

    /// Publishes the current state of the index.
    pub(super) fn publish_chain(&mut self) -> Result<(), SyncError> {
        let chain = Arc::new(self.follow.index.snapshot()?);
        self.publish(&chain);
        Ok(())
    }

    /// Persists changes of the mempool. After `until` no new commit starts.
    pub(super) fn write_mempool(&mut self, until: Instant) -> Result<(), SyncError> {
        if self.write_changes(until)?.is_sampled {
            // queries read the samples from the published snapshot
            let chain = Arc::new(self.follow.index.snapshot()?);
            self.publish(&chain);
        }
        Ok(())
    }

    /// Persists changes of the mempool in commits of bounded size. After `until` no new commit starts.
    pub(super) fn write_changes(&mut self, until: Instant) -> Result<WriteSummary, SyncError> {
        let mut written = WriteSummary { is_sampled: false, is_all: true };
        let tip = self.follow.index.snapshot()?.tip();
        while let Some(writing) = self.mempool_sync.as_mut().and_then(|sync| sync.take_changes(tip)) {
            let mut update = self.follow.index.update()?;
            if writing.clear_first {
                update.clear_mempool()?;
            }
            update.observe(&writing.observations)?;
            update.commit_non_durable()?;
            self.follow.index.flush_soon()?;
            written.is_sampled |= writing.observations.mempool_sample.is_some();
            written.is_all = !writing.has_more;
            if written.is_all || Instant::now() >= until {
                break;
            }
        }
        Ok(written)
    }

    /// Publishes this chain with the current mempool as the state for queries, then the events.
    pub(super) fn announce(&mut self, chain: &Arc<Snapshot>, events: Vec<ChainEvent>) {
        if let Some(head) = self.publish(chain) {
            if !events.is_empty() {
                self.announced.get_or_insert_with(Instant::now);
            }
            self.follow.live.publish(Event { chain: events, head });
        }
    }

    /// Publishes this chain with the current mempool as the state for queries, unless it is empty or withheld.
    pub(super) fn publish(&mut self, chain: &Arc<Snapshot>) -> Option<Arc<Head>> {
        self.chain = Some(Arc::clone(chain));
        if self.is_withheld(chain) {
            return None;
        }
        let mempool = self.mempool_sync.as_mut().map(MempoolSync::snapshot).unwrap_or_default();
        let published = self.follow.published;
        let head = Arc::new(Head::after(published.head().as_deref(), Arc::clone(chain), mempool)?);
        published.publish(Arc::clone(&head));
        Some(head)
    }
}

#[cfg(test)]
mod tests;
