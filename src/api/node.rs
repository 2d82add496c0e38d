//! Global ids: typed, and made of content, never of a height.

use async_graphql::{ID, Interface};
use bitcoin::{BlockHash, OutPoint, Txid};

use super::address::Address;
use super::block::Block;
use super::output::Output;
use super::server_info::ServerInfo;
use super::transaction::Transaction;

/// Anything with an identity of its own.
#[derive(Interface)]
#[graphql(field(
    name = "id",
    ty = "ID",
    desc = "Names this object among all objects, of whatever type. Made of its type and content, so it is the same on \
            every server and never changes."
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
    /// This server.
    Server(ServerInfo),
}

/// The id of this server. There is one in every process, so it is the same on every server.
pub(super) const SERVER_ID: &str = "Server:main";

pub(super) fn block_id(hash: BlockHash) -> String {
    format!("Block:{hash}")
}

pub(super) fn transaction_id(txid: Txid) -> String {
    format!("Transaction:{txid}")
}

pub(super) fn output_id(outpoint: OutPoint) -> String {
    format!("Output:{}:{}", outpoint.txid, outpoint.vout)
}

pub(super) fn address_id(address: &str) -> String {
    format!("Address:{address}")
}
