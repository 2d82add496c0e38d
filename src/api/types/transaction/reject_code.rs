//! Why a transaction is not taken, in words that stay the same from version to version of the node.
//!
//! A node says it in words of its own: the reasons that `validation.cpp`, `consensus/tx_check.cpp`,
//! `consensus/tx_verify.cpp`, `policy/*.cpp` and `rpc/mempool.cpp` of Core give, or the sentences of
//! `common/messages.cpp`. Several of them are one code here where a wallet would do the same about them.

use Word::{Begins, Is};

use crate::view::Refusal;

/// The bytes are no transaction.
pub(crate) const DECODE_FAILED: &str = "DECODE_FAILED";
/// It spends what does not exist or is spent.
pub(crate) const MISSING_INPUTS: &str = "MISSING_INPUTS";
/// A block contains the transaction.
pub(crate) const ALREADY_CONFIRMED: &str = "ALREADY_CONFIRMED";
/// The mempool has it, maybe with another witness.
pub(crate) const ALREADY_IN_MEMPOOL: &str = "ALREADY_IN_MEMPOOL";
/// It pays too little for its size.
pub(crate) const FEE_TOO_LOW: &str = "FEE_TOO_LOW";
/// It pays too little to take the place of what spends the same.
pub(crate) const REPLACEMENT_FEE_TOO_LOW: &str = "REPLACEMENT_FEE_TOO_LOW";
/// The node did not come to judge it, because of others that came with it.
pub(crate) const NOT_TRIED: &str = "NOT_TRIED";
/// Whatever has no code here.
const OTHER: &str = "OTHER";

/// How the word of a node is compared.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// It is this.
    Is(&'static str),
    /// It begins like this.
    Begins(&'static str),
}

/// The code of each word of a node. The first that fits holds.
const CODES: &[(Word, &str)] = &[
    // rpc/mempool.cpp, core_io.cpp
    (Begins("TX decode failed"), DECODE_FAILED),
    // consensus/tx_verify.cpp; testmempoolaccept; common/messages.cpp of newer and older versions
    (Is("bad-txns-inputs-missingorspent"), MISSING_INPUTS),
    (Is("missing-inputs"), MISSING_INPUTS),
    (Is("Inputs missing or spent"), MISSING_INPUTS),
    (Is("Missing inputs"), MISSING_INPUTS),
    // validation.cpp (PreChecks); common/messages.cpp
    (Is("txn-already-known"), ALREADY_CONFIRMED),
    (Is("Transaction outputs already in utxo set"), ALREADY_CONFIRMED),
    (Is("Transaction already in block chain"), ALREADY_CONFIRMED),
    (Is("txn-already-in-mempool"), ALREADY_IN_MEMPOOL),
    (Is("txn-same-nonwitness-data-in-mempool"), ALREADY_IN_MEMPOOL),
    // fees: validation.cpp (CheckFeeRate, ReplacementChecks, PackageRBFChecks), policy/rbf.cpp
    (Is("min relay fee not met"), FEE_TOO_LOW),
    (Is("mempool min fee not met"), FEE_TOO_LOW),
    (Is("insufficient fee"), REPLACEMENT_FEE_TOO_LOW),
    (Is("replacement-failed"), REPLACEMENT_FEE_TOO_LOW),
    (Is("package RBF failed: insufficient anti-DoS fees"), REPLACEMENT_FEE_TOO_LOW),
    (Begins("package RBF failed: insufficient"), REPLACEMENT_FEE_TOO_LOW),
    (Is("max-fee-exceeded"), "FEE_TOO_HIGH"),
    (Is("max feerate exceeded"), "FEE_TOO_HIGH"),
    (Is("absurdly-high-fee"), "FEE_TOO_HIGH"),
    (Begins("Fee exceeds maximum configured by user"), "FEE_TOO_HIGH"),
    (Begins("Unspendable output exceeds maximum configured by user"), "BURN_TOO_HIGH"),
    // replacements: validation.cpp, policy/rbf.cpp
    (Is("txn-mempool-conflict"), "REPLACEMENT_NOT_ALLOWED"),
    (Is("bip125-replacement-disallowed"), "REPLACEMENT_NOT_ALLOWED"),
    (Is("too many potential replacements"), "REPLACEMENT_NOT_ALLOWED"),
    (Is("replacement-adds-unconfirmed"), "REPLACEMENT_NOT_ALLOWED"),
    (Is("bad-txns-spends-conflicting-tx"), "REPLACEMENT_NOT_ALLOWED"),
    (Begins("package RBF failed"), "REPLACEMENT_NOT_ALLOWED"),
    // what the transaction is: validation.cpp, consensus/*.cpp
    (Is("coinbase"), "COINBASE"),
    (Is("bad-txns-premature-spend-of-coinbase"), "IMMATURE_COINBASE"),
    (Is("non-final"), "NON_FINAL"),
    (Is("non-BIP68-final"), "NON_FINAL"),
    (Is("bad-txns-in-belowout"), "OUTPUTS_EXCEED_INPUTS"),
    (Begins("mandatory-script-verify-flag-failed"), "SCRIPT_FAILED"),
    (Begins("block-script-verify-flag-failed"), "SCRIPT_FAILED"),
    (Begins("non-mandatory-script-verify-flag"), "SCRIPT_FAILED"),
    (Begins("mempool-script-verify-flag-failed"), "SCRIPT_FAILED"),
    // size: policy/policy.cpp, consensus/tx_check.cpp
    (Is("tx-size"), "TOO_LARGE"),
    (Is("bad-txns-oversize"), "TOO_LARGE"),
    (Is("tx-size-small"), "TOO_SMALL"),
    // others of the mempool: txmempool.cpp, policy/truc_policy.cpp, policy/ephemeral_policy.cpp
    (Begins("too-long-mempool-chain"), "TOO_LONG_CHAIN"),
    (Is("too-large-cluster"), "TOO_LONG_CHAIN"),
    (Is("package-mempool-limits"), "TOO_LONG_CHAIN"),
    (Is("TRUC-violation"), "TRUC_VIOLATION"),
    (Is("v3-rule-violation"), "TRUC_VIOLATION"),
    (Is("dust"), "DUST"),
    (Is("missing-ephemeral-spends"), "DUST"),
    (Is("mempool full"), "MEMPOOL_FULL"),
    // form: policy/policy.cpp
    (Is("version"), "NON_STANDARD"),
    (Is("scriptsig-size"), "NON_STANDARD"),
    (Is("scriptsig-not-pushonly"), "NON_STANDARD"),
    (Is("scriptpubkey"), "NON_STANDARD"),
    (Is("datacarrier"), "NON_STANDARD"),
    (Is("bare-multisig"), "NON_STANDARD"),
    (Is("multi-op-return"), "NON_STANDARD"),
    (Is("bad-txns-nonstandard-inputs"), "NON_STANDARD"),
    (Is("bad-witness-nonstandard"), "NON_STANDARD"),
    (Is("bad-txns-too-many-sigops"), "NON_STANDARD"),
    // packages: policy/packages.cpp, rpc/mempool.cpp
    (Begins("package-"), "PACKAGE_INVALID"),
    (Begins("package topology disallowed"), "PACKAGE_INVALID"),
    (Is("conflict-in-package"), "PACKAGE_INVALID"),
    // whatever else the rules of consensus forbid: consensus/tx_check.cpp, consensus/tx_verify.cpp
    (Begins("bad-txns-"), "INVALID"),
];

/// The code for a refusal.
pub(crate) fn of(refusal: &Refusal) -> &'static str {
    let reason = refusal.reason.as_str();
    let fits = |word: Word| match word {
        Is(word) => reason == word,
        Begins(word) => reason.starts_with(word),
    };
    CODES.iter().find(|(word, _)| fits(*word)).map_or(OTHER, |(_, code)| code)
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
            ("bad-txns-inputs-missingorspent", "MISSING_INPUTS"),
            ("bad-txns-inputs-duplicate", "INVALID"),
            (
                "mandatory-script-verify-flag-failed (Signature must be zero for failed CHECK(MULTI)SIG operation)",
                "SCRIPT_FAILED",
            ),
            ("Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)", "FEE_TOO_HIGH"),
            ("tx-size", "TOO_LARGE"),
            ("tx-size-small", "TOO_SMALL"),
            ("package-not-child-with-unconfirmed-parents", "PACKAGE_INVALID"),
            ("package-mempool-limits", "TOO_LONG_CHAIN"),
            ("a word of a version to come", "OTHER"),
            ("", "OTHER"),
        ] {
            assert_eq!(of(&refusal(reason, reason)), code, "{reason}");
        }
    }

    #[test]
    fn every_code_is_a_word_in_capitals() {
        for (_, code) in CODES {
            assert!(code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{code}");
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
