//! The interface of all objects with a global id.

use async_graphql::{ID, Interface};

use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::types::block::Block;
use crate::api::types::chain::{Chain, DifficultyEpochObject, Reorg};
use crate::api::types::ledger::{Address, AddressSet, DescriptorAccount, Script};
use crate::api::types::mempool::Mempool;
use crate::api::types::miner::Miner;
use crate::api::types::server::ServerInfo;
use crate::api::types::transaction::{Output, Transaction};

/// An object with a globally unique id.
#[derive(Interface)]
#[graphql(field(
    name = "id",
    ty = "ID",
    desc = "The globally unique id of the object. It consists of the type and the content, so it is the same on every \
            server and never changes."
))]
#[graphql(name = "Node")]
pub(crate) enum NodeInterface {
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
    /// Several addresses and scripts together.
    AddressSet(AddressSet),
    /// The account of a descriptor.
    DescriptorAccount(DescriptorAccount),
    /// A run of blocks with the same difficulty.
    DifficultyEpoch(DifficultyEpochObject),
    /// A mining pool.
    Miner(Miner),
    /// This server.
    Server(ServerInfo),
}

impl FieldCacheability for NodeInterface {
    const IMMUTABLE: &'static str = "id";
}
