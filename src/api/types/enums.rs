//! Enumerations, and how those of the rooms below are named here.

use async_graphql::Enum;

use crate::{chain, view};

/// Whether a block is on the chain that this server follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum ChainStatus {
    /// The block is on the main chain, the chain with the most work.
    Main,
    /// The block is beside the main chain: a reorg disconnected it, or the Bitcoin node has it on another branch, whose
    /// scripts it need not have verified.
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

/// A network of Bitcoin nodes with a chain of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "Network")]
pub(crate) enum NetworkEnum {
    /// The network whose coins have a value.
    Mainnet,
    /// The third test network.
    Testnet3,
    /// The fourth test network (BIP94).
    Testnet4,
    /// A test network whose blocks are signed (BIP325).
    Signet,
    /// A private network for tests, whose blocks need no work.
    Regtest,
}

impl From<bitcoin::Network> for NetworkEnum {
    fn from(network: bitcoin::Network) -> Self {
        match network {
            bitcoin::Network::Bitcoin => Self::Mainnet,
            bitcoin::Network::Testnet => Self::Testnet3,
            bitcoin::Network::Testnet4 => Self::Testnet4,
            bitcoin::Network::Signet => Self::Signet,
            bitcoin::Network::Regtest => Self::Regtest,
        }
    }
}

/// The direction of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum SortOrder {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// The phase of following the Bitcoin node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "SyncPhase")]
pub(crate) enum SyncPhaseEnum {
    /// The node is not connected yet, is unreachable or silent, or the disk has no space for new blocks. Queries are still
    /// answered from the index, unless a crash lost a block that was announced to clients: then the server waits for that
    /// block first, for a bounded time, and `lostBlock` names it.
    WaitingForNode,
    /// The index is empty, or at least twelve blocks behind the node's newest block.
    CatchingUp,
    /// The index is at the node's newest block, or a few blocks behind it.
    Following,
}

impl From<view::SyncPhase> for SyncPhaseEnum {
    fn from(phase: view::SyncPhase) -> Self {
        match phase {
            view::SyncPhase::WaitingForNode => Self::WaitingForNode,
            view::SyncPhase::CatchingUp => Self::CatchingUp,
            view::SyncPhase::Following => Self::Following,
        }
    }
}

/// The validation status of a branch of the block tree, as reported by the Bitcoin node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "ChainTipStatus")]
pub(crate) enum ChainTipStatusEnum {
    /// The node's main chain.
    Active,
    /// Fully validated, but not on the node's main chain.
    ValidFork,
    /// The node has all blocks of the branch but never fully validated them.
    ValidHeaders,
    /// The headers are valid, but the node does not have all blocks of the branch.
    HeadersOnly,
    /// The branch contains at least one invalid block.
    Invalid,
}

impl ChainTipStatusEnum {
    /// `None` for a word of the node that has no name here.
    pub(crate) fn of(status: view::ChainTipStatus) -> Option<Self> {
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

/// The current state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum TxState {
    /// In the mempool, waiting for confirmation.
    Mempool,
    /// In a block of the main chain.
    Confirmed,
    /// Left the mempool because another transaction replaced it or one of its ancestors.
    Replaced,
    /// Left the mempool because the mempool was full, because it expired, or for a reason that the node did not report.
    Evicted,
    /// A main chain block contains a transaction that spends the same output, or an output that one of its ancestors
    /// spends.
    Conflicted,
    /// Only in stale blocks, or a descendant of such a transaction.
    ReorgedOut,
    /// Not known to this server, which has only the bytes given to `decodeTransaction`.
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

/// Whether and where an output is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "SpendStatus")]
pub(crate) enum SpendStatusEnum {
    /// No transaction of the main chain or of the mempool spends it. A coinbase output may not be mature yet.
    Unspent,
    /// A mempool transaction spends it, and no main chain transaction does.
    SpentInMempool,
    /// A main chain transaction spends it.
    Spent,
    /// No transaction can ever spend it; see `unspendableReason`.
    Unspendable,
}

impl From<view::SpendStatus> for SpendStatusEnum {
    fn from(status: view::SpendStatus) -> Self {
        match status {
            view::SpendStatus::Unspent => Self::Unspent,
            view::SpendStatus::SpentInMempool => Self::SpentInMempool,
            view::SpendStatus::Spent => Self::Spent,
            view::SpendStatus::Unspendable => Self::Unspendable,
        }
    }
}

/// The reason why an output can never be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "UnspendableReason")]
pub(crate) enum UnspendableReasonEnum {
    /// The script starts with OP_RETURN.
    OpReturn,
    /// The script is longer than 10,000 bytes.
    OversizeScript,
    /// The output belongs to the genesis coinbase, which never entered the UTXO set.
    GenesisCoinbase,
    /// A later transaction with the same txid overwrote the output before it was spent (BIP30).
    #[graphql(name = "BIP30_OVERWRITTEN")]
    Bip30Overwritten,
}

impl From<view::UnspendableReason> for UnspendableReasonEnum {
    fn from(reason: view::UnspendableReason) -> Self {
        match reason {
            view::UnspendableReason::OpReturn => Self::OpReturn,
            view::UnspendableReason::OversizeScript => Self::OversizeScript,
            view::UnspendableReason::GenesisCoinbase => Self::GenesisCoinbase,
            view::UnspendableReason::Bip30Overwritten => Self::Bip30Overwritten,
        }
    }
}

/// The type of a scriptPubKey, as Bitcoin Core distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "ScriptType")]
pub(crate) enum ScriptTypeEnum {
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
    /// Pay to anchor (P2A), which anyone can spend.
    #[graphql(name = "P2A")]
    P2a,
    /// Bare multisig: `m <keys> n OP_CHECKMULTISIG`. Has no address.
    #[graphql(name = "P2MS")]
    P2ms,
    /// Starts with OP_RETURN: carries data and can never be spent.
    OpReturn,
    /// A witness program of version 1 to 16 without a defined meaning yet (BIP141).
    WitnessUnknown,
    /// None of the other types.
    Nonstandard,
    /// An empty script.
    Empty,
}

impl From<chain::ScriptType> for ScriptTypeEnum {
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

/// What a point of a series stands for. Periods of time are in UTC, and a block belongs to the one that has its median time past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
#[graphql(name = "SeriesGroup")]
pub(crate) enum SeriesGroupEnum {
    /// A block.
    Block,
    /// The blocks of an hour.
    Hour,
    /// The blocks of a day.
    #[default]
    Day,
    /// The blocks of a week, from Monday on (ISO 8601).
    Week,
    /// The blocks of a month.
    Month,
    /// The blocks of a difficulty epoch: 2,016.
    Epoch,
    /// The blocks from one halving to the next: 210,000, or 150 on regtest.
    Halving,
}

impl From<SeriesGroupEnum> for chain::SeriesGroup {
    fn from(group: SeriesGroupEnum) -> Self {
        match group {
            SeriesGroupEnum::Block => Self::Block,
            SeriesGroupEnum::Hour => Self::Calendar(chain::CalendarUnit::Hour),
            SeriesGroupEnum::Day => Self::Calendar(chain::CalendarUnit::Day),
            SeriesGroupEnum::Week => Self::Calendar(chain::CalendarUnit::Week),
            SeriesGroupEnum::Month => Self::Calendar(chain::CalendarUnit::Month),
            SeriesGroupEnum::Epoch => Self::Epoch,
            SeriesGroupEnum::Halving => Self::Halving,
        }
    }
}

/// What a mining pool is recognised by in a coinbase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "MinerEvidence")]
pub(crate) enum MinerEvidenceEnum {
    /// A text of the pool in the scriptSig. Anybody can write it there.
    CoinbaseTag,
    /// An output pays a script of the pool. Pools with the same custodian share scripts.
    PayoutScript,
}

impl From<chain::pools::MinerEvidence> for MinerEvidenceEnum {
    fn from(evidence: chain::pools::MinerEvidence) -> Self {
        match evidence {
            chain::pools::MinerEvidence::CoinbaseTag => Self::CoinbaseTag,
            chain::pools::MinerEvidence::PayoutScript => Self::PayoutScript,
        }
    }
}
