//! Global ids: typed, and made of content, never of a height.

use async_graphql::{ID, Interface};
use bitcoin::hashes::sha256;
use bitcoin::{BlockHash, OutPoint, Txid};

use super::block::Block;
use super::chain::Chain;
use super::ledger::{Address, Script};
use super::mempool::Mempool;
use super::output::Output;
use super::reorg::Reorg;
use super::server_info::ServerInfo;
use super::transaction::Transaction;

/// An object with a globally unique id.
#[derive(Interface)]
#[graphql(field(
    name = "id",
    ty = "ID",
    desc = "The globally unique id of the object. It consists of the type and the content, so it is the same on every \
            server and never changes."
))]
pub(super) enum Node {
    /// A block.
    Block(Block),
    /// A transaction.
    Transaction(Transaction),
    /// An output of a transaction.
    Output(Output),
    /// An address.
    Address(Address),
    /// The main chain.
    Chain(Chain),
    /// The unconfirmed transactions.
    Mempool(Mempool),
    /// A change of the main chain in which blocks left it.
    Reorg(Reorg),
    /// A script.
    Script(Script),
    /// This server.
    Server(ServerInfo),
}

/// The id of this server. There is one in every process, so it is the same on every server.
pub(super) const SERVER_ID: &str = "Server:main";

/// The id of the mempool of the one node behind this server.
pub(super) const MEMPOOL_ID: &str = "Mempool:main";

/// The id of the one chain.
pub(super) const CHAIN_ID: &str = "Chain:main";

pub(super) fn block_id(hash: BlockHash) -> String {
    format!("Block:{hash}")
}

/// The reorganisation after which this block was the newest.
pub(super) fn reorg_id(new_tip: BlockHash) -> String {
    format!("Reorg:{new_tip}")
}

/// The transaction with this txid, or the copy of it that `replaced_in` holds.
pub(super) fn transaction_id(txid: Txid, replaced_in: Option<BlockHash>) -> String {
    format!("Transaction:{txid}{}", copy(replaced_in))
}

/// An output of the transaction with this txid, or of the copy of it that `replaced_in` holds.
pub(super) fn output_id(outpoint: OutPoint, replaced_in: Option<BlockHash>) -> String {
    format!("Output:{}:{}{}", outpoint.txid, outpoint.vout, copy(replaced_in))
}

fn copy(replaced_in: Option<BlockHash>) -> String {
    replaced_in.map_or_else(String::new, |block| format!("@{block}"))
}

pub(super) fn address_id(address: &str) -> String {
    format!("Address:{address}")
}

/// The hash is written in natural byte order.
pub(super) fn script_id(hash: &sha256::Hash) -> String {
    format!("Script:{hash}")
}
