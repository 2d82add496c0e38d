//! Methods about the tree of blocks and the active chain (Core's `src/rpc/blockchain.cpp`).

use bitcoin::BlockHash;
use bitcoin::block::Header;
use serde::Serialize;

use super::super::SimChain;
use super::amounts::Difficulty;
use super::backend::{Backend, Moment};
use super::failure::{Answer, Failure, code, json};
use super::params::Params;
use crate::chain::Height;
use crate::chain::difficulty::difficulty;

/// The answer of `getblockchaininfo`.
#[derive(Serialize)]
struct ChainInfo {
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

/// A header and its place; the beginning of a block's answer too.
#[derive(Serialize)]
pub(super) struct HeaderInfo {
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

impl HeaderInfo {
    /// Of a block that the archive has.
    pub(super) fn of(moment: &Moment<'_>, hash: &BlockHash) -> Result<HeaderInfo, Failure> {
        let chain = moment.chain();
        let stored = moment.archive.stored(hash).ok_or_else(Failure::block_not_found)?;
        let header = &stored.header;
        let height = chain.height_of(hash).ok_or_else(Failure::block_not_found)?;
        let confirmations = confirmations(chain, hash);
        Ok(HeaderInfo {
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

/// Blocks of the active chain from this one on; -1 outside the active chain.
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

/// Every regtest block takes two hashes on average, genesis among them (`GetBlockProof` of Core's `chain.cpp`).
fn chain_work(height: Height) -> String {
    format!("{:064x}", (u64::from(height.to_u32()) + 1) * 2)
}

pub(super) fn getblockchaininfo(node: &Backend, _: &Params) -> Answer {
    json(chain_info(node)?)
}

/// The answer of `getblockchaininfo`, for REST too.
pub(super) fn chain_info(node: &Backend) -> Result<impl Serialize + use<>, Failure> {
    let mut moment = node.moment()?;
    moment.find_all()?;
    let chain = moment.chain();
    let (tip, height) = (chain.tip(), chain.height());
    let header = moment.archive.header(&tip)?;
    let pruned_below = moment.archive.pruned_below(chain);
    Ok(ChainInfo {
        chain: "regtest",
        blocks: height.to_u32(),
        headers: height.to_u32(),
        bestblockhash: tip,
        bits: bits(header),
        target: target(header),
        difficulty: Difficulty(difficulty(header.bits)),
        time: header.time,
        mediantime: chain.median_time_past(&tip).unwrap_or(header.time),
        // every block is verified when it is made
        verificationprogress: 1,
        initialblockdownload: node.in_initial_download(header.time),
        chainwork: chain_work(height),
        size_on_disk: moment.archive.size_on_disk(),
        pruned: pruned_below.is_some(),
        pruneheight: pruned_below.map(Height::to_u32),
        automatic_pruning: pruned_below.map(|_| false),
        warnings: [],
    })
}

pub(super) fn getbestblockhash(node: &Backend, _: &Params) -> Answer {
    json(node.moment()?.chain().tip())
}

pub(super) fn getblockcount(node: &Backend, _: &Params) -> Answer {
    json(node.moment()?.chain().height().to_u32())
}

pub(super) fn getblockhash(node: &Backend, params: &Params) -> Answer {
    let height = params.integer(0)?;
    let moment = node.moment()?;
    let hash = u32::try_from(height).ok().and_then(|height| moment.chain().hash_at(Height::from(height)));
    json(hash.ok_or_else(|| Failure::new(code::INVALID_PARAMETER, "Block height out of range"))?)
}

pub(super) fn getblockheader(node: &Backend, params: &Params) -> Answer {
    let hash = params.hash(0, "hash")?;
    let mut moment = node.moment()?;
    moment.find(&hash)?;
    if params.flag(1, true) {
        return json(HeaderInfo::of(&moment, &hash)?);
    }
    json(bitcoin::consensus::encode::serialize_hex(moment.archive.header(&hash)?))
}

/// A block without a successor.
#[derive(Serialize)]
struct Tip {
    height: u32,
    hash: BlockHash,
    branchlen: u32,
    status: &'static str,
}

pub(super) fn getchaintips(node: &Backend, _: &Params) -> Answer {
    let tips = node.moment()?.chain().tips();
    let tip = |tip: &super::super::ChainTip| Tip {
        height: tip.height.to_u32(),
        hash: tip.hash,
        branchlen: tip.branch_length,
        status: tip.status.as_str(),
    };
    json(tips.iter().map(tip).collect::<Vec<_>>())
}
