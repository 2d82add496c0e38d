//! Methods about the tree of blocks and the active chain (Core's `src/rpc/blockchain.cpp`).

use bitcoin::BlockHash;
use bitcoin::block::Header;
use serde::Serialize;

use super::super::SimChain;
use super::backend::{Backend, LockedWorld};
use super::error::{RpcFailure, RpcResult, code, json};
use super::rpc::amounts::Difficulty;
use super::rpc::params::Params;
use crate::chain::Height;
use crate::chain::difficulty::difficulty;

/// The answer of `getblockchaininfo`.
#[derive(Serialize)]
struct ChainInfoJson {
    chain: &'static str,
    blocks: u32,
    headers: u32,
    bestblockhash: BlockHash,
    bits: String,
    target: String,
    difficulty: Difficulty,
    time: u32,
    mediantime: u32,
    verificationprogress: u8,
    initialblockdownload: bool,
    chainwork: String,
    size_on_disk: u64,
    pruned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pruneheight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    automatic_pruning: Option<bool>,
    warnings: [&'static str; 0],
}

/// A header with its position in the chain, as of `getblockheader`; also the first fields of `getblock`.
#[derive(Serialize)]
pub(super) struct HeaderJson {
    hash: BlockHash,
    confirmations: i64,
    height: u32,
    version: i32,
    #[serde(rename = "versionHex")]
    version_hex: String,
    merkleroot: bitcoin::TxMerkleNode,
    time: u32,
    mediantime: u32,
    nonce: u32,
    bits: String,
    target: String,
    difficulty: Difficulty,
    chainwork: String,
    #[serde(rename = "nTx")]
    transactions: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    previousblockhash: Option<BlockHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nextblockhash: Option<BlockHash>,
}

impl HeaderJson {
    /// The header of an archived block.
    pub(super) fn of(locked: &LockedWorld<'_>, hash: &BlockHash) -> Result<HeaderJson, RpcFailure> {
        let chain = locked.chain();
        let stored = locked.archive.stored(hash).ok_or_else(RpcFailure::block_not_found)?;
        let header = &stored.header;
        let height = chain.height_of(hash).ok_or_else(RpcFailure::block_not_found)?;
        let confirmations = confirmations(chain, hash);
        Ok(HeaderJson {
            hash: *hash,
            confirmations,
            height: height.to_u32(),
            version: header.version.to_consensus(),
            version_hex: format!("{:08x}", header.version.to_consensus()),
            merkleroot: header.merkle_root,
            time: header.time,
            mediantime: chain.median_time_past(hash).unwrap_or(header.time),
            nonce: header.nonce,
            bits: bits(header),
            target: target(header),
            difficulty: Difficulty(difficulty(header.bits)),
            chainwork: chain_work(height),
            transactions: stored.transactions,
            previousblockhash: chain.parent(hash),
            nextblockhash: if confirmations > 0 { chain.hash_at(height.next()) } else { None },
        })
    }
}

/// The confirmations of a block; -1 outside of the active chain.
pub(super) fn confirmations(chain: &SimChain, hash: &BlockHash) -> i64 {
    match chain.height_of(hash) {
        Some(height) if chain.is_active(hash) => i64::from(chain.height().to_u32()) - i64::from(height.to_u32()) + 1,
        _ => -1,
    }
}

fn bits(header: &Header) -> String {
    format!("{:08x}", header.bits.to_consensus())
}

fn target(header: &Header) -> String {
    format!("{:064x}", header.target())
}

/// The chainwork at a height. Every regtest block counts two hashes, genesis included (`GetBlockProof` of Core's
/// `chain.cpp`).
fn chain_work(height: Height) -> String {
    format!("{:064x}", (u64::from(height.to_u32()) + 1) * 2)
}

pub(super) fn getblockchaininfo(node: &Backend, _: &Params) -> RpcResult {
    json(chain_info(node)?)
}

/// The answer of `getblockchaininfo`, for RPC and REST.
pub(super) fn chain_info(node: &Backend) -> Result<impl Serialize + use<>, RpcFailure> {
    let mut locked = node.lock_world()?;
    locked.find_all()?;
    let chain = locked.chain();
    let (tip, height) = (chain.tip(), chain.height());
    let header = locked.archive.header(&tip)?;
    let pruned_below = locked.archive.pruned_below(chain);
    Ok(ChainInfoJson {
        chain: "regtest",
        blocks: height.to_u32(),
        headers: height.to_u32(),
        bestblockhash: tip,
        bits: bits(header),
        target: target(header),
        difficulty: Difficulty(difficulty(header.bits)),
        time: header.time,
        mediantime: chain.median_time_past(&tip).unwrap_or(header.time),
        // every block is verified when it is mined
        verificationprogress: 1,
        initialblockdownload: node.in_initial_download(header.time),
        chainwork: chain_work(height),
        size_on_disk: locked.archive.size_on_disk(),
        pruned: pruned_below.is_some(),
        pruneheight: pruned_below.map(Height::to_u32),
        automatic_pruning: pruned_below.map(|_| false),
        warnings: [],
    })
}

pub(super) fn getbestblockhash(node: &Backend, _: &Params) -> RpcResult {
    json(node.lock_world()?.chain().tip())
}

pub(super) fn getblockcount(node: &Backend, _: &Params) -> RpcResult {
    json(node.lock_world()?.chain().height().to_u32())
}

pub(super) fn getblockhash(node: &Backend, params: &Params) -> RpcResult {
    let height = params.integer(0)?;
    let locked = node.lock_world()?;
    let hash = u32::try_from(height).ok().and_then(|height| locked.chain().hash_at(Height::from(height)));
    json(hash.ok_or_else(|| RpcFailure::new(code::INVALID_PARAMETER, "Block height out of range"))?)
}

pub(super) fn getblockheader(node: &Backend, params: &Params) -> RpcResult {
    let hash = params.hash(0, "hash")?;
    let mut locked = node.lock_world()?;
    locked.find(&hash)?;
    if params.flag(1, true) {
        return json(HeaderJson::of(&locked, &hash)?);
    }
    json(bitcoin::consensus::encode::serialize_hex(locked.archive.header(&hash)?))
}

/// As of a node that runs without `-blockfilterindex`.
pub(super) fn getblockfilter(node: &Backend, params: &Params) -> RpcResult {
    let hash: BlockHash = params.hash(0, "blockhash")?;
    node.lock_world()?.chain().height_of(&hash).ok_or_else(RpcFailure::block_not_found)?;
    Err(RpcFailure::new(code::MISC, "Index is not enabled for filtertype basic"))
}

/// A tip of `getchaintips`.
#[derive(Serialize)]
struct ChainTipJson {
    height: u32,
    hash: BlockHash,
    branchlen: u32,
    status: &'static str,
}

pub(super) fn getchaintips(node: &Backend, _: &Params) -> RpcResult {
    let tips = node.lock_world()?.chain().tips();
    let tip = |tip: &super::super::BranchTip| ChainTipJson {
        height: tip.height.to_u32(),
        hash: tip.hash,
        branchlen: tip.branch_length,
        status: tip.status.as_str(),
    };
    json(tips.iter().map(tip).collect::<Vec<_>>())
}

/// The blocks of a month, which `getchaintxstats` looks back unless it is given a number.
const MONTH_BLOCKS: u32 = 4_320;

/// The answer of `getchaintxstats`.
#[derive(Serialize)]
struct ChainTxStatsJson {
    time: u32,
    txcount: u64,
    window_final_block_hash: BlockHash,
    window_final_block_height: u32,
    window_block_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_interval: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_tx_count: Option<u64>,
}

pub(super) fn getchaintxstats(node: &Backend, params: &Params) -> RpcResult {
    let mut locked = node.lock_world()?;
    locked.find_all()?;
    let chain = locked.chain();
    let hash = if params.get(1).is_null() { chain.tip() } else { params.hash(1, "blockhash")? };
    let height = chain.height_of(&hash).ok_or_else(RpcFailure::block_not_found)?.to_u32();
    let invalid = |problem| RpcFailure::new(code::INVALID_PARAMETER, problem);
    if !chain.is_active(&hash) {
        return Err(invalid("Block is not in main chain"));
    }
    let blocks = if params.get(0).is_null() {
        MONTH_BLOCKS.min(height.saturating_sub(1))
    } else {
        let blocks = u32::try_from(params.integer(0)?).ok().filter(|blocks| *blocks == 0 || *blocks < height);
        blocks.ok_or_else(|| invalid("Invalid block count: should be between 0 and the block's height - 1"))?
    };
    let transactions = |heights: std::ops::RangeInclusive<u32>| -> Result<u64, RpcFailure> {
        let stored = |height: u32| locked.archive.stored(&chain.hash_at(height.into())?);
        let count = |height| stored(height).map(|block| u64::from(block.transactions));
        heights.map(|height| count(height).ok_or_else(RpcFailure::block_not_found)).sum()
    };
    let median_time = |height: u32| {
        let hash = chain.hash_at(height.into());
        hash.and_then(|hash| chain.median_time_past(&hash)).map_or(0, i64::from)
    };
    let is_window = blocks > 0;
    let interval = median_time(height) - median_time(height - blocks);
    json(ChainTxStatsJson {
        time: locked.archive.header(&hash)?.time,
        txcount: transactions(0..=height)?,
        window_final_block_hash: hash,
        window_final_block_height: height,
        window_block_count: blocks,
        window_interval: is_window.then_some(interval),
        window_tx_count: if is_window { Some(transactions(height - blocks + 1..=height)?) } else { None },
    })
}
