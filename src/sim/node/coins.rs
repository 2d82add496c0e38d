//! Methods about the unspent outputs: `gettxout`, and `gettxoutsetinfo` with its hashes (Core's
//! `src/kernel/coinstats.cpp`).

use std::collections::HashSet;

use bitcoin::consensus::Encodable;
use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::{Amount, BlockHash, OutPoint, Txid};
use serde::Serialize;

use super::super::{Coin, Coins};
use super::amounts::Btc;
use super::backend::Backend;
use super::failure::{Answer, Failure, code, json};
use super::params::Params;

/// What an output counts beside its script in a size that does not depend on how outputs are stored.
const BOGO_BYTES: u64 = 50;

#[derive(Serialize)]
struct SetInfo {
    height: u32,
    bestblock: BlockHash,
    txouts: u64,
    bogosize: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: Option<sha256d::Hash>,
    total_amount: Btc,
    transactions: u64,
    disk_size: u64,
}

pub(super) fn gettxoutsetinfo(node: &Backend, params: &Params) -> Answer {
    let invalid = |message: String| Failure::new(code::INVALID_PARAMETER, message);
    let hashed = match params.get(0).as_str().unwrap_or("hash_serialized_3") {
        "hash_serialized_3" => true,
        "none" => false,
        other => return Err(invalid(format!("'{other}' is not a valid hash_type"))),
    };
    if !params.get(1).is_null() {
        return Err(invalid("Querying specific block heights requires coinstatsindex".to_owned()));
    }
    let moment = node.moment()?;
    let coins = moment.chain().unspent();
    let mut total: u64 = 0;
    let mut bogosize = 0;
    let mut transactions: HashSet<&Txid> = HashSet::new();
    for (outpoint, coin) in coins {
        // below 21 million coins
        total += coin.output.value.to_sat();
        bogosize += BOGO_BYTES + u64::try_from(coin.output.script_pubkey.len()).unwrap_or(0);
        transactions.insert(&outpoint.txid);
    }
    let count = |count: usize| u64::try_from(count).map_err(Failure::internal);
    json(SetInfo {
        height: moment.chain().height().to_u32(),
        bestblock: moment.chain().tip(),
        txouts: count(coins.len())?,
        bogosize,
        hash_serialized_3: hashed.then(|| hash_serialized(coins)),
        total_amount: Btc(Amount::from_sat(total)),
        transactions: count(transactions.len())?,
        disk_size: 0,
    })
}

/// The hash over all unspent outputs in the order of a node's database: by the bytes of their txid, then by number.
fn hash_serialized(coins: &Coins) -> sha256d::Hash {
    let mut order: Vec<(u64, &OutPoint, &Coin)> = coins
        .iter()
        .map(|(outpoint, coin)| {
            let bytes = outpoint.txid.as_byte_array();
            // most comparisons end at the first bytes, which are then at hand
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

/// An unspent output as the hashes over all of them take it.
fn serialize_coin(bytes: &mut Vec<u8>, outpoint: &OutPoint, coin: &Coin) {
    bytes.extend_from_slice(outpoint.txid.as_byte_array());
    bytes.extend_from_slice(&outpoint.vout.to_le_bytes());
    let code = coin.height.to_u32() * 2 + u32::from(coin.coinbase);
    bytes.extend_from_slice(&code.to_le_bytes());
    // writing to memory does not fail
    let _ = coin.output.consensus_encode(bytes);
}
