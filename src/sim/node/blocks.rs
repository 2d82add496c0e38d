//! `getblock`, from hexadecimal to the spent output of every input.

use bitcoin::hex::DisplayHex;
use bitcoin::{Block, BlockHash, Transaction};
use serde::Serialize;

use super::backend::Backend;
use super::chain::HeaderJson;
use super::error::{RpcFailure, RpcResult, json};
use super::rpc::params::Params;
use super::transactions::{TransactionJson, fee};

/// The level of detail of a block's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    Ids,
    Transactions,
    WithSpentOutputs,
}

#[derive(Serialize)]
struct BlockJson<T> {
    #[serde(flatten)]
    header: HeaderJson,
    strippedsize: u64,
    size: usize,
    weight: u64,
    tx: Vec<T>,
}

pub(super) fn getblock(node: &Backend, params: &Params) -> RpcResult {
    let verbosity = params.verbosity(1, 1)?;
    let hash: BlockHash = params.hash(0, "blockhash")?;
    let detail = match verbosity {
        ..=0 => return hexadecimal(node, &hash),
        1 => Detail::Ids,
        2 => Detail::Transactions,
        3.. => Detail::WithSpentOutputs,
    };
    explain(node, &hash, detail)
}

/// A block with its transactions as JSON, for RPC and REST.
pub(super) fn explain(node: &Backend, hash: &BlockHash, detail: Detail) -> RpcResult {
    let mut locked = node.lock_world()?;
    locked.find(hash)?;
    let header = HeaderJson::of(&locked, hash)?;
    let body = locked.archive.body(locked.chain(), hash)?;
    let spent = if detail == Detail::Ids { None } else { Some(locked.archive.spent(locked.chain(), hash)?) };
    drop(locked);

    let block = body.block().map_err(RpcFailure::internal)?;
    let Some(spent) = spent else {
        return json(info(header, &block, block.txdata.iter().map(Transaction::compute_txid)));
    };
    let mut spent = spent.coins().map_err(RpcFailure::internal)?.into_iter();
    let transactions = block.txdata.iter().enumerate().map(|(index, tx)| {
        let coins = if index == 0 { None } else { spent.next() };
        let info = TransactionJson::of(tx);
        let info = if detail == Detail::WithSpentOutputs { info.spending(coins.as_deref()) } else { info };
        info.with_fee(coins.as_deref().and_then(|coins| fee(tx, coins)))
    });
    json(info(header, &block, transactions))
}

fn hexadecimal(node: &Backend, hash: &BlockHash) -> RpcResult {
    let mut locked = node.lock_world()?;
    locked.find(hash)?;
    let body = locked.archive.body(locked.chain(), hash)?;
    drop(locked);
    json(body.bytes().map_err(RpcFailure::internal)?.to_lower_hex_string())
}

fn info<T>(header: HeaderJson, block: &Block, transactions: impl Iterator<Item = T>) -> BlockJson<T> {
    let (size, weight) = (block.total_size(), block.weight().to_wu());
    // weight is three times the stripped size and once the whole (BIP141)
    let strippedsize = weight.saturating_sub(u64::try_from(size).unwrap_or(u64::MAX)) / 3;
    BlockJson { header, strippedsize, size, weight, tx: transactions.collect() }
}
