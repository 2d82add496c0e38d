//! What a step of a life does.

use bitcoin::{BlockHash, Txid};

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifeAction {
    /// Transactions were submitted.
    Submitted {
        /// The accepted transactions, which are in the mempool unless a later one of them replaced them.
        taken: Vec<Txid>,
        /// The number of refused transactions.
        refused: usize,
    },
    /// A transaction was submitted in place of another.
    Replaced {
        /// The replacement.
        by: Txid,
    },
    /// A transaction was submitted that pays for one that it spends.
    Bumped {
        /// The child.
        child: Txid,
    },
    /// Transactions were evicted or expired.
    Removed(Vec<Txid>),
    /// A block was mined on the tip.
    Mined(BlockHash),
    /// A branch was mined.
    Branched {
        /// The number of blocks from the tip down to the fork.
        depth: u32,
        /// The number of blocks of the branch.
        length: u32,
    },
    /// A block was invalidated.
    Invalidated(BlockHash),
    /// An invalidated block was reconsidered.
    Reconsidered(BlockHash),
    /// A block was mined with the coinbase of an earlier one, which no node accepts.
    RepeatedCoinbase(BlockHash),
    /// No action was possible.
    Nothing,
}
