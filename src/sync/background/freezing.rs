//! Which blocks are frozen, and what building a generation may use.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::chain::Height;
use crate::index::RawStorage;
use crate::node::NodeBlocks;

/// Which blocks are frozen, and what building a generation may use.
#[derive(Clone)]
pub struct Freezing {
    /// When blocks are frozen.
    pub bounds: FreezeBounds,
    /// Where the bytes of frozen blocks are to be stored. `None`: where the index has them, or else where they can stay.
    pub raw_transactions: Option<RawStorage>,
    /// Reads the bytes of frozen blocks.
    pub blocks: NodeBlocks,
    /// The node's `blocks` directory, if it is known.
    pub blocks_dir: Option<PathBuf>,
    /// The directory for temporary files.
    pub temporary_dir: PathBuf,
    /// Memory for buffers and partitions, in bytes.
    pub memory: usize,
    /// Threads that parse and sort.
    pub threads: NonZeroUsize,
}

/// When blocks are frozen: once those behind the newest are so many, or, at the tip, have so many transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreezeBounds {
    /// How many of the newest blocks are not frozen.
    pub depth: u32,
    /// How many blocks are frozen at a time, unless fewer have enough transactions.
    pub every: u32,
    /// How many transactions at least are frozen at a time at the tip. The more are live, the longer a block takes, because the
    /// rows that it changes are on more pages.
    pub transactions: u64,
}

impl FreezeBounds {
    /// The blocks that can be frozen in a chain with this tip whose blocks up to `frozen` are frozen.
    pub(super) fn candidates(&self, tip: Height, frozen: Option<Height>) -> Option<RangeInclusive<Height>> {
        let first = frozen.map_or(Height::GENESIS, Height::next);
        let last = tip.to_u32().checked_sub(self.depth).map(Height::from)?;
        (last >= first).then_some(first..=last)
    }

    /// Whether these are enough blocks.
    pub(super) fn are_enough(&self, blocks: &RangeInclusive<Height>) -> bool {
        blocks.end().to_u32() - blocks.start().to_u32() >= self.every.saturating_sub(1)
    }

    /// The highest block to import in bulk from a node with this tip; `None` while it has too few blocks.
    #[must_use]
    pub(in crate::sync) fn last_of_import(&self, tip: Height) -> Option<Height> {
        self.candidates(tip, None).filter(|blocks| self.are_enough(blocks)).map(|blocks| *blocks.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_newest_blocks_are_frozen_once_there_are_enough() {
        let due = |depth, every, tip: u32, frozen: Option<u32>| {
            let bounds = FreezeBounds { depth, every, transactions: u64::MAX };
            let blocks = bounds.candidates(Height::from(tip), frozen.map(Height::from))?;
            bounds.are_enough(&blocks).then_some(blocks.end().to_u32())
        };
        // heights 0 to 9 are ten blocks
        assert_eq!(due(4, 6, 8, None), None);
        assert_eq!(due(4, 6, 9, None), Some(5));
        assert_eq!(due(4, 6, 14, Some(5)), None);
        assert_eq!(due(4, 6, 15, Some(5)), Some(11));
        assert_eq!(due(0, 1, 0, None), Some(0));
        assert_eq!(due(0, 1, 7, Some(6)), Some(7));
        assert_eq!(due(0, 1, 7, Some(7)), None);
        assert_eq!(due(u32::MAX, u32::MAX, 9, None), None);
    }
}
