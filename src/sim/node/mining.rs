//! Mining and invalidation of blocks (Core's `src/rpc/mining.cpp` and `src/rpc/blockchain.cpp`).

use bitcoin::{BlockHash, Network, ScriptBuf, Transaction, TxOut};
use serde::Serialize;
use serde_json::Value;

use super::super::{ChainError, Mining, Reward};
use super::backend::Backend;
use super::error::{RpcFailure, RpcResult, code, json};
use super::rpc::params::{Params, hash};
use super::submission::transaction;
use crate::chain::parse_address;
use crate::chain::subsidy::subsidy;

/// The most blocks of one call, which continues after its client has disconnected. A node has no such limit.
const MAX_BLOCKS: i32 = 10_000;

pub(super) fn generatetoaddress(node: &Backend, params: &Params) -> RpcResult {
    let script = script(params.text(1), "Error: Invalid address")?;
    let count = params.integer(0)?;
    if count > MAX_BLOCKS {
        let message = format!("{count} blocks are too many for one call, at most {MAX_BLOCKS} are allowed");
        return Err(RpcFailure::new(code::INVALID_PARAMETER, message));
    }
    let mine = |_| {
        let mining = Mining { reward: Some(Reward::to(script.clone())), ..Mining::default() };
        let block = node.act(|world| world.mine(mining))?;
        block.map(|block| block.block_hash()).map_err(|error| refused(&error))
    };
    json((0..count).map(mine).collect::<Result<Vec<BlockHash>, RpcFailure>>()?)
}

#[derive(Serialize)]
struct GeneratedBlock {
    hash: BlockHash,
}

/// Mines exactly these transactions, each the txid of one in the mempool or a whole one in hexadecimal. As in Core,
/// their fees are left unclaimed.
pub(super) fn generateblock(node: &Backend, params: &Params) -> RpcResult {
    let script = script(params.text(0), "Error: Invalid address or descriptor")?;
    let given = params.get(1).as_array().map(Vec::as_slice).unwrap_or_default();
    let transactions =
        given.iter().map(|given| one_of_block(node, given)).collect::<Result<Vec<Transaction>, RpcFailure>>()?;
    let block = node.act(|world| {
        let value = subsidy(world.chain().height().next(), Network::Regtest);
        let reward = Reward::exactly(vec![TxOut { value, script_pubkey: script }]);
        world.mine_exactly(transactions, Mining { reward: Some(reward), ..Mining::default() })
    })?;
    let block = block.map_err(|error| RpcFailure::new(code::VERIFY, format!("TestBlockValidity failed: {error}")))?;
    json(GeneratedBlock { hash: block.block_hash() })
}

fn one_of_block(node: &Backend, given: &Value) -> Result<Transaction, RpcFailure> {
    let text = given.as_str().unwrap_or_default();
    if let Ok(txid) = hash(text, "") {
        let locked = node.lock_world()?;
        let entry = locked.world.mempool().get(&txid);
        let missing = || RpcFailure::new(code::INVALID_ADDRESS_OR_KEY, format!("Transaction {text} not in mempool."));
        return Ok((*entry.ok_or_else(missing)?.tx).clone());
    }
    transaction(text).ok_or_else(|| {
        let message = format!("Transaction decode failed for {text}. Make sure the tx has at least one input.");
        RpcFailure::new(code::DESERIALIZATION, message)
    })
}

pub(super) fn invalidateblock(node: &Backend, params: &Params) -> RpcResult {
    let hash = params.hash(0, "blockhash")?;
    let changed = node.act(|world| world.invalidate(&hash))?;
    changed.map_err(|error| refused(&error)).and_then(|_| json(()))
}

pub(super) fn reconsiderblock(node: &Backend, params: &Params) -> RpcResult {
    let hash = params.hash(0, "blockhash")?;
    let changed = node.act(|world| world.reconsider(&hash))?;
    changed.map_err(|error| refused(&error)).and_then(|_| json(()))
}

fn script(address: &str, problem: &str) -> Result<ScriptBuf, RpcFailure> {
    parse_address(address, Network::Regtest).map_err(|_| RpcFailure::new(code::INVALID_ADDRESS_OR_KEY, problem))
}

fn refused(error: &ChainError) -> RpcFailure {
    match error {
        ChainError::UnknownBlock(_) => RpcFailure::block_not_found(),
        other => RpcFailure::internal(other),
    }
}
