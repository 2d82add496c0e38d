//! Transactions in JSON, and `getrawtransaction` (Core's `src/core_io.cpp` and `src/rpc/rawtransaction.cpp`). The
//! disassembly and the descriptor of scripts are left out.

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, BlockHash, Network, Script, Transaction, TxIn, TxOut, Txid, Wtxid, constants};
use serde::Serialize;

use super::super::SimCoin;
use super::super::utxo::total;
use super::backend::Backend;
use super::chain::confirmations;
use super::error::{RpcFailure, RpcResult, code, json};
use super::rpc::amounts::Btc;
use super::rpc::params::Params;
use crate::chain::{ScriptType, address_of, vsize};

/// A transaction as JSON.
#[derive(Serialize)]
pub(super) struct TransactionJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    in_active_chain: Option<bool>,
    txid: Txid,
    hash: Wtxid,
    version: u32,
    size: usize,
    vsize: u64,
    weight: u64,
    locktime: u32,
    vin: Vec<InputJson>,
    vout: Vec<OutputJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fee: Option<Btc>,
    hex: String,
    #[serde(flatten)]
    block: Option<ConfirmationJson>,
}

/// The block of a transaction.
#[derive(Serialize)]
struct ConfirmationJson {
    blockhash: BlockHash,
    confirmations: i64,
    time: u32,
    blocktime: u32,
}

#[derive(Serialize)]
struct InputJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    coinbase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    txid: Option<Txid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vout: Option<u32>,
    #[serde(rename = "scriptSig", skip_serializing_if = "Option::is_none")]
    script_sig: Option<Hex>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    txinwitness: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prevout: Option<PrevoutJson>,
    sequence: u32,
}

#[derive(Serialize)]
struct Hex {
    hex: String,
}

/// An output that an input spends.
#[derive(Serialize)]
struct PrevoutJson {
    generated: bool,
    height: u32,
    value: Btc,
    #[serde(rename = "scriptPubKey")]
    script: ScriptJson,
}

/// An output that a block spends, as of REST `spenttxouts`.
#[derive(Serialize)]
pub(super) struct SpentOutputJson {
    value: Btc,
    #[serde(rename = "scriptPubKey")]
    script: ScriptJson,
}

impl SpentOutputJson {
    pub(super) fn of(output: &TxOut) -> SpentOutputJson {
        SpentOutputJson { value: Btc(output.value), script: ScriptJson::of(&output.script_pubkey) }
    }
}

#[derive(Serialize)]
struct OutputJson {
    value: Btc,
    n: u32,
    #[serde(rename = "scriptPubKey")]
    script: ScriptJson,
}

/// A scriptPubKey as JSON.
#[derive(Serialize)]
pub(super) struct ScriptJson {
    hex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl ScriptJson {
    pub(super) fn of(script: &Script) -> ScriptJson {
        let kind = match ScriptType::of(script) {
            ScriptType::P2pk => "pubkey",
            ScriptType::P2pkh => "pubkeyhash",
            ScriptType::P2sh => "scripthash",
            ScriptType::P2wpkh => "witness_v0_keyhash",
            ScriptType::P2wsh => "witness_v0_scripthash",
            ScriptType::P2tr => "witness_v1_taproot",
            ScriptType::P2a => "anchor",
            ScriptType::P2ms => "multisig",
            ScriptType::OpReturn if script.is_push_only() || pushes_after_return(script) => "nulldata",
            ScriptType::WitnessUnknown => "witness_unknown",
            ScriptType::OpReturn | ScriptType::Nonstandard | ScriptType::Empty => "nonstandard",
        };
        ScriptJson { hex: script.as_bytes().to_lower_hex_string(), address: address_of(script, Network::Regtest), kind }
    }
}

/// Whether only pushes follow OP_RETURN, as in a script of type `nulldata`.
fn pushes_after_return(script: &Script) -> bool {
    script.as_bytes().get(1..).is_some_and(|rest| Script::from_bytes(rest).is_push_only())
}

impl TransactionJson {
    pub(super) fn of(tx: &Transaction) -> TransactionJson {
        TransactionJson {
            in_active_chain: None,
            txid: tx.compute_txid(),
            hash: tx.compute_wtxid(),
            version: u32::from_ne_bytes(tx.version.0.to_ne_bytes()),
            size: tx.total_size(),
            vsize: vsize(tx.weight()),
            weight: tx.weight().to_wu(),
            locktime: tx.lock_time.to_consensus_u32(),
            vin: tx.input.iter().map(|input| InputJson::of(input, tx.is_coinbase())).collect(),
            vout: (0..).zip(&tx.output).map(|(n, output)| OutputJson::of(n, output)).collect(),
            fee: None,
            hex: serialize_hex(tx),
            block: None,
        }
    }

    /// Adds the outputs that the inputs spend, if they are known.
    pub(super) fn spending(mut self, spent: Option<&[SimCoin]>) -> TransactionJson {
        for (input, coin) in self.vin.iter_mut().zip(spent.unwrap_or_default()) {
            input.prevout = Some(PrevoutJson {
                generated: coin.coinbase,
                height: coin.height.to_u32(),
                value: Btc(coin.output.value),
                script: ScriptJson::of(&coin.output.script_pubkey),
            });
        }
        self
    }

    pub(super) fn with_fee(mut self, fee: Option<Amount>) -> TransactionJson {
        self.fee = fee.map(Btc);
        self
    }
}

impl InputJson {
    fn of(input: &TxIn, is_coinbase: bool) -> InputJson {
        let script = input.script_sig.as_bytes().to_lower_hex_string();
        let outpoint = (!is_coinbase).then_some(input.previous_output);
        let (coinbase, script_sig) = if is_coinbase { (Some(script), None) } else { (None, Some(Hex { hex: script })) };
        InputJson {
            coinbase,
            txid: outpoint.map(|outpoint| outpoint.txid),
            vout: outpoint.map(|outpoint| outpoint.vout),
            script_sig,
            txinwitness: input.witness.iter().map(DisplayHex::to_lower_hex_string).collect(),
            prevout: None,
            sequence: input.sequence.to_consensus_u32(),
        }
    }
}

impl OutputJson {
    fn of(n: u32, output: &TxOut) -> OutputJson {
        OutputJson { value: Btc(output.value), n, script: ScriptJson::of(&output.script_pubkey) }
    }
}

/// The fee of a transaction that spends these coins.
pub(super) fn fee(tx: &Transaction, spent: &[SimCoin]) -> Option<Amount> {
    let values = spent.iter().map(|coin| coin.output.value.to_sat());
    Amount::from_sat(values.sum()).checked_sub(total(&tx.output))
}

pub(super) fn getrawtransaction(node: &Backend, params: &Params) -> RpcResult {
    let not_found = |message: &str| RpcFailure::new(code::INVALID_ADDRESS_OR_KEY, message);
    let txid: Txid = params.hash(0, "parameter 1")?;
    let genesis = constants::genesis_block(Network::Regtest);
    if genesis.txdata.iter().any(|tx| tx.compute_txid() == txid) {
        let message = "The genesis block coinbase is not considered an ordinary transaction and cannot be retrieved";
        return Err(not_found(message));
    }
    let verbosity = params.verbosity(1, 0)?;
    let within: Option<BlockHash> = if params.get(2).is_null() { None } else { Some(params.hash(2, "parameter 3")?) };
    let Some(hash) = within else {
        if let Some(entry) = node.lock_world()?.world.mempool().get(&txid) {
            return if verbosity <= 0 { json(serialize_hex(&*entry.tx)) } else { json(TransactionJson::of(&entry.tx)) };
        }
        return Err(not_found(
            "No such mempool transaction. Use -txindex or provide a block hash to enable blockchain transaction \
             queries. Use gettransaction for wallet transactions.",
        ));
    };

    let mut locked = node.lock_world()?;
    locked.find(&hash).map_err(|_| not_found("Block hash not found"))?;
    let body = locked.archive.body(locked.chain(), &hash)?;
    let spent = if verbosity > 1 { Some(locked.archive.spent(locked.chain(), &hash)?) } else { None };
    let (is_active, confirmations) = (locked.chain().is_active(&hash), confirmations(locked.chain(), &hash));
    drop(locked);

    let block = body.block().map_err(RpcFailure::internal)?;
    let found = block.txdata.iter().position(|tx| tx.compute_txid() == txid);
    let missing = "No such transaction found in the provided block. Use gettransaction for wallet transactions.";
    let (index, tx) =
        found.and_then(|index| Some((index, block.txdata.get(index)?))).ok_or_else(|| not_found(missing))?;
    if verbosity <= 0 {
        return json(serialize_hex(tx));
    }
    let time = block.header.time;
    let mut info = TransactionJson::of(tx);
    if let Some(spent) = spent {
        let spent = spent.coins().map_err(RpcFailure::internal)?;
        let coins = index.checked_sub(1).and_then(|index| spent.get(index)).map(Vec::as_slice);
        info = info.spending(coins).with_fee(coins.and_then(|coins| fee(tx, coins)));
    }
    info.in_active_chain = Some(is_active);
    info.block = Some(ConfirmationJson { blockhash: hash, confirmations: confirmations.max(0), time, blocktime: time });
    json(info)
}
