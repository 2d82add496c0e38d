//! Methods about the unspent outputs: `gettxout`, and `gettxoutsetinfo` with its hashes (Core's
//! `src/kernel/coinstats.cpp`).

use std::collections::HashSet;

use bitcoin::consensus::Encodable;
use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::{Amount, BlockHash, OutPoint, TxOut, Txid};
use serde::Serialize;

use super::super::{CoinMap, SimCoin};
use super::backend::Backend;
use super::error::{RpcFailure, RpcResult, code, json};
use super::muhash::MuHash;
use super::rpc::amounts::Btc;
use super::rpc::params::Params;
use super::transactions::ScriptJson;

/// The bytes of an output beside its script in `bogosize`, which does not depend on the storage format.
const BOGO_BYTES: u64 = 50;

#[derive(Serialize)]
struct UnspentOutputJson {
    bestblock: BlockHash,
    confirmations: u32,
    value: Btc,
    #[serde(rename = "scriptPubKey")]
    script: ScriptJson,
    coinbase: bool,
}

pub(super) fn gettxout(node: &Backend, params: &Params) -> RpcResult {
    let txid = params.hash(0, "txid")?;
    let vout = params.unsigned(1)?;
    let outpoint = OutPoint { txid, vout };
    let with_mempool = params.flag(2, true);
    let locked = node.lock_world()?;
    let (chain, mempool) = (locked.chain(), locked.world.mempool());
    if with_mempool && mempool.spender(&outpoint).is_some() {
        return json(());
    }
    let unconfirmed = if with_mempool { mempool.output(&outpoint) } else { None };
    let info = |output: &TxOut, confirmations, coinbase| UnspentOutputJson {
        bestblock: chain.tip(),
        confirmations,
        value: Btc(output.value),
        script: ScriptJson::of(&output.script_pubkey),
        coinbase,
    };
    json(match (unconfirmed, chain.coin(&outpoint)) {
        (Some(output), _) => Some(info(output, 0, false)),
        (None, Some(coin)) => {
            let depth = chain.height().to_u32().saturating_sub(coin.height.to_u32());
            Some(info(&coin.output, depth + 1, coin.coinbase))
        }
        (None, None) => None,
    })
}

#[derive(Serialize)]
struct UtxoSetJson {
    height: u32,
    bestblock: BlockHash,
    txouts: u64,
    bogosize: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: Option<sha256d::Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    muhash: Option<String>,
    total_amount: Btc,
    transactions: u64,
    disk_size: u64,
}

pub(super) fn gettxoutsetinfo(node: &Backend, params: &Params) -> RpcResult {
    let invalid = |message: String| RpcFailure::new(code::INVALID_PARAMETER, message);
    let kind = params.get(0).as_str().unwrap_or("hash_serialized_3");
    if !["hash_serialized_3", "muhash", "none"].contains(&kind) {
        return Err(invalid(format!("'{kind}' is not a valid hash_type")));
    }
    if !params.get(1).is_null() {
        return Err(invalid("Querying specific block heights requires coinstatsindex".to_owned()));
    }
    let locked = node.lock_world()?;
    let coins = locked.chain().unspent();
    let mut total: u64 = 0;
    let mut bogosize = 0;
    let mut transactions: HashSet<&Txid> = HashSet::new();
    for (outpoint, coin) in coins {
        // below 21 million coins
        total += coin.output.value.to_sat();
        bogosize += BOGO_BYTES + u64::try_from(coin.output.script_pubkey.len()).unwrap_or(0);
        transactions.insert(&outpoint.txid);
    }
    let count = |count: usize| u64::try_from(count).map_err(RpcFailure::internal);
    json(UtxoSetJson {
        height: locked.chain().height().to_u32(),
        bestblock: locked.chain().tip(),
        txouts: count(coins.len())?,
        bogosize,
        hash_serialized_3: (kind == "hash_serialized_3").then(|| hash_serialized(coins)),
        muhash: (kind == "muhash").then(|| muhash(coins)),
        total_amount: Btc(Amount::from_sat(total)),
        transactions: count(transactions.len())?,
        disk_size: 0,
    })
}

/// The hash over all unspent outputs in the order of a node's database: by the bytes of their txid, then by number.
fn hash_serialized(coins: &CoinMap) -> sha256d::Hash {
    let mut order: Vec<(u64, &OutPoint, &SimCoin)> = coins
        .iter()
        .map(|(outpoint, coin)| {
            let bytes = outpoint.txid.as_byte_array();
            // most comparisons end at the first bytes, so they are stored in the key
            let beginning = bytes.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
            (beginning, outpoint, coin)
        })
        .collect();
    order.sort_unstable_by(|(left_beginning, left, _), (right_beginning, right, _)| {
        let whole = |outpoint: &OutPoint| (outpoint.txid.to_byte_array(), outpoint.vout);
        left_beginning.cmp(right_beginning).then_with(|| whole(left).cmp(&whole(right)))
    });
    let mut engine = sha256d::Hash::engine();
    let mut bytes = Vec::new();
    for (_, outpoint, coin) in order {
        bytes.clear();
        serialize_coin(&mut bytes, outpoint, coin);
        engine.input(&bytes);
    }
    sha256d::Hash::from_engine(engine)
}

fn muhash(coins: &CoinMap) -> String {
    let mut hash = MuHash::new();
    let mut bytes = Vec::new();
    for (outpoint, coin) in coins {
        bytes.clear();
        serialize_coin(&mut bytes, outpoint, coin);
        hash.insert(&bytes);
    }
    hash.finish()
}

/// The serialisation of an unspent output in the hashes of the set.
fn serialize_coin(bytes: &mut Vec<u8>, outpoint: &OutPoint, coin: &SimCoin) {
    bytes.extend_from_slice(outpoint.txid.as_byte_array());
    bytes.extend_from_slice(&outpoint.vout.to_le_bytes());
    let code = coin.height.to_u32() * 2 + u32::from(coin.coinbase);
    bytes.extend_from_slice(&code.to_le_bytes());
    // writing to memory does not fail
    let _ = coin.output.consensus_encode(bytes);
}
