use async_graphql::Union;

use crate::api::types::block::Block;
use crate::api::types::ledger::{Address, DescriptorAccount, Script};
use crate::api::types::miner::Miner;
use crate::api::types::transaction::{Output, Transaction};

/// What a text was found to mean.
#[derive(Clone, Union)]
#[graphql(name = "SearchResult")]
pub(crate) enum SearchResultUnion {
    /// A block.
    Block(Block),
    /// A transaction.
    Transaction(Transaction),
    /// An output of a transaction.
    Output(Output),
    /// An address.
    Address(Address),
    /// A script.
    Script(Script),
    /// The account of a descriptor.
    DescriptorAccount(DescriptorAccount),
    /// A mining pool.
    Miner(Miner),
}
