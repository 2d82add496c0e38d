//! Submission of transactions: `sendrawtransaction` and `testmempoolaccept` (Core's `src/rpc/mempool.cpp` and
//! `src/node/transaction.cpp`).

use bitcoin::{Amount, OutPoint, Transaction, Txid, Wtxid};
use serde::Serialize;
use serde_json::Value;

use super::super::{Assessment, Rejection, World};
use super::backend::Backend;
use super::error::{RpcFailure, RpcResult, code, json};
use super::rpc::amounts::Btc;
use super::rpc::params::Params;
use super::submission::{amount, burns_more_than, highest_rate, package, transaction};
use crate::chain::vsize;

pub(super) fn sendrawtransaction(node: &Backend, params: &Params) -> RpcResult {
    let highest_burn = amount(params.get(2), Amount::ZERO)?;
    let tx = transaction(params.text(0)).ok_or_else(|| {
        RpcFailure::new(code::DESERIALIZATION, "TX decode failed. Make sure the tx has at least one input.")
    })?;
    let refused = |code: i32, message: &str| Err(RpcFailure::new(code, message));
    if burns_more_than(highest_burn, &tx) {
        return refused(code::VERIFY, "Unspendable output exceeds maximum configured by user (maxburnamount)");
    }
    let highest_fee = highest_fee(params.get(1), &tx)?;
    let txid = tx.compute_txid();
    let accepted = node.act(|world| {
        if is_in_chain(world, &tx) {
            return Err(RpcFailure::new(code::VERIFY_ALREADY_IN_UTXO_SET, "Transaction outputs already in utxo set"));
        }
        match world.check(&tx) {
            Ok(found) if highest_fee.is_some_and(|highest| found.fee > highest) => {
                let message = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
                Err(RpcFailure::new(code::VERIFY, message))
            }
            // as in Core, a repeated submission is a success
            Err(Rejection::AlreadyInMempool | Rejection::SameButWitness) => Ok(()),
            Ok(_) => world.submit(tx).map(drop).map_err(|rejection| failure(&rejection)),
            Err(rejection) => Err(failure(&rejection)),
        }
    })?;
    accepted.and_then(|()| json(txid))
}

fn failure(rejection: &Rejection) -> RpcFailure {
    RpcFailure::new(rejection.code(), rejection.to_string())
}

fn is_in_chain(world: &World, tx: &Transaction) -> bool {
    let txid = tx.compute_txid();
    (0..).zip(&tx.output).any(|(vout, _)| world.chain().coin(&OutPoint { txid, vout }).is_some())
}

#[derive(Serialize)]
struct Verdict {
    txid: Txid,
    wtxid: Wtxid,
    #[serde(rename = "package-error", skip_serializing_if = "Option::is_none")]
    package_error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vsize: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fees: Option<VerdictFees>,
    #[serde(rename = "reject-reason", skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(rename = "reject-details", skip_serializing_if = "Option::is_none")]
    details: Option<String>,
}

#[derive(Serialize)]
struct VerdictFees {
    base: Btc,
    #[serde(rename = "effective-feerate")]
    rate: Btc,
    #[serde(rename = "effective-includes")]
    includes: [Wtxid; 1],
}

/// Checks one transaction, or several that may spend each other. Of several, either all have a verdict, or the first
/// refused one has one and the later ones have none.
pub(super) fn testmempoolaccept(node: &Backend, params: &Params) -> RpcResult {
    let transactions = package(params.get(0))?;
    let highest = transactions.iter().map(|tx| highest_fee(params.get(1), tx)).collect::<Result<Vec<_>, _>>()?;
    if let ([tx], [highest]) = (transactions.as_slice(), highest.as_slice()) {
        return json([verdict(tx, *highest, node.lock_world()?.world.check(tx))]);
    }
    let checked = match node.act(|world| world.check_package(&transactions))? {
        Ok(checked) => checked,
        Err(problem) => {
            let unfinished = |tx| Verdict { package_error: Some(problem), ..Verdict::unfinished(tx) };
            return json(transactions.iter().map(unfinished).collect::<Vec<_>>());
        }
    };
    let mut is_over = false;
    let verdicts = transactions.iter().zip(highest).zip(checked).map(|((tx, highest), checked)| match checked {
        Some(checked) if !is_over => {
            let verdict = verdict(tx, highest, checked);
            // one that pays too much ends the list, though a node has checked the others
            is_over = verdict.allowed == Some(false);
            verdict
        }
        _ => Verdict::unfinished(tx),
    });
    json(verdicts.collect::<Vec<_>>())
}

impl Verdict {
    fn unfinished(tx: &Transaction) -> Verdict {
        Verdict {
            txid: tx.compute_txid(),
            wtxid: tx.compute_wtxid(),
            package_error: None,
            allowed: None,
            vsize: None,
            fees: None,
            reason: None,
            details: None,
        }
    }
}

fn verdict(tx: &Transaction, highest_fee: Option<Amount>, assessed: Result<Assessment, Rejection>) -> Verdict {
    let unfinished = Verdict::unfinished(tx);
    let wtxid = unfinished.wtxid;
    let refused = |reason: String, details: Option<String>| Verdict {
        allowed: Some(false),
        reason: Some(reason),
        details,
        ..Verdict::unfinished(tx)
    };
    match assessed {
        Ok(found) if highest_fee.is_some_and(|highest| found.fee > highest) => {
            refused("max-fee-exceeded".to_owned(), None)
        }
        Ok(found) => {
            let rate = u128::from(found.fee.to_sat()) * 1_000 / u128::from(found.vsize.max(1));
            let rate = Btc(Amount::from_sat(u64::try_from(rate).unwrap_or(u64::MAX)));
            let fees = Some(VerdictFees { base: Btc(found.fee), rate, includes: [wtxid] });
            Verdict { allowed: Some(true), vsize: Some(found.vsize), fees, ..unfinished }
        }
        Err(Rejection::MissingInputs(_)) => refused("missing-inputs".to_owned(), None),
        Err(rejection) => refused(rejection.reason(), Some(rejection.to_string())),
    }
}

/// The maximum fee of this transaction; `None` for no maximum.
fn highest_fee(rate: &Value, tx: &Transaction) -> Result<Option<Amount>, RpcFailure> {
    let fee = |rate: Amount| (u128::from(rate.to_sat()) * u128::from(vsize(tx.weight()))).div_ceil(1_000);
    Ok(highest_rate(rate)?.map(|rate| Amount::from_sat(u64::try_from(fee(rate)).unwrap_or(u64::MAX))))
}
