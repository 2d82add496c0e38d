//! The state of synchronization with the node, and the one definition of "in sync".
//!
//! ```text
//!   node reports its tip ──► current ──── longest silence ────► silent: treated as if the node were unreachable
//!                               ▲                                  │
//!                               └───────── next report ────────────┘
//! ```
//!
//! The chain is in sync while its tip is the block that the node reported last. The mempool is in sync once it was equal
//! to the node's and while every later signal was processed. Both end after the longest silence: a node that crashed and a
//! node that hangs look the same from here. [`Published::state`](super::Published::state) computes the state at the moment
//! of the call, so no event is needed to end it.

use std::time::{Duration, Instant};

use bitcoin::BlockHash;

use crate::chain::Height;
use crate::index::{DiskShortage, Tip};

/// The default time for which the node's last report of its tip counts as current.
pub(super) const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// The phase of following the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPhase {
    /// The node is unreachable, silent or behind the index, or the disk of the index is full.
    #[default]
    WaitingForNode,
    /// The index is far behind the node's tip.
    CatchingUp,
    /// The index is at the node's tip, or a few blocks behind.
    Following,
}

/// The speed of catching up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexingSpeed {
    /// Blocks per second.
    pub blocks_per_second: f64,
    /// The estimated time to the node's tip at this speed. Newer blocks are larger, so the estimate is rather short.
    pub remaining: Duration,
}

/// The state of synchronization, as `sync` reported it last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SyncState {
    /// The phase of following the node.
    pub phase: SyncPhase,
    /// The height of the newest block that the node reported; `None` before its first report.
    pub node_height: Option<Height>,
    /// The height of the newest header that the node reported; `None` before its first report.
    pub node_headers: Option<Height>,
    /// The hash of the node's newest block; `None` before its first report, and while it is unreachable or silent.
    pub node_tip: Option<BlockHash>,
    /// The speed of catching up; `None` in other phases, and before it was measured.
    pub speed: Option<IndexingSpeed>,
    /// Whether the mempool was found equal to the node's, and every later signal was processed.
    pub mempool_in_sync: bool,
    /// The block that this process awaits, or awaited in vain, since it starts: announced before a crash removed it from
    /// the index. `None` once the index reaches its height.
    pub awaited_block: Option<Tip>,
    /// The highest block that an earlier process awaited in vain. `None` once the index reaches its height.
    pub abandoned_block: Option<Tip>,
    /// The free disk space that the index lacks, while following is suspended for that reason.
    pub disk_shortage: Option<DiskShortage>,
}

impl SyncState {
    /// Whether this block is the node's newest.
    #[must_use]
    pub fn is_at(&self, tip: Tip) -> bool {
        self.node_tip == Some(tip.hash)
    }

    /// The block to report as lost: the awaited one, else the abandoned one.
    #[must_use]
    pub fn lost_block(&self) -> Option<Tip> {
        self.awaited_block.or(self.abandoned_block)
    }

    /// The awaited or abandoned block with this hash.
    #[must_use]
    pub fn lost_block_with(&self, hash: BlockHash) -> Option<Tip> {
        [self.awaited_block, self.abandoned_block].into_iter().flatten().find(|lost| lost.hash == hash)
    }

    /// This state without the lost blocks whose height a chain with this tip reaches.
    #[must_use]
    pub fn with_lost_blocks_above(self, tip: Tip) -> Self {
        let is_above = |lost: &Tip| lost.height > tip.height;
        Self {
            awaited_block: self.awaited_block.filter(is_above),
            abandoned_block: self.abandoned_block.filter(is_above),
            ..self
        }
    }

    /// This state while the node is unreachable: heights as last reported, and nothing in sync.
    #[must_use]
    pub fn without_node(self) -> Self {
        Self { phase: SyncPhase::WaitingForNode, speed: None, ..self.out_of_sync() }
    }

    /// This state after the longest silence. While the index catches up, silence is normal: `sync` then requests blocks
    /// and asks for the node's tip after them.
    fn of_silent_node(self) -> Self {
        if self.phase == SyncPhase::CatchingUp { self.out_of_sync() } else { self.without_node() }
    }

    fn out_of_sync(self) -> Self {
        Self { node_tip: None, mempool_in_sync: false, ..self }
    }
}

/// The state of synchronization and the age of what it says of the node, all at one moment.
#[derive(Clone, Copy, Debug)]
pub struct SyncStatus {
    /// The state.
    pub state: SyncState,
    /// The hash of the newest block that the node reported last, also while the node is unreachable or silent.
    pub reported_tip: Option<BlockHash>,
    /// The time since the node's last report of its tip; `None` before its first report.
    pub silence: Option<Duration>,
    /// The time for which the mempool has been out of sync, zero while it is in sync; `None` before it was in sync for
    /// the first time.
    pub mempool_behind: Option<Duration>,
}

/// The last state that `sync` reported, and when the node was the source of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SyncRecord {
    state: SyncState,
    /// The last [`SyncState::node_tip`] that was not `None`.
    reported_tip: Option<BlockHash>,
    /// The time of the node's last report of its tip.
    reported_at: Option<Instant>,
    /// When the mempool got out of sync.
    mempool_lost_at: Option<Instant>,
}

impl SyncRecord {
    /// Replaces the state without a report of the node.
    pub(super) fn with_state(self, state: SyncState, now: Instant) -> Self {
        let is_lost = self.state.mempool_in_sync && !state.mempool_in_sync;
        Self {
            state,
            reported_tip: state.node_tip.or(self.reported_tip),
            mempool_lost_at: if is_lost { Some(now) } else { self.mempool_lost_at },
            ..self
        }
    }

    /// Replaces the state after a report of the node.
    pub(super) fn with_report(self, state: SyncState, now: Instant) -> Self {
        Self { reported_at: Some(now), ..self.with_state(state, now) }
    }

    /// The last state, whatever its age.
    pub(super) fn last_state(&self) -> SyncState {
        self.state
    }

    /// The time since the node's last report of its tip; `None` before its first report.
    pub(super) fn silence(&self, now: Instant) -> Option<Duration> {
        self.reported_at.map(|reported_at| now.saturating_duration_since(reported_at))
    }

    /// The state at this moment, with this longest silence.
    pub(super) fn state_at(&self, now: Instant, longest_silence: Duration) -> SyncState {
        let is_current = self.silence(now).is_some_and(|silence| silence <= longest_silence);
        if is_current { self.state } else { self.state.of_silent_node() }
    }

    /// The state and its age at this moment, with this longest silence.
    pub(super) fn status_at(&self, now: Instant, longest_silence: Duration) -> SyncStatus {
        SyncStatus {
            state: self.state_at(now, longest_silence),
            reported_tip: self.reported_tip,
            silence: self.silence(now),
            mempool_behind: self.mempool_behind(now, longest_silence),
        }
    }

    fn mempool_behind(&self, now: Instant, longest_silence: Duration) -> Option<Duration> {
        if self.state_at(now, longest_silence).mempool_in_sync {
            return Some(Duration::ZERO);
        }
        // during a silence the mempool is unknown since the last report
        let silence = self.silence(now);
        if self.state.mempool_in_sync {
            return silence;
        }
        self.mempool_lost_at.map(|lost_at| now.saturating_duration_since(lost_at).max(silence.unwrap_or_default()))
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
            speed: None,
            mempool_in_sync: true,
            awaited_block: None,
            abandoned_block: None,
            disk_shortage: None,
        }
    }

    fn tip(height: u32) -> Tip {
        let hash = BlockHash::from_byte_array([u8::try_from(height).unwrap(); 32]);
        Tip { height: height.into(), hash }
    }

    #[test]
    fn an_awaited_and_an_abandoned_block_are_both_lost() {
        let (awaited, abandoned) = (tip(7), tip(9));
        let state = SyncState { awaited_block: Some(awaited), abandoned_block: Some(abandoned), ..in_sync() };
        for (state, shown, lost) in [
            (state, Some(awaited), [Some(awaited), Some(abandoned)]),
            (state.with_lost_blocks_above(tip(6)), Some(awaited), [Some(awaited), Some(abandoned)]),
            (state.with_lost_blocks_above(tip(7)), Some(abandoned), [None, Some(abandoned)]),
            (state.with_lost_blocks_above(tip(9)), None, [None, None]),
        ] {
            assert_eq!(state.lost_block(), shown, "{state:?}");
            assert_eq!([awaited, abandoned].map(|block| state.lost_block_with(block.hash)), lost, "{state:?}");
        }
    }

    #[test]
    fn the_reported_tip_outlives_the_connection_to_the_node() {
        let start = Instant::now();
        let record = SyncRecord::default().with_report(SyncState { node_tip: Some(tip(7).hash), ..in_sync() }, start);
        let away = record.with_state(record.last_state().without_node(), start);
        for (record, seconds) in [(record, 0), (record, 31), (away, 1)] {
            let status = record.status_at(start + SECOND * seconds, SECOND * 30);
            assert_eq!((status.reported_tip, status.silence), (Some(tip(7).hash), Some(SECOND * seconds)));
            assert_eq!(status.state.node_tip.is_some(), seconds == 0);
        }
    }

    #[test]
    fn a_state_is_in_sync_up_to_the_longest_silence() {
        let start = Instant::now();
        let record = SyncRecord::default().with_report(in_sync(), start);
        let silent =
            SyncState { phase: SyncPhase::WaitingForNode, node_tip: None, mempool_in_sync: false, ..in_sync() };
        for (seconds, expected) in [(0, in_sync()), (30, in_sync()), (31, silent), (3_600, silent)] {
            assert_eq!(record.state_at(start + SECOND * seconds, SECOND * 30), expected, "{seconds}");
        }
    }

    #[test]
    fn a_silent_node_does_not_end_catching_up() {
        let speed = Some(IndexingSpeed { blocks_per_second: 1.0, remaining: SECOND });
        let catching_up = SyncState { phase: SyncPhase::CatchingUp, speed, ..in_sync() };
        let start = Instant::now();
        let state = SyncRecord::default().with_report(catching_up, start).state_at(start + SECOND * 31, SECOND * 30);
        assert_eq!(state, SyncState { node_tip: None, mempool_in_sync: false, ..catching_up });
    }

    #[test]
    fn only_a_report_of_the_node_ends_its_silence() {
        let start = Instant::now();
        let later = start + SECOND * 31;
        let record = SyncRecord::default().with_report(in_sync(), start).with_state(in_sync(), later);
        assert_eq!(record.state_at(later, SECOND * 30), in_sync().without_node());
        assert_eq!(record.with_report(in_sync(), later).state_at(later, SECOND * 30), in_sync());
        assert_eq!(
            SyncRecord::default().with_state(in_sync(), start).state_at(start, SECOND * 30),
            in_sync().without_node()
        );
    }

    #[test]
    fn the_mempool_is_behind_since_its_loss_or_the_last_report() {
        let (start, limit) = (Instant::now(), SECOND * 30);
        let behind = |record: &SyncRecord, seconds: u32| record.mempool_behind(start + SECOND * seconds, limit);
        assert_eq!(behind(&SyncRecord::default(), 0), None);
        let record = SyncRecord::default().with_report(in_sync().without_node(), start);
        assert_eq!(behind(&record, 5), None, "it never was in sync");
        let record = record.with_report(in_sync(), start);
        assert_eq!((behind(&record, 30), behind(&record, 31)), (Some(Duration::ZERO), Some(SECOND * 31)));
        let lost = record.with_state(SyncState { mempool_in_sync: false, ..in_sync() }, start + SECOND * 2);
        let heard = lost.with_report(lost.last_state(), start + SECOND * 9);
        assert_eq!(behind(&heard, 10), Some(SECOND * 8));
        assert_eq!(behind(&record.with_state(in_sync().without_node(), start + SECOND * 60), 61), Some(SECOND * 61));
        let found = lost.with_report(in_sync(), start + SECOND * 20);
        assert_eq!(behind(&found, 60), Some(SECOND * 40), "the earlier loss does not count");
    }
}
