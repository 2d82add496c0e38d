//! What happened, in order: each arrival, each departure and each correction of one under a number of its own.

use bitcoin::{BlockHash, Txid};
use imbl::Vector;

use super::entry::Cause;
use crate::chain::{Height, wide};

/// Why a transaction left the mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// A block contains it.
    Mined {
        /// The block.
        block: BlockHash,
        /// Its height.
        height: Height,
    },
    /// The node accepted another transaction that spends the same output (BIP125).
    Replaced {
        /// That transaction.
        by: Txid,
    },
    /// A block contains another transaction that spends the same output.
    Conflicted {
        /// That transaction.
        by: Txid,
        /// The block.
        block: BlockHash,
    },
    /// It waited for too long (`-mempoolexpiry`).
    Expired,
    /// The mempool was full and it paid the least (`-maxmempool`).
    Evicted,
    /// A reorganisation removed an output that it spends, made it spend an immature coinbase, or made it non-final; or it
    /// was in the disconnected block itself and did not return to the mempool.
    ReorgedOut {
        /// The block that was disconnected.
        block: BlockHash,
    },
    /// The node no longer has it and does not say why. Corrected to `Replaced` or `Conflicted` when another transaction that
    /// spends the same output is added, or is in a block.
    Unknown,
}

impl Departure {
    /// The transaction that spends the same output.
    #[must_use]
    pub fn conflicting(self) -> Option<Txid> {
        match self {
            Self::Replaced { by } | Self::Conflicted { by, .. } => Some(by),
            Self::Mined { .. } | Self::Expired | Self::Evicted | Self::ReorgedOut { .. } | Self::Unknown => None,
        }
    }

    /// The block that caused it to leave: the one with it or with the conflicting transaction, or the disconnected one.
    #[must_use]
    pub fn block(self) -> Option<BlockHash> {
        match self {
            Self::Mined { block, .. } | Self::Conflicted { block, .. } | Self::ReorgedOut { block } => Some(block),
            Self::Replaced { .. } | Self::Expired | Self::Evicted | Self::Unknown => None,
        }
    }
}

/// The content of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MempoolEventKind {
    /// A transaction entered.
    Added {
        /// Which.
        txid: Txid,
        /// Why.
        cause: Cause,
    },
    /// A transaction left.
    Removed {
        /// Which.
        txid: Txid,
        /// Why.
        departure: Departure,
    },
    /// The reason of an earlier departure became known. An earlier event, perhaps of an earlier run of the process, reported
    /// it as unknown.
    Corrected {
        /// Which.
        txid: Txid,
        /// Why.
        departure: Departure,
    },
}

impl MempoolEventKind {
    /// The transaction of the event.
    #[must_use]
    pub fn txid(&self) -> Txid {
        match self {
            Self::Added { txid, .. } | Self::Removed { txid, .. } | Self::Corrected { txid, .. } => *txid,
        }
    }
}

/// A change of the mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MempoolEvent {
    /// Its number: one more than that of the event before; the first of a run of the process has 1.
    pub sequence: u64,
    /// The change.
    pub kind: MempoolEventKind,
}

/// The newest events without a gap.
#[derive(Clone, Default)]
pub(super) struct RecentEvents {
    /// The number of the newest event.
    sequence: u64,
    kept: Vector<MempoolEventKind>,
}

impl RecentEvents {
    /// The number of the newest event, 0 before the first.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Appends an event, evicts the oldest beyond `limit`, and returns the event's number.
    pub(super) fn push(&mut self, kind: MempoolEventKind, limit: usize) -> u64 {
        self.sequence += 1;
        self.kept.push_back(kind);
        while self.kept.len() > limit {
            self.kept.pop_front();
        }
        self.sequence
    }

    /// The events after this number. `None` if some of them were evicted, or if the number is of another run.
    pub(super) fn after(&self, sequence: u64) -> Option<impl Iterator<Item = MempoolEvent>> {
        let newer = self.sequence.checked_sub(sequence)?;
        let first = wide(self.kept.len()).checked_sub(newer)?;
        let first = usize::try_from(first).ok()?;
        let events = (first..self.kept.len()).filter_map(|at| self.kept.get(at));
        Some((sequence + 1..).zip(events).map(|(sequence, kind)| MempoolEvent { sequence, kind: *kind }))
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    fn added(number: u8) -> MempoolEventKind {
        MempoolEventKind::Added { txid: Txid::from_byte_array([number; 32]), cause: Cause::New }
    }

    fn after(events: &RecentEvents, sequence: u64) -> Option<Vec<MempoolEvent>> {
        events.after(sequence).map(Iterator::collect)
    }

    #[test]
    fn events_are_numbered_from_one() {
        let mut events = RecentEvents::default();
        assert_eq!((events.sequence(), after(&events, 0)), (0, Some(Vec::new())));
        assert_eq!([1, 2].map(|number| events.push(added(number), 9)), [1, 2]);
        let expected =
            [1, 2].map(|number| MempoolEvent { sequence: number, kind: added(u8::try_from(number).unwrap()) });
        assert_eq!(after(&events, 0), Some(expected.to_vec()));
        assert_eq!(after(&events, 1), Some(expected[1..].to_vec()));
        assert_eq!(after(&events, 2), Some(Vec::new()));
    }

    #[test]
    fn evicted_events_make_the_replay_fail() {
        let mut events = RecentEvents::default();
        for number in 1..=5 {
            events.push(added(number), 3);
        }
        assert_eq!(after(&events, 1), None);
        assert_eq!(after(&events, 2).unwrap().iter().map(|event| event.sequence).collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn a_number_above_the_newest_is_of_another_run() {
        let mut events = RecentEvents::default();
        events.push(added(1), 3);
        assert_eq!(after(&events, 2), None);
    }

    #[test]
    fn a_limit_of_zero_keeps_the_newest_number_only() {
        let mut events = RecentEvents::default();
        events.push(added(1), 0);
        assert_eq!((events.sequence(), after(&events, 0), after(&events, 1)), (1, None, Some(Vec::new())));
    }
}
