//! Global ids: typed, and made of content, never of a height.

use async_graphql::{ID, Interface};
use bitcoin::{BlockHash, OutPoint, Txid};

use super::address::Address;
use super::block::Block;
use super::chain::Chain;
use super::output::Output;
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
    /// The main chain.
    Chain(Chain),
}

/// The id of the one chain.
pub(super) const CHAIN_ID: &str = "Chain:main";

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
