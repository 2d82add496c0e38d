//! Enumerations, and how those of the rooms below are named here.

use async_graphql::Enum;

use crate::{chain, view};

/// Whether a block is part of the chain that this server follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum ChainStatus {
    /// Part of the main chain, the one with the most work.
    Main,
    /// Was part of it once, and was disconnected by a reorganisation.
    Stale,
}

impl From<view::ChainMembership> for ChainStatus {
    fn from(membership: view::ChainMembership) -> Self {
        match membership {
            view::ChainMembership::Main => Self::Main,
            view::ChainMembership::Stale => Self::Stale,
        }
    }
}

/// In which direction a list is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum SortOrder {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// What following the Bitcoin node is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum SyncPhase {
    /// The node was not reached yet, or is away, or the disk has no room for what it gives. What is indexed is answered all
    /// the same, unless a crash took back a block that clients were told of: then that is awaited.
    WaitingForNode,
    /// The index is far behind the node's newest block, twelve blocks at least, or empty.
    CatchingUp,
    /// The index is at the node's newest block, or a few blocks behind it.
    Following,
}

impl From<view::SyncPhase> for SyncPhase {
    fn from(phase: view::SyncPhase) -> Self {
        match phase {
            view::SyncPhase::WaitingForNode => Self::WaitingForNode,
            view::SyncPhase::CatchingUp => Self::CatchingUp,
            view::SyncPhase::Following => Self::Following,
        }
    }
}

/// What the Bitcoin node knows of a branch of the block tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum ChainTipStatus {
    /// The main chain of the node.
    Active,
    /// Fully validated, and not part of the node's main chain.
    ValidFork,
    /// The node has all its blocks, and never validated them fully.
    ValidHeaders,
    /// The node does not have all its blocks; the headers are valid.
    HeadersOnly,
    /// It holds at least one invalid block.
    Invalid,
}

impl ChainTipStatus {
    /// `None` for a word of the node that has no name here.
    pub(super) fn of(status: view::ChainTipStatus) -> Option<Self> {
        match status {
            view::ChainTipStatus::Active => Some(Self::Active),
            view::ChainTipStatus::ValidFork => Some(Self::ValidFork),
            view::ChainTipStatus::ValidHeaders => Some(Self::ValidHeaders),
            view::ChainTipStatus::HeadersOnly => Some(Self::HeadersOnly),
            view::ChainTipStatus::Invalid => Some(Self::Invalid),
            view::ChainTipStatus::Unknown => None,
        }
    }
}

/// Where a transaction is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum TxState {
    /// In the mempool: it waits for a block.
    Mempool,
    /// In a block of the main chain.
    Confirmed,
    /// It left the mempool because another transaction took its place, or the place of one that it stood on.
    Replaced,
    /// It left the mempool for want of room, or after too long a time, or for a reason that the node did not tell.
    Evicted,
    /// A block of the main chain holds a transaction that spends the same output, or one that a transaction spends which
    /// it stood on.
    Conflicted,
    /// Only in blocks that were disconnected by a reorganisation, or it stood on such a transaction.
    ReorgedOut,
    /// Nowhere that this server knows of: it has only the bytes that `decodeTransaction` was given.
    Unknown,
}

impl From<view::TransactionState> for TxState {
    fn from(state: view::TransactionState) -> Self {
        match state {
            view::TransactionState::Unconfirmed => Self::Mempool,
            view::TransactionState::Confirmed => Self::Confirmed,
            view::TransactionState::Replaced => Self::Replaced,
            view::TransactionState::Evicted => Self::Evicted,
            view::TransactionState::Conflicted => Self::Conflicted,
            view::TransactionState::ReorgedOut => Self::ReorgedOut,
            view::TransactionState::Unknown => Self::Unknown,
        }
    }
}

/// What became of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum SpendStatus {
    /// No transaction of the main chain or of the mempool spends it. A coinbase output may still have to mature.
    Unspent,
    /// A transaction of the mempool spends it, and none of the main chain does.
    SpentInMempool,
    /// A transaction of the main chain spends it.
    Spent,
    /// No transaction can ever spend it, see `unspendableReason`.
    Unspendable,
}

impl From<view::SpendStatus> for SpendStatus {
    fn from(status: view::SpendStatus) -> Self {
        match status {
            view::SpendStatus::Unspent => Self::Unspent,
            view::SpendStatus::SpentInMempool => Self::SpentInMempool,
            view::SpendStatus::Spent => Self::Spent,
            view::SpendStatus::Unspendable => Self::Unspendable,
        }
    }
}

/// Why an output can never be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum UnspendableReason {
    /// Its script starts with OP_RETURN.
    OpReturn,
    /// Its script is longer than 10,000 bytes.
    OversizeScript,
    /// It belongs to the genesis block, whose coinbase never entered the UTXO set.
    GenesisCoinbase,
    /// A later transaction with the same txid took its place before it was spent (BIP30).
    #[graphql(name = "BIP30_OVERWRITTEN")]
    Bip30Overwritten,
}

impl From<view::UnspendableReason> for UnspendableReason {
    fn from(reason: view::UnspendableReason) -> Self {
        match reason {
            view::UnspendableReason::OpReturn => Self::OpReturn,
            view::UnspendableReason::OversizeScript => Self::OversizeScript,
            view::UnspendableReason::GenesisCoinbase => Self::GenesisCoinbase,
            view::UnspendableReason::Bip30Overwritten => Self::Bip30Overwritten,
        }
    }
}

/// The form of a scriptPubKey, as Bitcoin Core tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum ScriptType {
    /// Pay to public key: `<key> OP_CHECKSIG`. Has no address.
    #[graphql(name = "P2PK")]
    P2pk,
    /// Pay to public key hash.
    #[graphql(name = "P2PKH")]
    P2pkh,
    /// Pay to script hash (BIP16), which includes nested segwit.
    #[graphql(name = "P2SH")]
    P2sh,
    /// Pay to witness public key hash (BIP141): witness version 0, 20 bytes.
    #[graphql(name = "P2WPKH")]
    P2wpkh,
    /// Pay to witness script hash (BIP141): witness version 0, 32 bytes.
    #[graphql(name = "P2WSH")]
    P2wsh,
    /// Pay to taproot (BIP341): witness version 1, 32 bytes.
    #[graphql(name = "P2TR")]
    P2tr,
    /// Pay to anchor, which anyone can spend.
    #[graphql(name = "P2A")]
    P2a,
    /// Bare multisig: `m <keys> n OP_CHECKMULTISIG`. Has no address.
    #[graphql(name = "P2MS")]
    P2ms,
    /// Starts with OP_RETURN: carries data and can never be spent.
    OpReturn,
    /// A witness program of version 1 to 16 that no rule gives a meaning yet (BIP141).
    WitnessUnknown,
    /// None of the other forms.
    Nonstandard,
    /// A script without bytes.
    Empty,
}

impl From<chain::ScriptType> for ScriptType {
    fn from(script_type: chain::ScriptType) -> Self {
        match script_type {
            chain::ScriptType::P2pk => Self::P2pk,
            chain::ScriptType::P2pkh => Self::P2pkh,
            chain::ScriptType::P2sh => Self::P2sh,
            chain::ScriptType::P2wpkh => Self::P2wpkh,
            chain::ScriptType::P2wsh => Self::P2wsh,
            chain::ScriptType::P2tr => Self::P2tr,
            chain::ScriptType::P2a => Self::P2a,
            chain::ScriptType::P2ms => Self::P2ms,
            chain::ScriptType::OpReturn => Self::OpReturn,
            chain::ScriptType::WitnessUnknown => Self::WitnessUnknown,
            chain::ScriptType::Nonstandard => Self::Nonstandard,
            chain::ScriptType::Empty => Self::Empty,
        }
    }
}
