//! The next block: `getblocktemplate` (Core's `src/rpc/mining.cpp`), without the fields that only miners need.

use bitcoin::{BlockHash, Network, Txid, Weight};
use serde::Serialize;

use super::backend::Backend;
use super::error::{RpcFailure, RpcResult, code, json};
use super::rpc::params::Params;
use crate::chain::subsidy::subsidy;

/// The default maximum weight of a block's transactions without the coinbase.
const MAX_WEIGHT: Weight = Weight::from_wu(3_992_000);

#[derive(Serialize)]
struct BlockTemplateJson {
    previousblockhash: BlockHash,
    transactions: Vec<TemplateTransactionJson>,
    coinbasevalue: u64,
    height: u32,
}

#[derive(Serialize)]
struct TemplateTransactionJson {
    txid: Txid,
    hash: bitcoin::Wtxid,
    fee: u64,
    weight: u64,
}

pub(super) fn getblocktemplate(node: &Backend, params: &Params) -> RpcResult {
    let rules = params.get(0).get("rules").and_then(serde_json::Value::as_array);
    if !rules.is_some_and(|rules| rules.iter().any(|rule| rule == "segwit")) {
        let message = r#"getblocktemplate must be called with the segwit rule set (call with {"rules": ["segwit"]})"#;
        return Err(RpcFailure::new(code::INVALID_PARAMETER, message));
    }
    let locked = node.lock_world()?;
    let (chain, mempool) = (locked.chain(), locked.world.mempool());
    let chosen = mempool.select(MAX_WEIGHT);
    let entries = chosen.iter().filter_map(|txid| mempool.get(txid));
    let transactions: Vec<_> = entries
        .map(|entry| TemplateTransactionJson {
            txid: entry.txid,
            hash: entry.wtxid,
            fee: entry.fee.to_sat(),
            weight: entry.weight.to_wu(),
        })
        .collect();
    let height = chain.height().next();
    let fees = transactions.iter().fold(0_u64, |sum, transaction| sum.saturating_add(transaction.fee));
    let coinbasevalue = subsidy(height, Network::Regtest).to_sat().saturating_add(fees);
    json(BlockTemplateJson { previousblockhash: chain.tip(), transactions, coinbasevalue, height: height.to_u32() })
}
