//! Packages: the parameter of `testmempoolaccept`, and `submitpackage` (Core's `src/rpc/mempool.cpp`).

use std::collections::BTreeMap;

use bitcoin::{Amount, Transaction, Txid, Wtxid};
use serde::Serialize;

use super::super::{Accepted, Rejection, World};
use super::backend::Backend;
use super::error::{RpcFailure, RpcResult, code, json};
use super::rpc::amounts::Btc;
use super::rpc::params::Params;
use super::submission::{amount, burns_more_than, highest_rate, package};
use crate::chain::Feerate;

#[derive(Serialize)]
struct PackageJson {
    package_msg: &'static str,
    #[serde(rename = "tx-results")]
    results: BTreeMap<Wtxid, PackageTransactionJson>,
    #[serde(rename = "replaced-transactions")]
    replaced: Vec<Txid>,
}

#[derive(Serialize)]
struct PackageTransactionJson {
    txid: Txid,
    #[serde(skip_serializing_if = "Option::is_none")]
    vsize: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fees: Option<PackageFeesJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct PackageFeesJson {
    base: Btc,
    #[serde(rename = "effective-feerate", skip_serializing_if = "Option::is_none")]
    rate: Option<Btc>,
    #[serde(rename = "effective-includes", skip_serializing_if = "Vec::is_empty")]
    includes: Vec<Wtxid>,
}

pub(super) fn submitpackage(node: &Backend, params: &Params) -> RpcResult {
    let transactions = package(params.get(0))?;
    let highest_burn = amount(params.get(2), Amount::ZERO)?;
    if transactions.iter().any(|tx| burns_more_than(highest_burn, tx)) {
        let message = "Unspendable output exceeds maximum configured by user (maxburnamount)";
        return Err(RpcFailure::new(code::VERIFY, message));
    }
    let highest = highest_rate(params.get(1))?.map(|rate| Feerate::from_sat_per_kvb(rate.to_sat()));
    json(node.act(|world| {
        let is_there = |tx: &Transaction| world.mempool().contains(&tx.compute_txid());
        let known: Vec<bool> = transactions.iter().map(is_there).collect();
        let topology = "package topology disallowed. not child-with-parents or parents depend on each other.";
        let verdicts = world.submit_package_within(transactions.clone(), highest);
        let verdicts = verdicts.map_err(|_| RpcFailure::new(code::VERIFY, topology))?;
        Ok(outcome(world, &transactions, &known, &verdicts))
    })??)
}

/// The answer of `submitpackage`; `known` are the transactions that were in the mempool before.
fn outcome(
    world: &World,
    transactions: &[Transaction],
    known: &[bool],
    verdicts: &[Result<Accepted, Rejection>],
) -> PackageJson {
    let mempool = world.mempool();
    let entry = |tx: &Transaction| mempool.get(&tx.compute_txid());
    let pays_alone = |fee: Amount, vsize: u64| per_kvb(fee, vsize) >= mempool.policy().min_relay;
    // the transactions accepted together: those that pay too little by themselves, and those that spend them
    let is_poor = |tx: &Transaction| entry(tx).is_some_and(|entry| !pays_alone(entry.fee, entry.vsize));
    let poor: Vec<Txid> = transactions.iter().filter(|tx| is_poor(tx)).map(Transaction::compute_txid).collect();
    let spends_poor = |tx: &Transaction| tx.input.iter().any(|input| poor.contains(&input.previous_output.txid));
    let together: Vec<_> = transactions.iter().filter(|tx| is_poor(tx) || spends_poor(tx)).filter_map(entry).collect();
    let sum = together.iter().map(|entry| entry.fee).sum();
    let together_rate = per_kvb(sum, together.iter().map(|entry| entry.vsize).sum());

    let one = |((tx, known), verdict): ((&Transaction, &bool), &Result<Accepted, Rejection>)| match (verdict, entry(tx))
    {
        (Ok(_), Some(entry)) => {
            let is_of_them = together.iter().any(|other| other.txid == entry.txid);
            let (rate, includes) = match (known, is_of_them) {
                (true, _) => (None, Vec::new()),
                (false, true) => (Some(together_rate), together.iter().map(|entry| entry.wtxid).collect()),
                (false, false) => (Some(per_kvb(entry.fee, entry.vsize)), vec![entry.wtxid]),
            };
            let rate = rate.map(|rate| Btc(Amount::from_sat(rate.to_sat_per_kvb())));
            let fees = Some(PackageFeesJson { base: Btc(entry.fee), rate, includes });
            PackageTransactionJson { txid: entry.txid, vsize: Some(entry.vsize), fees, error: None }
        }
        (Err(rejection), _) => PackageTransactionJson::refused(tx, &rejection.to_string()),
        (Ok(_), None) => PackageTransactionJson::refused(tx, "mempool full"),
    };
    let results = transactions.iter().zip(known).zip(verdicts);
    PackageJson {
        package_msg: if verdicts.iter().all(Result::is_ok) { "success" } else { "transaction failed" },
        replaced: verdicts.iter().flatten().flat_map(|accepted| accepted.replaced.iter().copied()).collect(),
        results: results.map(|((tx, known), verdict)| (tx.compute_wtxid(), one(((tx, known), verdict)))).collect(),
    }
}

impl PackageTransactionJson {
    fn refused(tx: &Transaction, error: &str) -> PackageTransactionJson {
        PackageTransactionJson { txid: tx.compute_txid(), vsize: None, fees: None, error: Some(error.to_owned()) }
    }
}

fn per_kvb(fee: Amount, vsize: u64) -> Feerate {
    let rate = (u128::from(fee.to_sat()) * 1_000).checked_div(u128::from(vsize)).unwrap_or(0);
    Feerate::from_sat_per_kvb(u64::try_from(rate).unwrap_or(u64::MAX))
}
