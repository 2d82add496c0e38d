//! The size of a chain for loads, and the seed of its choices.

/// The size of the chain to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProfile {
    /// Transactions in all, coinbases not counted.
    pub transactions: u64,
    /// Blocks in all, genesis not counted. The first 100 have no transactions; each of the others has room for about
    /// 4,000.
    pub blocks: u32,
    /// The seed of all choices.
    pub seed: u64,
}
