//! Follows the node: disconnects to the fork point, connects up to the node's tip, publishes.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bitcoin::BlockHash;
use tracing::{error, info, warn};

use super::error::SyncError;
use super::fork::{fork_point, refuse_to_shrink, skip_common};
use super::pipeline::{Pipeline, PipelineLimits};
use super::progress::{FEW, Progress};
use super::wake::Wake;
use crate::chain::network::genesis_hash;
use crate::index::{Index, Tip, Update};
use crate::live::{ChainEvent, Event, Live};
use crate::node::{ChainInfo, Node};
use crate::view::{Head, Pace, Published, SyncPhase, SyncState};

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

/// A commit at least this often, so that an interruption costs little.
const COMMIT: Duration = Duration::from_secs(10);
/// Hashes asked for at once. A reorganisation of the node while they are read is noticed when they are used up.
const HASHES: usize = 20_000;
/// The first wait between tries while the node is away,
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// and the longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Follows until told to stop. Publishes what the index holds already before the node is asked for the first time.
///
/// Errors: [`SyncError`]; with [`Until::Stopped`] only those that waiting cannot help.
pub fn run(mut follow: Follow<'_>) -> Result<(), SyncError> {
    publish(follow.index, follow.published)?;
    let mut failures = 0;
    loop {
        let pause = match follow.step() {
            Ok(Step::InSync) if follow.until == Until::CaughtUp => return Ok(()),
            Ok(step) => {
                failures = 0;
                if matches!(step, Step::Moved) { Duration::ZERO } else { follow.poll }
            }
            Err(error) if error.is_stop() => return Ok(()),
            Err(error) if error.is_transient() && follow.until == Until::Stopped => {
                let phase = SyncPhase::WaitingForNode;
                follow.published.set_state(SyncState { phase, node_tip: None, pace: None, ..follow.published.state() });
                let pause = pause_after(failures);
                failures += 1;
                warn!(%error, again_in = ?pause, "following the node is interrupted");
                pause
            }
            Err(error) => {
                error!(%error, "following the node ends");
                return Err(error);
            }
        };
        if !follow.wake.pause(pause, follow.node.stop()) {
            return Ok(());
        }
    }
}

/// How long to wait before the next try, after this many failures in a row before the last: doubling up to a bound.
fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE)
}

enum Step {
    /// The index was at the node's tip.
    InSync,
    /// Blocks were connected or disconnected; look again at once.
    Moved,
    /// The node's chain changed while it was asked, so that there was nothing to do; look again in a while.
    Unsettled,
}

impl Follow<'_> {
    fn step(&mut self) -> Result<Step, SyncError> {
        let info = self.node.chain_info()?;
        let chain = self.index.snapshot()?;
        let tip = chain.tip();
        let in_sync = tip.is_some_and(|tip| tip.hash == info.best_block_hash);
        self.published.set_state(state_of(&info, tip, self.published.state().pace));
        if in_sync {
            return Ok(Step::InSync);
        }
        let mut fork = fork_point(self.node, &chain)?;
        let mut hashes = self.hashes_behind(fork, &info)?;
        skip_common(&chain, &mut fork, &mut hashes)?;
        if hashes.is_empty() {
            if fork == tip {
                return Ok(Step::Unsettled);
            }
            refuse_to_shrink(self.node, tip, fork)?;
        }
        drop(chain);
        self.advance(fork, hashes, &info)?;
        Ok(Step::Moved)
    }

    /// Hashes of the node's active chain after the fork point, as many as are read at once.
    fn hashes_behind(&self, fork: Option<Tip>, info: &ChainInfo) -> Result<Vec<BlockHash>, SyncError> {
        let genesis = genesis_hash(self.node.settings().network);
        let (mut last, mut hashes) = match fork {
            Some(fork) => (fork.hash, Vec::new()),
            None => (genesis, vec![genesis]),
        };
        while hashes.len() < HASHES && last != info.best_block_hash {
            let headers = self.node.headers(&last, 2_000)?;
            let Some((newest, _)) = headers.last().filter(|_| headers.len() > 1) else { break };
            last = *newest;
            hashes.extend(headers.iter().skip(1).map(|(hash, _)| *hash));
        }
        Ok(hashes)
    }

    /// Disconnects down to the fork point and connects the blocks after it, in as few commits as memory and patience
    /// allow. What was connected before the node failed is kept; a shorter chain alone is not worth publishing, so
    /// unless a block joins, those that left stay until the next try.
    fn advance(&mut self, fork: Option<Tip>, hashes: Vec<BlockHash>, info: &ChainInfo) -> Result<(), SyncError> {
        let (limits, published) = (self.limits(), self.published);
        let shrinks = hashes.is_empty();
        let mut progress = Progress::new(fork, info.blocks, hashes.len());
        let mut events = Vec::new();
        // how many of the events are committed, but not published yet
        let mut committed = 0;
        let mut update = self.index.update()?;
        while update.tip() != fork {
            let Some(tip) = update.disconnect()? else { break };
            events.push(ChainEvent::Disconnected(tip));
            if update.is_full()? {
                // not published: readers see the shorter chain only if the node fails now
                update.commit()?;
                committed = events.len();
                update = self.index.update()?;
            }
        }
        if !events.is_empty() {
            let lowest = fork.map_or(0, |fork| fork.height.to_u32());
            info!(depth = events.len(), fork_height = lowest, "the node left blocks of the index's chain");
        }

        let parser = update.parser();
        let mut since = Instant::now();
        let mut result = Ok(());
        for batch in Pipeline::start(self.node, hashes, parser, limits)? {
            let batch = match batch {
                Ok(_) if self.node.stop().is_raised() => break,
                Ok(batch) => batch,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            if let Err(error) = connect(&mut update, &batch, &mut events) {
                drop(update);
                events.truncate(committed);
                self.announce(&events)?;
                return Err(error);
            }
            progress.connected(update.tip(), &batch);
            let state = published.state();
            if state.phase == SyncPhase::CatchingUp {
                published.set_state(SyncState { pace: progress.pace(), ..state });
            }
            if since.elapsed() > COMMIT || update.is_full()? {
                update.commit()?;
                self.announce(&std::mem::take(&mut events))?;
                committed = 0;
                update = self.index.update()?;
                since = Instant::now();
            }
        }
        if shrinks || update.tip() != fork {
            update.commit()?;
        } else {
            drop(update);
            events.truncate(committed);
        }
        self.announce(&events)?;
        progress.finish();
        result
    }

    /// Makes the committed state the one that is read, then tells what happened.
    fn announce(&self, events: &[ChainEvent]) -> Result<(), SyncError> {
        if events.is_empty() {
            return Ok(());
        }
        let Some(head) = publish(self.index, self.published)? else { return Ok(()) };
        for event in events {
            self.live.publish(Event { event: event.clone(), head: Arc::clone(&head) });
        }
        Ok(())
    }

    fn limits(&self) -> PipelineLimits {
        // a block takes about four times its size once it is parsed and its rows are worked out, and there are up to
        // three batches of them
        let share = self.buffer_bytes / 16;
        PipelineLimits {
            connections: self.connections,
            fetched_bytes: u64::try_from(self.buffer_bytes / 4).unwrap_or(u64::MAX),
            batch_bytes: share.max(1),
            batch_blocks: 1_000,
        }
    }
}

/// What the node says of its chain, seen from the tip of the index. The pace of catching up holds until that is over.
fn state_of(info: &ChainInfo, tip: Option<Tip>, pace: Option<Pace>) -> SyncState {
    let behind = tip.map(|tip| info.blocks.to_u32().saturating_sub(tip.height.to_u32()));
    let phase = match behind {
        Some(behind) if behind < FEW => SyncPhase::Following,
        _ => SyncPhase::CatchingUp,
    };
    SyncState {
        phase,
        node_height: Some(info.blocks),
        node_headers: Some(info.headers),
        node_tip: Some(info.best_block_hash),
        pace: pace.filter(|_| phase == SyncPhase::CatchingUp),
    }
}

fn connect(
    update: &mut Update<'_>,
    batch: &[crate::index::Block],
    events: &mut Vec<ChainEvent>,
) -> Result<(), SyncError> {
    let first = update.tip().map_or_else(Default::default, |tip| tip.height.next());
    update.connect(batch)?;
    let mut height = first;
    for block in batch {
        events.push(ChainEvent::Connected(Tip { height, hash: block.hash() }));
        height = height.next();
    }
    Ok(())
}

/// Makes the committed state the one that is read. An empty index publishes nothing.
pub fn publish(index: &Index, published: &Published) -> Result<Option<Arc<Head>>, SyncError> {
    let chain = index.snapshot()?;
    let Some(tip) = chain.tip() else { return Ok(None) };
    let head = Arc::new(Head { chain, tip, taken_at: SystemTime::now() });
    published.publish(Arc::clone(&head));
    Ok(Some(head))
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
