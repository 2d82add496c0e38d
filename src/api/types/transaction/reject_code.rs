//! Why a transaction is not taken, in words that stay the same from version to version of the node.
//!
//! A node says it in words of its own: the reasons that `validation.cpp`, `consensus/tx_check.cpp`,
//! `consensus/tx_verify.cpp`, `policy/*.cpp` and `rpc/mempool.cpp` of Core give, or the sentences of
//! `common/messages.cpp`. Several of them are one code here where a wallet would do the same about them.

use Word::{Begins, Is};

use async_graphql::Enum;

use crate::view::Refusal;

/// Why the node rejects a transaction, the same for all its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum RejectCode {
    /// The bytes are no transaction.
    DecodeFailed,
    /// It spends outputs that do not exist, or that another transaction spends.
    MissingInputs,
    /// A block of the main chain contains it.
    AlreadyConfirmed,
    /// The mempool has it, perhaps with another witness.
    AlreadyInMempool,
    /// Its fee is below the minimum for its size.
    FeeTooLow,
    /// Its fee is too low to replace the transactions that it conflicts with.
    ReplacementFeeTooLow,
    /// It conflicts with transactions that cannot be replaced, or not by it.
    ReplacementNotAllowed,
    /// Its feerate is above `maxFeeRate`.
    FeeTooHigh,
    /// It pays more than `maxBurn` to unspendable outputs.
    BurnTooHigh,
    /// It is a coinbase, which only a block may contain.
    Coinbase,
    /// It spends a coinbase output that is not mature.
    ImmatureCoinbase,
    /// Its lock time, or the relative lock time of an input, has not passed.
    NonFinal,
    /// It pays more than it spends.
    OutputsExceedInputs,
    /// A signature or script does not allow the spend.
    ScriptFailed,
    /// It is larger than the node relays.
    TooLarge,
    /// It is smaller than the node relays.
    TooSmall,
    /// It has too many unconfirmed ancestors or descendants.
    TooLongChain,
    /// It breaks a rule of transactions of version 3 (BIP431).
    TrucViolation,
    /// An output has a value below the dust limit.
    Dust,
    /// The node does not relay its form.
    NonStandard,
    /// The mempool is full, and its feerate is too low.
    MempoolFull,
    /// It breaks another consensus rule.
    Invalid,
    /// The transactions that came with it are no package that the node accepts.
    PackageInvalid,
    /// The node did not test it, because of other transactions of the package.
    NotTried,
    /// Any other reason: read `rejectReason`.
    Other,
}

/// How the word of a node is compared.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// It is this.
    Is(&'static str),
    /// It begins like this.
    Begins(&'static str),
}

/// The code of each word of a node. The first that fits holds.
const CODES: &[(Word, RejectCode)] = &[
    // rpc/mempool.cpp, core_io.cpp
    (Begins("TX decode failed"), RejectCode::DecodeFailed),
    // consensus/tx_verify.cpp; testmempoolaccept; common/messages.cpp of newer and older versions
    (Is("bad-txns-inputs-missingorspent"), RejectCode::MissingInputs),
    (Is("missing-inputs"), RejectCode::MissingInputs),
    (Is("Inputs missing or spent"), RejectCode::MissingInputs),
    (Is("Missing inputs"), RejectCode::MissingInputs),
    // validation.cpp (PreChecks); common/messages.cpp
    (Is("txn-already-known"), RejectCode::AlreadyConfirmed),
    (Is("Transaction outputs already in utxo set"), RejectCode::AlreadyConfirmed),
    (Is("Transaction already in block chain"), RejectCode::AlreadyConfirmed),
    (Is("txn-already-in-mempool"), RejectCode::AlreadyInMempool),
    (Is("txn-same-nonwitness-data-in-mempool"), RejectCode::AlreadyInMempool),
    // fees: validation.cpp (CheckFeeRate, ReplacementChecks, PackageRBFChecks), policy/rbf.cpp
    (Is("min relay fee not met"), RejectCode::FeeTooLow),
    (Is("mempool min fee not met"), RejectCode::FeeTooLow),
    (Is("insufficient fee"), RejectCode::ReplacementFeeTooLow),
    (Is("replacement-failed"), RejectCode::ReplacementFeeTooLow),
    (Is("package RBF failed: insufficient anti-DoS fees"), RejectCode::ReplacementFeeTooLow),
    (Begins("package RBF failed: insufficient"), RejectCode::ReplacementFeeTooLow),
    (Is("max-fee-exceeded"), RejectCode::FeeTooHigh),
    (Is("max feerate exceeded"), RejectCode::FeeTooHigh),
    (Is("absurdly-high-fee"), RejectCode::FeeTooHigh),
    (Begins("Fee exceeds maximum configured by user"), RejectCode::FeeTooHigh),
    (Begins("Unspendable output exceeds maximum configured by user"), RejectCode::BurnTooHigh),
    // replacements: validation.cpp, policy/rbf.cpp
    (Is("txn-mempool-conflict"), RejectCode::ReplacementNotAllowed),
    (Is("bip125-replacement-disallowed"), RejectCode::ReplacementNotAllowed),
    (Is("too many potential replacements"), RejectCode::ReplacementNotAllowed),
    (Is("replacement-adds-unconfirmed"), RejectCode::ReplacementNotAllowed),
    (Is("bad-txns-spends-conflicting-tx"), RejectCode::ReplacementNotAllowed),
    (Begins("package RBF failed"), RejectCode::ReplacementNotAllowed),
    // what the transaction is: validation.cpp, consensus/*.cpp
    (Is("coinbase"), RejectCode::Coinbase),
    (Is("bad-txns-premature-spend-of-coinbase"), RejectCode::ImmatureCoinbase),
    (Is("non-final"), RejectCode::NonFinal),
    (Is("non-BIP68-final"), RejectCode::NonFinal),
    (Is("bad-txns-in-belowout"), RejectCode::OutputsExceedInputs),
    (Begins("mandatory-script-verify-flag-failed"), RejectCode::ScriptFailed),
    (Begins("block-script-verify-flag-failed"), RejectCode::ScriptFailed),
    (Begins("non-mandatory-script-verify-flag"), RejectCode::ScriptFailed),
    (Begins("mempool-script-verify-flag-failed"), RejectCode::ScriptFailed),
    // size: policy/policy.cpp, consensus/tx_check.cpp
    (Is("tx-size"), RejectCode::TooLarge),
    (Is("bad-txns-oversize"), RejectCode::TooLarge),
    (Is("tx-size-small"), RejectCode::TooSmall),
    // others of the mempool: txmempool.cpp, policy/truc_policy.cpp, policy/ephemeral_policy.cpp
    (Begins("too-long-mempool-chain"), RejectCode::TooLongChain),
    (Is("too-large-cluster"), RejectCode::TooLongChain),
    (Is("package-mempool-limits"), RejectCode::TooLongChain),
    (Is("TRUC-violation"), RejectCode::TrucViolation),
    (Is("v3-rule-violation"), RejectCode::TrucViolation),
    (Is("dust"), RejectCode::Dust),
    (Is("missing-ephemeral-spends"), RejectCode::Dust),
    (Is("mempool full"), RejectCode::MempoolFull),
    // form: policy/policy.cpp
    (Is("version"), RejectCode::NonStandard),
    (Is("scriptsig-size"), RejectCode::NonStandard),
    (Is("scriptsig-not-pushonly"), RejectCode::NonStandard),
    (Is("scriptpubkey"), RejectCode::NonStandard),
    (Is("datacarrier"), RejectCode::NonStandard),
    (Is("bare-multisig"), RejectCode::NonStandard),
    (Is("multi-op-return"), RejectCode::NonStandard),
    (Is("bad-txns-nonstandard-inputs"), RejectCode::NonStandard),
    (Is("bad-witness-nonstandard"), RejectCode::NonStandard),
    (Is("bad-txns-too-many-sigops"), RejectCode::NonStandard),
    // packages: policy/packages.cpp, rpc/mempool.cpp
    (Begins("package-"), RejectCode::PackageInvalid),
    (Begins("package topology disallowed"), RejectCode::PackageInvalid),
    (Is("conflict-in-package"), RejectCode::PackageInvalid),
    // whatever else the rules of consensus forbid: consensus/tx_check.cpp, consensus/tx_verify.cpp
    (Begins("bad-txns-"), RejectCode::Invalid),
];

/// The code for a refusal.
pub(crate) fn reject_code(refusal: &Refusal) -> RejectCode {
    let reason = refusal.reason.as_str();
    let fits = |word: Word| match word {
        Is(word) => reason == word,
        Begins(word) => reason.starts_with(word),
    };
    CODES.iter().find(|(word, _)| fits(*word)).map_or(RejectCode::Other, |(_, code)| *code)
}

/// What a refusal says that a transaction would have to pay, in sat: the second number of `7 < 110`, where the node compares
/// whole satoshis.
pub(crate) fn fee_asked_for(refusal: &Refusal) -> Option<u64> {
    let (_, comparison) = refusal.message.rsplit_once(", ")?;
    let (paid, required) = comparison.split_once(" < ")?;
    let _: u64 = paid.parse().ok()?;
    required.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: &str, message: &str) -> Refusal {
        Refusal { code: -26, reason: reason.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn a_reason_has_one_code_whatever_follows_it() {
        for (reason, code) in [
            ("bad-txns-inputs-missingorspent", RejectCode::MissingInputs),
            ("bad-txns-inputs-duplicate", RejectCode::Invalid),
            (
                "mandatory-script-verify-flag-failed (Signature must be zero for failed CHECK(MULTI)SIG operation)",
                RejectCode::ScriptFailed,
            ),
            ("Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)", RejectCode::FeeTooHigh),
            ("tx-size", RejectCode::TooLarge),
            ("tx-size-small", RejectCode::TooSmall),
            ("package-not-child-with-unconfirmed-parents", RejectCode::PackageInvalid),
            ("package-mempool-limits", RejectCode::TooLongChain),
            ("a word of a version to come", RejectCode::Other),
            ("", RejectCode::Other),
        ] {
            assert_eq!(reject_code(&refusal(reason, reason)), code, "{reason}");
        }
    }

    #[test]
    fn the_fee_that_a_node_asks_for_is_read_where_it_says_it_in_satoshis() {
        for (message, fee) in [
            ("min relay fee not met, 7 < 110", Some(110)),
            ("min relay fee not met", None),
            ("insufficient fee, rejecting replacement 00, not enough additional fees to relay; 0.00 < 0.0000011", None),
            ("bad-txns-in-belowout, value in (1.50) < value out (2.00)", None),
        ] {
            assert_eq!(fee_asked_for(&refusal("", message)), fee, "{message}");
        }
    }
}
