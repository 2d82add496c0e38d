//! How many observations an index keeps.

/// How many observations of each kind the index keeps. What is beyond a limit that was lowered is deleted little by little, with
/// what is recorded from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedLimits {
    /// Transactions that left the mempool without being mined.
    pub departed: u64,
    /// First-seen times; those of the newest transactions are kept.
    pub first_seen: u64,
    /// Blocks that arrived while the server followed the node; the highest are kept.
    pub blocks: u64,
    /// Reorganisations.
    pub reorgs: u64,
    /// Samples of the mempool, one per minute.
    pub mempool_samples: u64,
}

impl Default for ObservedLimits {
    fn default() -> Self {
        Self {
            departed: 20_000,
            first_seen: 100_000_000,
            blocks: 50_000,
            reorgs: 1_000,
            mempool_samples: 400 * 24 * 60,
        }
    }
}
