//! `getblock`, from the bare hexadecimal to every detail of every input.

use bitcoin::hex::DisplayHex;
use bitcoin::{Block, BlockHash, Transaction};
use serde::Serialize;

use super::backend::Backend;
use super::chain::HeaderInfo;
use super::failure::{Answer, Failure, json};
use super::params::Params;
use super::transactions::{TransactionInfo, fee};

/// How much is told of the transactions of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Detail {
    Ids,
    Transactions,
    WithSpentOutputs,
}

#[derive(Serialize)]
struct BlockInfo<T> {
    #[serde(flatten)]
    header: HeaderInfo,
    strippedsize: u64,
    size: usize,
    weight: u64,
    tx: Vec<T>,
}

pub(super) fn getblock(node: &Backend, params: &Params) -> Answer {
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

/// A block with its transactions, for REST too.
pub(super) fn explain(node: &Backend, hash: &BlockHash, detail: Detail) -> Answer {
    let mut moment = node.moment()?;
    moment.find(hash)?;
    let header = HeaderInfo::of(&moment, hash)?;
    let body = moment.archive.body(moment.chain(), hash)?;
    let spent = if detail == Detail::Ids { None } else { Some(moment.archive.spent(moment.chain(), hash)?) };
    drop(moment);

    let block = body.block().map_err(Failure::internal)?;
    let Some(spent) = spent else {
        return json(info(header, &block, block.txdata.iter().map(Transaction::compute_txid)));
    };
    let mut spent = spent.coins().map_err(Failure::internal)?.into_iter();
    let transactions = block.txdata.iter().enumerate().map(|(index, tx)| {
        let coins = if index == 0 { None } else { spent.next() };
        let info = TransactionInfo::of(tx);
        let info = if detail == Detail::WithSpentOutputs { info.spending(coins.as_deref()) } else { info };
        info.with_fee(coins.as_deref().and_then(|coins| fee(tx, coins)))
    });
    json(info(header, &block, transactions))
}

fn hexadecimal(node: &Backend, hash: &BlockHash) -> Answer {
    let mut moment = node.moment()?;
    moment.find(hash)?;
    let body = moment.archive.body(moment.chain(), hash)?;
    drop(moment);
    json(body.bytes().map_err(Failure::internal)?.to_lower_hex_string())
}

fn info<T>(header: HeaderInfo, block: &Block, transactions: impl Iterator<Item = T>) -> BlockInfo<T> {
    let (size, weight) = (block.total_size(), block.weight().to_wu());
    // weight is three times the stripped size and once the whole (BIP141)
    let strippedsize = weight.saturating_sub(u64::try_from(size).unwrap_or(u64::MAX)) / 3;
    BlockInfo { header, strippedsize, size, weight, tx: transactions.collect() }
}
