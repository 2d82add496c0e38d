//! The errors of the simulated chain.

use bitcoin::{Amount, BlockHash, OutPoint, Txid};

use super::script_kind::ScriptKind;
use crate::chain::Height;

/// Why a block cannot be made or a tip cannot be chosen. After an error the chain is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The block was never made on this chain.
    #[error("block {0} is not part of this simulated chain")]
    UnknownBlock(BlockHash),
    /// The block was made, but its body and changes were dropped to save memory.
    #[error("the body of block {0} was dropped: keep more blocks to build at this depth")]
    Forgotten(BlockHash),
    /// The parent of the block, or a block below it, was invalidated.
    #[error("block {0} was invalidated: nothing can be built on it before it is reconsidered")]
    InvalidParent(BlockHash),
    /// Genesis cannot be invalidated.
    #[error("the genesis block cannot be invalidated")]
    InvalidGenesis,
    /// An input spends an output that does not exist or is already spent at the parent block.
    #[error("transaction {txid} spends {outpoint}, which is not unspent at the parent block")]
    MissingCoin {
        /// The spending transaction.
        txid: Txid,
        /// The output that it spends.
        outpoint: OutPoint,
    },
    /// An input spends a coinbase output that has fewer than 100 confirmations.
    #[error("transaction {txid} at height {height} spends {outpoint}, a coinbase output of height {created}")]
    Immature {
        /// The spending transaction.
        txid: Txid,
        /// The output that it spends.
        outpoint: OutPoint,
        /// The height of the spending block.
        height: Height,
        /// The height of the coinbase.
        created: Height,
    },
    /// A transaction without inputs or without outputs.
    #[error("transaction {0} has no inputs or no outputs")]
    EmptyTransaction(Txid),
    /// A transaction pays more than it spends.
    #[error("transaction {txid} pays {paid} out of {spent}")]
    Overspent {
        /// The transaction.
        txid: Txid,
        /// The sum of its inputs.
        spent: Amount,
        /// The sum of its outputs.
        paid: Amount,
    },
    /// A transaction would overwrite unspent outputs of an earlier copy of itself (BIP30).
    #[error("transaction {0} is already in the chain, with unspent outputs")]
    Duplicate(Txid),
    /// The coinbase pays more than the subsidy and the fees.
    #[error("the coinbase pays or withholds {claimed}, the block earns {earned}")]
    RewardTooHigh {
        /// The outputs of the coinbase and the amount that the miner leaves unclaimed.
        claimed: Amount,
        /// Subsidy and fees.
        earned: Amount,
    },
    /// The coinbase would have no output.
    #[error("the coinbase has no output: add one, or a script for the rest of the reward")]
    EmptyReward,
    /// The coinbase tag makes the coinbase script longer than 100 bytes.
    #[error("the coinbase tag has {0} bytes, at most 80 are allowed")]
    LongTag(usize),
    /// The block would be heavier than consensus allows.
    #[error("the block would weigh {0} weight units, at most 4000000 are allowed")]
    TooHeavy(u64),
    /// The block would have more signature operations than consensus allows.
    #[error("the block would cost {0} signature operations, at most 80000 are allowed")]
    TooManySigops(usize),
    /// The block's time is not after the median of the 11 blocks before it, or does not fit into 32 bits.
    #[error("the block time {time} is not after the median time past {median_time_past}")]
    TimeTooOld {
        /// The block's time, in seconds since 1970.
        time: u32,
        /// The median time past that it must exceed, in seconds since 1970.
        median_time_past: u32,
    },
    /// No nonce gives a block hash below the target. With the regtest target this does not happen.
    #[error("no nonce meets the regtest target")]
    NoNonce,
    /// The block is already in the tree. This is possible only with coinbases as Core makes them.
    #[error("block {0} already exists: choose another time or another receiver for the new one")]
    SameBlock(BlockHash),
    /// An earlier coinbase cannot be repeated, because it commits to the witnesses of its own block.
    #[error("the coinbase of block {0} commits to witnesses and cannot be repeated")]
    CommittedCoinbase(BlockHash),
    /// A generator tried to spend an output that its owner cannot spend.
    #[error(transparent)]
    Unlock(#[from] UnlockError),
}

/// Why an input could not be unlocked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnlockError {
    /// Outputs of this kind are unspendable.
    #[error("an output of kind {0:?} cannot be spent")]
    Unspendable(ScriptKind),
    /// The transaction has no such input, or the number of spent outputs is not the number of inputs.
    #[error("cannot sign input {input} of {inputs} with {prevouts} spent outputs")]
    NoSuchInput {
        /// The input to unlock.
        input: usize,
        /// How many inputs the transaction has.
        inputs: usize,
        /// How many spent outputs the caller passed.
        prevouts: usize,
    },
}
