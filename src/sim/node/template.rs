//! What would be mined next: `getblocktemplate` (Core's `src/rpc/mining.cpp`), without what only a miner needs.

use bitcoin::{BlockHash, Network, Txid, Weight};
use serde::Serialize;

use super::backend::Backend;
use super::failure::{Answer, Failure, code, json};
use super::params::Params;
use crate::chain::subsidy::subsidy;

/// What a node puts into a block by default, but for the coinbase.
const MAX_WEIGHT: Weight = Weight::from_wu(3_992_000);

#[derive(Serialize)]
struct Template {
    previousblockhash: BlockHash,
    transactions: Vec<Transaction>,
    coinbasevalue: u64,
    height: u32,
}

#[derive(Serialize)]
struct Transaction {
    txid: Txid,
    hash: bitcoin::Wtxid,
    fee: u64,
    weight: u64,
}

pub(super) fn getblocktemplate(node: &Backend, params: &Params) -> Answer {
    let rules = params.get(0).get("rules").and_then(serde_json::Value::as_array);
    if !rules.is_some_and(|rules| rules.iter().any(|rule| rule == "segwit")) {
        let message = r#"getblocktemplate must be called with the segwit rule set (call with {"rules": ["segwit"]})"#;
        return Err(Failure::new(code::INVALID_PARAMETER, message));
    }
    let moment = node.moment()?;
    let (chain, mempool) = (moment.chain(), moment.world.mempool());
    let chosen = mempool.select(MAX_WEIGHT);
    let entries = chosen.iter().filter_map(|txid| mempool.get(txid));
    let transactions: Vec<_> = entries
        .map(|entry| Transaction {
            txid: entry.txid,
            hash: entry.wtxid,
            fee: entry.fee.to_sat(),
            weight: entry.weight.to_wu(),
        })
        .collect();
    let height = chain.height().next();
    let fees = transactions.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.fee));
    let coinbasevalue = subsidy(height, Network::Regtest).to_sat().saturating_add(fees);
    json(Template { previousblockhash: chain.tip(), transactions, coinbasevalue, height: height.to_u32() })
}
