//! Making blocks and taking them off the active chain (Core's `src/rpc/mining.cpp` and `src/rpc/blockchain.cpp`).

use bitcoin::{BlockHash, Network, ScriptBuf, Transaction, TxOut};
use serde::Serialize;
use serde_json::Value;

use super::super::{ChainError, Mining, Reward};
use super::backend::Backend;
use super::failure::{Answer, Failure, code, json};
use super::params::{Params, hash};
use super::submit::transaction;
use crate::chain::parse_address;
use crate::chain::subsidy::subsidy;

/// The most blocks of one call, which goes on when nobody waits for it any more. A node has no such limit.
const MOST_BLOCKS: i32 = 10_000;

pub(super) fn generatetoaddress(node: &Backend, params: &Params) -> Answer {
    let script = script(params.text(1), "Error: Invalid address")?;
    let count = params.integer(0)?;
    if count > MOST_BLOCKS {
        let message = format!("{count} blocks are too many for one call, {MOST_BLOCKS} are possible");
        return Err(Failure::new(code::INVALID_PARAMETER, message));
    }
    let mine = |_| {
        let mining = Mining { reward: Some(Reward::to(script.clone())), ..Mining::default() };
        let block = node.act(|world| world.mine(mining))?;
        block.map(|block| block.block_hash()).map_err(|error| refused(&error))
    };
    json((0..count).map(mine).collect::<Result<Vec<BlockHash>, Failure>>()?)
}

#[derive(Serialize)]
struct Generated {
    hash: BlockHash,
}

/// A block of exactly these transactions, each the id of one in the mempool or the whole in hexadecimal. Their fees are
/// left unclaimed, as a node does it here.
pub(super) fn generateblock(node: &Backend, params: &Params) -> Answer {
    let script = script(params.text(0), "Error: Invalid address or descriptor")?;
    let given = params.get(1).as_array().map(Vec::as_slice).unwrap_or_default();
    let transactions =
        given.iter().map(|given| one_of_block(node, given)).collect::<Result<Vec<Transaction>, Failure>>()?;
    let block = node.act(|world| {
        let value = subsidy(world.chain().height().next(), Network::Regtest);
        let reward = Reward::exactly(vec![TxOut { value, script_pubkey: script }]);
        world.mine_exactly(transactions, Mining { reward: Some(reward), ..Mining::default() })
    })?;
    let block = block.map_err(|error| Failure::new(code::VERIFY, format!("TestBlockValidity failed: {error}")))?;
    json(Generated { hash: block.block_hash() })
}

fn one_of_block(node: &Backend, given: &Value) -> Result<Transaction, Failure> {
    let text = given.as_str().unwrap_or_default();
    if let Ok(txid) = hash(text, "") {
        let moment = node.moment()?;
        let entry = moment.world.mempool().get(&txid);
        let missing = || Failure::new(code::INVALID_ADDRESS_OR_KEY, format!("Transaction {text} not in mempool."));
        return Ok((*entry.ok_or_else(missing)?.tx).clone());
    }
    transaction(text).ok_or_else(|| {
        let message = format!("Transaction decode failed for {text}. Make sure the tx has at least one input.");
        Failure::new(code::DESERIALIZATION, message)
    })
}

pub(super) fn invalidateblock(node: &Backend, params: &Params) -> Answer {
    let hash = params.hash(0, "blockhash")?;
    let changed = node.act(|world| world.invalidate(&hash))?;
    changed.map_err(|error| refused(&error)).and_then(|_| json(()))
}

pub(super) fn reconsiderblock(node: &Backend, params: &Params) -> Answer {
    let hash = params.hash(0, "blockhash")?;
    let changed = node.act(|world| world.reconsider(&hash))?;
    changed.map_err(|error| refused(&error)).and_then(|_| json(()))
}

fn script(address: &str, problem: &str) -> Result<ScriptBuf, Failure> {
    parse_address(address, Network::Regtest).map_err(|_| Failure::new(code::INVALID_ADDRESS_OR_KEY, problem))
}

fn refused(error: &ChainError) -> Failure {
    match error {
        ChainError::UnknownBlock(_) => Failure::block_not_found(),
        other => Failure::internal(other),
    }
}
