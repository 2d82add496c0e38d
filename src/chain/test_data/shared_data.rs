//! Real chain data for the tests of this module, read from `../shared/data` beside the project. Where it is absent,
//! each function reports the calling test as skipped and returns `None`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bitcoin::block::{self, Header};
use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash;
use bitcoin::hex::FromHex;
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode, TxOut,
    Txid, Witness, absolute, transaction,
};
use serde_json::Value;

/// The blocks that [`full_block`] can read.
pub(in crate::chain) const FULL_BLOCKS: [&str; 4] = ["full_57042", "full_91721", "full_209999", "full_757738"];

/// The JSON file at `path` below the shared data.
pub(in crate::chain) fn json(path: &str, test: &str) -> Option<Value> {
    let bytes = std::fs::read(present(path, test)?).unwrap();
    Some(serde_json::from_slice(&bytes).unwrap())
}

/// The blocks of one of the real chains, in height order.
pub(in crate::chain) fn chain(name: &str, test: &str) -> Option<Vec<Block>> {
    let bytes = std::fs::read(present(&format!("{name}.blk"), test)?).unwrap();
    let mut rest = bytes.as_slice();
    let mut blocks = Vec::new();
    while let Some((_magic, framed)) = rest.split_first_chunk::<4>() {
        let (length, framed) = framed.split_first_chunk().unwrap();
        let (block, after) = framed.split_at(u32::from_le_bytes(*length).try_into().unwrap());
        blocks.push(deserialize(block).unwrap());
        rest = after;
    }
    Some(blocks)
}

/// A real mainnet block with the output that each input spends.
pub(in crate::chain) struct FullBlock {
    pub(in crate::chain) height: u32,
    pub(in crate::chain) hash: BlockHash,
    /// The header, but for the merkle root, which is zero.
    pub(in crate::chain) header: Header,
    pub(in crate::chain) chainwork_before: u128,
    pub(in crate::chain) chainwork: u128,
    pub(in crate::chain) transactions: Vec<Transaction>,
    /// For each transaction the outputs it spends, in input order; empty for the coinbase.
    pub(in crate::chain) spent: Vec<Vec<TxOut>>,
}

impl FullBlock {
    /// The fee of the transaction at this position.
    pub(in crate::chain) fn fee(&self, position: usize) -> Amount {
        let spent: Amount = self.spent[position].iter().map(|output| output.value).sum();
        let paid: Amount = self.transactions[position].output.iter().map(|output| output.value).sum();
        spent - paid
    }
}

/// One of [`FULL_BLOCKS`].
pub(in crate::chain) fn full_block(name: &str, test: &str) -> Option<FullBlock> {
    let file = json(&format!("blocks/{name}.json"), test)?;
    let block = &file["blocks"][0];
    let (mut transactions, mut spent) = (Vec::new(), Vec::new());
    for (position, transaction) in list(&block["data"]["transactions"]).iter().enumerate() {
        let is_coinbase = position == 0;
        let inputs = list(&transaction["inputs"]);
        transactions.push(Transaction {
            version: transaction::Version(number(&transaction["version"])),
            lock_time: absolute::LockTime::from_consensus(number(&transaction["lock_time"])),
            input: inputs.iter().map(input).collect(),
            output: list(&transaction["outputs"]).iter().map(output).collect(),
        });
        let spends = inputs.iter().filter(|_| !is_coinbase);
        spent.push(spends.map(|input| output(&input["previous_output"]["data"])).collect());
    }
    Some(FullBlock {
        height: number(&file["expected"]["block_height"]),
        hash: text(&file["expected"]["best_block_hash"]).parse().unwrap(),
        header: Header {
            version: block::Version::from_consensus(number(&block["header"]["version"])),
            prev_blockhash: text(&file["chain_state"]["best_block_hash"]).parse().unwrap(),
            merkle_root: TxMerkleNode::all_zeros(),
            time: number(&block["header"]["time"]),
            bits: CompactTarget::from_consensus(number(&block["header"]["bits"])),
            nonce: number(&block["header"]["nonce"]),
        },
        chainwork_before: text(&file["chain_state"]["total_work"]).parse().unwrap(),
        chainwork: text(&file["expected"]["total_work"]).parse().unwrap(),
        transactions,
        spent,
    })
}

fn input(input: &Value) -> TxIn {
    let previous = &input["previous_output"];
    let txid: Txid = text(&previous["txid"]).parse().unwrap();
    TxIn {
        previous_output: OutPoint { txid, vout: number(&previous["vout"]) },
        script_sig: ScriptBuf::from_bytes(bytes(&input["script"])),
        sequence: Sequence(number(&input["sequence"])),
        witness: Witness::from_slice(&list(&input["witness"]).iter().map(bytes).collect::<Vec<_>>()),
    }
}

fn output(output: &Value) -> TxOut {
    TxOut {
        value: Amount::from_sat(number(&output["value"])),
        script_pubkey: ScriptBuf::from_bytes(bytes(&output["pk_script"])),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn number<N: TryFrom<i64, Error: std::fmt::Debug>>(value: &Value) -> N {
    value.as_i64().unwrap().try_into().unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    Vec::from_hex(text(value).strip_prefix("0x").unwrap()).unwrap()
}

/// The path of a file of the shared data; if it is absent, the test is reported as skipped.
fn present(path: &str, test: &str) -> Option<PathBuf> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(path);
    if file.exists() {
        return Some(file);
    }
    if let Some(skips) = std::env::var_os("BTCGRAPH_SKIPS") {
        let mut line = String::new();
        writeln!(line, "{test}\tshared data {path} is absent").unwrap();
        std::fs::OpenOptions::new().create(true).append(true).open(skips).unwrap().write_all(line.as_bytes()).unwrap();
    }
    None
}
