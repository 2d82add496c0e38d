//! How the chain went on from one published state to the next, between which events of the mempool.
//!
//! ```text
//!   events of the mempool   1 2 3 4 │ 5 6 7 │ 8 9
//!                                 turn    turn
//!   the chain               … ── A ─┘─ B ───┘─ C
//! ```
//!
//! A reader of both who comes back later finds in a Head where in between he was, and reads on in the same order as
//! one who never left.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::BlockHash;

/// How many turns are remembered: those of a week, if each is one block. Few enough to be copied with each turn.
const KEPT: usize = 1_000;

/// That the chain went on: by a block, by several, or onto another branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The newest block before.
    pub from: BlockHash,
    /// The newest block after.
    pub to: BlockHash,
    /// The number of the last event of the mempool that was published before it.
    pub sequence: u64,
}

/// The newest turns of the chain since the process began to publish.
#[derive(Clone, Default)]
pub struct Turns {
    count: u64,
    kept: Arc<VecDeque<Turn>>,
}

impl Turns {
    /// How many there have been.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether all turns behind the first `passed` are remembered.
    #[must_use]
    pub fn remember(&self, passed: u64) -> bool {
        self.count.checked_sub(passed).is_some_and(|ahead| ahead <= wide(self.kept.len()))
    }

    /// The turn behind the first `passed`; `None` if there was none yet, or it is forgotten.
    #[must_use]
    pub fn behind(&self, passed: u64) -> Option<Turn> {
        let ahead = self.count.checked_sub(passed)?;
        let index = wide(self.kept.len()).checked_sub(ahead)?;
        self.kept.get(usize::try_from(index).ok()?).copied()
    }

    /// These, and one more.
    #[must_use]
    pub(super) fn with(&self, turn: Turn) -> Self {
        let forgotten = self.kept.len().saturating_add(1).saturating_sub(KEPT);
        let kept = self.kept.iter().skip(forgotten).copied().chain([turn]).collect();
        Self { count: self.count.saturating_add(1), kept: Arc::new(kept) }
    }
}

/// A count of things in memory, which never exceeds 64 bits.
fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    fn turn(number: u64) -> Turn {
        let hash = |number: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            BlockHash::from_byte_array(bytes)
        };
        Turn { from: hash(number), to: hash(number + 1), sequence: number * 10 }
    }

    #[test]
    fn a_reader_finds_the_turn_behind_those_it_passed() {
        let turns = (0..3).fold(Turns::default(), |turns, number| turns.with(turn(number)));
        assert_eq!(turns.count(), 3);
        for passed in 0..3 {
            assert_eq!(turns.behind(passed), Some(turn(passed)));
        }
        assert_eq!(turns.behind(3), None);
        assert!(turns.remember(0) && turns.remember(3));
        assert!(!turns.remember(4), "so many there were not yet");
    }

    #[test]
    fn the_oldest_turns_are_forgotten() {
        let all = wide(KEPT) + 2;
        let turns = (0..all).fold(Turns::default(), |turns, number| turns.with(turn(number)));
        assert!(!turns.remember(1) && turns.remember(2));
        assert_eq!((turns.behind(1), turns.behind(2)), (None, Some(turn(2))));
    }
}
