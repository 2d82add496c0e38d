//! The changes of the tip from one published state to the next, and their order among the events of the mempool.
//!
//! ```text
//!   events of the mempool   1 2 3 4 │ 5 6 7 │ 8 9
//!                                change   change
//!   the chain               … ── A ─┘─ B ───┘─ C
//! ```
//!
//! A reader of both that resumes finds its position between them in a Head, and continues in the same order as a reader
//! that never stopped.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::BlockHash;

/// The number of changes that are kept: a week of single blocks. Each change copies all of them.
const CAPACITY: usize = 1_000;

/// A change of the tip: by one block, by several, or to another branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TipChange {
    /// The tip before.
    pub from: BlockHash,
    /// The tip after.
    pub to: BlockHash,
    /// The number of the last event of the mempool before it.
    pub sequence: u64,
}

/// The newest changes of the tip since the start of the process.
#[derive(Clone, Default)]
pub struct TipHistory {
    count: u64,
    changes: Arc<VecDeque<TipChange>>,
}

impl TipHistory {
    /// The number of changes since the start, kept or not.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether all changes after the first `passed` are kept.
    #[must_use]
    pub fn contains_all_after(&self, passed: u64) -> bool {
        self.count.checked_sub(passed).is_some_and(|ahead| ahead <= to_u64(self.changes.len()))
    }

    /// The change after the first `passed`; `None` if it did not happen yet or is not kept.
    #[must_use]
    pub fn after(&self, passed: u64) -> Option<TipChange> {
        let ahead = self.count.checked_sub(passed)?;
        let index = to_u64(self.changes.len()).checked_sub(ahead)?;
        self.changes.get(usize::try_from(index).ok()?).copied()
    }

    /// Appends a change and drops the oldest beyond the capacity.
    #[must_use]
    pub(super) fn with(&self, change: TipChange) -> Self {
        let dropped = self.changes.len().saturating_add(1).saturating_sub(CAPACITY);
        let changes = self.changes.iter().skip(dropped).copied().chain([change]).collect();
        Self { count: self.count.saturating_add(1), changes: Arc::new(changes) }
    }
}

/// A count of things in memory, which never exceeds 64 bits.
fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    fn change(number: u64) -> TipChange {
        let hash = |number: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            BlockHash::from_byte_array(bytes)
        };
        TipChange { from: hash(number), to: hash(number + 1), sequence: number * 10 }
    }

    #[test]
    fn a_reader_finds_the_next_change() {
        let history = (0..3).fold(TipHistory::default(), |history, number| history.with(change(number)));
        assert_eq!(history.count(), 3);
        for passed in 0..3 {
            assert_eq!(history.after(passed), Some(change(passed)));
        }
        assert_eq!(history.after(3), None);
        assert!(history.contains_all_after(0) && history.contains_all_after(3));
        assert!(!history.contains_all_after(4), "there were not so many yet");
    }

    #[test]
    fn the_oldest_changes_are_dropped() {
        let all = to_u64(CAPACITY) + 2;
        let history = (0..all).fold(TipHistory::default(), |history, number| history.with(change(number)));
        assert!(!history.contains_all_after(1) && history.contains_all_after(2));
        assert_eq!((history.after(1), history.after(2)), (None, Some(change(2))));
    }
}
