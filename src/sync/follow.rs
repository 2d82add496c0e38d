//! Follows the node: disconnects to the fork point, connects up to the node's tip, keeps the mempool, publishes.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tracing::{error, info, warn};

use super::error::SyncError;
use super::mempool::{PersistentMempool, StepOutcome, Unconfirmed};
use super::prefetch::Prefetcher;
use super::reorg::Record;
use super::wake::Wake;
use super::withheld::Withheld;
use crate::index::{DiskShortage, Index, Room, Snapshot};
use crate::live::{ChainEvent, Event, Live};
use crate::node::{Node, NodeError, NodeSignal, ReceivedSignal, Signals};
use crate::view::{Head, Published, SyncState};

/// When to stop following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When the index has reached the node's tip.
    CaughtUp,
    /// When the node's stop flag goes up.
    Stopped,
}

/// What is followed, where it goes, and how much memory that may take.
pub struct Follow<'a> {
    /// The node. Its stop flag ends the loop.
    pub node: &'a Node,
    /// The index, whose one writer the loop is.
    pub index: &'a mut Index,
    /// Where the Heads go.
    pub published: &'a Published,
    /// Where the events go.
    pub live: &'a Live,
    /// The unconfirmed transactions, whose one writer the loop is, and which it keeps equal to the node's; `None` to
    /// follow the chain alone.
    pub mempool: Option<&'a mut PersistentMempool>,
    /// What the index must not be shown without, as [`publish`](super::publish) found it; `None` if it may be shown as it is.
    pub withheld: Option<Withheld>,
    /// What the node tells without being asked; without it the node is asked for its mempool at each poll.
    pub signals: Option<&'a Signals>,
    /// When to stop.
    pub until: Until,
    /// The node is asked for its tip this often,
    pub poll: Duration,
    /// and at once when this is woken.
    pub wake: &'a Wake,
    /// Blocks asked of the node at once.
    pub connections: NonZeroUsize,
    /// Bytes that blocks on their way may take in all.
    pub buffer_bytes: usize,
}

/// The wait while something of the mempool is held.
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);
/// The last writing takes so long at most, plus one commit.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// While the disk is full, this often it is looked at again.
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// More signals than this that wait while blocks are followed are taken for lost.
const MAX_SIGNALS: usize = 200_000;
/// The first wait between tries while the node is away, which nothing but the stop flag ends,
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// and the longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Follows until told to stop. Publishes what the index and the mempool hold already before the node is asked for the first
/// time, unless a crash took back what clients were told of. At the end the mempool is written down, if the disk has room.
///
/// Errors: [`SyncError`]; with [`Until::Stopped`] only those that waiting cannot help.
pub fn run(follow: Follow<'_>) -> Result<(), SyncError> {
    let mut following = SyncLoop::new(follow);
    following.publish_chain()?;
    following.resume_record()?;
    // there is no next block to prepare for without a mempool
    following.prefetcher = following.unconfirmed.is_some().then(|| {
        let Follow { published, index, .. } = &following.follow;
        Prefetcher::start(published, index.cache_bytes())
    });
    let ended = run_rounds(&mut following);
    // what the disk said first is the cause of what came after, and was told before this or is told here
    let flushed = following.follow.index.flush();
    let written = following.write_final_changes();
    match flushed {
        Err(error) if !(error.is_aftermath() && ended.is_err()) => return Err(error.into()),
        _ => ended.and(written)?,
    }
    Ok(following.follow.index.flush()?)
}

/// One turn after another, with a pause between them, until it is told to stop or cannot go on.
fn run_rounds(following: &mut SyncLoop<'_>) -> Result<(), SyncError> {
    let mut failures = 0;
    loop {
        following.follow.index.ensure_flushing()?;
        if !following.wait_for_disk_space()? {
            return Ok(());
        }
        following.write_mempool_when_due()?;
        following.close_overdue_record(Instant::now())?;
        following.release_when_due()?;
        let pause = match following.round() {
            Ok(RoundOutcome::InSync) if following.follow.until == Until::CaughtUp => return Ok(()),
            Ok(outcome) => {
                failures = 0;
                match outcome {
                    RoundOutcome::Progressed => Duration::ZERO,
                    RoundOutcome::RemovalsDelayed => REMOVAL_PAUSE,
                    RoundOutcome::InSync | RoundOutcome::ChainMoving => following.follow.poll,
                }
            }
            Err(error) if error.is_stop() => return Ok(()),
            Err(error) if error.is_transient() && following.follow.until == Until::Stopped => {
                following.handle_node_failure();
                let pause = match following.withheld {
                    // nobody is answered, so the node is asked as often as if all were well
                    Some(withheld) => pause_after(failures).min(following.follow.poll).min(withheld.left()),
                    None => pause_after(failures),
                };
                failures += 1;
                if following.is_new_cause(&error) {
                    warn!(%error, again_in = ?pause, "following the node is interrupted");
                }
                // signals may come all the time, and none of them says that the next try will do better
                if following.follow.node.stop().sleep(FIRST_PAUSE).is_err() {
                    return Ok(());
                }
                pause.saturating_sub(FIRST_PAUSE)
            }
            Err(error) => {
                error!(%error, "following the node ends");
                return Err(error);
            }
        };
        if !following.follow.wake.pause(pause, following.follow.node.stop()) {
            return Ok(());
        }
        if pause == following.follow.poll {
            following.mark_mempool_stale();
        }
    }
}

/// The error, if it is about the mempool alone: the node is there, and forbids the question or gives an answer that cannot
/// be used.
fn mempool_only_failure(error: &SyncError) -> Option<&NodeError> {
    match error {
        SyncError::Node(NodeError::Stopped) => None,
        SyncError::Node(error @ NodeError::TimedOut { .. }) => Some(error),
        SyncError::Node(error) => (!error.is_transient()).then_some(error),
        _ => None,
    }
}

/// How long to wait before the next try, after this many failures in a row before the last: doubling up to a bound.
fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE)
}

/// How a turn ended.
pub(super) enum RoundOutcome {
    /// The index was at the node's tip, and the mempool, where it is kept, is the node's.
    InSync,
    /// Blocks were connected or disconnected, or have to be, or many transactions are still to come; look again at once.
    Progressed,
    /// Some of what left the mempool is kept for a moment, for what it may have left for.
    RemovalsDelayed,
    /// The node's chain changed while it was asked, so that there was nothing to do; look again in a while.
    ChainMoving,
}

/// The loop between two turns.
pub(super) struct SyncLoop<'a> {
    pub(super) follow: Follow<'a>,
    pub(super) unconfirmed: Option<Unconfirmed<'a>>,
    /// The chain that was published last.
    pub(super) chain: Option<Arc<Snapshot>>,
    /// The block that was announced and that a crash took back: until it is there again nothing is published.
    pub(super) withheld: Option<Withheld>,
    /// Why following was interrupted last while that block is awaited.
    pub(super) logged_cause: Option<String>,
    /// The reorganisation of which it is not known yet what became of the transactions.
    pub(super) record: Option<Record>,
    /// The room that the next blocks need, if there was too little of it for them.
    pub(super) room: Option<Room>,
    /// When the node was last asked for its tip.
    tip_checked: Option<Instant>,
    /// Signals that were heard, and not followed yet.
    signals: Vec<ReceivedSignal>,
    /// Until when the node is not asked for its mempool, since its answers could not be used.
    mempool_backoff: Option<MempoolBackoff>,
    /// Who prepares for the next block.
    pub(super) prefetcher: Option<Prefetcher>,
}

/// What was written down of the mempool.
pub(super) struct WriteSummary {
    /// Whether there is a new sample among it.
    is_sampled: bool,
    /// Whether nothing is left to be written.
    pub(super) is_all: bool,
}

/// How long the node is spared questions about its mempool.
struct MempoolBackoff {
    until: Instant,
    /// How many times in a row its answers could not be used.
    failures: u32,
}

impl<'a> SyncLoop<'a> {
    /// Before the first turn, with nothing published yet.
    pub(super) fn new(mut follow: Follow<'a>) -> Self {
        let unconfirmed = follow.mempool.take().map(|mempool| Unconfirmed::new(mempool, follow.poll));
        Self {
            withheld: follow.withheld,
            follow,
            unconfirmed,
            chain: None,
            logged_cause: None,
            record: None,
            room: None,
            tip_checked: None,
            signals: Vec::new(),
            mempool_backoff: None,
            prefetcher: None,
        }
    }
}

impl SyncLoop<'_> {
    /// Looks for blocks, if there is reason to, and then at the mempool.
    fn round(&mut self) -> Result<RoundOutcome, SyncError> {
        let heard = self.receive_signals();
        let is_about_blocks = |heard: &ReceivedSignal| {
            matches!(heard.signal, NodeSignal::BlockConnected(_) | NodeSignal::BlockDisconnected(_) | NodeSignal::Lost)
        };
        let due = self.tip_checked.is_none_or(|tip_checked| tip_checked.elapsed() >= self.follow.poll);
        if due || !self.has_signals() || self.signals.iter().any(is_about_blocks) {
            match self.sync_chain()? {
                RoundOutcome::InSync => self.tip_checked = Some(Instant::now()),
                outcome => {
                    self.tip_checked = None;
                    return Ok(outcome);
                }
            }
        }
        self.sync_mempool(heard)
    }

    /// Takes the signals that came. The moment up to which all are there.
    fn receive_signals(&mut self) -> Instant {
        let now = Instant::now();
        let signals = self.follow.signals.map(Signals::drain).unwrap_or_default();
        if signals.first().is_some_and(|heard| heard.signal == NodeSignal::Lost) {
            // what was told before is made up for together with what was not
            self.retain_arrivals();
            self.follow.published.change_state(|state| SyncState { mempool_in_sync: false, ..state });
        }
        self.signals.extend(signals);
        if self.signals.len() > MAX_SIGNALS {
            self.signals = vec![ReceivedSignal { signal: NodeSignal::Lost, at: SystemTime::now() }];
        }
        now
    }

    /// Forgets what was told but for when transactions came: the list, which is asked for next, does not say that.
    fn retain_arrivals(&mut self) {
        self.signals.retain(|heard| matches!(heard.signal, NodeSignal::Added { .. }));
    }

    /// Whether the node tells by signals what happens.
    fn has_signals(&self) -> bool {
        self.follow.signals.is_some_and(Signals::is_connected)
    }

    /// Brings the mempool nearer to the node's. `heard` is the moment up to which all signals are there.
    fn sync_mempool(&mut self, heard: Instant) -> Result<RoundOutcome, SyncError> {
        if self.mempool_backoff.as_ref().is_some_and(|mempool_backoff| mempool_backoff.until > heard) {
            self.retain_arrivals();
            return Ok(RoundOutcome::InSync);
        }
        let (signals, has_signals) = (std::mem::take(&mut self.signals), self.has_signals());
        let (Some(unconfirmed), Some(chain)) = (&mut self.unconfirmed, &self.chain) else {
            return Ok(RoundOutcome::InSync);
        };
        let before = unconfirmed.snapshot();
        let result = unconfirmed.step(self.follow.node, chain, signals, heard, has_signals);
        // also after an error: what came before it is as true
        let after = unconfirmed.snapshot();
        let unusable = result.as_ref().err().and_then(mempool_only_failure);
        if let Some(error) = unusable {
            unconfirmed.mark_behind();
            let failures = self.mempool_backoff.as_ref().map_or(0, |mempool_backoff| mempool_backoff.failures);
            let again_in = pause_after(failures);
            warn!(%error, ?again_in, "the node's mempool cannot be followed, only its blocks");
            self.mempool_backoff =
                Some(MempoolBackoff { until: Instant::now() + again_in, failures: failures.saturating_add(1) });
        }
        let (mempool_in_sync, is_unusable) = (unconfirmed.is_in_sync(), unusable.is_some());
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

    /// The time is up, or somebody says that there is something to see: without signals the mempool may be another.
    fn mark_mempool_stale(&mut self) {
        if !self.has_signals()
            && let Some(unconfirmed) = &mut self.unconfirmed
        {
            unconfirmed.mark_list_stale();
        }
    }

    /// The node is away. What it told before is asked for when it is there again.
    fn handle_node_failure(&mut self) {
        self.tip_checked = None;
        self.retain_arrivals();
        if let Some(unconfirmed) = &mut self.unconfirmed {
            unconfirmed.mark_behind();
        }
        self.follow.published.change_state(SyncState::without_node);
    }

    /// Waits until the disk has room for what is to come, while what is there can be read. False if it is told to stop
    /// meanwhile. Who only catches up does not wait: somebody waits for that.
    ///
    /// Errors: what was to reach the disk before did not, as [`Index::flush_soon`].
    fn wait_for_disk_space(&mut self) -> Result<bool, SyncError> {
        let room = self.room.take().unwrap_or_else(|| self.follow.index.room());
        if self.follow.until == Until::CaughtUp || room.is_there() {
            return Ok(true);
        }
        // or what comes and goes there would stop and start it all the time
        let room = room.and_some_more();
        self.handle_node_failure();
        let mut is_logged = false;
        while let Some(shortage) = room.shortage() {
            self.follow.published.change_state(|state| SyncState { disk_shortage: Some(shortage), ..state });
            if !is_logged {
                let DiskShortage { needed_bytes, free_bytes, .. } = shortage;
                error!(needed_bytes, free_bytes, "the node is not followed: {shortage}");
                is_logged = true;
            }
            if self.follow.node.stop().sleep(DISK_CHECK_INTERVAL).is_err() {
                return Ok(false);
            }
            // after a write that failed nothing can be read for certain, and that ends this
            self.follow.index.ensure_flushing()?;
            self.release_when_due()?;
        }
        self.follow.published.change_state(|state| SyncState { disk_shortage: None, ..state });
        info!("the disk of the index has enough free space again");
        Ok(true)
    }

    /// Shows what is withheld once that was for long enough.
    fn release_when_due(&mut self) -> Result<(), SyncError> {
        if self.abandon_when_due()? { self.reannounce() } else { Ok(()) }
    }

    /// Writes down what changed in the mempool before the end, if the disk has room. Without, the newest of what nobody but
    /// us knows is lost: when transactions came, and what became of them.
    fn write_final_changes(&mut self) -> Result<(), SyncError> {
        if self.follow.index.room().is_there() {
            self.write_mempool(Instant::now() + FINAL_WRITE_TIMEOUT)
        } else {
            Ok(())
        }
    }

    /// Publishes what the index holds, as it is.
    pub(super) fn publish_chain(&mut self) -> Result<(), SyncError> {
        let chain = Arc::new(self.follow.index.snapshot()?);
        self.publish(&chain);
        Ok(())
    }

    fn write_mempool_when_due(&mut self) -> Result<(), SyncError> {
        if self.unconfirmed.as_ref().is_some_and(Unconfirmed::is_write_due) {
            self.write_mempool(Instant::now())?;
        }
        Ok(())
    }

    /// Writes down what changed in the mempool; after `until` only what is under way.
    fn write_mempool(&mut self, until: Instant) -> Result<(), SyncError> {
        if self.write_changes(until)?.is_sampled {
            // the samples are read from what is published
            let chain = Arc::new(self.follow.index.snapshot()?);
            self.publish(&chain);
        }
        Ok(())
    }

    /// Writes down what changed in the mempool, in commits that are not too large; after `until` only the one under way.
    pub(super) fn write_changes(&mut self, until: Instant) -> Result<WriteSummary, SyncError> {
        let mut written = WriteSummary { is_sampled: false, is_all: true };
        while let Some(writing) = self.unconfirmed.as_mut().and_then(Unconfirmed::take_changes) {
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

    /// Makes this chain, with the mempool as it is, the state that is read, and then tells what happened to it.
    pub(super) fn announce(&mut self, chain: &Arc<Snapshot>, events: Vec<ChainEvent>) {
        if let Some(head) = self.publish(chain) {
            self.follow.live.publish(Event { chain: events, head });
        }
    }

    /// Makes this chain, with the mempool as it is, the state that is read. An empty chain is not, nor what is withheld.
    fn publish(&mut self, chain: &Arc<Snapshot>) -> Option<Arc<Head>> {
        self.chain = Some(Arc::clone(chain));
        if self.is_withheld(chain) {
            return None;
        }
        let mempool = self.unconfirmed.as_mut().map(Unconfirmed::snapshot).unwrap_or_default();
        let published = self.follow.published;
        let head = Arc::new(Head::behind(published.head().as_deref(), Arc::clone(chain), mempool)?);
        published.publish(Arc::clone(&head));
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_with_every_failure_in_a_row_up_to_half_a_minute() {
        let pauses: Vec<_> = (0..8).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }
}
