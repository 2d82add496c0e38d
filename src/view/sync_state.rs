//! How far the index is beside the node, and the one definition of "in sync".
//!
//! ```text
//!   the node's newest block ──► known ──── at most the longest silence ────► nothing is known of the node any more
//!                                 ▲ the node reports it again │                    │ as while it is known to be away
//!                                 └───────────────────────────┴────────────────────┘
//! ```
//!
//! The chain is in sync while its newest block is the one that the node reported last, and the mempool while it was found
//! equal to the node's and everything that happened to that since was followed. Both hold only for as long as the node
//! may be silent: a node that went away a moment ago and one that does not answer look the same. Readers see the state
//! as of the moment they ask ([`Published::state`](super::Published::state)), so it needs no event to stop being in sync.

use std::time::{Duration, Instant};

use bitcoin::BlockHash;

use crate::chain::Height;
use crate::index::{DiskShortage, Tip};

/// For how long the node's last report of its newest block is taken to be true, unless it is set otherwise.
pub(super) const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// What following the node is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPhase {
    /// The node was not reached yet, is away, silent or behind, or the disk that holds the index is full.
    #[default]
    WaitingForNode,
    /// The index is far behind the node's tip.
    CatchingUp,
    /// The index is at the node's tip, or a few blocks behind.
    Following,
}

/// How fast catching up is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Blocks a second.
    pub blocks_per_second: f64,
    /// The time to the node's tip if it goes on like that. Younger blocks are larger, so it is rather short.
    pub left: Duration,
}

/// How far the index has come, as `sync` last saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SyncState {
    /// What is being done.
    pub phase: SyncPhase,
    /// The height of the newest block that the node reported; `None` before its first report.
    pub node_height: Option<Height>,
    /// The height of the newest header that the node reported; `None` before its first report.
    pub node_headers: Option<Height>,
    /// The hash of the node's newest block; `None` before its first report, and while it is away or silent.
    pub node_tip: Option<BlockHash>,
    /// How fast catching up is; `None` at other times, and until it shows.
    pub pace: Option<Pace>,
    /// Whether the mempool was found to be the node's, and everything that happened to that since was followed.
    pub mempool_in_sync: bool,
    /// The highest block that was announced before a crash took it out of the index, until the index reaches its height.
    pub lost_block: Option<Tip>,
    /// What the disk of the index lacks, while the node is not followed for that.
    pub disk_shortage: Option<DiskShortage>,
}

impl SyncState {
    /// Whether this block is the node's newest.
    #[must_use]
    pub fn is_at(&self, tip: Tip) -> bool {
        self.node_tip == Some(tip.hash)
    }

    /// What is left of this while the node is away: heights as last reported, and nothing that is in sync.
    #[must_use]
    pub fn without_node(self) -> Self {
        Self { phase: SyncPhase::WaitingForNode, pace: None, ..self.out_of_sync() }
    }

    /// What is left of this once the node did not report its newest block for too long. While the index catches up that
    /// is no sign of anything: the node is asked for blocks then, and for its newest one behind them.
    fn of_silent_node(self) -> Self {
        if self.phase == SyncPhase::CatchingUp { self.out_of_sync() } else { self.without_node() }
    }

    fn out_of_sync(self) -> Self {
        Self { node_tip: None, mempool_in_sync: false, ..self }
    }
}

/// What is known of the node, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    state: SyncState,
    /// When the node last reported its newest block.
    heard: Option<Instant>,
    /// When the mempool stopped being the node's.
    mempool_lost: Option<Instant>,
}

impl Known {
    /// With another state, of which the node itself said nothing new.
    pub(super) fn with(self, state: SyncState, now: Instant) -> Self {
        let is_lost = self.state.mempool_in_sync && !state.mempool_in_sync;
        Self { state, mempool_lost: if is_lost { Some(now) } else { self.mempool_lost }, ..self }
    }

    /// With the state that follows from a report of the node.
    pub(super) fn heard(self, state: SyncState, now: Instant) -> Self {
        Self { heard: Some(now), ..self.with(state, now) }
    }

    /// The state as the loop left it, however long ago the node was heard.
    pub(super) fn last_state(&self) -> SyncState {
        self.state
    }

    /// How long ago the node reported its newest block; `None` if it never did.
    pub(super) fn silence(&self, now: Instant) -> Option<Duration> {
        self.heard.map(|heard| now.saturating_duration_since(heard))
    }

    /// The state at this moment, when the node may be silent for so long.
    pub(super) fn at(&self, now: Instant, longest_silence: Duration) -> SyncState {
        let hears_node = self.silence(now).is_some_and(|silence| silence <= longest_silence);
        if hears_node { self.state } else { self.state.of_silent_node() }
    }

    /// For how long the mempool has not been known to be the node's, zero while it is; `None` if it never was.
    pub(super) fn mempool_behind(&self, now: Instant, longest_silence: Duration) -> Option<Duration> {
        if self.at(now, longest_silence).mempool_in_sync {
            return Some(Duration::ZERO);
        }
        // of a silent node nothing is known since it was heard last
        let silence = self.silence(now);
        if self.state.mempool_in_sync {
            return silence;
        }
        self.mempool_lost.map(|lost| now.saturating_duration_since(lost).max(silence.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn in_sync() -> SyncState {
        SyncState {
            phase: SyncPhase::Following,
            node_height: Some(7.into()),
            node_headers: Some(7.into()),
            node_tip: Some(BlockHash::all_zeros()),
            pace: None,
            mempool_in_sync: true,
            lost_block: None,
            disk_shortage: None,
        }
    }

    #[test]
    fn a_state_is_in_sync_up_to_the_longest_silence() {
        let start = Instant::now();
        let known = Known::default().heard(in_sync(), start);
        let silent =
            SyncState { phase: SyncPhase::WaitingForNode, node_tip: None, mempool_in_sync: false, ..in_sync() };
        for (seconds, expected) in [(0, in_sync()), (30, in_sync()), (31, silent), (3_600, silent)] {
            assert_eq!(known.at(start + SECOND * seconds, SECOND * 30), expected, "{seconds}");
        }
    }

    #[test]
    fn catching_up_goes_on_while_the_node_is_asked_for_blocks_alone() {
        let pace = Some(Pace { blocks_per_second: 1.0, left: SECOND });
        let catching_up = SyncState { phase: SyncPhase::CatchingUp, pace, ..in_sync() };
        let start = Instant::now();
        let state = Known::default().heard(catching_up, start).at(start + SECOND * 31, SECOND * 30);
        assert_eq!(state, SyncState { node_tip: None, mempool_in_sync: false, ..catching_up });
    }

    #[test]
    fn only_the_node_itself_ends_its_silence() {
        let start = Instant::now();
        let later = start + SECOND * 31;
        let known = Known::default().heard(in_sync(), start).with(in_sync(), later);
        assert_eq!(known.at(later, SECOND * 30), in_sync().without_node());
        assert_eq!(known.heard(in_sync(), later).at(later, SECOND * 30), in_sync());
        assert_eq!(Known::default().with(in_sync(), start).at(start, SECOND * 30), in_sync().without_node());
    }

    #[test]
    fn the_mempool_is_behind_since_it_was_lost_or_the_node_was_heard() {
        let (start, limit) = (Instant::now(), SECOND * 30);
        let behind = |known: &Known, seconds: u32| known.mempool_behind(start + SECOND * seconds, limit);
        assert_eq!(behind(&Known::default(), 0), None);
        let known = Known::default().heard(in_sync().without_node(), start);
        assert_eq!(behind(&known, 5), None, "it never was the node's");
        let known = known.heard(in_sync(), start);
        assert_eq!((behind(&known, 30), behind(&known, 31)), (Some(Duration::ZERO), Some(SECOND * 31)));
        let lost = known.with(SyncState { mempool_in_sync: false, ..in_sync() }, start + SECOND * 2);
        let heard = lost.heard(lost.last_state(), start + SECOND * 9);
        assert_eq!(behind(&heard, 10), Some(SECOND * 8));
        assert_eq!(behind(&known.with(in_sync().without_node(), start + SECOND * 60), 61), Some(SECOND * 61));
        let found = lost.heard(in_sync(), start + SECOND * 20);
        assert_eq!(behind(&found, 60), Some(SECOND * 40), "it was lost before, and is not since then");
    }
}
