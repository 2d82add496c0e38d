//! The loop between two rounds: what it follows, and what it knows.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::background::{Deriver, Freezer, Freezing, Merger, RawMover, Retry};
use super::branch_search::Branches;
use super::mempool::{MempoolSync, PersistentMempool};
use super::prefetch::Prefetcher;
use super::reorg_record::Record;
use super::wake::Wake;
use super::withheld::Withheld;
use crate::index::{Index, RequiredSpace, Snapshot};
use crate::live::Live;
use crate::node::{Node, ReceivedSignal, Signals};
use crate::view::Published;

/// When to stop following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When the index has reached the node's tip.
    CaughtUp,
    /// When the node's stop flag is raised.
    Stopped,
}

/// What to follow, where to publish it, and how much memory that may take.
pub struct Follow<'a> {
    /// The node. Its stop flag ends the loop.
    pub node: &'a Node,
    /// The index. The loop is its only writer.
    pub index: &'a mut Index,
    /// Receives the Heads.
    pub published: &'a Published,
    /// Receives the events.
    pub live: &'a Live,
    /// The unconfirmed transactions, which the loop alone writes and keeps equal to the node's; `None` to follow only
    /// the chain.
    pub mempool: Option<&'a mut PersistentMempool>,
    /// The lost block without which the index must not be shown, as [`publish`](super::publish) found it; `None` if
    /// there is none.
    pub withheld: Option<Withheld>,
    /// The messages that the node publishes. Without them the loop requests the node's mempool at each poll.
    pub signals: Option<&'a Signals>,
    /// When to stop.
    pub until: Until,
    /// The interval between requests for the node's tip.
    pub poll: Duration,
    /// Wakes the loop before the next poll.
    pub wake: &'a Wake,
    /// Concurrent requests for blocks.
    pub connections: NonZeroUsize,
    /// The most bytes that blocks between the node and the index may take.
    pub buffer_bytes: usize,
    /// Which blocks are frozen; `None` if none are.
    pub freezing: Option<Freezing>,
}

/// The result of one round.
pub(super) enum RoundOutcome {
    /// The index is at the node's tip, and so is the mempool, if there is one.
    InSync,
    /// Blocks were connected or disconnected, or there is more to do; start the next round at once.
    Progressed,
    /// Some removals from the mempool are delayed until their reason may be known.
    RemovalsDelayed,
    /// The node's chain changed between the requests, so that nothing was done; try again at the next poll.
    ChainMoving,
}

/// The state of the loop between two rounds.
pub(super) struct SyncLoop<'a> {
    pub(super) follow: Follow<'a>,
    pub(super) mempool_sync: Option<MempoolSync<'a>>,
    /// The chain published last.
    pub(super) chain: Option<Arc<Snapshot>>,
    /// The lost block: nothing is published until the index has it again.
    pub(super) withheld: Option<Withheld>,
    /// The last logged cause of an interruption while that block is awaited.
    pub(super) logged_cause: Option<String>,
    /// The reorganisation whose transactions do not have a known outcome yet.
    pub(super) record: Option<Record>,
    /// The space that the next blocks need, if the disk lacked it.
    pub(super) required_space: Option<RequiredSpace>,
    /// When the loop last found the index at the node's tip.
    pub(super) tip_checked: Option<Instant>,
    /// Signals that were received and not applied yet.
    pub(super) signals: Vec<ReceivedSignal>,
    /// Whether some of what was due before the last round waits for a block that the node has signalled, or that was announced.
    pub(super) is_work_postponed: bool,
    /// When the first block was announced since all that was due was done.
    pub(super) announced: Option<Instant>,
    /// When it was last checked whether work in the background is due.
    pub(super) background_checked: Option<Instant>,
    /// Whether the last round skipped this check, which the pause after it then makes.
    pub(super) is_check_skipped: bool,
    /// The pause of mempool requests after an unusable answer.
    pub(super) mempool_backoff: Option<MempoolBackoff>,
    /// Prefetches for the next block.
    pub(super) prefetcher: Option<Prefetcher>,
    pub(super) branches: Branches,
    pub(super) freezer: Freezer,
    pub(super) merger: Merger,
    pub(super) raw_mover: RawMover,
    pub(super) deriver: Deriver,
    /// When freezing and building tables begin again after no file descriptor was free.
    pub(super) out_of_files: Retry,
}

/// A pause of mempool requests.
pub(super) struct MempoolBackoff {
    pub(super) until: Instant,
    /// Consecutive unusable answers.
    pub(super) failures: u32,
}

impl<'a> SyncLoop<'a> {
    /// The state before the first round, with nothing published.
    pub(super) fn new(mut follow: Follow<'a>) -> Self {
        let mempool_sync = follow.mempool.take().map(|mempool| MempoolSync::new(mempool, follow.poll));
        Self {
            withheld: follow.withheld,
            follow,
            mempool_sync,
            chain: None,
            logged_cause: None,
            record: None,
            required_space: None,
            tip_checked: None,
            signals: Vec::new(),
            is_work_postponed: false,
            announced: None,
            background_checked: None,
            is_check_skipped: false,
            mempool_backoff: None,
            prefetcher: None,
            branches: Branches::default(),
            freezer: Freezer::default(),
            merger: Merger::default(),
            raw_mover: RawMover::default(),
            deriver: Deriver::default(),
            out_of_files: Retry::default(),
        }
    }
}
