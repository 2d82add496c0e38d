//! The reasons why a node refuses a transaction, with its codes and messages.

use bitcoin::{Amount, OutPoint, Txid};

use crate::chain::{Feerate, Height};

/// Core's `RPC_TRANSACTION_ERROR` of `rpc/protocol.h`.
const CODE_ERROR: i32 = -25;
/// Core's `RPC_TRANSACTION_REJECTED`.
const CODE_REJECTED: i32 = -26;
/// Core's `RPC_TRANSACTION_ALREADY_IN_UTXO_SET`.
const CODE_ALREADY_THERE: i32 = -27;

/// Why a transaction is not accepted to the mempool. Displayed as by a node: the reason, a comma, details.
///
/// [`code`](Rejection::code) and [`reason`](Rejection::reason) are those of Core's `sendrawtransaction`
/// (`PreChecks`, `ReplacementChecks` in `validation.cpp`, `CheckTransaction` in `consensus/tx_check.cpp`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// No input.
    #[error("bad-txns-vin-empty")]
    NoInputs,
    /// No output.
    #[error("bad-txns-vout-empty")]
    NoOutputs,
    /// Larger than a block without its witnesses.
    #[error("bad-txns-oversize")]
    Oversized,
    /// An output of more than 21 million coins.
    #[error("bad-txns-vout-toolarge")]
    OutputTooLarge,
    /// Outputs of more than 21 million coins together.
    #[error("bad-txns-txouttotal-toolarge")]
    OutputsTooLarge,
    /// An output is spent twice.
    #[error("bad-txns-inputs-duplicate")]
    DuplicateInputs,
    /// One input of several has the form of a coinbase's.
    #[error("bad-txns-prevout-null")]
    NullInput,
    /// A coinbase outside of a block.
    #[error("coinbase")]
    Coinbase,
    /// Heavier than 400,000 weight units.
    #[error("tx-size")]
    TooHeavy,
    /// Fewer than 65 bytes without witnesses.
    #[error("tx-size-small")]
    TooSmall,
    /// Its lock time is not reached in the next block.
    #[error("non-final")]
    NonFinal,
    /// A relative lock of an input (BIP68) is not over in the next block.
    #[error("non-BIP68-final")]
    NonBip68Final,
    /// It is in the mempool. For `sendrawtransaction` this is no error: a node returns the txid.
    #[error("txn-already-in-mempool")]
    AlreadyInMempool,
    /// It is in the mempool with another witness.
    #[error("txn-same-nonwitness-data-in-mempool")]
    SameButWitness,
    /// It is in a block, and at least one of its outputs is unspent.
    #[error("txn-already-known")]
    AlreadyInChain,
    /// It spends an output that is neither unspent in the chain nor in the mempool. (`testmempoolaccept` reports
    /// `missing-inputs`.)
    #[error("bad-txns-inputs-missingorspent")]
    MissingInputs(OutPoint),
    /// It spends a coinbase output too early.
    #[error("bad-txns-premature-spend-of-coinbase, tried to spend coinbase at depth {depth}")]
    Immature {
        /// The blocks from the coinbase's own to the next.
        depth: u32,
        /// The height of the coinbase.
        created: Height,
    },
    /// It pays more than it spends.
    #[error("bad-txns-in-belowout, value in ({}) < value out ({})", coins(*.spent), coins(*.paid))]
    Overspent {
        /// The sum of its inputs.
        spent: Amount,
        /// The sum of its outputs.
        paid: Amount,
    },
    /// Its signature operations cost more than 16,000.
    #[error("bad-txns-too-many-sigops, {0}")]
    TooManySigops(usize),
    /// It pays too little for its size.
    #[error("min relay fee not met, {} < {}", .fee.to_sat(), .required.to_sat())]
    BelowMinRelay {
        /// Its fee.
        fee: Amount,
        /// The least fee.
        required: Amount,
    },
    /// The chain of unconfirmed transactions that it is part of is too long or too large.
    #[error("too-long-mempool-chain, {0}")]
    TooLongChain(ChainLimit),
    /// It spends an output of a transaction that it conflicts with.
    #[error("bad-txns-spends-conflicting-tx, {txid} spends conflicting transaction {conflict}")]
    SpendsConflict {
        /// The transaction.
        txid: Txid,
        /// The transaction that it both spends and conflicts with.
        conflict: Txid,
    },
    /// A replacement pays no higher feerate than a transaction that it conflicts with.
    #[error("insufficient fee, rejecting replacement {txid}; new feerate {} <= old feerate {}", per_kvb(*.new), per_kvb(*.old))]
    FeerateNotHigher {
        /// The replacement.
        txid: Txid,
        /// Its feerate.
        new: Feerate,
        /// That of the transaction in the mempool.
        old: Feerate,
    },
    /// A replacement pays less than all replaced transactions.
    #[error("insufficient fee, rejecting replacement {txid}, less fees than conflicting txs; {} < {}", coins(*.fee), coins(*.replaced))]
    FeeBelowReplaced {
        /// The replacement.
        txid: Txid,
        /// Its fee.
        fee: Amount,
        /// The fees of all transactions that it would replace.
        replaced: Amount,
    },
    /// A replacement does not pay for its own relay on top of the replaced fees.
    #[error("insufficient fee, rejecting replacement {txid}, not enough additional fees to relay; {} < {}", coins(*.additional), coins(*.required))]
    FeeBelowIncrement {
        /// The replacement.
        txid: Txid,
        /// The additional fee.
        additional: Amount,
        /// The least additional fee.
        required: Amount,
    },
    /// A replacement spends an unconfirmed output that nothing it replaces spends (BIP125, rule 2).
    #[error("replacement-adds-unconfirmed, replacement {txid} adds unconfirmed input, idx {input}")]
    AddsUnconfirmed {
        /// The replacement.
        txid: Txid,
        /// The index of the input.
        input: usize,
    },
    /// A replacement would remove more than 100 transactions (BIP125, rule 5).
    #[error(
        "too many potential replacements, rejecting replacement {txid}; too many potential replacements ({count} > 100)"
    )]
    TooManyReplacements {
        /// The replacement.
        txid: Txid,
        /// The most transactions that it could remove.
        count: u64,
    },
    /// A transaction of a package would replace others, which is allowed for single transactions only.
    #[error("bip125-replacement-disallowed")]
    ReplacementInPackage,
    /// The mempool has reached its maximum number of transactions.
    #[error("mempool full")]
    MempoolFull,
    /// The package is not a transaction after its parents.
    #[error("package-not-child-with-parents")]
    NotChildWithParents,
    /// It pays more than the submitter allows.
    #[error("max feerate exceeded")]
    AboveMaxFeerate,
}

impl Rejection {
    /// The error code of `sendrawtransaction`.
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Rejection::MissingInputs(_) | Rejection::NotChildWithParents => CODE_ERROR,
            Rejection::AlreadyInMempool | Rejection::AlreadyInChain => CODE_ALREADY_THERE,
            _ => CODE_REJECTED,
        }
    }

    /// The `reject-reason`: the message without the details.
    #[must_use]
    pub fn reason(&self) -> String {
        let message = self.to_string();
        message.split(',').next().unwrap_or_default().to_owned()
    }

    /// Whether a child could pay for the transaction.
    pub(crate) const fn is_for_fee(&self) -> bool {
        matches!(self, Rejection::BelowMinRelay { .. })
    }
}

/// The limit on chains of unconfirmed transactions that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainLimit {
    /// Too many ancestors, the transaction included.
    #[error("too many unconfirmed ancestors [limit: {0}]")]
    Ancestors(usize),
    /// Too many parents alone, the transaction included.
    #[error("too many unconfirmed parents [limit: {0}]")]
    Parents(usize),
    /// Too many virtual bytes of ancestors, the transaction included.
    #[error("exceeds ancestor size limit [limit: {0}]")]
    AncestorSize(u64),
    /// An ancestor would have too many descendants, itself included.
    #[error("too many descendants for tx {0} [limit: {1}]")]
    Descendants(Txid, usize),
    /// An ancestor would have too many virtual bytes of descendants, itself included.
    #[error("exceeds descendant size limit for tx {0} [limit: {1}]")]
    DescendantSize(Txid, u64),
}

/// An amount in the format of these messages: in coins, with at least two decimals (`FormatMoney`).
fn coins(amount: Amount) -> String {
    let all = format!("{}.{:08}", amount.to_sat() / 100_000_000, amount.to_sat() % 100_000_000);
    let shortest = all.len() - 6;
    let kept = all.trim_end_matches('0').len().max(shortest);
    all[..kept].to_owned()
}

/// A feerate in the format of these messages (`CFeeRate::ToString`).
fn per_kvb(rate: Feerate) -> String {
    let sat = rate.to_sat_per_kvb();
    format!("{}.{:08} BTC/kvB", sat / 100_000_000, sat % 100_000_000)
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn a_rejection_has_the_code_and_message_of_a_node() {
        let sat = Amount::from_sat;
        let txid = Txid::all_zeros();
        for (rejection, code, reason, particulars) in [
            (Rejection::MissingInputs(OutPoint::null()), -25, "bad-txns-inputs-missingorspent", ""),
            (Rejection::AlreadyInMempool, -27, "txn-already-in-mempool", ""),
            (Rejection::BelowMinRelay { fee: sat(7), required: sat(110) }, -26, "min relay fee not met", "7 < 110"),
            (
                Rejection::Overspent { spent: sat(150_000_000), paid: sat(200_000_001) },
                -26,
                "bad-txns-in-belowout",
                "value in (1.50) < value out (2.00000001)",
            ),
            (
                Rejection::TooLongChain(ChainLimit::Ancestors(25)),
                -26,
                "too-long-mempool-chain",
                "too many unconfirmed ancestors [limit: 25]",
            ),
            (
                Rejection::FeerateNotHigher {
                    txid,
                    new: Feerate::from_sat_per_kvb(1_000),
                    old: Feerate::from_sat_per_kvb(2_500),
                },
                -26,
                "insufficient fee",
                "rejecting replacement 0000000000000000000000000000000000000000000000000000000000000000; \
                 new feerate 0.00001000 BTC/kvB <= old feerate 0.00002500 BTC/kvB",
            ),
        ] {
            let message = if particulars.is_empty() { reason.to_owned() } else { format!("{reason}, {particulars}") };
            assert_eq!((rejection.code(), rejection.reason(), rejection.to_string()), (code, reason.into(), message));
        }
    }
}
